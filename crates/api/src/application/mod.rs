//! `Application`: what is committed at one place runs on some clusters.
//!
//! It is namespaced, like what tenants own: its Secrets are in its namespace, and what it may do on a cluster is
//! bounded by the account that it is applied as (`sync.serviceAccountName`). What it wants is in [`ApplicationSpec`],
//! split by subject: where from ([`source`]), how ([`sync`]), in which order over clusters ([`progressive`]); what was
//! found and done is in [`status`].

#![allow(clippy::duplicated_attributes, reason = "every printer column has a type and a path")]

pub mod progressive;
pub mod source;
pub mod status;
pub mod sync;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

pub use progressive::Progressive;
pub use source::Source;
pub use status::ApplicationStatus;
pub use sync::SyncPolicy;

use crate::duration::Duration;

/// Held by the Application controller until what it applied is deleted, or let go of.
pub const FINALIZER: &str = "windlass.dev/application";

/// The name that stands for the cluster the controller itself runs in when no `Cluster` has it.
pub const IN_CLUSTER: &str = "in-cluster";

/// Annotation: asks for a sync now, whatever `sync.automated` says. Any new value is a new request.
pub const SYNC_ANNOTATION: &str = "windlass.dev/sync";
/// Annotation: allows the deletions that wait for an approval; its value is `status.approval.id`.
pub const APPROVE_ANNOTATION: &str = "windlass.dev/approve";
/// Annotation: with the value `skip`, the Application is deleted without its `PreDelete` and `PostDelete` hooks.
pub const DELETION_HOOKS_ANNOTATION: &str = "windlass.dev/deletion-hooks";
/// Annotation: keeps the Application at another revision; its value is a [`status::Pin`] as JSON.
pub const PIN_ANNOTATION: &str = "windlass.dev/pin";

/// Annotation: lets a quarantined revision pass; its value is `<commit> by <who>`, with `status.quarantine.revision`.
pub const LIFT_ANNOTATION: &str = "windlass.dev/lift-quarantine";

/// What runs, and where.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[kube(
    group = "windlass.dev",
    version = "v1alpha1",
    kind = "Application",
    plural = "applications",
    singular = "application",
    shortname = "wapp",
    category = "windlass",
    namespaced,
    status = "ApplicationStatus",
    derive = "PartialEq",
    doc = "What is committed at one place in a repository runs on some clusters.",
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Sync", type_ = "string", json_path = ".status.sync.status"),
    printcolumn(name = "Health", type_ = "string", json_path = ".status.health.status"),
    printcolumn(name = "Revision", type_ = "string", json_path = ".status.sync.shortRevision"),
    printcolumn(name = "Clusters", type_ = "string", json_path = ".status.clusterSummary"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].message",
        priority = 1
    )
)]
#[serde(rename_all = "camelCase")]
pub struct ApplicationSpec {
    /// Where the manifests are.
    pub source: Source,

    /// The clusters that get them. A cluster that several entries name is delivered to once, by the first of them.
    #[schemars(length(min = 1, max = 64))]
    pub destinations: Vec<Destination>,

    /// When and how changes are applied.
    #[serde(default)]
    pub sync: SyncPolicy,

    /// Applications that have to be ready first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub depends_on: Vec<Dependency>,

    /// What is checked before anything is applied.
    #[serde(default)]
    pub policy: Policy,

    /// Clusters get a new revision wave by wave instead of all at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progressive: Option<Progressive>,

    /// A folder that is applied before the rest and waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub infrastructure: Option<Infrastructure>,

    /// How to judge objects whose kind is not known, or judged otherwise here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub health: Vec<HealthRules>,

    /// What becomes of the applied objects when the Application is deleted. Default: `Delete`.
    #[serde(default)]
    pub deletion: Deletion,

    /// Leave everything as it is: nothing is fetched, compared or applied for this Application.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub suspend: bool,
}

/// Clusters, and the namespace for objects that name none.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.cluster) != has(self.selector)")
    .message("set exactly one of cluster and selector in every destination"))]
pub struct Destination {
    /// Name of a `Cluster`. `in-cluster` is the controller's own one, also without a `Cluster` of that name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253), regex(pattern = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"))]
    pub cluster: Option<String>,

    /// Every `Cluster` with these labels: also those that are registered or labelled later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,

    /// Namespace of objects that name none. Default: `default`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub namespace: Option<String>,

    /// The only namespaces that objects may be in; `*` stands for any text. Default: all. When it is set, objects
    /// without a namespace (cluster-scoped ones) are refused unless `allowClusterScoped` is true.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(min = 1, max = 63)))]
    pub allowed_namespaces: Vec<String>,

    /// Cluster-scoped objects may be applied although `allowedNamespaces` is set.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub allow_cluster_scoped: bool,
}

/// Another Application that has to be ready first.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Dependency {
    /// Its name.
    #[schemars(length(min = 1, max = 253), regex(pattern = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"))]
    pub name: String,

    /// Its namespace. Default: the same. Another one has to be allowed by the controller's settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub namespace: Option<String>,

    /// A CEL expression over `app` (the whole Application) that says whether it is ready.
    /// Default: its condition `Ready` is true for its current generation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 4096))]
    pub ready: Option<String>,
}

/// What is checked before anything is applied.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Policy {
    /// What a violation leads to. Default: `strict`.
    #[serde(default)]
    pub mode: PolicyMode,

    /// Who judges. Default: every engine there is. `dryRun` asks each target cluster's own admission.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub engines: Vec<PolicyEngine>,
}

/// What a violation leads to.
#[derive(schemars::JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[serde(rename_all = "camelCase")]
pub enum PolicyMode {
    /// Nothing of the change is applied.
    #[default]
    Strict,
    /// The offending objects are left out, the rest is applied.
    Permissive,
    /// Everything is applied, violations are reported.
    Audit,
}

/// Who judges.
#[derive(
    schemars::JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord,
)]
#[serde(rename_all = "camelCase")]
pub enum PolicyEngine {
    /// A server-side dry run on each target cluster: schema, quota, admission policies and webhooks there.
    DryRun,
}

/// A folder that is applied before the rest and waited for: Crossplane claims, composites, managed resources.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Infrastructure {
    /// The folder, from the root of the repository.
    #[schemars(length(min = 1, max = 1024))]
    pub path: String,

    /// The cluster that it is applied to, and that alone. Default: every destination, before the rest there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253), regex(pattern = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"))]
    pub cluster: Option<String>,

    /// Secrets that have to exist before the rest is applied, beside those that its objects say they write.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub connection_secrets: Vec<SecretName>,

    /// How long it may take to become ready before the Application counts as failed. Default: 30m.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
}

/// A Secret on the cluster that infrastructure is applied to.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct SecretName {
    /// Its name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Its namespace.
    #[schemars(length(min = 1, max = 63))]
    pub namespace: String,
}

/// How to judge objects of some kinds: the first rule whose expression holds decides.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct HealthRules {
    /// API group; empty for the core group.
    #[serde(default)]
    #[schemars(length(max = 253))]
    pub group: String,
    /// Kinds of that group; `*` for all.
    #[schemars(length(min = 1, max = 32))]
    pub kinds: Vec<String>,
    /// In order.
    #[schemars(length(min = 1, max = 32))]
    pub rules: Vec<HealthRule>,
}

/// One rule: when it holds, the object is judged so.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct HealthRule {
    /// A CEL expression over `metadata`, `spec`, `status` and `conditions`. Default: always.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 4096))]
    pub when: Option<String>,
    /// The verdict.
    pub status: status::HealthWord,
    /// For people; `${…}` holds a CEL expression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub message: Option<String>,
}

/// What becomes of the applied objects when the Application is deleted.
#[derive(schemars::JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Deletion {
    /// They are deleted, in the reverse of the order in which they were applied.
    #[default]
    Delete,
    /// They stay.
    Orphan,
}

/// A Secret in the namespace of the Application.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct LocalSecret {
    /// Its name.
    #[schemars(length(min = 1, max = 253), regex(pattern = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"))]
    pub name: String,
}
