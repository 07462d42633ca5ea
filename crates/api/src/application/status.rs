//! What was found and done for an `Application`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::KubeSchema;
use serde::{Deserialize, Serialize};

/// Condition: what is wanted is applied on every cluster.
pub const SYNCED: &str = "Synced";
/// Condition: everything that is applied is healthy.
pub const HEALTHY: &str = "Healthy";
/// Condition: the repository was read and the revision found.
pub const SOURCE_READY: &str = "SourceReady";
/// Condition: the source was rendered to objects.
pub const RENDERED: &str = "Rendered";
/// Condition: policy let the change pass.
pub const ADMITTED: &str = "Admitted";
/// Condition: another manager takes fields back again and again; only there while it does.
pub const CONTESTED: &str = "Contested";

/// Condition: a revision failed in a cluster and is not applied any more; only there while it is so.
pub const QUARANTINED: &str = "Quarantined";
/// Condition: the quarantined revision was reverted in the repository; only there while one is, and
/// `spec.sync.gitRollback` is on.
pub const REVERTED: &str = "Reverted";

/// Deployments that are remembered.
pub const HISTORY: usize = 20;

/// What the controller last found and did.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ApplicationStatus {
    /// The `metadata.generation` that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// The whole in one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,

    /// Whether what is wanted is applied.
    #[serde(default)]
    pub sync: Sync,

    /// Whether what is applied works.
    #[serde(default)]
    pub health: Health,

    /// `3/4`: clusters that are synced and healthy, of all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_summary: Option<String>,

    /// `Ready`, `Synced`, `Healthy`, `SourceReady`, `Rendered`, `Admitted`; `Contested`, `Quarantined` and `Reverted`
    /// while they say something.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,

    /// One line per cluster, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub clusters: Vec<ClusterLine>,

    /// What was applied, and may be deleted. Clusters with the same objects share an entry.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inventory: Vec<Inventory>,

    /// What policy found, at most 50.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub violations: Vec<Violation>,

    /// How many violations there are in all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub violation_count: Option<u32>,

    /// The last 20 deployments, newest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<Deployment>,

    /// The last 10 movements of the branch or tag that is followed, newest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub movements: Vec<Movement>,

    /// What is being done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<Operation>,

    /// What failed for good: it is not tried again before the source or the spec changes, or somebody asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub given_up: Option<GivenUp>,

    /// The revision that the Application is kept at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pin: Option<Pin>,

    /// The revision that failed in a cluster and is not applied any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quarantine: Option<Quarantine>,

    /// Deletions that wait for somebody to approve them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<Approval>,

    /// Deletions that somebody approved and that are not done yet: it holds for these alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub granted: Option<Granted>,

    /// The last request for a sync that was carried out: the value of the annotation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_sync_request: Option<String>,
}

/// The whole in one word.
#[derive(schemars::JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Nothing was applied yet, or it waits for something before it begins.
    Pending,
    /// A change is being applied, or becomes healthy.
    Syncing,
    /// What is wanted runs.
    Healthy,
    /// It runs, but something is not well.
    Degraded,
    /// What is wanted could not be applied. What ran before keeps running.
    Failed,
}

/// Whether what is wanted is applied.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Sync {
    /// In one word.
    #[serde(default)]
    pub status: SyncWord,
    /// The commit that is wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// The first characters of `revision`, with the name that it was found by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub short_revision: Option<String>,
    /// Its Jujutsu change id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change_id: Option<String>,
    /// Digest of everything that the revision renders to: equal digests are equal objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

/// Whether what is wanted is applied, in one word.
#[derive(schemars::JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SyncWord {
    /// It is.
    Synced,
    /// It is not.
    OutOfSync,
    /// It cannot be told.
    #[default]
    Unknown,
}

/// Whether what is applied works.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Health {
    /// In one word.
    #[serde(default)]
    pub status: HealthWord,
    /// The worst object and what is wrong with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// Whether something works, in one word.
#[derive(schemars::JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum HealthWord {
    /// It does.
    Healthy,
    /// Not yet.
    Progressing,
    /// It does not.
    Degraded,
    /// It is paused on purpose.
    Suspended,
    /// It is not there.
    Missing,
    /// It cannot be told.
    #[default]
    Unknown,
}

/// One cluster.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ClusterLine {
    /// Its name.
    pub name: String,
    /// Whether what is wanted there is applied there.
    #[serde(default)]
    pub sync: SyncWord,
    /// Whether it works.
    #[serde(default)]
    pub health: HealthWord,
    /// The commit that was last applied there whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// Digest of what was last applied there whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// Digest of what it was told to take, also while that is not whole yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// When it was last applied whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub synced_at: Option<Time>,
    /// Since when it is synced and healthy without a break.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub healthy_since: Option<Time>,
    /// The wave it is in, counted from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wave: Option<u32>,
    /// Objects there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objects: Option<u32>,
    /// Hooks that run there when the Application is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_hooks: Option<u32>,
    /// What is going on, or wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// What differs, at most 10.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub differences: Vec<ObjectDifference>,
    /// Objects whose fields another manager takes back again and again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub contested: Vec<Contested>,
}

/// One difference between what is wanted and what is there. Values of Secrets are never shown.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ObjectDifference {
    /// `Deployment shop/web`.
    pub object: String,
    /// The field; missing when the whole object is missing or not wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// What is wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wanted: Option<String>,
    /// What is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live: Option<String>,
    /// The field manager that wrote what is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manager: Option<String>,
}

/// An object whose fields another manager takes back again and again.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Contested {
    /// `Deployment shop/web`.
    pub object: String,
    /// The other manager.
    pub manager: String,
    /// How often it was reverted.
    pub rounds: u32,
}

/// What was applied on some clusters.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Inventory {
    /// The clusters, by name.
    pub clusters: Vec<String>,
    /// The objects: `apps/v1/Deployment/shop/web`, `v1/Namespace//shop`.
    pub objects: Vec<String>,
}

/// What policy found.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Violation {
    /// The cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    /// `Deployment shop/web`.
    pub object: String,
    /// The policy, webhook or rule.
    pub policy: String,
    /// Why.
    pub message: String,
}

/// Something that was deployed.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Deployment {
    /// Its number: one more than the one before.
    pub id: u64,
    /// The commit.
    pub revision: String,
    /// Its Jujutsu change id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change_id: Option<String>,
    /// Digest of what it rendered to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// When it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    /// When it was done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Time>,
    /// Who asked for it; missing when it was automatic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// How it ended.
    pub result: DeploymentResult,
    /// Why it ended so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// How a deployment ended.
#[derive(schemars::JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeploymentResult {
    /// It runs, healthy, on every cluster that can be reached.
    #[default]
    Succeeded,
    /// It could not be applied, or did not become healthy.
    Failed,
    /// A newer revision came before it was done.
    Superseded,
    /// It was taken back.
    RolledBack,
}

/// A movement of the branch or tag that is followed.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Movement {
    /// The commit before; missing when the name is new.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The commit after; missing when the name went.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// It is no descendant of the one before.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub forced: bool,
    /// Who pushed it, where a webhook said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// When it was seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Time>,
}

/// What is being done.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Operation {
    /// The commit that is being applied.
    pub revision: String,
    /// Its Jujutsu change id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change_id: Option<String>,
    /// Digest of what it renders to.
    pub digest: String,
    /// When it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    /// Who asked for it; missing when it was automatic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// What it is at: `applying wave 2 on east`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// Tries that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failures: Option<u32>,
    /// Hooks that ended, one entry per cluster and hook.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hooks: Vec<HookResult>,
}

/// A hook that ended.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct HookResult {
    /// The cluster.
    pub cluster: String,
    /// The object, as in the inventory.
    pub object: String,
    /// Whether it succeeded.
    pub succeeded: bool,
}

/// What failed for good.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct GivenUp {
    /// Digest of what was to be applied.
    pub digest: String,
    /// The `metadata.generation` under which it was tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
    /// Why.
    pub message: String,
}

/// The revision that an Application is kept at.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Pin {
    /// The commit that is deployed instead. In a request it may be missing: then it is where the source was before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// The commit that is not deployed. The pin ends when the source is at another one.
    pub excludes: String,
    /// Who asked for it; missing when it was automatic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// When.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Time>,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A revision whose `Rollout` failed. It is applied nowhere until the source moves past it or somebody lifts it.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Quarantine {
    /// The commit that failed.
    pub revision: String,
    /// Its Jujutsu change id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change_id: Option<String>,
    /// Digest of what it renders to: another commit with the same content is the same failure.
    pub digest: String,
    /// Since when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    /// Where it failed.
    pub cluster: String,
    /// What failed: `Rollout shop/web`.
    pub object: String,
    /// Why.
    pub reason: String,
    /// Who lets it pass all the same: then it holds nothing back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lifted: Option<Lifted>,
    /// What was pushed to the repository because of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revert: Option<Revert>,
}

/// Who lifted a quarantine.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Lifted {
    /// Who.
    pub by: String,
    /// When.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Time>,
}

/// A revert that was pushed.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Revert {
    /// The commit.
    pub commit: String,
    /// The branch that has it.
    pub branch: String,
}

/// Deletions that wait for somebody to approve them.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Approval {
    /// What an approval has to name: another set of deletions has another id.
    pub id: String,
    /// How many objects would be deleted.
    pub deletions: u32,
    /// Of how many.
    pub of: u32,
    /// Some of them, at most 20.
    pub objects: Vec<String>,
    /// These objects ask for it themselves, by `Prune=confirm` or `Delete=confirm`, however few they are.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub confirm: bool,
}

/// Deletions that somebody approved.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Granted {
    /// What the approval named.
    pub id: String,
    /// The objects that may go.
    pub objects: Vec<Inventory>,
}
