//! The one loop that runs every controller: observe → plan → act → report.
//!
//! ```text
//!  watch of the kind ─┐                         ┌────────────── a round, one object ──────────────┐
//!  related objects ───┼─► Store ─► Queue ─► gate│ finalizer ► observe ► plan ► act* ► status* ► notes│─► wake
//!  wake-ups, timer ───┘                         └──────────── * fenced, only if it differs ───────┘
//! ```
//!
//! What is here once and nowhere else: the leader gate and the fence, the span with a round's id, the finalizer, the
//! status that is written only when it differs, events after the status, metrics, back-off per object, bounded
//! concurrency, isolation of an object that panics or hangs, and the orderly end.

pub mod controller;
pub mod key;
mod metrics;
pub mod plan;
pub mod queue;
mod round;
mod runner;
pub mod store;
mod write;

pub use controller::{Controller, Failure};
pub use key::{Key, Reference};
pub use metrics::{Metrics, Round};
pub use plan::{Plan, Wake};
pub use runner::{Drive, Options, Services, Waker};
