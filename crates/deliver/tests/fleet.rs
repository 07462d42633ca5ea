//! The clusters and the index of live objects: in memory with paused time where an order of things is at stake, on a real
//! control plane where the server's own behaviour is.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "fleet/clusters.rs"]
mod clusters;
#[path = "fleet/common.rs"]
mod common;
#[path = "fleet/in_memory.rs"]
mod in_memory;
#[path = "fleet/live.rs"]
mod live;
