//! How many pods each `ReplicaSet` should have. Numbers in, numbers out.
//!
//! The arithmetic is that of Argo Rollouts: [`basic`] reaches a weight by numbers of pods within surge and
//! unavailability, [`routed`] follows the weight of the traffic.

pub mod basic;
pub mod limits;
pub mod routed;

pub use limits::Limits;

/// What a `ReplicaSet` wants and has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pods {
    /// `spec.replicas`.
    pub wanted: i32,
    /// `status.availableReplicas`.
    pub available: i32,
}

impl Pods {
    /// Pods that surely stay: those that are available, but for those that are about to go.
    fn staying(self) -> i32 {
        self.available.min(self.wanted)
    }
}

/// How many pods the new and the stable `ReplicaSet` should have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// The new version.
    pub canary: i32,
    /// The version that runs.
    pub stable: i32,
}

/// Pods for a share of `replicas`, rounded up.
pub fn share(replicas: i32, weight: i32, full: i32) -> i32 {
    let (replicas, weight, full) = (i64::from(replicas), i64::from(weight), i64::from(full.max(1)));
    i32::try_from((replicas * weight + full - 1).div_euclid(full)).unwrap_or(i32::MAX)
}
