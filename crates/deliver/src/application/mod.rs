//! The `Application` controller: what is committed runs, everywhere it should.
//!
//! ```text
//!  repository ─┐                                            ┌─► status, Events, metrics
//!  clusters ───┼─► observe (facts) ─► plan (pure) ─► act ───┤
//!  people ─────┘                                            └─► batches of work, clusters side by side
//! ```

mod analyses;
pub mod budget;
pub mod contest;
mod controller;
pub mod depends;
mod destinations;
mod failures;
pub mod history;
mod ledger;
mod looks;
mod metrics;
mod observe;
pub mod observed;
pub mod plan;
pub mod program;
pub mod selector;
pub mod waves;
pub mod windows;

pub use analyses::watched;
pub use controller::{ApplicationController, Error, Settings};
pub use metrics::ApplicationMetrics;
