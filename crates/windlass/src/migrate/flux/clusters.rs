//! Other clusters: kubeconfigs that Flux reads from Secrets.

use std::collections::BTreeMap;

use windlass_api::{
    ClusterSpec,
    application::IN_CLUSTER,
    cluster::{KubeconfigSource, SecretKeyRef},
};

use crate::migrate::{
    fields::Fields,
    names,
    objects::{Head, Marks, Produced},
    report::Report,
};

/// Clusters that were made, by the Secret that they are reached with: namespace, name, key.
#[derive(Debug, Default)]
pub(super) struct Clusters {
    known: BTreeMap<(String, String, Option<String>), String>,
}

impl Clusters {
    /// Name of the cluster that `kubeConfig` means: the own one without it. None when it cannot be told, since
    /// delivering to another cluster would be worse than delivering to none.
    pub(super) fn find(
        &mut self,
        spec: &mut Fields,
        from: &Head,
        produced: &mut Produced,
        report: &mut Report,
    ) -> Option<String> {
        let Some(mut part) = spec.part("kubeConfig", report) else { return Some(IN_CLUSTER.to_owned()) };
        let Some(mut secret) = part.part("secretRef", report) else {
            report.refused(
                "its cluster is reached without a kubeconfig in a Secret",
                "Write a kubeconfig into a Secret, register a Cluster with it, and name that in destinations",
            );
            return None;
        };
        let name = secret.text("name", report).filter(|name| names::is_name(name));
        let key = secret.text("key", report);
        secret.finish(report);
        part.finish(report);
        let Some(name) = name else {
            report.refused("its kubeconfig names no Secret", "Correct the object");
            return None;
        };
        let place = (from.namespace.clone(), name.clone(), key.clone());
        if let Some(cluster) = self.known.get(&place) {
            return Some(cluster.clone());
        }
        let cluster = self.free_name(name.trim_end_matches("-kubeconfig"));
        let namespace = Some(from.namespace.clone()).filter(|namespace| !namespace.is_empty());
        let spec = ClusterSpec {
            kubeconfig: Some(KubeconfigSource {
                secret_ref: SecretKeyRef { name: name.clone(), namespace, key: key.clone() },
                context: None,
            }),
            in_cluster: None,
            qps: None,
            burst: None,
            probe: None,
            suspend: false,
        };
        produced.cluster(&cluster, &Marks::default(), &spec);
        report.note(
            "spec.kubeConfig",
            format!(
                "became the Cluster {cluster}: the controller has to be allowed to read Secrets in the namespace {} \
                 (--secret-namespaces)",
                from.namespace
            ),
        );
        if key.is_none() {
            report.note(
                "spec.kubeConfig.secretRef.key",
                "the keys kubeconfig and value are tried; set the key in the Cluster if it is value.yaml",
            );
        }
        self.known.insert(place, cluster.clone());
        Some(cluster)
    }

    /// A name that no other Cluster has yet; the own cluster's is never taken.
    fn free_name(&self, wanted: &str) -> String {
        let wanted = names::sanitized(wanted);
        let taken = |name: &str| name == IN_CLUSTER || self.known.values().any(|known| known == name);
        names::numbered(&wanted).find(|name| !taken(name)).unwrap_or(wanted)
    }
}
