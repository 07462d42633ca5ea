//! Clusters: the Secrets that Argo CD keeps about them, and how destinations name them.

use std::collections::BTreeMap;

use serde_json::Value;
use windlass_api::{
    ClusterSpec,
    application::IN_CLUSTER,
    cluster::{InCluster, KubeconfigSource, SecretKeyRef},
};

use super::SECRET_TYPE;
use crate::migrate::{
    Options,
    fields::Fields,
    kubeconfig, names,
    objects::{Head, Marks, Produced, secret_data},
    report::Report,
    shared,
};

/// The address by which Argo CD knows its own cluster.
const OWN_SERVER: &str = "https://kubernetes.default.svc";

/// A cluster that an Application goes to.
#[derive(Clone, Debug)]
pub(super) struct Found {
    /// The name of our Cluster.
    pub(super) cluster: String,
    /// Its address, as Argo CD knows it.
    pub(super) server: Option<String>,
    /// Its name, as Argo CD knows it.
    pub(super) name: Option<String>,
}

/// The clusters that Argo CD knows.
#[derive(Debug, Default)]
pub(super) struct Clusters {
    known: Vec<Found>,
}

impl Clusters {
    /// Reads the Secrets and produces a Cluster for each.
    pub(super) fn read(
        secrets: Vec<(Head, Value)>,
        options: &Options,
        produced: &mut Produced,
        report: &mut Report,
    ) -> Self {
        let mut clusters = Self::default();
        for (head, object) in secrets {
            report.about(&head.title());
            if let Some(found) = clusters.register(&head, object, options, produced, report) {
                report.converted();
                clusters.known.push(found);
            }
        }
        clusters
    }

    /// The cluster that a destination means. None when it means none.
    pub(super) fn find(
        &self,
        server: Option<String>,
        name: Option<String>,
        report: &mut Report,
    ) -> Option<Found> {
        let server = server.map(|server| server.trim_end_matches('/').to_owned());
        let fits = |known: &&Found| match (&server, &name) {
            (Some(server), _) => known.server.as_ref() == Some(server),
            (None, name) => known.name.is_some() && known.name == *name,
        };
        if let Some(found) = self.known.iter().find(fits) {
            return Some(found.clone());
        }
        if server.as_deref().is_some_and(is_own) || (server.is_none() && name.as_deref() == Some(IN_CLUSTER))
        {
            return Some(Found {
                cluster: IN_CLUSTER.to_owned(),
                server: Some(OWN_SERVER.to_owned()),
                name: Some(IN_CLUSTER.to_owned()),
            });
        }
        let Some(told) = name.clone().or_else(|| server.clone()) else {
            report.refused("its destination names no cluster", "Correct the object");
            return None;
        };
        let cluster = names::sanitized(told.trim_start_matches("https://"));
        report.left(
            "spec.destination",
            format!("{told} is not among the given cluster Secrets; it was called {cluster}"),
            format!("Register a Cluster {cluster}, or give the Secrets with the label {SECRET_TYPE}: cluster as well"),
        );
        Some(Found { cluster, server, name })
    }

    fn register(
        &self,
        head: &Head,
        object: Value,
        options: &Options,
        produced: &mut Produced,
        report: &mut Report,
    ) -> Option<Found> {
        let mut data = Data::of(secret_data(&object), report);
        let server = data.take("server").map(|text| text.trim_end_matches('/').to_owned());
        let name = data.take("name");
        let config = data.take("config");
        let Some(server) = server else {
            report.refused("the Secret has no address of a server", "Correct the object");
            return None;
        };
        let cluster = self.free_name(name.as_deref().unwrap_or(&server), report);
        let marks = marks(object, report);
        data.finish(report);
        let namespace = options.into.clone().unwrap_or_else(|| head.namespace.clone());
        let mut spec = empty_spec();
        if is_own(&server) {
            spec.in_cluster = Some(InCluster {});
        } else {
            let mut secret = format!("{cluster}-kubeconfig");
            let text = config_of(config, report)
                .and_then(|config| kubeconfig::from_argocd(&cluster, &server, config, report));
            match text {
                Some(text) => {
                    let data = BTreeMap::from([("kubeconfig".to_owned(), text.into_bytes())]);
                    secret = produced.secret(&namespace, &secret, data);
                    report.note(
                        "config",
                        "became a kubeconfig in a Secret: the controller has to be allowed to read its namespace \
                         (--secret-namespaces)",
                    );
                }
                None => report.left(
                    "config",
                    "holds no credentials that a kubeconfig could hold",
                    format!("Write a kubeconfig into the Secret {secret}: the Cluster becomes ready when it appears"),
                ),
            }
            let namespace = Some(namespace).filter(|namespace| !namespace.is_empty());
            spec.kubeconfig = Some(KubeconfigSource {
                secret_ref: SecretKeyRef { name: secret, namespace, key: None },
                context: None,
            });
        }
        produced.cluster(&cluster, &marks, &spec);
        Some(Found { cluster, server: Some(server), name })
    }

    /// A name that no other Cluster has yet.
    fn free_name(&self, told: &str, report: &mut Report) -> String {
        let wanted = names::sanitized(told.trim_start_matches("https://"));
        let taken = |name: &str| self.known.iter().any(|known| known.cluster == name);
        let name = names::numbered(&wanted).find(|name| !taken(name)).unwrap_or(wanted);
        if name != told {
            report.note("name", format!("{told} can be no name of a Cluster; it was called {name}"));
        }
        name
    }
}

/// Labels select clusters: they stay, but those that are for Argo CD alone.
fn marks(object: Value, report: &mut Report) -> Marks {
    let mut fields = Fields::of("", object, report);
    let Some(mut metadata) = fields.part("metadata", report) else { return Marks::default() };
    shared::marks(&mut metadata, report, |key, _, _| {
        !key.starts_with("argocd.argoproj.io/") && key != "managed-by"
    })
}

fn empty_spec() -> ClusterSpec {
    ClusterSpec { kubeconfig: None, in_cluster: None, qps: None, burst: None, probe: None, suspend: false }
}

fn is_own(server: &str) -> bool {
    let server = server.trim_end_matches('/');
    server == OWN_SERVER
        || server == "https://kubernetes.default.svc.cluster.local"
        || server == "https://kubernetes.default"
}

fn config_of(config: Option<String>, report: &mut Report) -> Option<Value> {
    let config = config?;
    let value = serde_json::from_str(&config).ok();
    if value.is_none() {
        // The parser's words could hold a part of a credential.
        report.left("config", "is no JSON and was not read", "Correct the Secret");
    }
    value
}

/// Entries of a cluster Secret, taken one by one.
struct Data {
    entries: BTreeMap<String, String>,
}

impl Data {
    fn of(data: BTreeMap<String, Vec<u8>>, report: &mut Report) -> Self {
        let mut entries = BTreeMap::new();
        for (key, bytes) in data {
            match String::from_utf8(bytes) {
                Ok(text) => {
                    entries.insert(key, text);
                }
                Err(_) => report.left(key, "is no text and was not read", "Correct the Secret"),
            }
        }
        Self { entries }
    }

    fn take(&mut self, key: &str) -> Option<String> {
        self.entries.remove(key).filter(|text| !text.trim().is_empty())
    }

    fn finish(mut self, report: &mut Report) {
        self.entries.remove("shard");
        for (key, text) in self.entries {
            if text.trim().is_empty() {
                continue;
            }
            match key.as_str() {
                "namespaces" | "clusterResources" => report.left(
                    key,
                    "limits what Argo CD may touch on this cluster and was not carried over",
                    "Set allowedNamespaces in destinations of Applications, and give the account in the kubeconfig \
                     no more rights than it needs",
                ),
                "project" => report.left(
                    key,
                    "ties the cluster to a project and was not carried over",
                    "Bound what tenants may do by spec.sync.serviceAccountName of their Applications",
                ),
                _ => report.left(key, "is not known here and was not carried over", "Look up what it does"),
            }
        }
    }
}
