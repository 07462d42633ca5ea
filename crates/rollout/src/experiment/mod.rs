//! Versions side by side for a while, measured, and taken away again.
//!
//! ```text
//!  Experiment ─┐                                  ┌─► one ReplicaSet, and if wanted one Service, for each template
//!  ReplicaSets ┼─ observe ─► Observed ─ plan ─────┼─► one AnalysisRun for each analysis, once all pods are available
//!  runs ───────┘               (pure)             └─► status; at the end pods and Services go
//! ```

mod controller;
mod observe;
pub mod plan;
mod set;

pub use controller::{Error, ExperimentController};
pub use set::{EXPERIMENT_UID, TEMPLATE};
