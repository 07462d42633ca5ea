//! Many Applications, many clusters: what is counted, never timed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

#[path = "scale/clusters.rs"]
mod clusters;
#[path = "scale/hooks.rs"]
mod hooks;
#[path = "scale/house.rs"]
mod house;
#[path = "scale/renders.rs"]
mod renders;
