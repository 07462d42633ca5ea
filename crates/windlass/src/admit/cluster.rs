//! Rules for `Cluster` that its schema cannot hold, because they depend on how the controller was started.

use std::time::Duration;

use windlass_api::{Cluster, ClusterSpec};
use windlass_deliver::cluster::{
    SecretNamespaces,
    plan::{DEFAULT_INTERVAL, DEFAULT_TIMEOUT},
};
use windlass_server::admission::{DenyReason, Verdict};

/// A probe more often than this is worth a word.
const OFTEN: Duration = Duration::from_secs(5);

/// How the controller was started, as far as it matters here.
#[derive(Clone, Debug)]
pub(crate) struct ClusterRules {
    /// Where Secrets without a namespace are.
    pub(crate) namespace: String,
    /// Where Secrets may be read.
    pub(crate) secret_namespaces: SecretNamespaces,
}

impl ClusterRules {
    /// Judges a Cluster that is made (`old` is `None`) or changed.
    ///
    /// What was let in before stays changeable in every other way: else a Cluster that came in under other settings
    /// could not even be labelled or have its finalizer taken off.
    pub(crate) fn judge(&self, new: &Cluster, old: Option<&Cluster>) -> Verdict {
        if new.metadata.deletion_timestamp.is_some() || old.is_some_and(|old| old.spec == new.spec) {
            return Verdict::Allow;
        }
        let moved =
            old.is_none_or(|old| self.secret_namespace(&old.spec) != self.secret_namespace(&new.spec));
        if let Some(namespace) = self.secret_namespace(&new.spec).filter(|_| moved)
            && !self.secret_namespaces.allows(namespace)
        {
            return Verdict::Deny { message: self.refusal(namespace), reason: DenyReason::Forbidden };
        }
        let warnings = warnings(&new.spec);
        if warnings.is_empty() { Verdict::Allow } else { Verdict::Warn(warnings) }
    }

    fn secret_namespace<'a>(&'a self, spec: &'a ClusterSpec) -> Option<&'a str> {
        let reference = &spec.kubeconfig.as_ref()?.secret_ref;
        Some(reference.namespace.as_deref().unwrap_or(&self.namespace))
    }

    fn refusal(&self, namespace: &str) -> String {
        let allowed = match &self.secret_namespaces {
            SecretNamespaces::All => "all".to_owned(),
            SecretNamespaces::Only(names) => names.iter().map(String::as_str).collect::<Vec<_>>().join(", "),
        };
        format!(
            "spec.kubeconfig.secretRef.namespace: Windlass does not read Secrets in namespace {namespace} (allowed: \
             {allowed}); move the Secret, or ask the administrator to add the namespace (--secret-namespaces, chart \
             value secretNamespaces)"
        )
    }
}

fn warnings(spec: &ClusterSpec) -> Vec<String> {
    let given = |get: fn(&windlass_api::cluster::ProbeSpec) -> Option<windlass_api::duration::Duration>| {
        spec.probe.as_ref().and_then(get).map(|duration| duration.0)
    };
    let interval = given(|probe| probe.interval).unwrap_or(DEFAULT_INTERVAL);
    let timeout = given(|probe| probe.timeout).unwrap_or(DEFAULT_TIMEOUT);
    let mut warnings = Vec::new();
    if interval < OFTEN {
        warnings.push(format!(
            "spec.probe.interval is below {} s: every probe is a request to the cluster",
            OFTEN.as_secs()
        ));
    }
    if timeout > interval {
        warnings.push(
            "spec.probe.timeout is longer than spec.probe.interval: a slow cluster is probed late".to_owned(),
        );
    }
    if spec.suspend {
        warnings.push("spec.suspend is true: the cluster is neither probed nor delivered to".to_owned());
    }
    warnings
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::{Value, json};

    use super::*;

    fn rules(allowed: &[&str]) -> ClusterRules {
        let names: BTreeSet<String> = allowed.iter().map(|name| (*name).to_owned()).collect();
        ClusterRules { namespace: "home".into(), secret_namespaces: SecretNamespaces::Only(names) }
    }

    fn cluster(spec: &Value) -> Cluster {
        serde_json::from_value(json!({
            "apiVersion": "windlass.dev/v1alpha1", "kind": "Cluster", "metadata": { "name": "a" }, "spec": spec,
        }))
        .unwrap()
    }

    fn secret_in(namespace: Option<&str>) -> Cluster {
        cluster(&json!({ "kubeconfig": { "secretRef": { "name": "s", "namespace": namespace } } }))
    }

    #[test]
    fn a_secret_elsewhere_is_refused_with_the_way_out() {
        let Verdict::Deny { message, reason } =
            rules(&["home", "fleet"]).judge(&secret_in(Some("kube-system")), None)
        else {
            panic!("not refused")
        };
        assert_eq!(reason, DenyReason::Forbidden);
        for part in ["kube-system", "allowed: fleet, home", "--secret-namespaces"] {
            assert!(message.contains(part), "{part}: {message}");
        }
    }

    #[test]
    fn allowed_namespaces_pass() {
        for (allowed, namespace) in
            [(vec!["home"], None), (vec!["home"], Some("home")), (vec!["home", "b"], Some("b"))]
        {
            assert_eq!(rules(&allowed).judge(&secret_in(namespace), None), Verdict::Allow, "{namespace:?}");
        }
        let all = ClusterRules { namespace: "home".into(), secret_namespaces: SecretNamespaces::All };
        assert_eq!(all.judge(&secret_in(Some("any")), None), Verdict::Allow);
        assert_eq!(rules(&[]).judge(&cluster(&json!({ "inCluster": {} })), None), Verdict::Allow);
        assert!(
            matches!(rules(&["b"]).judge(&secret_in(None), None), Verdict::Deny { .. }),
            "the default counts"
        );
    }

    #[test]
    fn what_came_in_before_stays_changeable_and_deletable() {
        let old = secret_in(Some("elsewhere"));
        let mut labelled = old.clone();
        labelled.metadata.labels = Some([("a".to_owned(), "b".to_owned())].into());
        assert_eq!(rules(&["home"]).judge(&labelled, Some(&old)), Verdict::Allow);
        let mut slower = old.clone();
        slower.spec.qps = Some(3);
        assert_eq!(rules(&["home"]).judge(&slower, Some(&old)), Verdict::Allow);
        let mut moved = secret_in(Some("third"));
        assert!(matches!(rules(&["home"]).judge(&moved, Some(&old)), Verdict::Deny { .. }));
        moved.metadata.deletion_timestamp =
            Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::UNIX_EPOCH));
        assert_eq!(rules(&["home"]).judge(&moved, Some(&old)), Verdict::Allow);
    }

    #[test]
    fn odd_settings_are_warned_about_once_they_are_made() {
        let odd = cluster(
            &json!({ "inCluster": {}, "suspend": true, "probe": { "interval": "2s", "timeout": "9s" } }),
        );
        let Verdict::Warn(warnings) = rules(&[]).judge(&odd, None) else { panic!("no warning") };
        assert_eq!(warnings.len(), 3, "{warnings:?}");
        assert!(warnings.iter().all(|warning| warning.len() <= 120), "{warnings:?}");
        assert_eq!(rules(&[]).judge(&odd, Some(&odd)), Verdict::Allow, "said before");
    }
}
