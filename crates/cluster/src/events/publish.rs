//! Writing Events, apart from the work that they tell about.

use std::{sync::Arc, time::Duration};

use k8s_openapi::{
    api::{
        core::v1::ObjectReference,
        events::v1::{Event, EventSeries},
    },
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
};
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
};
use sha2::{Digest, Sha256};
use tokio::{sync::mpsc, time::Instant};
use tokio_util::sync::CancellationToken;

use super::{
    Dropped, EventMetrics, Item, Note, Reporter,
    series::{Key, Memory, Step, Subject},
};
use crate::clock::Clock;

/// How often counts that wait are looked at.
const TICK: Duration = Duration::from_secs(30);
/// How long one write may take; a slow API server must not make the queue overflow for ever.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long is spent on what is left at the end.
const DRAIN: Duration = Duration::from_secs(5);
/// Part of an object's name that goes into the name of its Events.
const MAX_NAME: usize = 230;

/// Publishes the notes of a [`Recorder`](super::Recorder).
pub struct Publisher {
    client: Client,
    reporter: Arc<Reporter>,
    clock: Clock,
    metrics: EventMetrics,
    queue: mpsc::Receiver<Item>,
    memory: Memory,
}

impl Publisher {
    pub(super) fn new(
        client: Client,
        reporter: Arc<Reporter>,
        clock: Clock,
        metrics: EventMetrics,
        queue: mpsc::Receiver<Item>,
    ) -> Self {
        Self { client, reporter, clock, metrics, queue, memory: Memory::default() }
    }

    /// Publishes until `stop`, or until every recorder is gone. Then writes what is left, for a few seconds at most.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut tick = tokio::time::interval_at(Instant::now() + TICK, TICK);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            // In order, so that a simulation sees the same each time.
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                item = self.queue.recv() => match item {
                    Some(item) => self.publish(item).await,
                    None => break,
                },
                _ = tick.tick() => self.flush(false).await,
            }
        }
        self.queue.close();
        let drain = async {
            while let Some(item) = self.queue.recv().await {
                self.publish(item).await;
            }
            self.flush(true).await;
        };
        if tokio::time::timeout(DRAIN, drain).await.is_err() {
            tracing::debug!("events were left unwritten at shutdown");
        }
    }

    async fn publish(&mut self, item: Item) {
        let key = (Subject::of(&item.regarding), item.note);
        match self.memory.take(&key, Instant::now()) {
            Step::Create => self.create(key, item.regarding).await,
            Step::CountUp { event, count } => self.count_up(&key, &event, count).await,
            Step::Later => {}
            Step::Flood => self.metrics.drop_one(Dropped::Flood),
        }
    }

    async fn flush(&mut self, all: bool) {
        for (key, step) in self.memory.due(Instant::now(), all) {
            if let Step::CountUp { event, count } = step {
                self.count_up(&key, &event, count).await;
            }
        }
    }

    async fn create(&mut self, key: Key, regarding: ObjectReference) {
        let event = self.event(&key, regarding);
        let name = event.metadata.name.clone().unwrap_or_default();
        let api = self.api(&key.0);
        let params = PostParams::default();
        let written = api.create(&params, &event);
        match tokio::time::timeout(WRITE_TIMEOUT, written).await {
            Ok(Ok(_)) => self.metrics.published.inc(),
            // Written before, and the answer was lost.
            Ok(Err(kube::Error::Api(status))) if status.code == 409 => 0,
            Ok(Err(error)) => return self.refused(&key, Some(&error)),
            Err(_) => return self.refused(&key, None),
        };
        self.memory.created(key, name, Instant::now());
    }

    async fn count_up(&mut self, key: &Key, event: &str, count: u32) {
        let count = i32::try_from(count).unwrap_or(i32::MAX);
        let series = EventSeries { count, last_observed_time: MicroTime(self.clock.now()) };
        let patch = serde_json::json!({ "series": series });
        let api = self.api(&key.0);
        let (params, patch) = (PatchParams::default(), Patch::Merge(&patch));
        match tokio::time::timeout(WRITE_TIMEOUT, api.patch(event, &params, &patch)).await {
            Ok(Ok(_)) => {
                self.metrics.published.inc();
            }
            Ok(Err(error)) => {
                // Events end after an hour or so. The next note starts a new one.
                if matches!(&error, kube::Error::Api(status) if status.code == 404) {
                    self.memory.forget(key);
                }
                self.refused(key, Some(&error));
            }
            Err(_) => self.refused(key, None),
        }
    }

    fn refused(&self, key: &Key, error: Option<&kube::Error>) {
        self.metrics.drop_one(Dropped::Refused);
        let code = match error {
            Some(kube::Error::Api(status)) => status.code,
            _ => 0,
        };
        tracing::debug!(reason = %key.1.reason, name = %key.0.name, code, "event not published");
    }

    fn api(&self, subject: &Subject) -> Api<Event> {
        Api::namespaced(self.client.clone(), event_namespace(subject))
    }

    fn event(&self, key: &Key, regarding: ObjectReference) -> Event {
        let now = self.clock.now();
        let (subject, note) = key;
        Event {
            metadata: ObjectMeta {
                name: Some(event_name(subject, note, now.as_nanosecond(), &self.reporter.instance)),
                namespace: Some(event_namespace(subject).to_owned()),
                ..ObjectMeta::default()
            },
            event_time: Some(MicroTime(now)),
            type_: Some(note.type_.as_str().to_owned()),
            reason: Some(note.reason.clone()),
            action: Some(note.action.clone()),
            note: Some(note.message.clone()),
            regarding: Some(regarding),
            reporting_controller: Some(self.reporter.controller.clone()),
            reporting_instance: Some(self.reporter.instance.clone()),
            ..Event::default()
        }
    }
}

/// The API server wants Events of cluster-scoped objects in this namespace.
fn event_namespace(subject: &Subject) -> &str {
    if subject.namespace.is_empty() { "default" } else { &subject.namespace }
}

/// Unique to the note, its time and its reporter, and the same when a write is repeated.
fn event_name(subject: &Subject, note: &Note, nanos: i128, instance: &str) -> String {
    let mut hash = Sha256::new();
    for part in [
        &subject.kind,
        &subject.namespace,
        &subject.name,
        &subject.uid,
        note.type_.as_str(),
        &note.reason,
        &note.action,
        &note.message,
        instance,
    ] {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hash.update(nanos.to_be_bytes());
    let digest = hash.finalize();
    let suffix = digest.iter().take(8).fold(0_u64, |number, byte| (number << 8) | u64::from(*byte));
    let suffix = format!("{suffix:016x}");
    // Names of some kinds, such as roles, are wider than what an Event may be called.
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let valid = subject.name.split('.').all(|label| {
        label.starts_with(plain) && label.ends_with(plain) && label.chars().all(|c| plain(c) || c == '-')
    });
    let name: String =
        subject.name.chars().map(|c| if plain(c) || valid { c } else { '-' }).take(MAX_NAME).collect();
    let name = name.trim_matches(['-', '.']);
    if name.is_empty() { format!("event.{suffix}") } else { format!("{name}.{suffix}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_events_are_valid_for_every_object() {
        for name in
            ["a", "system:node:x", "UPPER", "..", "", &"n".repeat(400), "ü-x", "a.-b", "v1.apps", "a..b"]
        {
            let reference = ObjectReference { name: Some(name.to_owned()), ..ObjectReference::default() };
            let made = event_name(&Subject::of(&reference), &Note::normal("A", "B", "c"), 1, "i");
            assert!(made.len() <= 253, "{made}");
            assert!(made.starts_with(|c: char| c.is_ascii_alphanumeric()), "{made}");
            assert!(
                made.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c)),
                "{made}"
            );
        }
    }
}
