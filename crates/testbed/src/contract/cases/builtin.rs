//! Built-in kinds that controllers write.

use anyhow::ensure;
use serde_json::{Value, json};

use super::super::session::{Session, text};
use super::cases;

cases![
    lease_is_swapped_by_version,
    service_account_and_external_service,
    webhook_configuration_keeps_its_ca_bundle,
    secret_applied_by_text,
    namespace_applied_and_labelled,
    deployment_replaced_and_applied_over,
];

async fn lease_is_swapped_by_version(session: &Session) -> anyhow::Result<()> {
    let lease = |holder: &str| {
        json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "a"},
            "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15, "leaseTransitions": 1,
                "renewTime": "2026-01-01T00:00:00.000000Z"}})
    };
    let first = session.post("leases", &lease("one")).await?.expect(201)?;
    let mut taken = first.clone();
    taken["spec"]["holderIdentity"] = json!("two");
    session.put("leases/a", &taken).await?.expect(200)?;
    taken["spec"]["holderIdentity"] = json!("three");
    session.put("leases/a", &taken).await?.refused(409, "Conflict")?;
    session.put("leases/a", &lease("four")).await?;
    session.put("leases/b", &lease("five")).await?;
    let mut fresh = lease("six");
    fresh["metadata"]["name"] = json!("c");
    session.put("leases/c", &fresh).await?;
    session.apply("one", "leases/a", &lease("seven")).await?;
    Ok(())
}

async fn service_account_and_external_service(session: &Session) -> anyhow::Result<()> {
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "a"},
        "imagePullSecrets": [{"name": "x"}], "automountServiceAccountToken": false});
    session.apply("one", "serviceaccounts/a", &account).await?.expect(201)?;
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"},
        "spec": {"type": "ExternalName", "externalName": "example.com", "ports": [{"port": 80, "name": "http"}]}});
    let made = session.apply("one", "services/a", &service).await?.expect(201)?;
    ensure!(made.pointer("/spec/ports/0/targetPort") == Some(&json!(80)), "{made}");
    let mut other = service.clone();
    other["spec"]["ports"] = json!([{"port": 80, "protocol": "UDP", "name": "udp"}]);
    session.apply("two", "services/a", &other).await?.expect(200)?;
    session
        .post("services", &{
            let mut posted = service.clone();
            posted["metadata"]["name"] = json!("b");
            posted
        })
        .await?
        .expect(201)?;
    Ok(())
}

async fn webhook_configuration_keeps_its_ca_bundle(session: &Session) -> anyhow::Result<()> {
    let name = format!("w-{}", session.namespace);
    let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    let one = format!("{path}/{name}");
    let webhook = |bundle: Option<&str>| {
        let mut client = json!({"service": {"name": "a", "namespace": "default", "path": "/x"}});
        if let Some(bundle) = bundle {
            client["caBundle"] = json!(bundle);
        }
        json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": name}, "webhooks": [{"name": "a.example.com", "clientConfig": client,
                "sideEffects": "None", "admissionReviewVersions": ["v1"],
                "rules": [{"apiGroups": ["no.such.group"], "apiVersions": ["*"], "operations": ["CREATE"],
                    "resources": ["*"]}]}]})
    };
    let made = session.apply("chart", &one, &webhook(None)).await?.expect(201)?;
    ensure!(made.pointer("/webhooks/0/failurePolicy") == Some(&json!("Fail")), "{made}");
    let change = json!([{"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": "eA=="}]);
    let patched = session.patch("json", &format!("{one}?fieldManager=server"), &change).await?.expect(200)?;
    ensure!(patched.pointer("/metadata/generation") == Some(&json!(2)), "{patched}");
    let again = session.apply("chart", &one, &webhook(None)).await?.expect(200)?;
    ensure!(text(&again, "/webhooks/0/clientConfig/caBundle") == "eA==", "{again}");
    session.delete(&one, &json!({})).await?.expect(200)?;
    session.post(path, &webhook(Some("eQ=="))).await?.expect(201)?;
    session.delete(&one, &json!({})).await?.expect(200)?;
    Ok(())
}

async fn secret_applied_by_text(session: &Session) -> anyhow::Result<()> {
    let secret = |value: &str| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "stringData": {"k": value}});
    session.apply("one", "secrets/a", &secret("1")).await?.expect(201)?;
    session.apply("one", "secrets/a", &secret("1")).await?.expect(200)?;
    session.apply("one", "secrets/a", &secret("2")).await?.expect(200)?;
    let data =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "b"}, "data": {"k": "eA=="}});
    session.apply("one", "secrets/b", &data).await?.expect(201)?;
    session.patch("merge", "secrets/b", &json!({"stringData": {"l": "y"}})).await?.expect(200)?;
    Ok(())
}

async fn namespace_applied_and_labelled(session: &Session) -> anyhow::Result<()> {
    let path = format!("/api/v1/namespaces/{}", session.namespace);
    let with = |labels: Value| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": session.namespace, "labels": labels}});
    session.apply("one", &path, &with(json!({"x": "1"}))).await?.expect(200)?;
    session.apply("one", &path, &with(json!({"y": "1"}))).await?.expect(200)?;
    session
        .patch("merge", &format!("{path}/status"), &json!({"status": {"phase": "Active"}}))
        .await?
        .expect(200)?;
    Ok(())
}

async fn deployment_replaced_and_applied_over(session: &Session) -> anyhow::Result<()> {
    session.post("deployments", &super::deployment("a")).await?.expect(201)?;
    let mut next = super::deployment("a");
    next["spec"]["template"]["spec"]["containers"][0]["env"] = json!([{"name": "X", "value": "1"}]);
    next["spec"]["strategy"] = json!({"type": "Recreate"});
    session.put("deployments/a?fieldManager=second", &next).await?.expect(200)?;
    next["spec"]["template"]["spec"]["containers"][0]["env"] = json!([{"name": "X", "value": "2"}]);
    session.apply("applier", "deployments/a", &next).await?.refused(409, "Conflict")?;
    session.apply("applier", "deployments/a?force=true", &next).await?.expect(200)?;
    session
        .patch("merge", "deployments/a", &json!({"spec": {"selector": {"matchLabels": {"app": "b"}}}}))
        .await?
        .refused(422, "Invalid")?;
    Ok(())
}
