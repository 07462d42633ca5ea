//! One watch a kind: events in, what they say filed, Applications woken.

use std::{ops::ControlFlow, pin::pin, sync::Arc, time::Duration};

use futures::StreamExt;
use kube::{
    Api,
    api::{ApiResource, GroupVersionKind},
};
use serde_json::Value;
use tokio::time::Instant;
use tracing::{debug, info};
use windlass_cluster::{
    discover::{Lookup, Served},
    drive::Key,
    watch::{self, Event, Selection},
};

use super::{
    Shared,
    raw::Raw,
    record::Fresh,
    state::{Effects, From},
};
use crate::{fleet::Wake, tracking::LABEL, trouble::Trouble};

/// Reason of a [`Trouble`] that waits for a right.
pub(super) const FORBIDDEN: &str = "WatchForbidden";

/// Objects in a page of a list: whole objects are in memory for a moment, so not too many of them at once.
const PAGE: u32 = 200;

/// Between two attempts to learn what a cluster serves.
const AGAIN: Duration = Duration::from_secs(5);

/// Follows a kind until it is no longer served.
pub(super) async fn follow(shared: Arc<Shared>, served: Arc<Served>, number: u32) {
    let resource = &served.resource;
    let api: Api<Raw> = Api::all_with(shared.client.clone(), resource);
    let selection = Selection { page: PAGE, ..Selection::labels(LABEL) };
    let name = format!("{}/{}.{}", shared.cluster, resource.plural, resource.group);
    let mut events = pin!(watch::objects(api, &selection, &name));
    while let Some(event) = events.next().await {
        if shared.heard(number, resource, event).is_break() {
            return;
        }
    }
}

/// Follows kinds that were followed before, as soon as the cluster says what it serves.
pub(super) async fn resume(shared: Arc<Shared>, kinds: Vec<GroupVersionKind>) {
    let discovered = loop {
        match shared.discovery.get().await {
            Ok(discovered) => break discovered,
            Err(_) => tokio::time::sleep(AGAIN).await,
        }
    };
    let follows = kinds.iter().filter_map(|gvk| match discovered.lookup(gvk) {
        Lookup::Found(served) => {
            let number = shared.open(&served)?;
            Some(follow(Arc::clone(&shared), served, number))
        }
        Lookup::Absent | Lookup::Unknown(_) => None,
    });
    futures::future::join_all(follows).await;
}

impl Shared {
    fn heard(&self, number: u32, resource: &ApiResource, event: Event<Raw>) -> ControlFlow<()> {
        let effects = match event {
            Event::ListBegins => {
                self.state().begins(number);
                Effects::default()
            }
            Event::Listed(object) => self.file(number, resource, object, From::List),
            Event::Changed(object) => self.file(number, resource, object, From::Event),
            Event::ListEnds => self.state().ends(number),
            Event::Gone(object) => {
                let fresh = self.read(resource, object);
                fresh.map(|fresh| self.state().remove(number, &fresh)).unwrap_or_default()
            }
            Event::Broken { category: watch::ABSENT, .. } => {
                info!(cluster = %self.cluster, kind = resource.kind, "kind is no longer served");
                self.discovery.invalidate();
                let effects = self.state().close(number);
                self.tell(effects);
                return ControlFlow::Break(());
            }
            Event::Broken { category, message } => {
                debug!(cluster = %self.cluster, kind = resource.kind, category, message, "watch broke");
                let trouble = self.trouble(resource, category, &message);
                self.state().broken(number, trouble)
            }
        };
        self.tell(effects);
        ControlFlow::Continue(())
    }

    fn file(&self, number: u32, resource: &ApiResource, object: Raw, from: From) -> Effects {
        // All that costs time is done before the lock is taken.
        let fresh = self.read(resource, object);
        fresh.map(|fresh| self.state().put(number, fresh, from, Instant::now())).unwrap_or_default()
    }

    fn read(&self, resource: &ApiResource, object: Raw) -> Option<Fresh> {
        if changes_kinds(resource) {
            self.discovery.invalidate();
        }
        let object: Value = object.into_object(resource);
        Fresh::of(&object, &self.rules)
    }

    fn tell(&self, effects: Effects) {
        if effects.progress {
            self.progress.send_modify(|count| *count = count.wrapping_add(1));
        }
        if effects.wake_all {
            (self.wakes)(Wake::All);
        }
        for owner in effects.wake {
            // Whatever else an annotation says names no Application.
            if let Some((namespace, name)) = owner.split_once('/') {
                (self.wakes)(Wake::App(Key { namespace: Some(namespace.into()), name: name.into() }));
            }
        }
    }

    fn trouble(&self, resource: &ApiResource, category: &str, message: &str) -> Trouble {
        let (cluster, kind) = (&self.cluster, &resource.kind);
        if category == watch::FORBIDDEN {
            let plural = &resource.plural;
            return Trouble::passing(
                FORBIDDEN,
                format!("the controller may not list and watch {plural} on cluster {cluster}"),
                format!("Give the account of its kubeconfig get, list and watch on {plural}"),
            );
        }
        Trouble::passing(
            "ClusterUnreachable",
            format!("cluster {cluster} does not list {kind}: {message}"),
            "The controller tries again by itself; check the cluster's API server",
        )
    }
}

/// Whether objects of this kind decide what the cluster serves.
fn changes_kinds(resource: &ApiResource) -> bool {
    matches!(
        (resource.group.as_str(), resource.kind.as_str()),
        ("apiextensions.k8s.io", "CustomResourceDefinition") | ("apiregistration.k8s.io", "APIService")
    )
}
