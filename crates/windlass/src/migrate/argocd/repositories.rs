//! Secrets of repositories, and who uses them.

use std::collections::BTreeMap;

use serde_json::Value;
use windlass_api::application::LocalSecret;

use super::SECRET_TYPE;
use crate::migrate::{
    names,
    objects::{Head, Produced, secret_data},
    report::Report,
};

/// Known hosts of all repositories.
pub(super) const KNOWN_HOSTS: &str = "argocd-ssh-known-hosts-cm";
/// Authorities, by host.
pub(super) const AUTHORITIES: &str = "argocd-tls-certs-cm";

/// Entries that Windlass reads as they are.
const KEPT: [&str; 8] = [
    "username",
    "password",
    "bearerToken",
    "sshPrivateKey",
    "tlsClientCertData",
    "tlsClientCertKey",
    "proxy",
    "noProxy",
];

/// One Secret.
#[derive(Debug)]
struct Repository {
    head: Head,
    url: String,
    data: BTreeMap<String, Vec<u8>>,
    /// For every repository whose address begins so.
    prefix: bool,
    used: bool,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Repositories {
    known: Vec<Repository>,
    known_hosts: Option<String>,
    authorities: BTreeMap<String, String>,
    /// Secrets that were copied, and what the copies are called: by number and namespace.
    copies: BTreeMap<(usize, String), String>,
}

impl Repositories {
    /// Reads the Secrets, and the `ConfigMap`s with known hosts and authorities.
    pub(super) fn read(secrets: Vec<(Head, Value)>, settings: &[(Head, Value)], report: &mut Report) -> Self {
        let mut repositories = Self::default();
        for (head, object) in settings {
            let entries = object.get("data").and_then(Value::as_object).into_iter().flatten();
            let mut entries =
                entries.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
            if head.name == KNOWN_HOSTS {
                repositories.known_hosts =
                    entries.find(|(key, _)| key == "ssh_known_hosts").map(|(_, text)| text);
            } else {
                repositories.authorities.extend(entries);
            }
        }
        for (head, object) in secrets {
            report.about(&head.title());
            let label = object["metadata"]["labels"][SECRET_TYPE].as_str().unwrap_or_default();
            let prefix = label == "repo-creds";
            let data = secret_data(&object);
            let text =
                |key: &str| data.get(key).map(|bytes| String::from_utf8_lossy(bytes).trim().to_owned());
            let helm = text("type").is_some_and(|kind| kind == "helm" || kind == "oci");
            let url = text("url").unwrap_or_default();
            if helm {
                report.refused(
                    "it is for a repository of charts or artifacts",
                    "Nothing, once the charts are committed to Git",
                );
            } else if url.is_empty() || !names::is_name(&head.name) {
                report.refused("it names no repository", "Correct the Secret");
            } else {
                repositories.known.push(Repository { head, url, data, prefix, used: false });
            }
        }
        repositories
    }

    /// The Secret for a repository, in the namespace of the Application; it is produced if need be.
    pub(super) fn secret_for(
        &mut self,
        url: &str,
        app: &Head,
        produced: &mut Produced,
        report: &mut Report,
    ) -> Option<LocalSecret> {
        let own = self.position(|known| !known.prefix && same(&known.url, url));
        let shared = self
            .known
            .iter()
            .enumerate()
            .filter(|(_, known)| known.prefix && plain(url).starts_with(&plain(&known.url)))
            .max_by_key(|(_, known)| known.url.len())
            .map(|(at, _)| at);
        for at in [own, shared].into_iter().flatten() {
            self.known[at].used = true;
        }
        // A repository without credentials of its own takes those of its prefix.
        let at = [own, shared].into_iter().flatten().find(|at| self.known[*at].has_credentials())?;
        let place = (at, app.namespace.clone());
        if let Some(name) = self.copies.get(&place) {
            return Some(LocalSecret { name: name.clone() });
        }
        let head = self.known[at].head.clone();
        // Beside the one of Argo CD it needs another name: applied over it, Argo CD would lose its label.
        let beside = head.namespace == app.namespace;
        let name = if beside { format!("windlass-{}", head.name) } else { head.name.clone() };
        let subject = report.subject().to_owned();
        report.about(&head.title());
        let data = self.data(at, url, report);
        let name = produced.secret(&app.namespace, &name, data);
        report.converted();
        report.about(&subject);
        self.copies.insert(place, name.clone());
        Some(LocalSecret { name })
    }

    /// Secrets that no given Application needs are not copied.
    pub(super) fn tell_unused(&self, report: &mut Report) {
        for known in self.known.iter().filter(|known| !known.used) {
            report.about(&known.head.title());
            report.note("", "none of the given Applications uses it: it was not copied");
        }
    }

    fn position(&self, fits: impl Fn(&Repository) -> bool) -> Option<usize> {
        self.known.iter().position(fits)
    }

    /// The entries that Windlass reads; what it would refuse, or not understand, is told.
    fn data(&self, at: usize, url: &str, report: &mut Report) -> BTreeMap<String, Vec<u8>> {
        let known = &self.known[at];
        let mut data = BTreeMap::new();
        for (key, bytes) in &known.data {
            if bytes.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            if KEPT.contains(&key.as_str()) {
                data.insert(key.clone(), bytes.clone());
            } else {
                entry(key, bytes, report);
            }
        }
        if data.contains_key("sshPrivateKey") {
            match &self.known_hosts {
                Some(hosts) => {
                    data.insert("known_hosts".to_owned(), hosts.clone().into_bytes());
                }
                None => report.left(
                    "known_hosts",
                    "an ssh key needs the keys of the hosts, which Argo CD keeps in a ConfigMap that was not given",
                    format!("Give the ConfigMap {KNOWN_HOSTS} as well, or add known_hosts (ssh-keyscan) to the Secret"),
                ),
            }
        } else if let Some(authority) = host(url).and_then(|host| self.authorities.get(host)) {
            data.insert("ca.crt".to_owned(), authority.clone().into_bytes());
        }
        data
    }
}

impl Repository {
    fn has_credentials(&self) -> bool {
        let filled = |key: &str| self.data.get(key).is_some_and(|bytes| !bytes.is_empty());
        let apps = ["githubAppPrivateKey", "gcpServiceAccountKey"];
        KEPT.iter().any(|key| filled(key)) || apps.iter().any(|key| filled(key))
    }
}

fn entry(key: &str, bytes: &[u8], report: &mut Report) {
    let yes = bytes.trim_ascii().eq_ignore_ascii_case(b"true");
    match key {
        "project" => report.left(
            key,
            "ties the repository to a project and was not carried over",
            "The Secret is in the namespace of the Application: only its Applications can use it",
        ),
        "insecure" | "insecureIgnoreHostKey" if yes => report.left(
            key,
            "switches off the check of the server, which is always done here",
            "Add ca.crt, or known_hosts for ssh, to the Secret",
        ),
        "enableLfs" if yes => {
            report.left(key, "files in Git LFS are not fetched", "Commit manifests as plain files");
        }
        "type"
        | "url"
        | "name"
        | "forceHttpBasicAuth"
        | "enableOCI"
        | "insecure"
        | "insecureIgnoreHostKey"
        | "enableLfs" => {}
        _ if key.starts_with("githubApp")
            || key == "gcpServiceAccountKey"
            || key == "useAzureWorkloadIdentity" =>
        {
            report.left(
                key,
                "this kind of credentials is not supported",
                "Put a token (username and password, or bearerToken) or an ssh key into the Secret",
            );
        }
        _ => report.left(key, "is not known here and was not carried over", "Look up what it does"),
    }
}

/// An address without what may be written or not.
fn plain(url: &str) -> String {
    let url = url.trim().trim_end_matches('/');
    url.strip_suffix(".git").unwrap_or(url).to_lowercase()
}

fn same(a: &str, b: &str) -> bool {
    plain(a) == plain(b)
}

fn host(url: &str) -> Option<&str> {
    let rest = url.split_once("://")?.1;
    let authority = rest.split(['/', '?', '#']).next()?;
    authority.rsplit('@').next()?.split(':').next()
}
