//! Definitions: from their creation to objects that can be made, and back.

use anyhow::ensure;
use http::Method;
use serde_json::{Value, json};

use super::super::session::{Reply, Session, text};
use super::cases;

cases![definition_is_served_once_established, definition_dry_run_defines_nothing];

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

fn definition(group: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("things.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}}}}}],
        },
    })
}

fn is_established(reply: &Reply) -> bool {
    let conditions = reply.body.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
    conditions.into_iter().any(|found| found["type"] == "Established" && found["status"] == "True")
}

async fn definition_is_served_once_established(session: &Session) -> anyhow::Result<()> {
    let group = format!("{}.example.com", session.namespace);
    let things = format!("/apis/{group}/v1/namespaces/{}/things", session.namespace);
    let thing = json!({"apiVersion": format!("{group}/v1"), "kind": "Thing", "metadata": {"name": "a"}, "spec": {"size": 1}});
    session.apply("one", &format!("{things}/a"), &thing).await?.expect(404)?;
    let name = format!("{DEFINITIONS}/things.{group}");
    let made = session.unwritten_apply(&name, &definition(&group)).await?.expect(201)?;
    ensure!(made.pointer("/status/conditions").is_none_or(Value::is_null), "{made}");
    ensure!(made.pointer("/metadata/finalizers").is_none(), "{made}");
    session.unwritten_until(&name, "the establishment", is_established).await?;
    // A moment may pass until the path is there.
    session.unwritten_until(&things, "the service", |reply| reply.code == 200).await?;
    let accept = "application/json";
    let found =
        session.raw_with(&Method::GET, &format!("/apis/{group}"), &[("accept", accept)], None).await?;
    ensure!(text(&found.expect(200)?, "/preferredVersion/version") == "v1");
    session.apply("one", &format!("{things}/a"), &thing).await?.expect(201)?;
    session.unwritten(&Method::DELETE, &name, None).await?.expect(200)?;
    session.unwritten_until(&name, "the removal", |reply| reply.code == 404).await?;
    session.unwritten_until(&things, "the end of the service", |reply| reply.code == 404).await?;
    Ok(())
}

async fn definition_dry_run_defines_nothing(session: &Session) -> anyhow::Result<()> {
    let group = format!("{}.example.com", session.namespace);
    let name = format!("{DEFINITIONS}/things.{group}");
    session.unwritten_apply(&format!("{name}?dryRun=All"), &definition(&group)).await?.expect(201)?;
    session.get(&name).await?.refused(404, "NotFound")?;
    let mut broken = definition(&group);
    broken["spec"]["versions"][0]["storage"] = json!(false);
    session.unwritten_apply(&format!("{name}?dryRun=All"), &broken).await?.refused(422, "Invalid")?;
    Ok(())
}
