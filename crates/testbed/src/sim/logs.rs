//! Captures what a run logs, so that invariants can read it.

use std::{
    fmt::Write as _,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};

/// Every log line and every span's fields of a run, at any level.
#[derive(Clone, Debug, Default)]
pub struct Logs {
    lines: Arc<Mutex<Vec<String>>>,
}

impl Logs {
    /// The lines so far.
    pub fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn subscriber(&self) -> impl Subscriber + Send + Sync + 'static {
        Capture { logs: self.clone(), next: AtomicU64::new(1) }
    }

    fn push(&self, line: String) {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).push(line);
    }
}

struct Capture {
    logs: Logs,
    next: AtomicU64,
}

struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        // Writing to a String does not fail.
        let _ok = write!(self.0, " {}={value:?}", field.name());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        let _ok = write!(self.0, " {}={value}", field.name());
    }
}

fn line(metadata: &Metadata<'_>, record: impl FnOnce(&mut Fields)) -> String {
    let mut fields = Fields(format!("{} {}", metadata.level(), metadata.target()));
    record(&mut fields);
    fields.0
}

impl Subscriber for Capture {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        // The kube client traces whole responses at its lowest level; no deployment runs with that.
        *metadata.level() <= tracing::Level::DEBUG
    }

    fn new_span(&self, attributes: &span::Attributes<'_>) -> span::Id {
        self.logs.push(line(attributes.metadata(), |fields| attributes.record(fields)));
        span::Id::from_u64(self.next.fetch_add(1, Ordering::Relaxed))
    }

    fn record(&self, _: &span::Id, values: &span::Record<'_>) {
        let mut fields = Fields(String::new());
        values.record(&mut fields);
        self.logs.push(fields.0);
    }

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        self.logs.push(line(event.metadata(), |fields| event.record(fields)));
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_events_and_span_fields() {
        let logs = Logs::default();
        let guard = tracing::subscriber::set_default(logs.subscriber());
        tracing::info_span!("work", token = "t0p").in_scope(|| tracing::warn!(count = 3, "slow"));
        drop(guard);
        let text = logs.lines().join("\n");
        assert!(text.contains("token=t0p") && text.contains("slow") && text.contains("count=3"), "{text}");
    }
}
