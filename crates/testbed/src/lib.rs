//! Real parts for tests, benches and the demo, and the seeded simulation.
//!
//! In go the names of programs, folders with manifests and faults to play; out come running servers with clients for
//! them. Everything listens on 127.0.0.1, speaks TLS where Kubernetes does, keeps its files in scratch folders, and is
//! gone when the process that started it is gone.
//!
//! ```text
//!   tools ─► process ─┬─► control_plane ─► nodes
//!   pki ──────────────┴─► git, registry, prometheus (behind faults)
//! ```

pub mod contract;
pub mod control_plane;
pub mod faults;
pub mod git;
pub mod measure;
pub mod nodes;
pub mod pki;
pub mod process;
pub mod prometheus;
pub mod registry;
pub mod sim;
pub mod tools;
pub mod walk;
