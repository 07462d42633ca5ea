//! Everything that talks to a Kubernetes API, and the one loop that runs every controller.
//!
//! Comes in: a kubeconfig (file, Secret or the pod's own service account), objects to apply, a
//! [`drive::Controller`]. Goes out: clients, watches, applied objects, events, leases, and reconciles that
//! happen once per change, on one replica, with the status written only when it differs.
//!
//! ```text
//!             watch ──► store + queue ──► gate (lease, shard) ──► observe ─► plan ─► act ─► report
//!               ▲            ▲                                       │        pure     │      │
//!    Kubernetes │            └── wake: timer, related object, hook   ▼                 ▼      ▼
//!    API ───────┴──────────────────────────────────────── reads ────────── fenced writes, status, events
//! ```
//!
//! Pure parts ([`lease::plan`], [`connect::parse_kubeconfig`], the queue) take time as an argument; everything
//! else takes it from [`clock::Clock`] and tokio's timer, so that a simulation can own both.

pub mod apply;
pub mod backoff;
pub mod clock;
pub mod connect;
pub mod discover;
pub mod drive;
pub mod events;
pub mod lease;
pub mod requests;
pub mod templates;
pub mod watch;
