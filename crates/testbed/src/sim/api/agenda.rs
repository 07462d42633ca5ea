//! What happens in its own time: definitions become established, and small controllers act on objects.
//!
//! Nothing here runs by itself. A deed waits on the list until its moment, and whoever owns the API carries out what is
//! due: a [`World`](crate::sim::World) between two of its ticks, so that a run stays a function of its seed, and
//! [`Api::run`] elsewhere.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tokio::sync::Notify;

use super::{
    Api, admin_call,
    call::Call,
    crd,
    kinds::ResourceKey,
    lock,
    state::{ObjectKey, State, is_deleting, meta},
};

/// Under which name the small controllers write.
const CONTROLLER: &str = "kube-controller-manager";

/// What a small controller does next about an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Next {
    /// How long after the change that it saw.
    pub after: Duration,
    /// A merge patch of the object's `status` subresource.
    pub change: Value,
}

type Controller = Arc<dyn Fn(&Value, Timestamp) -> Option<Next> + Send + Sync>;

/// One entry of the list. An object is on it once for each reason.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Deed {
    Establish(ObjectKey),
    Act(usize, ObjectKey),
}

/// The list of what is to be done, and by whom.
#[derive(Default)]
pub(crate) struct Agenda {
    due: BTreeMap<(Timestamp, u64), Deed>,
    waiting: BTreeSet<Deed>,
    made: u64,
    controllers: Vec<(ResourceKey, Controller)>,
    /// How long a new definition takes until it is served; at once when zero.
    pub(crate) establish_after: Duration,
    changed: Arc<Notify>,
}

impl Agenda {
    fn add(&mut self, at: Timestamp, deed: Deed) {
        if self.waiting.insert(deed.clone()) {
            self.made += 1;
            self.due.insert((at, self.made), deed);
            self.changed.notify_one();
        }
    }

    fn take(&mut self, now: Timestamp) -> Option<Deed> {
        let first = self.due.first_entry().filter(|first| first.key().0 <= now)?;
        let deed = first.remove();
        self.waiting.remove(&deed);
        Some(deed)
    }

    /// A definition was stored that is not established yet.
    pub(crate) fn establish(&mut self, now: Timestamp, key: &ObjectKey) {
        // Two steps: names are accepted, then the kind is served.
        self.add(later(now, self.establish_after / 2), Deed::Establish(key.clone()));
    }

    /// An object was stored.
    pub(crate) fn stored(&mut self, now: Timestamp, key: &ObjectKey, object: &Value) {
        if is_deleting(object) {
            return;
        }
        let mut found = Vec::new();
        for (index, (resource, controller)) in self.controllers.iter().enumerate() {
            if *resource == key.resource
                && let Some(next) = controller(object, now)
            {
                found.push((later(now, next.after), Deed::Act(index, key.clone())));
            }
        }
        for (at, deed) in found {
            self.add(at, deed);
        }
    }
}

fn later(now: Timestamp, after: Duration) -> Timestamp {
    SignedDuration::try_from(after).ok().and_then(|after| now.checked_add(after).ok()).unwrap_or(now)
}

impl Api {
    /// Lets a small controller act on one kind, in virtual time: `decide` is asked about each state that is stored, and
    /// again when the time it named has come; what it says then is written to the object's `status` as the controller
    /// manager, which in turn is a state to decide about. `None` is rest.
    ///
    /// `decide` must not call this API: it is asked in the middle of a write. Objects that are there already are
    /// decided about at once. A kind that is not served is left alone.
    pub fn controller(
        &self,
        api_version: &str,
        kind: &str,
        decide: impl Fn(&Value, Timestamp) -> Option<Next> + Send + Sync + 'static,
    ) {
        let mut state = lock(&self.state);
        let Ok(call) = admin_call(&state, api_version, kind, "", "", CONTROLLER) else { return };
        let resource = call.resource.stored_as.clone();
        state.agenda.controllers.push((resource.clone(), Arc::new(decide)));
        let now = state.now();
        let there: Vec<_> =
            state.of_resource(&resource).map(|(key, object)| (key.clone(), object.clone())).collect();
        for (key, object) in there {
            state.agenda.stored(now, &key, &object);
        }
    }

    /// How long a definition that comes by request takes until its kind is served, as a real server takes a moment. Zero,
    /// which a lone API has, is at once; a world sets 60 virtual milliseconds.
    pub fn set_establish_after(&self, after: Duration) {
        lock(&self.state).agenda.establish_after = after;
    }

    /// When something is due that the API does in its own time.
    pub(crate) fn next_due(&self) -> Option<Timestamp> {
        lock(&self.state).agenda.due.first_key_value().map(|((at, _), _)| *at)
    }

    /// Whom to tell when something was put on the list.
    pub(crate) fn tell(&self, changed: Arc<Notify>) {
        lock(&self.state).agenda.changed = changed;
    }

    /// Does what is due.
    pub(crate) fn carry_out_due(&self) {
        loop {
            let mut state = lock(&self.state);
            let now = state.now();
            match state.agenda.take(now) {
                None => return,
                Some(Deed::Establish(key)) => {
                    if !crd::proceed(&mut state, &key) {
                        state.agenda.establish(now, &key);
                    }
                }
                Some(Deed::Act(index, key)) => act(&mut state, index, &key),
            }
        }
    }

    /// Carries out what the API does in its own time, for ever. A world does this itself.
    pub async fn run(self) {
        let changed = Arc::clone(&lock(&self.state).agenda.changed);
        loop {
            self.carry_out_due();
            let now = self.now();
            let wait =
                self.next_due().map(|due| Duration::try_from(due.duration_since(now)).unwrap_or_default());
            match wait {
                None => changed.notified().await,
                Some(wait) => {
                    tokio::select! {
                        biased;
                        () = tokio::time::sleep(wait) => {}
                        () = changed.notified() => {}
                    }
                }
            }
        }
    }
}

/// Asks a controller again and writes what it wants now.
fn act(state: &mut State, index: usize, key: &ObjectKey) {
    let now = state.now();
    let Some((_, controller)) = state.agenda.controllers.get(index).cloned() else { return };
    let Some(object) = state.get(key).filter(|object| !is_deleting(object)) else { return };
    let Some(next) = controller(&object, now) else { return };
    let (api_version, kind) = (text(&object, "apiVersion"), text(&object, "kind"));
    let Ok(call) = admin_call(state, api_version, kind, &key.namespace, meta(&object, "name"), CONTROLLER)
    else {
        return;
    };
    let call = Call {
        subresource: "status".into(),
        content_type: "application/merge-patch+json".into(),
        body: next.change.to_string().into_bytes(),
        ..call
    };
    if let Err(failure) = super::http::dispatch(state, &::http::Method::PATCH, &call) {
        tracing::debug!(message = failure.message, "a simulated controller could not write");
    }
}

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object.get(field).and_then(Value::as_str).unwrap_or_default()
}
