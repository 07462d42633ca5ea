//! Artifacts: a manifest, a config and layers.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// Media type of the manifests that the testbed writes.
pub(super) const MANIFEST_TYPE: &str = "application/vnd.oci.image.manifest.v1+json";

const EMPTY_CONFIG_TYPE: &str = "application/vnd.oci.empty.v1+json";
const HELM_CONFIG_TYPE: &str = "application/vnd.cncf.helm.config.v1+json";
const HELM_CHART_TYPE: &str = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";

/// Bytes with a media type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blob {
    /// What the bytes are.
    pub media_type: String,
    /// The bytes.
    pub content: Bytes,
}

/// Something to store in a registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Artifact {
    /// What the whole is; empty for those that only their config tells, like helm charts.
    pub artifact_type: String,
    /// The config.
    pub config: Blob,
    /// The layers, in order.
    pub layers: Vec<Blob>,
    /// Annotations of the manifest.
    pub annotations: BTreeMap<String, String>,
}

impl Artifact {
    /// One layer and an empty config; the media type is that of the layer and of the whole.
    pub fn of(media_type: &str, content: impl Into<Bytes>) -> Self {
        Self {
            artifact_type: media_type.to_owned(),
            config: Blob { media_type: EMPTY_CONFIG_TYPE.to_owned(), content: Bytes::from_static(b"{}") },
            layers: vec![Blob { media_type: media_type.to_owned(), content: content.into() }],
            annotations: BTreeMap::new(),
        }
    }

    /// A helm chart: its `Chart.yaml` as JSON, and the archive that `helm package` writes.
    pub fn helm_chart(chart: &Value, archive: impl Into<Bytes>) -> Self {
        Self {
            artifact_type: String::new(),
            config: Blob { media_type: HELM_CONFIG_TYPE.to_owned(), content: chart.to_string().into() },
            layers: vec![Blob { media_type: HELM_CHART_TYPE.to_owned(), content: archive.into() }],
            annotations: BTreeMap::new(),
        }
    }

    /// Adds an annotation to the manifest.
    #[must_use]
    pub fn annotation(mut self, key: &str, value: &str) -> Self {
        self.annotations.insert(key.to_owned(), value.to_owned());
        self
    }

    pub(super) fn blobs(&self) -> impl Iterator<Item = &Blob> {
        std::iter::once(&self.config).chain(&self.layers)
    }

    pub(super) fn manifest(&self) -> Value {
        let mut manifest = json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST_TYPE,
            "config": descriptor(&self.config),
            "layers": self.layers.iter().map(descriptor).collect::<Vec<_>>(),
        });
        if !self.artifact_type.is_empty() {
            manifest["artifactType"] = json!(self.artifact_type);
        }
        if !self.annotations.is_empty() {
            manifest["annotations"] = json!(self.annotations);
        }
        manifest
    }
}

fn descriptor(blob: &Blob) -> Value {
    json!({ "mediaType": blob.media_type, "digest": digest_of(&blob.content), "size": blob.content.len() })
}

/// `sha256:…` of some bytes.
pub fn digest_of(bytes: &[u8]) -> String {
    let hash = Sha256::digest(bytes);
    hash.iter().fold(String::from("sha256:"), |text, byte| text + &format!("{byte:02x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_those_of_the_specification() {
        // The well-known digest of the empty config `{}`.
        let expected = "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a";
        assert_eq!(digest_of(b"{}"), expected);
        let manifest = Artifact::of("text/plain", "x").annotation("a", "b").manifest();
        assert_eq!(manifest["config"]["digest"], expected);
        assert_eq!(manifest["layers"][0]["size"], 1);
        assert_eq!(manifest["annotations"]["a"], "b");
        assert!(Artifact::helm_chart(&json!({"name": "x"}), "tgz").manifest().get("artifactType").is_none());
    }
}
