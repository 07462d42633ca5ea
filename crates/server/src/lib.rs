//! What Windlass listens on: probes, metrics and webhooks.
//!
//! ```text
//!   kubelet ── GET /healthz, /readyz ──►┐
//!                                       ├─ http ◄── readiness, liveness, metrics ◄── every part
//!   Prometheus ── GET /metrics ────────►┘
//!
//!   Git server ── POST /hooks/<provider> ──► hooks ──► Push ──► whoever fetches
//!
//!   kube-apiserver ── POST /admit/<name> ──► admission ──► Admit::admit ──► Verdict
//!         ▲                                     │ TLS
//!         │ caBundle                            ▼
//!   webhook configurations ◄── certificates ── ServingCertificate ◄── Secret, or files of cert-manager
//! ```
//!
//! * [`listener`] accepts connections for both sides, with limits that keep a slow or greedy client from
//!   hurting the others, and ends gracefully.
//! * [`http`] answers the probes and `/metrics`, and takes further routes.
//! * [`readiness`] collects what the parts say about themselves; [`metrics`] is the registry they share.
//! * [`hooks`] takes word of pushes from Git servers, on a listener of its own.
//! * [`admission`] answers `AdmissionReview`s.
//! * [`certificates`] makes, keeps, rotates and publishes what `admission` serves with.
//! * [`shutdown`] turns signals into one token that everything above ends by.

pub mod admission;
pub mod certificates;
pub mod hooks;
pub mod http;
pub mod listener;
pub mod metrics;
pub mod readiness;
pub mod shutdown;
