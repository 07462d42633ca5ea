//! What the loop tells Prometheus. Labels have few values: a controller's name, an outcome, a category.

use std::time::Duration;

use prometheus_client::{
    encoding::{EncodeLabelSet, EncodeLabelValue},
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
    },
    registry::Registry,
};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByController {
    controller: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByOutcome {
    controller: &'static str,
    outcome: Round,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByCategory {
    controller: &'static str,
    category: &'static str,
}

/// How a round ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
pub enum Round {
    /// Something was written.
    Changed,
    /// Nothing had to be written.
    Unchanged,
    /// The object is in trouble and will be tried again.
    Retried,
    /// The round failed.
    Failed,
    /// The lease was not ours any more.
    Fenced,
}

/// Metrics of all controllers of a process. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Metrics {
    rounds: Family<ByOutcome, Counter>,
    errors: Family<ByCategory, Counter>,
    duration: Family<ByController, Histogram, fn() -> Histogram>,
    depth: Family<ByController, Gauge>,
    objects: Family<ByController, Gauge>,
    watch_errors: Family<ByCategory, Counter>,
}

impl Metrics {
    /// New metrics that no registry knows yet.
    pub fn new() -> Self {
        Self {
            rounds: Family::default(),
            errors: Family::default(),
            duration: Family::new_with_constructor(|| Histogram::new(exponential_buckets(0.0005, 4.0, 10))),
            depth: Family::default(),
            objects: Family::default(),
            watch_errors: Family::default(),
        }
    }

    /// New metrics in a registry.
    pub fn registered(registry: &mut Registry) -> Self {
        let metrics = Self::new();
        registry.register("windlass_reconciles", "Rounds by controller and outcome", metrics.rounds.clone());
        registry.register("windlass_reconcile_errors", "Failed rounds by category", metrics.errors.clone());
        registry.register(
            "windlass_reconcile_duration_seconds",
            "Length of a round",
            metrics.duration.clone(),
        );
        registry.register("windlass_queue_depth", "Objects that are due and wait", metrics.depth.clone());
        registry.register("windlass_objects", "Objects that a controller knows", metrics.objects.clone());
        registry.register(
            "windlass_watch_errors",
            "Broken watches by category",
            metrics.watch_errors.clone(),
        );
        metrics
    }

    pub(crate) fn round(&self, controller: &'static str, outcome: Round, took: Duration) {
        self.rounds.get_or_create(&ByOutcome { controller, outcome }).inc();
        self.duration.get_or_create(&ByController { controller }).observe(took.as_secs_f64());
    }

    pub(crate) fn error(&self, controller: &'static str, category: &'static str) {
        self.errors.get_or_create(&ByCategory { controller, category }).inc();
    }

    pub(crate) fn watch_error(&self, controller: &'static str, category: &'static str) {
        self.watch_errors.get_or_create(&ByCategory { controller, category }).inc();
    }

    pub(crate) fn sizes(&self, controller: &'static str, objects: usize, depth: usize) {
        let by = ByController { controller };
        self.objects.get_or_create(&by).set(i64::try_from(objects).unwrap_or(i64::MAX));
        self.depth.get_or_create(&by).set(i64::try_from(depth).unwrap_or(i64::MAX));
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}
