//! The planner of Rollouts, on a small simulated cluster: `ReplicaSets` that get pods or not, Services, routes and runs.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "planner/arithmetic.rs"]
mod arithmetic;
#[path = "planner/blue_green.rs"]
mod blue_green;
#[path = "planner/canary.rs"]
mod canary;
#[path = "planner/lint.rs"]
mod lint;
#[path = "planner/properties.rs"]
mod properties;
#[path = "planner/revisions.rs"]
mod revisions;
#[path = "planner/routed.rs"]
mod routed;
#[path = "planner/world.rs"]
mod world;
