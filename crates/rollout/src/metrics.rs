//! What Prometheus is told about Rollouts: a few series for each, gone with it.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::AtomicU64},
};

use jiff::Timestamp;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};
use windlass_api::rollout::status::{Phase, RolloutStatus};
use windlass_cluster::drive::Key;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByRollout {
    namespace: String,
    rollout: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByPhase {
    namespace: String,
    rollout: String,
    phase: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByEnd {
    result: &'static str,
}

/// An update that goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Update {
    hash: String,
    since: Timestamp,
}

const PHASES: [Phase; 6] =
    [Phase::Initializing, Phase::Progressing, Phase::Preview, Phase::Paused, Phase::Completed, Phase::Failed];

const fn word(phase: Phase) -> &'static str {
    match phase {
        Phase::Initializing => "Initializing",
        Phase::Progressing => "Progressing",
        Phase::Preview => "Preview",
        Phase::Paused => "Paused",
        Phase::Completed => "Completed",
        Phase::Failed => "Failed",
    }
}

/// Metrics of all Rollouts. Cheap to clone.
#[derive(Clone, Debug)]
pub struct RolloutMetrics {
    phase: Family<ByPhase, Gauge>,
    step: Family<ByRollout, Gauge>,
    weight: Family<ByRollout, Gauge>,
    available: Family<ByRollout, Gauge>,
    duration: Family<ByEnd, Histogram>,
    updates: Family<ByEnd, Counter>,
    began: Family<ByRollout, Gauge<f64, AtomicU64>>,
    running: Arc<Mutex<BTreeMap<Key, Update>>>,
}

fn histogram() -> Histogram {
    Histogram::new([1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 1800.0, 3600.0, 10_800.0, 86_400.0])
}

impl Default for RolloutMetrics {
    fn default() -> Self {
        Self {
            phase: Family::default(),
            step: Family::default(),
            weight: Family::default(),
            available: Family::default(),
            duration: Family::new_with_constructor(histogram),
            updates: Family::default(),
            began: Family::default(),
            running: Arc::default(),
        }
    }
}

impl RolloutMetrics {
    /// Metrics in a registry.
    pub fn registered(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register(
            "windlass_rollout_phase",
            "1 for the phase that the Rollout is in",
            metrics.phase.clone(),
        );
        registry.register("windlass_rollout_step", "Steps that are done", metrics.step.clone());
        registry.register(
            "windlass_rollout_weight",
            "Share of the new version, in percent",
            metrics.weight.clone(),
        );
        registry.register("windlass_rollout_available_replicas", "Available pods", metrics.available.clone());
        registry.register(
            "windlass_rollout_update_began_timestamp_seconds",
            "When the update that goes on was first seen",
            metrics.began.clone(),
        );
        registry.register(
            "windlass_rollout_update_duration_seconds",
            "From the first sight of a new version to its end",
            metrics.duration.clone(),
        );
        registry.register("windlass_rollout_updates", "Updates by how they ended", metrics.updates.clone());
        metrics
    }

    fn running(&self) -> MutexGuard<'_, BTreeMap<Key, Update>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the status that a Rollout has from now on.
    pub(crate) fn observe(&self, key: &Key, status: &RolloutStatus, now: Timestamp) {
        let by = by(key);
        if let Some(now_in) = status.phase {
            for phase in PHASES {
                let by = by_phase(key, phase);
                self.phase.get_or_create(&by).set(i64::from(phase == now_in));
            }
            self.follow(key, status, now_in, now);
        }
        self.step.get_or_create(&by).set(i64::from(status.current_step_index.unwrap_or(0)));
        self.weight.get_or_create(&by).set(i64::from(status.weight.unwrap_or(0)));
        self.available.get_or_create(&by).set(i64::from(status.available_replicas));
    }

    fn follow(&self, key: &Key, status: &RolloutStatus, phase: Phase, now: Timestamp) {
        let hash = status.current_pod_hash.clone().unwrap_or_default();
        let mut running = self.running();
        let over = match phase {
            Phase::Completed => Some("completed"),
            Phase::Failed if status.abort => Some("aborted"),
            _ => None,
        };
        match (over, running.get(key)) {
            (Some(result), Some(update)) => {
                let since = update.since;
                if update.hash == hash {
                    let seconds = now.duration_since(since).as_secs_f64().max(0.0);
                    self.duration.get_or_create(&ByEnd { result }).observe(seconds);
                    self.updates.get_or_create(&ByEnd { result }).inc();
                }
                running.remove(key);
                self.began.remove(&by(key));
            }
            (None, known) if known.is_none_or(|update| update.hash != hash) => {
                running.insert(key.clone(), Update { hash, since: now });
                let seconds = now.as_second();
                #[allow(clippy::cast_precision_loss, reason = "seconds fit into 52 bits for a long time")]
                self.began.get_or_create(&by(key)).set(seconds as f64);
            }
            _ => {}
        }
    }

    /// Forgets a Rollout that is gone.
    pub(crate) fn forget(&self, key: &Key) {
        for phase in PHASES {
            self.phase.remove(&by_phase(key, phase));
        }
        let by = by(key);
        self.step.remove(&by);
        self.weight.remove(&by);
        self.available.remove(&by);
        self.began.remove(&by);
        self.running().remove(key);
    }
}

fn by(key: &Key) -> ByRollout {
    ByRollout {
        namespace: key.namespace.as_deref().unwrap_or_default().to_owned(),
        rollout: key.name.to_string(),
    }
}

fn by_phase(key: &Key, phase: Phase) -> ByPhase {
    let ByRollout { namespace, rollout } = by(key);
    ByPhase { namespace, rollout, phase: word(phase) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn status(phase: Phase, hash: &str) -> RolloutStatus {
        RolloutStatus {
            phase: Some(phase),
            current_pod_hash: Some(hash.to_owned()),
            weight: Some(20),
            ..RolloutStatus::default()
        }
    }

    #[test]
    fn an_update_is_counted_once_with_its_length_and_nothing_is_left_of_a_rollout_that_is_gone() {
        let mut registry = Registry::default();
        let metrics = RolloutMetrics::registered(&mut registry);
        let key = Key { namespace: Some("shop".into()), name: "web".into() };
        let at = |second: i64| Timestamp::from_second(1_000_000 + second).unwrap();
        metrics.observe(&key, &status(Phase::Progressing, "a"), at(0));
        metrics.observe(&key, &status(Phase::Paused, "a"), at(3));
        metrics.observe(&key, &status(Phase::Completed, "a"), at(10));
        metrics.observe(&key, &status(Phase::Completed, "a"), at(20));
        let text = |registry: &Registry| {
            let mut text = String::new();
            prometheus_client::encoding::text::encode(&mut text, registry).unwrap();
            text
        };
        let shown = text(&registry);
        assert!(shown.contains("windlass_rollout_updates_total{result=\"completed\"} 1"), "{shown}");
        assert!(
            shown.contains("windlass_rollout_update_duration_seconds_sum{result=\"completed\"} 10.0"),
            "{shown}"
        );
        assert!(shown.contains("windlass_rollout_weight{namespace=\"shop\",rollout=\"web\"} 20"), "{shown}");
        metrics.forget(&key);
        assert!(!text(&registry).contains("rollout=\"web\""));
    }
}
