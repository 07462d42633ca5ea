//! Revisions, trees and Jujutsu on real repositories.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../support/mod.rs"]
mod support;

mod changes;
mod conflict;
mod crash;
mod engine;
mod healing;
mod property;
mod read;
mod repositories;
mod revision;
