//! The planner against a world of plain values: tables for single decisions, a random walk for all of them together.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod decisions;
mod deletions;
mod holding;
mod quarantine;
mod walks;
mod world;
