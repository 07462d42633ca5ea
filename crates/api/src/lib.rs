//! Every kind of Windlass, one file each: types, validation rules (CEL in the schema) and status words.
//!
//! Comes in: nothing. Goes out: Rust types that serialize to what `kubectl` shows, and the
//! `CustomResourceDefinition`s generated from them ([`crds::all`]). There is no logic and no client here; what a
//! field means to a controller is written beside the field, and what the schema can refuse it refuses.

pub mod analysis;
pub mod application;
pub mod cluster;
pub mod condition;
pub mod crds;
pub mod duration;
pub mod experiment;
mod free;
pub mod rollout;
pub mod span;

pub use analysis::{AnalysisRun, AnalysisTemplate, ClusterAnalysisTemplate};
pub use application::{Application, ApplicationSpec, ApplicationStatus};
pub use cluster::{Cluster, ClusterSpec, ClusterStatus};
pub use experiment::Experiment;
pub use rollout::{Rollout, RolloutSpec, RolloutStatus};

/// API group of every kind.
pub const GROUP: &str = "windlass.dev";
/// The one served version.
pub const VERSION: &str = "v1alpha1";
