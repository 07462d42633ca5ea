//! What Prometheus is told about repositories. No label holds an address: there may be thousands.

use std::time::Duration;

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByResult {
    result: &'static str,
}

/// Metrics of all repositories. Cheap to clone.
#[derive(Clone, Debug)]
pub struct OriginMetrics {
    fetches: Family<ByResult, Counter>,
    duration: Histogram,
    pushes: Family<ByResult, Counter>,
    repositories: Gauge,
    failing: Gauge,
}

impl Default for OriginMetrics {
    fn default() -> Self {
        let buckets = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0];
        Self {
            fetches: Family::default(),
            duration: Histogram::new(buckets),
            pushes: Family::default(),
            repositories: Gauge::default(),
            failing: Gauge::default(),
        }
    }
}

impl OriginMetrics {
    /// Metrics in a registry.
    pub fn registered(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register("windlass_source_fetches", "Fetches by how they ended", metrics.fetches.clone());
        registry.register(
            "windlass_source_fetch_duration_seconds",
            "Time a fetch took",
            metrics.duration.clone(),
        );
        registry.register(
            "windlass_source_pushes",
            "Pushes that hooks told of, by whether a repository that is followed was meant",
            metrics.pushes.clone(),
        );
        registry.register(
            "windlass_source_repositories",
            "Repositories that are followed",
            metrics.repositories.clone(),
        );
        registry.register(
            "windlass_source_repositories_failing",
            "Repositories whose last fetch failed",
            metrics.failing.clone(),
        );
        metrics
    }

    /// A fetch ended; `result` is `ok` or a category of errors.
    pub(super) fn fetched(&self, result: &'static str, took: Duration) {
        self.fetches.get_or_create(&ByResult { result }).inc();
        self.duration.observe(took.as_secs_f64());
    }

    pub(super) fn pushed(&self, known: bool) {
        let result = if known { "matched" } else { "unknown" };
        self.pushes.get_or_create(&ByResult { result }).inc();
    }

    pub(super) fn repositories(&self, all: usize, failing: usize) {
        self.repositories.set(i64::try_from(all).unwrap_or(i64::MAX));
        self.failing.set(i64::try_from(failing).unwrap_or(i64::MAX));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn metrics_of_repositories_are_named_and_counted() {
        let mut registry = Registry::default();
        let metrics = OriginMetrics::registered(&mut registry);
        metrics.fetched("ok", Duration::from_millis(20));
        metrics.fetched("Unavailable", Duration::from_millis(20));
        metrics.pushed(true);
        metrics.pushed(false);
        metrics.repositories(3, 1);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        for line in [
            "windlass_source_fetches_total{result=\"ok\"} 1",
            "windlass_source_fetches_total{result=\"Unavailable\"} 1",
            "windlass_source_fetch_duration_seconds_count 2",
            "windlass_source_pushes_total{result=\"matched\"} 1",
            "windlass_source_pushes_total{result=\"unknown\"} 1",
            "windlass_source_repositories 3",
            "windlass_source_repositories_failing 1",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
    }
}
