//! Who talks to the API server, and the kubeconfig that lets them.

use anyhow::Context;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kube::config::Kubeconfig;
use serde_json::{Value, json};

use crate::pki::KeyCert;

/// A user of a control plane, known by a client certificate.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum User {
    /// May do everything (group `system:masters`).
    Admin,
    /// May do what RBAC grants to this name or its group.
    Named {
        /// The user name.
        name: String,
        /// The group.
        group: String,
    },
}

impl User {
    /// The group of users made by [`User::named`].
    pub const DEVELOPERS: &'static str = "developers";

    /// A user in the group `developers`, without any rights until a test grants some.
    pub fn named(name: impl Into<String>) -> Self {
        Self::in_group(name, Self::DEVELOPERS)
    }

    /// A user in another group.
    pub fn in_group(name: impl Into<String>, group: impl Into<String>) -> Self {
        Self::Named { name: name.into(), group: group.into() }
    }

    /// The user name as the API server sees it.
    pub fn name(&self) -> &str {
        match self {
            Self::Admin => "admin",
            Self::Named { name, .. } => name,
        }
    }

    /// The group as the API server sees it.
    pub fn group(&self) -> &str {
        match self {
            Self::Admin => "system:masters",
            Self::Named { group, .. } => group,
        }
    }

    /// A file name that differs between users.
    pub(super) fn file_name(&self) -> String {
        let plain =
            |text: &str| text.replace(|c: char| !c.is_ascii_alphanumeric() && !"-_.".contains(c), "_");
        match self {
            Self::Admin => "admin.kubeconfig".into(),
            Self::Named { name, group } if group == Self::DEVELOPERS => {
                format!("user-{}.kubeconfig", plain(name))
            }
            Self::Named { name, group } => format!("user-{}-{}.kubeconfig", plain(group), plain(name)),
        }
    }
}

/// How a user proves who they are.
pub(super) enum Credential<'a> {
    Certificate(&'a KeyCert),
    Token(&'a str),
}

impl Credential<'_> {
    pub(super) fn auth_info(&self) -> Value {
        match self {
            Self::Certificate(cert) => json!({
                "client-certificate-data": STANDARD.encode(&cert.cert_pem),
                "client-key-data": STANDARD.encode(&cert.key_pem),
            }),
            Self::Token(token) => json!({ "token": token }),
        }
    }
}

/// A kubeconfig with one cluster, one user and one context, all data inline.
pub(super) fn kubeconfig(
    cluster: &str,
    url: &str,
    ca_pem: &str,
    user: &str,
    credential: &Credential<'_>,
) -> anyhow::Result<Kubeconfig> {
    let context = if user == "admin" { cluster.to_owned() } else { format!("{user}@{cluster}") };
    let entry = format!("{user}@{cluster}");
    let value = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{
            "name": cluster,
            "cluster": { "server": url, "certificate-authority-data": STANDARD.encode(ca_pem) },
        }],
        "users": [{ "name": entry, "user": credential.auth_info() }],
        "contexts": [{ "name": context, "context": { "cluster": cluster, "user": entry } }],
        "current-context": context,
    });
    serde_json::from_value(value).context("cannot build a kubeconfig")
}

/// The file form of a kubeconfig, as in a Secret.
pub fn kubeconfig_yaml(kubeconfig: &Kubeconfig) -> anyhow::Result<String> {
    serde_saphyr::to_string(kubeconfig).context("cannot write a kubeconfig as YAML")
}

#[cfg(test)]
mod tests {
    use super::User;

    #[test]
    fn users_never_share_a_file() {
        let users = [User::Admin, User::named("admin"), User::named("dev-a"), User::in_group("dev-a", "ops")];
        let mut names: Vec<String> = users.iter().map(User::file_name).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), users.len());
        assert_eq!(User::named("../a b").file_name(), "user-.._a_b.kubeconfig");
    }
}
