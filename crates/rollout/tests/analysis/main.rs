//! How versions are judged: statistics, conditions, templates, the plan of a run, providers and the controllers.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
// Pieces of JSON are handed over where they are made.
#![allow(clippy::needless_pass_by_value)]

mod condition;
mod experiment;
mod experiments;
mod house;
mod measure;
mod plan;
mod runs;
mod simulation;
mod statistics;
mod template;
#[path = "../../../cluster/tests/support/wiring.rs"]
mod wiring;
