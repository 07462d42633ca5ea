//! The Application controller on a real control plane, with real repositories, kustomize, helm and clusters.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod bad_input;
mod clusters;
mod deletion;
mod drift;
mod flow;
mod gate;
mod history;
mod holding;
mod house;
mod infrastructure;
mod kind;
mod order;
mod quarantine;
mod sources;
mod stack;
