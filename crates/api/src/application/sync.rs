//! When and how the changes of an `Application` are applied.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use crate::duration::Duration;

/// When and how changes are applied.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!has(self.interval) || duration(self.interval) >= duration('1s')")
    .message("spec.sync.interval must be at least 1s"))]
pub struct SyncPolicy {
    /// Apply what is committed by itself. With false a difference is only shown until somebody asks for a sync.
    #[serde(default = "yes")]
    pub automated: bool,

    /// Delete what is no longer in the source.
    #[serde(default = "yes")]
    pub prune: bool,

    /// What is done about changes that somebody made in the cluster. Default: `Revert`.
    #[serde(default)]
    pub drift: Drift,

    /// How often the repository is asked for news when no webhook tells. Default: 30s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<Duration>,

    /// What is done when a sync fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,

    /// When changes may be applied. With an `Allow` window: only within one. Within a `Deny` window: never.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub windows: Vec<Window>,

    /// Differences that do not count and are left as they are in the cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub ignore_differences: Vec<IgnoreDifference>,

    /// More deletions at once than this need an approval.
    #[serde(default)]
    pub deletion_budget: DeletionBudget,

    /// The `ServiceAccount`, in the namespace of the Application, that everything is applied as.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253), regex(pattern = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"))]
    pub service_account_name: Option<String>,

    /// Make the destination's namespace when it does not exist. It is never deleted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub create_namespace: bool,

    /// How long an applied revision may take to become healthy before it counts as failed. Default: 10m.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health_timeout: Option<Duration>,

    /// What is done in the repository when a `Rollout` of the Application fails.
    #[serde(default, skip_serializing_if = "GitRollback::is_default")]
    pub git_rollback: GitRollback,
}

/// What is done in the repository when a `Rollout` of the Application fails: the changes since the last revision that
/// succeeded are reverted, within the folders of the Application, once for each revision that failed.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct GitRollback {
    /// Default: `Never`.
    #[serde(default)]
    pub mode: GitRollbackMode,
    /// Name of the branch with `mode: Branch`. `{application}` and `{revision}` stand for the Application's name and the
    /// first characters of the commit that failed. Default: `windlass/revert-{application}-{revision}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 200))]
    pub branch: Option<String>,
    /// Author of the commit. Default: `windlass`, without an address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author: Option<GitAuthor>,
}

impl GitRollback {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// What is done in the repository when a `Rollout` fails.
#[derive(schemars::JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GitRollbackMode {
    /// Nothing.
    #[default]
    Never,
    /// A revert is committed to the branch that the Application follows.
    Commit,
    /// A revert is committed to a branch of its own, for somebody to merge.
    Branch,
}

/// Author of a commit.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct GitAuthor {
    /// Name.
    #[schemars(length(min = 1, max = 128))]
    pub name: String,
    /// Mail address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub email: Option<String>,
}

impl Default for SyncPolicy {
    fn default() -> Self {
        Self {
            automated: true,
            prune: true,
            drift: Drift::Revert,
            interval: None,
            retry: None,
            windows: Vec::new(),
            ignore_differences: Vec::new(),
            deletion_budget: DeletionBudget::default(),
            service_account_name: None,
            create_namespace: false,
            health_timeout: None,
            git_rollback: GitRollback::default(),
        }
    }
}

/// What is done about changes that somebody made in the cluster.
#[derive(schemars::JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Drift {
    /// They are taken back.
    #[default]
    Revert,
    /// They are shown.
    Report,
    /// They are written to the repository. Until that part is there they are shown.
    Absorb,
}

/// What is done when a sync fails.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Retry {
    /// Tries after the first; then the sync rests until the source changes or somebody asks. Default: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1000))]
    pub limit: Option<u32>,
    /// Wait before the first repetition; it doubles with each. Default: 5s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<Duration>,
    /// Longest wait. Default: 3m.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest: Option<Duration>,
}

/// A time in which changes may, or may not, be applied.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Window {
    /// Whether changes may be applied within.
    pub kind: WindowKind,
    /// When it begins, in cron's five fields: `0 22 * * MON-FRI`.
    #[schemars(length(min = 1, max = 256))]
    pub schedule: String,
    /// How long it lasts.
    pub duration: Duration,
    /// Time zone of the schedule, such as `Europe/Vienna`. Default: UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    pub time_zone: Option<String>,
    /// A sync that somebody asks for is done all the same.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub manual_sync: bool,
}

/// Whether changes may be applied within a window.
#[derive(schemars::JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowKind {
    /// Only within.
    Allow,
    /// Not within.
    Deny,
}

/// Differences that do not count.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.jsonPointers) || has(self.managers)")
    .message("name jsonPointers or managers in every entry of spec.sync.ignoreDifferences"))]
pub struct IgnoreDifference {
    /// API group of the objects; `*` for all. Default: the core group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Their kind; `*` for all.
    #[schemars(length(min = 1, max = 63))]
    pub kind: String,
    /// Their name. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Their namespace. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Fields, such as `/spec/replicas`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(min = 1, max = 1024)))]
    pub json_pointers: Vec<String>,
    /// Fields that these field managers set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(min = 1, max = 128)))]
    pub managers: Vec<String>,
}

/// More deletions at once than this need an approval: when both figures are exceeded.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct DeletionBudget {
    /// So many objects are deleted without asking. Default: 10.
    #[serde(default = "ten")]
    pub max_objects: u32,
    /// So many percent of the objects are deleted without asking. Default: 30.
    #[serde(default = "thirty")]
    #[schemars(range(max = 100))]
    pub max_percent: u32,
}

impl Default for DeletionBudget {
    fn default() -> Self {
        Self { max_objects: ten(), max_percent: thirty() }
    }
}

fn yes() -> bool {
    true
}

fn ten() -> u32 {
    10
}

fn thirty() -> u32 {
    30
}
