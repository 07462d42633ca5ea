//! What happened in a simulation, moment by moment.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use serde::Serialize;
use windlass_api::{analysis::Phase as RunPhase, duration::Duration as Span, rollout::status::Phase};

/// A simulated rollout.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Simulation {
    /// Its name.
    pub rollout: String,
    /// When the new version was applied.
    pub start: Timestamp,
    /// Everything that changed, in order.
    pub moments: Vec<Moment>,
    /// How it ended.
    pub outcome: Outcome,
    /// Measurements that found no data.
    pub gaps: Vec<Gap>,
    /// What was made up.
    pub assumed: Vec<String>,
    /// What was measured, by name of the metric.
    pub wanted: BTreeMap<String, Wanted>,
}

/// A moment at which something changed.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Moment {
    /// Time since the start, in seconds.
    #[serde(serialize_with = "seconds")]
    pub at: Duration,
    /// The whole in one word.
    pub phase: Option<Phase>,
    /// `2/8`, as in the status.
    pub step: Option<String>,
    /// The share of the new version.
    pub weight: i32,
    /// Pods of the version before.
    pub stable: PodCount,
    /// Pods of the new version.
    pub canary: PodCount,
    /// What was measured.
    pub measured: Vec<Measured>,
    /// What was decided, in the words of the Events.
    pub decided: Vec<String>,
    /// What is waited for.
    pub message: Option<String>,
}

/// Pods of one revision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PodCount {
    /// So many are wanted.
    pub wanted: i32,
    /// So many are available.
    pub available: i32,
}

impl std::fmt::Display for PodCount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.available, self.wanted)
    }
}

/// One measurement.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Measured {
    /// The `AnalysisRun`.
    pub run: String,
    /// The metric.
    pub metric: String,
    /// The value as the status shows it.
    pub value: String,
    /// The first number of it, for charts.
    pub number: Option<f64>,
    /// What it counts as.
    pub phase: RunPhase,
    /// Why, where that is not plain from the value.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// A measurement that found no data.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Gap {
    /// The metric.
    pub metric: String,
    /// Time since the start, in seconds.
    #[serde(serialize_with = "seconds")]
    pub at: Duration,
    /// What it counted as.
    pub phase: RunPhase,
}

/// How a rollout ended.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", tag = "end")]
pub enum Outcome {
    /// The new version runs.
    Completed {
        /// Time since the start, in seconds.
        #[serde(serialize_with = "seconds")]
        at: Duration,
    },
    /// It was taken back.
    Aborted {
        /// Time since the start, in seconds.
        #[serde(serialize_with = "seconds")]
        at: Duration,
        /// The step that it was at.
        step: Option<String>,
        /// Why.
        why: String,
    },
    /// It is stuck, or cannot be carried out.
    Failed {
        /// Time since the start, in seconds.
        #[serde(serialize_with = "seconds")]
        at: Duration,
        /// Why.
        why: String,
    },
    /// It waits for a person.
    Waits {
        /// Time since the start, in seconds.
        #[serde(serialize_with = "seconds")]
        at: Duration,
        /// For what.
        why: String,
    },
    /// The time was up.
    GoesOn {
        /// Time since the start, in seconds.
        #[serde(serialize_with = "seconds")]
        at: Duration,
        /// What it waited for.
        why: String,
    },
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Completed { at } => write!(f, "Completed after {}: the new version runs.", Span(*at)),
            Self::Aborted { at, step, why } => {
                let step = step.as_ref().map(|step| format!(" at step {step}")).unwrap_or_default();
                write!(f, "Aborted after {}{step}, all is back on the version before: {why}", Span(*at))
            }
            Self::Failed { at, why } => write!(f, "Failed after {}: {why}", Span(*at)),
            Self::Waits { at, why } => write!(f, "Waits for a person after {}: {why}", Span(*at)),
            Self::GoesOn { at, why } => write!(f, "Not at its end after {}: {why}", Span(*at)),
        }
    }
}

/// What a metric asks for: what has to be recorded to replay it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Wanted {
    /// Queries to Prometheus, with their arguments. More than one if runs give different arguments.
    pub queries: Vec<String>,
    /// Time between two measurements, as it is written.
    pub interval: Option<String>,
    /// It is no plain query to Prometheus: it cannot be recorded by one.
    pub other: bool,
}

/// Serialises a time since the start as seconds.
fn seconds<S: serde::Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_secs_f64())
}
