//! Watches: streams of changes in virtual time.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::Stream;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::call::Call;
use super::schema::Cause;
use super::state::{Change, State, set_metadata};
use super::status::Failure;
use super::verbs::{Selection, metadata_only};

const BOOKMARK_INTERVAL: Duration = Duration::from_mins(1);
/// How long before its end a watch sends its last bookmark.
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);
const DEFAULT_TIMEOUT: Duration = Duration::from_mins(30);

/// A watch that is under way.
pub(crate) struct Watch {
    call: Call,
    selection: Selection,
    metadata_only: bool,
    bookmarks: bool,
    /// Changes up to this version have been seen.
    version: u64,
    queue: VecDeque<Bytes>,
    changes: mpsc::UnboundedReceiver<Arc<Change>>,
    end: Instant,
    next_bookmark: Instant,
    failed: bool,
}

impl Watch {
    /// Starts a watch: what is known already goes into the queue.
    pub(crate) fn start(state: &mut State, call: &Call, metadata_only: bool) -> Result<Self, Failure> {
        let selection = Selection::of(call)?;
        let initial = initial_events(call)?;
        let text = call.parameter("resourceVersion");
        let wanted: u64 = match text {
            "" => 0,
            text => text.parse().map_err(|_| {
                Failure::internal(format!("resourceVersion: Invalid value: {text:?}: not a number"))
            })?,
        };
        let seconds = call.parameter("timeoutSeconds").parse::<u64>().ok().filter(|seconds| *seconds > 0);
        let now = Instant::now();
        let end = now + seconds.map_or(DEFAULT_TIMEOUT, Duration::from_secs);
        let mut watch = Self {
            call: call.clone(),
            selection,
            metadata_only,
            bookmarks: call.flag("allowWatchBookmarks"),
            version: state.version(),
            queue: VecDeque::new(),
            changes: state.subscribe(&call.resource.stored_as),
            end,
            next_bookmark: now,
            failed: false,
        };
        watch.plan_bookmark(now);
        match initial {
            Some(true) => {
                watch.current(state);
                watch.initial_end();
            }
            None if wanted == 0 => watch.current(state),
            Some(false) if wanted == 0 => {}
            _ if wanted < state.compacted() => watch.expired(wanted, state.compacted()),
            _ => {
                watch.version = wanted;
                for change in state.changes_after(&call.resource.stored_as, wanted) {
                    watch.change(&change);
                }
            }
        }
        Ok(watch)
    }

    fn current(&mut self, state: &State) {
        let objects: Vec<Arc<Value>> = state
            .of_resource(&self.call.resource.stored_as)
            .filter(|(key, object)| self.selection.chooses(key, object))
            .map(|(_, object)| object.clone())
            .collect();
        for object in objects {
            let shown = self.shown(&object);
            self.push("ADDED", &shown);
        }
    }

    fn initial_end(&mut self) {
        let mut bookmark = self.bookmark_object();
        set_metadata(&mut bookmark, "annotations", Some(json!({"k8s.io/initial-events-end": "true"})));
        self.push("BOOKMARK", &bookmark);
    }

    fn expired(&mut self, wanted: u64, oldest: u64) {
        let failure = Failure::expired(format!("too old resource version: {wanted} ({oldest})"));
        self.push("ERROR", &failure.to_json());
        self.failed = true;
    }

    fn shown(&self, object: &Value) -> Value {
        let shown = self.call.resource.present(object, &self.call.version.name);
        if self.metadata_only { metadata_only(shown) } else { shown }
    }

    fn push(&mut self, kind: &str, object: &Value) {
        let mut line = json!({"type": kind, "object": object}).to_string().into_bytes();
        line.push(b'\n');
        self.queue.push_back(line.into());
    }

    /// Turns a change into the event that this watch's selection makes of it.
    fn change(&mut self, change: &Change) {
        if change.version <= self.version {
            return;
        }
        self.version = change.version;
        let chosen = |object: &Value| self.selection.chooses(&change.key, object);
        let before = change.previous.as_deref().is_some_and(chosen);
        let after = !change.removed && chosen(&change.object);
        match (before, after, change.previous.as_deref()) {
            (false, true, _) => {
                let shown = self.shown(&change.object);
                self.push("ADDED", &shown);
            }
            (true, true, _) => {
                let shown = self.shown(&change.object);
                self.push("MODIFIED", &shown);
            }
            (true, false, Some(previous)) => {
                // What is no longer chosen is shown as it was, under the new version.
                let mut shown = self.shown(previous);
                set_metadata(&mut shown, "resourceVersion", Some(change.version.to_string().into()));
                self.push("DELETED", &shown);
            }
            _ => {}
        }
    }

    fn bookmark_object(&self) -> Value {
        let metadata = json!({"resourceVersion": self.version.to_string(), "creationTimestamp": null});
        if self.metadata_only {
            return json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata});
        }
        json!({"kind": self.call.resource.kind, "apiVersion": self.call.api_version(), "metadata": metadata})
    }

    fn plan_bookmark(&mut self, now: Instant) {
        let last = self.end.checked_sub(BOOKMARK_BEFORE_END).filter(|last| *last > now).unwrap_or(self.end);
        self.next_bookmark = last.min(now + BOOKMARK_INTERVAL);
    }

    /// The next line, `None` at the end of the watch.
    async fn next(&mut self, current: &(dyn Fn() -> u64 + Send + Sync)) -> Option<Bytes> {
        loop {
            if let Some(line) = self.queue.pop_front() {
                return Some(line);
            }
            let now = Instant::now();
            if self.failed || now >= self.end {
                return None;
            }
            let wake = if self.bookmarks { self.next_bookmark.min(self.end) } else { self.end };
            // Changes first: the order must not depend on chance.
            tokio::select! {
                biased;
                change = self.changes.recv() => {
                    let change = change?;
                    self.change(&change);
                }
                () = tokio::time::sleep_until(wake) => {
                    if self.bookmarks && Instant::now() < self.end {
                        // No change is waiting, so everything up to the current version has been seen.
                        self.version = self.version.max(current());
                        let bookmark = self.bookmark_object();
                        self.push("BOOKMARK", &bookmark);
                        self.plan_bookmark(Instant::now());
                    }
                }
            }
        }
    }

    /// The lines of the watch. `current` tells the API's version.
    pub(crate) fn lines(
        self,
        current: Arc<dyn Fn() -> u64 + Send + Sync>,
    ) -> impl Stream<Item = Bytes> + Send {
        futures::stream::unfold(self, move |mut watch| {
            let current = current.clone();
            async move {
                let line = watch.next(&*current).await?;
                Some((line, watch))
            }
        })
    }
}

/// `sendInitialEvents`, checked.
fn initial_events(call: &Call) -> Result<Option<bool>, Failure> {
    let refuse = |field: &str, why: &str| {
        let cause = Cause::new("FieldValueForbidden", field, format!("Forbidden: {why}"));
        let about = super::status::About { group: "meta.k8s.io", kind: "ListOptions", name: "" };
        Err(Failure::invalid(about, vec![cause]))
    };
    match (call.parameter("sendInitialEvents"), call.parameter("resourceVersionMatch")) {
        ("", "") => Ok(None),
        ("", _) => refuse(
            "resourceVersionMatch",
            "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
        ),
        (_, matching) if matching != "NotOlderThan" => refuse(
            "resourceVersionMatch",
            "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
        ),
        _ => Ok(Some(call.flag("sendInitialEvents"))),
    }
}
