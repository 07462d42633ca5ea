//! A new version reaches traffic step by step, is judged by real metrics, and goes back by itself.
//!
//! Comes in: `Rollout`s with their `ReplicaSets`, Services and routes, analysis templates, measurements. Goes out: pods of
//! each revision in the right numbers, weights on routes, runs of analyses, and a status that says what is waited for.
//!
//! ```text
//!   observe (reads) ─► Observed ─► plan (pure) ─► actions, status, notes ─► act (writes)
//! ```

pub mod act;
pub mod analysis;
mod announce;
pub mod cdevents;
pub mod controller;
pub mod experiment;
mod freed;
pub mod index;
mod lag;
pub mod lint;
pub mod metrics;
mod observe;
pub mod observed;
pub mod plan;
pub mod replicas;
pub mod revision;
mod rivals;
pub mod route;
pub mod simulate;
mod skew;
mod wanted;

pub use controller::{Parts, RolloutController};
pub use freed::FreedController;
pub use metrics::RolloutMetrics;
