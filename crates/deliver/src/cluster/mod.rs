//! The `Cluster` controller: is each registered cluster there, and can it be used?
//!
//! ```text
//!  Cluster ─┐
//!  Secret ──┼─► observe: find the kubeconfig, connect, probe ─► plan: status, events, when again ─► act: disconnect
//!  network ─┘
//! ```

mod controller;
mod metrics;
pub(crate) mod observe;
pub mod plan;

pub use controller::{ClusterController, Error, Settings};
pub use metrics::ClusterMetrics;
pub use observe::{Network, Prober, Reached, SecretNamespaces, Trouble};
