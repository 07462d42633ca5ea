//! Events on objects, that never hold up the work they tell about.
//!
//! ```text
//!   reconcile ── record ──► queue (bounded) ──► Publisher: join repeats, stop floods ──► events.k8s.io/v1
//!                  │ full: count and drop          │ refused: count and drop
//! ```
//!
//! A note that repeats becomes one Event with a series. An object that floods is limited to a burst and then to one
//! new Event per some minutes; repeats of known notes still count up.

mod publish;
mod series;

use std::sync::Arc;

use k8s_openapi::api::core::v1::ObjectReference;
use prometheus_client::{
    encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder},
    metrics::{counter::Counter, family::Family},
    registry::Registry,
};
use serde::Serialize;
use tokio::sync::mpsc;

pub use publish::Publisher;

use crate::clock::Clock;

/// Notes that may wait to be published.
const QUEUE: usize = 1024;

/// Limits that the API server sets.
const MAX_MESSAGE: usize = 1024;
const MAX_REASON: usize = 128;

/// Whether a note calls for attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub enum NoteType {
    /// Something went as it should.
    Normal,
    /// Something needs a look.
    Warning,
}

impl NoteType {
    /// As the Events API spells it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// Something that happened to an object.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct Note {
    /// Whether it calls for attention.
    #[serde(rename = "type")]
    pub type_: NoteType,
    /// Why, in CamelCase; a fixed word, not a text.
    pub reason: String,
    /// For people; cut at 1 KiB.
    pub message: String,
    /// What was being done, in CamelCase; the reason when empty.
    pub action: String,
}

impl Note {
    /// Something went as it should.
    pub fn normal(reason: impl Into<String>, action: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            type_: NoteType::Normal,
            reason: reason.into(),
            message: message.into(),
            action: action.into(),
        }
    }

    /// Something needs a look.
    pub fn warning(reason: impl Into<String>, action: impl Into<String>, message: impl Into<String>) -> Self {
        Self { type_: NoteType::Warning, ..Self::normal(reason, action, message) }
    }

    /// Within the limits of the API server.
    fn fitted(mut self) -> Self {
        if self.action.is_empty() {
            self.action.clone_from(&self.reason);
        }
        cut(&mut self.reason, MAX_REASON, "");
        cut(&mut self.action, MAX_REASON, "");
        cut(&mut self.message, MAX_MESSAGE, "…");
        self
    }
}

/// Cuts between characters, with a mark for what is missing.
fn cut(text: &mut String, limit: usize, mark: &str) {
    if text.len() > limit {
        text.truncate(text.floor_char_boundary(limit - mark.len()));
        text.push_str(mark);
    }
}

/// Why a note was not published.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Dropped {
    /// Too many were waiting.
    QueueFull,
    /// The object had too many of them.
    Flood,
    /// The API server did not take it.
    Refused,
}

impl Dropped {
    const fn as_str(self) -> &'static str {
        match self {
            Self::QueueFull => "queue_full",
            Self::Flood => "flood",
            Self::Refused => "refused",
        }
    }
}

impl EncodeLabelValue for Dropped {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), std::fmt::Error> {
        self.as_str().encode(encoder)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DroppedLabels {
    cause: Dropped,
}

/// `windlass_events_total` and `windlass_events_dropped_total{cause}`. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct EventMetrics {
    published: Counter,
    dropped: Family<DroppedLabels, Counter>,
}

impl EventMetrics {
    /// Makes the counters and adds them to a registry.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register("windlass_events", "Writes to the Events API", metrics.published.clone());
        registry.register(
            "windlass_events_dropped",
            "Events that were not published, by cause",
            metrics.dropped.clone(),
        );
        metrics
    }

    /// Events written so far.
    pub fn published(&self) -> u64 {
        self.published.get()
    }

    /// Notes dropped so far for this cause.
    pub fn dropped(&self, cause: Dropped) -> u64 {
        self.dropped.get(&DroppedLabels { cause }).map_or(0, |counter| counter.get())
    }

    fn drop_one(&self, cause: Dropped) {
        self.dropped.get_or_create(&DroppedLabels { cause }).inc();
    }
}

/// Who reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reporter {
    /// The controller, as a qualified name such as `windlass.dev/deliver`.
    pub controller: String,
    /// The replica, such as the pod's name.
    pub instance: String,
}

struct Item {
    regarding: ObjectReference,
    note: Note,
}

/// Takes notes. Cheap to clone; never waits.
#[derive(Clone)]
pub struct Recorder {
    queue: mpsc::Sender<Item>,
    metrics: EventMetrics,
}

impl Recorder {
    /// A recorder, and the publisher that must be [run](Publisher::run) for its notes to be seen.
    pub fn new(
        client: kube::Client,
        reporter: Reporter,
        clock: Clock,
        metrics: EventMetrics,
    ) -> (Self, Publisher) {
        let (sender, receiver) = mpsc::channel(QUEUE);
        let publisher = Publisher::new(client, Arc::new(reporter), clock, metrics.clone(), receiver);
        (Self { queue: sender, metrics }, publisher)
    }

    /// Takes a note about an object. When too many are waiting it is dropped and counted.
    pub fn record(&self, regarding: ObjectReference, note: Note) {
        if self.queue.try_send(Item { regarding, note: note.fitted() }).is_err() {
            self.metrics.drop_one(Dropped::QueueFull);
        }
    }
}

impl std::fmt::Debug for Recorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recorder").field("waiting", &(QUEUE - self.queue.capacity())).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
