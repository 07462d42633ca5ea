//! Audit events that the API server sends to a webhook.

use std::path::{Path, PathBuf};

use anyhow::Context;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::pki::write_private;

/// Where audit events go, and which.
#[derive(Debug, Clone)]
pub struct AuditWebhook {
    url: String,
    ca_pem: Option<String>,
    policy: Value,
}

impl AuditWebhook {
    /// Sends events to this `https` URL. Without [`AuditWebhook::ca`] the listener needs a certificate that the system
    /// trusts.
    pub fn new(url: impl Into<String>) -> Self {
        Self { url: url.into(), ca_pem: None, policy: default_policy() }
    }

    /// The authority that signed the listener's certificate.
    #[must_use]
    pub fn ca(mut self, pem: impl Into<String>) -> Self {
        self.ca_pem = Some(pem.into());
        self
    }

    /// Another audit policy (`audit.k8s.io/v1`); the default records whole requests and answers, but of Secrets and
    /// tokens only who did what, and nothing of Leases and Events.
    #[must_use]
    pub fn policy(mut self, policy: Value) -> Self {
        self.policy = policy;
        self
    }

    /// Writes the files and returns the flags that point to them.
    pub(super) fn flags(&self, folder: &Path) -> anyhow::Result<Vec<String>> {
        anyhow::ensure!(
            self.url.starts_with("https://"),
            "the audit webhook must be an https URL, not {}",
            self.url
        );
        let mut cluster = json!({ "server": self.url });
        if let Some(pem) = &self.ca_pem {
            cluster["certificate-authority-data"] = STANDARD.encode(pem).into();
        }
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{ "name": "audit", "cluster": cluster }],
            "users": [{ "name": "audit", "user": {} }],
            "contexts": [{ "name": "audit", "context": { "cluster": "audit", "user": "audit" } }],
            "current-context": "audit",
        });
        let config = write(folder, "audit-webhook.kubeconfig", &config)?;
        let policy = write(folder, "audit-policy.yaml", &self.policy)?;
        Ok(vec![
            format!("--audit-webhook-config-file={}", config.display()),
            format!("--audit-policy-file={}", policy.display()),
            "--audit-webhook-mode=batch".into(),
            "--audit-webhook-batch-max-wait=100ms".into(),
            "--audit-webhook-batch-throttle-enable=false".into(),
            "--audit-webhook-initial-backoff=1s".into(),
        ])
    }
}

impl From<&str> for AuditWebhook {
    fn from(url: &str) -> Self {
        Self::new(url)
    }
}

impl From<String> for AuditWebhook {
    fn from(url: String) -> Self {
        Self::new(url)
    }
}

fn write(folder: &Path, name: &str, value: &Value) -> anyhow::Result<PathBuf> {
    // JSON is YAML.
    let text = serde_json::to_string_pretty(value).context("cannot write a configuration")?;
    write_private(folder, name, &text)
}

fn default_policy() -> Value {
    json!({
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [
            { "level": "None", "nonResourceURLs": ["/healthz*", "/livez*", "/readyz*", "/metrics", "/version"] },
            { "level": "None", "resources": [
                { "group": "coordination.k8s.io", "resources": ["leases"] },
                { "group": "", "resources": ["events"] },
                { "group": "events.k8s.io", "resources": ["events"] },
            ] },
            { "level": "Metadata", "resources": [
                { "group": "", "resources": ["secrets", "serviceaccounts/token"] },
                { "group": "authentication.k8s.io", "resources": ["tokenreviews"] },
            ] },
            { "level": "RequestResponse" },
        ],
    })
}
