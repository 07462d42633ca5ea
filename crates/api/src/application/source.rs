//! Where the manifests of an `Application` are, and what makes objects of them.

use std::collections::BTreeMap;

use kube::KubeSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::LocalSecret;

/// A folder of a repository at a revision.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("(has(self.directory) ? 1 : 0) + (has(self.kustomize) ? 1 : 0) + (has(self.helm) ? 1 : 0) <= 1")
    .message("set at most one of directory, kustomize and helm in spec.source"))]
pub struct Source {
    /// Address of the repository: `https://`, `ssh://` or `user@host:path`.
    #[serde(rename = "repoURL")]
    #[schemars(length(min = 1, max = 2048))]
    pub repo_url: String,

    /// Credentials for the repository: keys as Flux or Argo CD write them (`username` and `password`, `bearerToken`,
    /// `identity` or `sshPrivateKey` with `known_hosts`, `ca.crt`, …).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<LocalSecret>,

    /// Branch, tag, commit or Jujutsu change id. Default: the repository's default branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub revision: Option<String>,

    /// Folder, from the root of the repository. Default: the root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub path: Option<String>,

    /// Plain YAML and JSON files. Without `directory`, `kustomize` and `helm` the folder itself tells:
    /// a kustomization file, a `Chart.yaml`, else this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<Directory>,

    /// Built by kustomize.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kustomize: Option<Kustomize>,

    /// A Helm chart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub helm: Option<Helm>,

    /// How encrypted files and values are decrypted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decryption: Option<Decryption>,
}

/// Plain YAML and JSON files.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Directory {
    /// Also folders below. Default: true.
    #[serde(default = "yes")]
    pub recurse: bool,

    /// Only files that match one of these globs, from the folder. Default: `*.yaml`, `*.yml` and `*.json`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(min = 1, max = 1024)))]
    pub include: Vec<String>,

    /// Not files that match one of these globs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(min = 1, max = 1024)))]
    pub exclude: Vec<String>,
}

impl Default for Directory {
    fn default() -> Self {
        Self { recurse: true, include: Vec::new(), exclude: Vec::new() }
    }
}

/// Built by kustomize. The fields are laid over the folder's own kustomization and mean what they mean there.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Kustomize {
    /// Before every name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name_prefix: Option<String>,
    /// After every name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name_suffix: Option<String>,
    /// Namespace of every namespaced object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// On every object and selector.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub common_labels: BTreeMap<String, String>,
    /// On every object.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub common_annotations: BTreeMap<String, String>,
    /// Other images: `name`, `newName`, `newTag`, `digest`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<KustomizeImage>,
    /// Components, from the folder.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub components: Vec<String>,
    /// Patches, as in a kustomization file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::free::objects")]
    pub patches: Vec<Map<String, Value>>,
}

/// Another image.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct KustomizeImage {
    /// The image as the manifests name it.
    #[schemars(length(min = 1, max = 512))]
    pub name: String,
    /// Its new name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_name: Option<String>,
    /// Its new tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_tag: Option<String>,
    /// Its digest, instead of a tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

/// A Helm chart in the folder.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Helm {
    /// Name of the release. Default: the Application's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 53))]
    pub release_name: Option<String>,

    /// Files with values, later ones over earlier ones: from the folder, or with a leading `/` from the root of the
    /// repository.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(min = 1, max = 1024)))]
    pub value_files: Vec<String>,

    /// A value file that does not exist is passed over.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ignore_missing_value_files: bool,

    /// Values, over all files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::free::object")]
    pub values: Option<Map<String, Value>>,

    /// Single values, over `values`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub parameters: Vec<HelmParameter>,

    /// Leave out the chart's `crds/` folder.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub skip_crds: bool,

    /// The Kubernetes version that the chart is told. Default: that of the first destination.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    pub kube_version: Option<String>,

    /// More API versions that the chart is told, such as `monitoring.coreos.com/v1`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), inner(length(min = 1, max = 253)))]
    pub api_versions: Vec<String>,
}

/// A single value.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct HelmParameter {
    /// Path of the value, such as `image.tag`.
    #[schemars(length(min = 1, max = 1024))]
    pub name: String,
    /// The value.
    #[serde(default)]
    pub value: String,
    /// It is a text, even if it looks like a number.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub force_string: bool,
}

/// How encrypted files and values are decrypted. What is decrypted stays in memory.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Decryption {
    /// What encrypted them.
    pub provider: DecryptionProvider,
    /// The Secret with the keys: every entry whose name ends in `.agekey`.
    pub secret_ref: LocalSecret,
}

/// What encrypted them.
#[derive(schemars::JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub enum DecryptionProvider {
    /// SOPS with age keys.
    Sops,
}

fn yes() -> bool {
    true
}
