//! The registry that all parts share.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

/// What `/metrics` answers with.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A cheap handle on one registry. Names are written out where they are registered, so that they can be searched for.
#[derive(Clone, Default)]
pub struct Metrics(Arc<RwLock<Registry>>);

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Metrics {
    /// An empty registry.
    pub fn new() -> Self {
        Self::default()
    }

    /// Hands out the registry to register metrics in; they stay cheap to update, only registration locks.
    ///
    /// Registering the same name twice gives two families of one name, which Prometheus refuses to read: a
    /// part registers once and clones its families.
    pub fn register<T>(&self, register: impl FnOnce(&mut Registry) -> T) -> T {
        register(&mut self.0.write().unwrap_or_else(PoisonError::into_inner))
    }

    /// All metrics as `OpenMetrics` text.
    ///
    /// # Errors
    /// When a metric cannot be written as text.
    pub fn encode(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        encode(&mut text, &self.0.read().unwrap_or_else(PoisonError::into_inner))?;
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::metrics::counter::Counter;

    use super::*;

    #[test]
    fn names_are_as_registered_and_the_text_ends_as_openmetrics_asks() {
        let metrics = Metrics::new();
        let counter: Counter = Counter::default();
        metrics.register(|registry| registry.register("windlass_reconciles", "Reconciles", counter.clone()));
        counter.inc();
        let text = metrics.encode().unwrap();
        assert!(text.contains("windlass_reconciles_total 1\n"), "{text}");
        assert!(text.ends_with("# EOF\n"), "{text}");
    }
}
