//! From credentials to a client, and whether somebody answers there.
//!
//! ```text
//!   Secret bytes ──► parse_kubeconfig ──► Target ──┐
//!   own kubeconfig file, KUBECONFIG ───────────────┼──► ClientCache / hub ──► kube::Client ──► probe
//!   service account of the pod ────────────────────┘        throttle · metrics · timeouts
//! ```
//!
//! A kubeconfig is code: it can name programs to run, files to read and addresses to call. One that comes from a
//! Secret is refused when it does any of that; see [`KubeconfigPolicy`]. No error of this module holds any part of a
//! credential, nor anything that a server answered.

mod address;
mod cache;
mod certificate;
mod classify;
mod error;
mod kubeconfig;
mod probe;
mod source;
mod target;
mod throttle;
mod timeout;

pub use cache::{ClientCache, Connection, Limits};
pub use classify::{Transport, transport};
pub use error::KubeconfigError;
pub use kubeconfig::{KubeconfigPolicy, MAX_KUBECONFIG_BYTES, parse_kubeconfig};
pub use probe::{Probe, ProbeError, probe};
pub use source::{ConnectError, Credentials, HubOptions, hub};
pub use target::{CONNECT_TIMEOUT, Fingerprint, Target};
pub use throttle::{MAX_RETRY_AFTER, Unthrottled, retry_after};
pub use timeout::RequestTimeout;

#[cfg(test)]
mod tests;
