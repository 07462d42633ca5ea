//! The admission policies that the cases meet: real ones on a real server, rules on the simulation.

use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use kube::Client;
use serde_json::{Value, json};

use crate::sim::api::Api;

/// Refuses the key of the same name with 422, the usual answer.
pub(crate) const DENIES: &str = "denies.contract.windlass.dev";
/// Refuses the key of the same name with 403.
pub(crate) const FORBIDS: &str = "forbids.contract.windlass.dev";

/// What both say.
fn message(policy: &str) -> String {
    format!("{policy} is not wanted here")
}

/// Lays the rules down on the simulation.
pub fn deny_on(api: &Api) {
    let judge = |policy: &'static str| {
        move |object: &Value| {
            let found = object["kind"] == "ConfigMap" && object["data"].get(policy).is_some();
            found.then(|| message(policy))
        }
    };
    api.deny(DENIES, judge(DENIES));
    api.forbid(FORBIDS, judge(FORBIDS));
}

/// Installs the policies on a real server and waits until they act.
pub async fn install_policies(client: &Client) -> anyhow::Result<()> {
    for (policy, reason) in [(DENIES, "Invalid"), (FORBIDS, "Forbidden")] {
        let metadata = json!({"name": policy});
        let expression = format!("!has(object.data) || !('{policy}' in object.data)");
        let definition = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": metadata,
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"],
                    "operations": ["CREATE", "UPDATE"], "resources": ["configmaps"]}]},
                "validations": [{"expression": expression, "message": message(policy), "reason": reason}],
            },
        });
        let binding = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": metadata, "spec": {"policyName": policy, "validationActions": ["Deny"]},
        });
        for (plural, object) in
            [("validatingadmissionpolicies", definition), ("validatingadmissionpolicybindings", binding)]
        {
            let path = format!(
                "/apis/admissionregistration.k8s.io/v1/{plural}/{policy}?fieldManager=contract&force=true"
            );
            let request = http::Request::patch(path)
                .header("content-type", "application/apply-patch+yaml")
                .body(object.to_string().into_bytes())?;
            client.request::<Value>(request).await.with_context(|| format!("install {plural} {policy}"))?;
        }
        acts(client, policy).await?;
    }
    Ok(())
}

/// Tries until the policy refuses.
async fn acts(client: &Client, policy: &str) -> anyhow::Result<()> {
    let object =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "try"}, "data": {policy: ""}});
    for _ in 0..600 {
        let request = http::Request::post("/api/v1/namespaces/default/configmaps?dryRun=All")
            .header("content-type", "application/json")
            .body(object.to_string().into_bytes())?;
        match client.request::<Value>(request).await {
            Err(kube::Error::Api(status)) => {
                ensure!(status.message.contains(policy), "{status:?}");
                return Ok(());
            }
            Err(error) => return Err(error.into()),
            Ok(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
    bail!("{policy} never acts")
}
