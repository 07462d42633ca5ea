//! Git → clusters.
//!
//! Comes in: `Cluster` objects (and, with the next part, `Application`s). Goes out: connections that are known to
//! work, and a status that says why one does not. Each kind follows the one pattern: `observe` reads, `plan`
//! decides, `act` writes.

pub mod cluster;
