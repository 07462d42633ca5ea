//! What Prometheus is told about Applications: a few series each, gone with them.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};
use windlass_api::{
    ApplicationStatus,
    application::status::SyncWord,
    condition::{self, READY},
};
use windlass_cluster::drive::Key;

use crate::fleet::Done;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByApplication {
    namespace: String,
    application: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByResult {
    result: &'static str,
}

/// Metrics of all Applications. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct ApplicationMetrics {
    ready: Family<ByApplication, Gauge>,
    out_of_sync: Family<ByApplication, Gauge>,
    violations: Family<ByApplication, Gauge>,
    work: Family<ByResult, Counter>,
}

impl ApplicationMetrics {
    /// Metrics in a registry.
    pub fn registered(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register(
            "windlass_application_ready",
            "1 if what is committed runs, healthy, everywhere it should",
            metrics.ready.clone(),
        );
        registry.register(
            "windlass_application_out_of_sync",
            "1 if what runs is not what is committed",
            metrics.out_of_sync.clone(),
        );
        registry.register(
            "windlass_application_policy_violations",
            "Violations that policy found in what is wanted",
            metrics.violations.clone(),
        );
        registry.register(
            "windlass_deliver_objects",
            "Objects that were applied or deleted, by result",
            metrics.work.clone(),
        );
        metrics
    }

    pub(super) fn observe(&self, app: &Key, status: &ApplicationStatus) {
        let by = by(app);
        let ready = condition::get(&status.conditions, READY).is_some_and(|ready| ready.status == "True");
        self.ready.get_or_create(&by).set(i64::from(ready));
        self.out_of_sync.get_or_create(&by).set(i64::from(status.sync.status == SyncWord::OutOfSync));
        self.violations.get_or_create(&by).set(i64::from(status.violation_count.unwrap_or_default()));
    }

    pub(super) fn worked(&self, done: &[Done]) {
        for done in done {
            let result = if done.result.is_ok() { "done" } else { "failed" };
            self.work.get_or_create(&ByResult { result }).inc();
        }
    }

    pub(super) fn forget(&self, app: &Key) {
        let by = by(app);
        self.ready.remove(&by);
        self.out_of_sync.remove(&by);
        self.violations.remove(&by);
    }
}

fn by(app: &Key) -> ByApplication {
    ByApplication {
        namespace: app.namespace.as_deref().unwrap_or_default().to_owned(),
        application: app.name.to_string(),
    }
}
