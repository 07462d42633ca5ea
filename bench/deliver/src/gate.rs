//! A change of 1,000 objects that policy judges before anything of it is applied.

use std::time::Duration;

use anyhow::Context as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    api::{ListParams, Patch, PatchParams},
};
use serde_json::json;
use tokio::time::Instant;
use windlass_testbed::measure::Report;

use crate::stage::{NAMESPACE, Stage, config_map};

const OBJECTS: usize = 1_000;

pub(crate) async fn measure(report: &mut Report) -> anyhow::Result<()> {
    let mut text = String::new();
    for n in 0..OBJECTS {
        text.push_str(&config_map(&format!("object-{n:04}"), "refused"));
        text.push_str("---\n");
    }
    let stage = Stage::open(&[("all/objects.yaml".to_owned(), text)]).await?;
    refuse(&stage).await?;
    let before = stage.cpu()?;
    let begin = Instant::now();
    let spec = json!({
        "source": { "repoURL": stage.repo.url(), "revision": "main", "path": "all" },
        "destinations": [{ "cluster": "in-cluster", "namespace": NAMESPACE }],
    });
    stage.create(vec![("judged".to_owned(), spec)]).await?;
    loop {
        let app = stage.applications().get("judged").await?;
        let known = app.status.and_then(|status| status.violation_count).unwrap_or_default();
        if known >= 1_000 {
            break;
        }
        let patient = begin.elapsed() < Duration::from_secs(300);
        patient.then_some(()).with_context(|| format!("{known} violations were found"))?;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let took = begin.elapsed().as_secs_f64();
    let after = stage.cpu()?;
    report.below("1,000 objects judged by dry run, all refused", took, "s", 2.0);
    report.figure("1,000 objects judged: CPU of the controller", after.ours - before.ours, "s");
    report.figure("1,000 objects judged: CPU of the API server", after.apiserver - before.apiserver, "s");
    let maps: Api<ConfigMap> = Api::namespaced(stage.client.clone(), NAMESPACE);
    let applied = maps.list(&ListParams::default()).await?;
    let applied =
        applied.iter().filter(|map| map.data.as_ref().is_some_and(|data| data.contains_key("value")));
    anyhow::ensure!(applied.count() == 0, "something that policy refuses was applied");
    Ok(())
}

/// A policy that refuses every one of them.
async fn refuse(stage: &Stage) -> anyhow::Result<()> {
    use k8s_openapi::api::admissionregistration::v1::{
        ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
    };
    let policy: ValidatingAdmissionPolicy = serde_json::from_value(json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": { "name": "bench" },
        "spec": {
            "matchConstraints": { "resourceRules": [{ "apiGroups": [""], "apiVersions": ["v1"],
                "operations": ["CREATE", "UPDATE"], "resources": ["configmaps"] }] },
            "validations": [{ "expression":
                "!has(object.data) || !('value' in object.data) || object.data.value != 'refused'" }],
        },
    }))?;
    let binding: ValidatingAdmissionPolicyBinding = serde_json::from_value(json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": { "name": "bench" },
        "spec": { "policyName": "bench", "validationActions": ["Deny"] },
    }))?;
    let params = PatchParams::apply("bench").force();
    let policies: Api<ValidatingAdmissionPolicy> = Api::all(stage.client.clone());
    policies.patch("bench", &params, &Patch::Apply(&policy)).await?;
    let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(stage.client.clone());
    bindings.patch("bench", &params, &Patch::Apply(&binding)).await?;
    // The API server takes a moment to heed a policy.
    let maps: Api<ConfigMap> = Api::namespaced(stage.client.clone(), NAMESPACE);
    let probe = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "probe" },
        "data": { "value": "refused" } });
    let params = PatchParams { dry_run: true, ..params };
    for _ in 0..300 {
        if maps.patch("probe", &params, &Patch::Apply(&probe)).await.is_err() {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    anyhow::bail!("the policy is not heeded")
}
