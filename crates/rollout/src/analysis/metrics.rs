//! What Prometheus is told about analyses: how measurements end and how long they take, and the last value of each
//! metric of a run, gone with it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError, atomic::AtomicU64},
    time::Duration,
};

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
    },
    registry::Registry,
};
use windlass_api::analysis::{AnalysisRunStatus, Metric, Phase};
use windlass_cluster::drive::Key;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByOutcome {
    provider: &'static str,
    phase: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByProvider {
    provider: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByMetric {
    namespace: String,
    run: String,
    metric: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByPhase {
    phase: &'static str,
}

/// Metrics of all runs. Cheap to clone.
#[derive(Clone, Debug)]
pub struct AnalysisMetrics {
    measurements: Family<ByOutcome, Counter>,
    durations: Family<ByProvider, Histogram>,
    values: Family<ByMetric, Gauge<f64, AtomicU64>>,
    runs: Family<ByPhase, Counter>,
    shown: Arc<Mutex<BTreeMap<Key, BTreeSet<String>>>>,
}

impl Default for AnalysisMetrics {
    fn default() -> Self {
        Self {
            measurements: Family::default(),
            durations: Family::new_with_constructor(|| Histogram::new(exponential_buckets(0.005, 2.0, 14))),
            values: Family::default(),
            runs: Family::default(),
            shown: Arc::default(),
        }
    }
}

impl AnalysisMetrics {
    /// Metrics in a registry.
    pub fn registered(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register(
            "windlass_analysis_measurements",
            "Measurements that ended, by provider and outcome",
            metrics.measurements.clone(),
        );
        registry.register(
            "windlass_analysis_measurement_duration_seconds",
            "Time that measurements took",
            metrics.durations.clone(),
        );
        registry.register(
            "windlass_analysis_measurement_value",
            "The last value of a metric that is a single number",
            metrics.values.clone(),
        );
        registry.register("windlass_analysis_runs", "Runs that ended, by outcome", metrics.runs.clone());
        metrics
    }

    /// A measurement ended.
    pub(super) fn measured(&self, provider: &'static str, phase: Phase, took: Duration) {
        self.measurements.get_or_create(&ByOutcome { provider, phase: phase.as_str() }).inc();
        self.durations.get_or_create(&ByProvider { provider }).observe(took.as_secs_f64());
    }

    /// A run ended.
    pub(super) fn ended(&self, phase: Phase) {
        self.runs.get_or_create(&ByPhase { phase: phase.as_str() }).inc();
    }

    /// The values of a run as its status has them.
    pub(super) fn observe(&self, run: &Key, status: &AnalysisRunStatus) {
        for result in &status.metric_results {
            let last = result.measurements.iter().rev().find(|it| !it.value.is_empty());
            let Some(value) = last.and_then(|last| single(&last.value)) else { continue };
            let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
            shown.entry(run.clone()).or_default().insert(result.name.clone());
            self.values.get_or_create(&by(run, &result.name)).set(value);
        }
    }

    /// The run is gone.
    pub(super) fn forget(&self, run: &Key) {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        for metric in shown.remove(run).unwrap_or_default() {
            self.values.remove(&by(run, &metric));
        }
    }
}

/// The word for the provider of a metric.
pub(super) fn provider(metric: &Metric) -> &'static str {
    let provider = &metric.provider;
    match () {
        () if provider.prometheus.is_some() => "prometheus",
        () if provider.web.is_some() => "web",
        () if provider.job.is_some() => "job",
        () if provider.slo_burn_rate.is_some() => "sloBurnRate",
        () if provider.compare.is_some() => "compare",
        () => "none",
    }
}

fn by(run: &Key, metric: &str) -> ByMetric {
    ByMetric {
        namespace: run.namespace.as_deref().unwrap_or_default().to_owned(),
        run: run.name.to_string(),
        metric: metric.to_owned(),
    }
}

/// The number, when a value is one: `0.5` or `[0.5]`.
fn single(value: &str) -> Option<f64> {
    value.strip_prefix('[').and_then(|value| value.strip_suffix(']')).unwrap_or(value).parse().ok()
}
