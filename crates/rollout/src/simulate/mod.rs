//! How would this rollout have gone? The planners of the controllers over a cluster in memory, a clock that jumps from
//! one event to the next, and measurements from recorded series.
//!
//! ```text
//!  manifests ─ objects ─► Scenario ─┐                    ┌─ plan ─► actions ─► world (pods, Services, routes, runs)
//!  CSV, range queries ─ series ─────┴─► drive: tick, settle ─► analysis plan ─► measurements from the series
//!                                                        └─► Simulation ─► table, chart, SVG, JSON
//! ```
//!
//! What decides is exactly what decides in a cluster: [`crate::plan::plan`] and [`crate::analysis::plan::plan`]. What is
//! made up is told in [`Simulation::assumed`]: how long pods take to become ready, and Services and routes that were not
//! given. The same input gives the same output.

mod apply;
mod chart;
mod drive;
mod experiments;
mod objects;
mod runs;
pub mod series;
mod story;
mod svg;
mod table;
mod world;

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use serde_json::Value;
use windlass_api::{analysis::merge::Library, rollout::Rollout};

use crate::{lint::Finding, observed::Observed};

pub use chart::chart;
pub use objects::{Absent, ObjectError, Objects};
pub use series::{Series, SeriesError};
pub use story::{Gap, Measured, Moment, Outcome, PodCount, Simulation, Wanted};
pub use svg::{DrawError, svg};
pub use table::table;

/// What is simulated.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The Rollout as it is going to be applied.
    pub rollout: Rollout,
    /// What it names: Services, routes, a workload. Its Rollout is not read.
    pub world: Observed,
    /// The templates of its analyses.
    pub library: Library,
    /// The pod template that runs before. Default: the same one, as another revision.
    pub before: Option<Value>,
    /// Where measurements come from.
    pub source: Source,
    /// Values that take the place of those that the Rollout gives to analyses, such as the hash of a revision that the
    /// recorded series know.
    pub args: BTreeMap<String, String>,
    /// When the new version is applied.
    pub start: Timestamp,
    /// How long a pod takes to become ready.
    pub ready_after: Duration,
    /// A person promotes a pause without a length after so long; `None`: nobody does.
    pub promote_after: Option<Duration>,
    /// The end, if the rollout does not come to one by itself.
    pub longest: Duration,
    /// What had to be assumed so far.
    pub assumed: Vec<String>,
}

/// Where measurements come from.
#[derive(Clone, Debug, Default)]
pub enum Source {
    /// Every measurement is good.
    #[default]
    Good,
    /// Given or recorded series.
    Series(Series),
}

/// Why nothing can be simulated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SimulateError {
    /// The controller would not carry it out either.
    #[error("the Rollout cannot be carried out: {}", .0.iter().map(Finding::message).collect::<Vec<_>>().join(" "))]
    Invalid(Vec<Finding>),
    /// There are series, but none for this metric.
    #[error("there is no series for the metric {metric}; there are: {known}")]
    NoSeries {
        /// The metric.
        metric: String,
        /// Names of the series that there are.
        known: String,
    },
    /// The version that runs before never gets up.
    #[error("the version before does not become Completed: {0}")]
    Before(String),
    /// The planner asks for something new for ever without time passing.
    #[error("no rest is found at {0}: the planner and the simulated cluster go in circles")]
    Restless(Timestamp),
}

/// Simulates.
pub fn simulate(scenario: &Scenario) -> Result<Simulation, SimulateError> {
    drive::Driver::new(scenario)?.run()
}
