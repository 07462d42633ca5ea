//! How a new version is judged: templates become a run, a run measures, measurements decide.
//!
//! ```text
//!  templates + args ─ merge ─► AnalysisRun ─ plan (pure) ─► measure (Prometheus, web, Job, …) ─► status ─► the Rollout
//!                                      ▲                            │ condition, statistics
//!                                      └────────── answers ─────────┘
//! ```

pub mod args;
pub mod check;
pub mod condition;
mod controller;
mod desk;
pub mod job;
pub mod measure;
mod metrics;
pub mod plan;
pub mod statistics;

pub use controller::{AnalysisController, Error};
pub use metrics::AnalysisMetrics;
