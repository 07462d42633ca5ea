//! Commits, signatures, pushes and the journal, with real repositories, a real server and real crashes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod journal;
mod kill;
mod push;
mod revert;
mod sign;
mod support;
mod write;
