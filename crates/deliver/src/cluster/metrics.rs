//! What Prometheus is told about clusters: one series per registered cluster, gone with it.

use std::sync::atomic::AtomicU64;

use jiff::Timestamp;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{family::Family, gauge::Gauge},
    registry::Registry,
};

use super::plan::{Observed, Reach};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByCluster {
    cluster: String,
}

/// Metrics of all clusters. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct ClusterMetrics {
    reachable: Family<ByCluster, Gauge>,
    latency: Family<ByCluster, Gauge<f64, AtomicU64>>,
    probed: Family<ByCluster, Gauge>,
}

impl ClusterMetrics {
    /// Metrics in a registry.
    pub fn registered(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register(
            "windlass_cluster_reachable",
            "1 if the cluster answers",
            metrics.reachable.clone(),
        );
        registry.register(
            "windlass_cluster_latency_seconds",
            "Time the cluster took to answer",
            metrics.latency.clone(),
        );
        registry.register(
            "windlass_cluster_last_probe_timestamp_seconds",
            "When the cluster was last asked",
            metrics.probed.clone(),
        );
        metrics
    }

    pub(super) fn observe(&self, observed: &Observed, now: Timestamp) {
        let by = ByCluster { cluster: observed.name.clone() };
        match &observed.reach {
            Reach::NotTried => self.forget(&observed.name),
            Reach::Trouble(trouble) => {
                self.reachable.get_or_create(&by).set(0);
                self.latency.remove(&by);
                if trouble.probed {
                    self.probed.get_or_create(&by).set(now.as_second());
                }
            }
            Reach::Reached(reached) => {
                self.reachable.get_or_create(&by).set(1);
                self.latency.get_or_create(&by).set(reached.latency.as_secs_f64());
                self.probed.get_or_create(&by).set(now.as_second());
            }
        }
    }

    pub(super) fn forget(&self, cluster: &str) {
        let by = ByCluster { cluster: cluster.to_owned() };
        self.reachable.remove(&by);
        self.latency.remove(&by);
        self.probed.remove(&by);
    }
}
