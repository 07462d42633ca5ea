//! Rollouts on a real control plane with simulated nodes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod blue_green;
mod canary;
mod control;
mod events;
mod gateway;
mod house;
mod judged;
mod restart;
mod simple;
mod trouble;
mod workload;
