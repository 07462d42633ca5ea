//! Git → clusters.
//!
//! Comes in: `Application`s, `Cluster`s, what repositories hold and what runs on clusters. Goes out: objects applied
//! where they are meant to run, after the gate let them pass, and a status that explains every difference. Each kind
//! follows the one pattern: `observe` reads, `plan` decides, `act` writes.
//!
//! ```text
//!   origin (repositories) ─► render ─► fleet::prepare ─► fleet::survey ─► gate ─► application::plan ─► fleet::carry_out
//! ```

pub mod application;
pub mod cluster;
pub mod compare;
pub mod fleet;
pub mod gate;
pub mod object;
pub mod origin;
pub mod render;
pub mod sandbox;
pub mod tracking;
pub mod trouble;
