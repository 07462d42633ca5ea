//! Owner garbage collection and namespaces.

use anyhow::ensure;
use serde_json::{Value, json};

use super::super::session::{Session, text};
use super::{cases, config_map, widget};

cases![
    collect_in_the_background,
    collect_in_the_foreground,
    collect_orphans,
    collect_what_never_had_its_owner,
    collect_only_when_all_owners_are_gone,
    namespace_takes_its_contents_along,
    namespace_that_ends_takes_nothing_new,
    namespace_has_a_label_and_a_phase,
];

/// Creates an object that `owner` owns.
async fn dependent(session: &Session, name: &str, owner: &Value, block: bool) -> anyhow::Result<Value> {
    let mut object = config_map(name, &json!({}));
    object["metadata"]["ownerReferences"] = json!([{
        "apiVersion": text(owner, "/apiVersion"), "kind": text(owner, "/kind"),
        "name": text(owner, "/metadata/name"), "uid": text(owner, "/metadata/uid"), "blockOwnerDeletion": block}]);
    session.post("configmaps", &object).await?.expect(201)
}

async fn collect_in_the_background(session: &Session) -> anyhow::Result<()> {
    let owner = session.post("widgets", &widget("owner", &json!({}))).await?.expect(201)?;
    let child = dependent(session, "child", &owner, false).await?;
    dependent(session, "grandchild", &child, false).await?;
    session.delete("widgets/owner", &json!({"propagationPolicy": "Background"})).await?.expect(200)?;
    session.until_gone("configmaps/child").await?;
    session.until_gone("configmaps/grandchild").await?;
    Ok(())
}

async fn collect_in_the_foreground(session: &Session) -> anyhow::Result<()> {
    let owner = session.post("widgets", &widget("owner", &json!({}))).await?.expect(201)?;
    let mut child = config_map("child", &json!({}));
    child["metadata"]["finalizers"] = json!(["example.com/hold"]);
    child["metadata"]["ownerReferences"] = json!([{"apiVersion": "contract.windlass.dev/v1", "kind": "Widget",
        "name": "owner", "uid": text(&owner, "/metadata/uid"), "blockOwnerDeletion": true}]);
    session.post("configmaps", &child).await?.expect(201)?;
    let pending =
        session.delete("widgets/owner", &json!({"propagationPolicy": "Foreground"})).await?.expect(200)?;
    ensure!(pending["metadata"]["finalizers"] == json!(["foregroundDeletion"]), "{pending}");
    let deleting = |reply: &super::super::Reply| !text(&reply.body, "/metadata/deletionTimestamp").is_empty();
    session.until("configmaps/child", "the child's deletion", deleting).await?;
    session.get("widgets/owner").await?.expect(200)?;
    session
        .patch("merge", "configmaps/child", &json!({"metadata": {"finalizers": null}}))
        .await?
        .expect(200)?;
    session.until_gone("widgets/owner").await?;
    session.until_gone("configmaps/child").await?;
    Ok(())
}

async fn collect_orphans(session: &Session) -> anyhow::Result<()> {
    let owner = session.post("widgets", &widget("owner", &json!({}))).await?.expect(201)?;
    dependent(session, "child", &owner, true).await?;
    session.delete("widgets/owner", &json!({"propagationPolicy": "Orphan"})).await?.expect(200)?;
    session.until_gone("widgets/owner").await?;
    let child = session.get("configmaps/child").await?.expect(200)?;
    ensure!(child.pointer("/metadata/ownerReferences").is_none(), "{child}");
    Ok(())
}

async fn collect_what_never_had_its_owner(session: &Session) -> anyhow::Result<()> {
    let owner = session.post("widgets", &widget("owner", &json!({}))).await?.expect(201)?;
    session.delete("widgets/owner", &json!({})).await?.expect(200)?;
    session.post("widgets", &widget("owner", &json!({}))).await?.expect(201)?;
    dependent(session, "child", &owner, false).await?;
    session.until_gone("configmaps/child").await?;
    Ok(())
}

async fn collect_only_when_all_owners_are_gone(session: &Session) -> anyhow::Result<()> {
    let mut references = Vec::new();
    for name in ["one", "two"] {
        let owner = session.post("widgets", &widget(name, &json!({}))).await?.expect(201)?;
        references.push(json!({"apiVersion": "contract.windlass.dev/v1", "kind": "Widget", "name": name, "uid": text(&owner, "/metadata/uid")}));
    }
    let mut child = config_map("child", &json!({}));
    child["metadata"]["ownerReferences"] = json!(references);
    session.post("configmaps", &child).await?.expect(201)?;
    session.delete("widgets/one", &json!({})).await?.expect(200)?;
    let one_left = |reply: &super::super::Reply| {
        reply
            .body
            .pointer("/metadata/ownerReferences")
            .and_then(Value::as_array)
            .is_some_and(|owners| owners.len() == 1)
    };
    let reply = session.until("configmaps/child", "the reference's removal", one_left).await?;
    ensure!(reply.code == 200);
    session.delete("widgets/two", &json!({})).await?.expect(200)?;
    session.until_gone("configmaps/child").await?;
    Ok(())
}

/// A namespace of its own, because it is going to be deleted.
async fn extra_namespace(session: &Session) -> anyhow::Result<String> {
    let name = format!("x{}", session.namespace);
    session.replace(&name, "<extra>");
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    session.unwritten(&http::Method::POST, "/api/v1/namespaces", Some(&namespace)).await?.expect(201)?;
    Ok(name)
}

async fn namespace_takes_its_contents_along(session: &Session) -> anyhow::Result<()> {
    let name = extra_namespace(session).await?;
    let inside = format!("/apis/contract.windlass.dev/v1/namespaces/{name}/widgets");
    session.unwritten(&http::Method::POST, &inside, Some(&widget("a", &json!({})))).await?.expect(201)?;
    session
        .unwritten(&http::Method::DELETE, &format!("/api/v1/namespaces/{name}"), None)
        .await?
        .expect(200)?;
    session.until_gone(&format!("/api/v1/namespaces/{name}")).await?;
    session.until_gone(&format!("{inside}/a")).await?;
    Ok(())
}

async fn namespace_that_ends_takes_nothing_new(session: &Session) -> anyhow::Result<()> {
    let name = extra_namespace(session).await?;
    let inside = format!("/apis/contract.windlass.dev/v1/namespaces/{name}/widgets");
    let mut held = widget("held", &json!({}));
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    session.unwritten(&http::Method::POST, &inside, Some(&held)).await?.expect(201)?;
    let ending = session
        .unwritten(&http::Method::DELETE, &format!("/api/v1/namespaces/{name}"), None)
        .await?
        .expect(200)?;
    ensure!(text(&ending, "/status/phase") == "Terminating", "{ending}");
    let status = session.post(&inside, &widget("new", &json!({}))).await?.refused(403, "Forbidden")?;
    ensure!(text(&status, "/details/causes/0/reason") == "NamespaceTerminating", "{status}");
    session
        .apply("one", &format!("{inside}/new"), &widget("new", &json!({})))
        .await?
        .refused(403, "Forbidden")?;
    let deleting = |reply: &super::super::Reply| !text(&reply.body, "/metadata/deletionTimestamp").is_empty();
    session.until(&format!("{inside}/held"), "the deletion of what is inside", deleting).await?;
    session
        .patch("merge", &format!("{inside}/held"), &json!({"metadata": {"finalizers": null}}))
        .await?
        .expect(200)?;
    session.until_gone(&format!("/api/v1/namespaces/{name}")).await?;
    Ok(())
}

async fn namespace_has_a_label_and_a_phase(session: &Session) -> anyhow::Result<()> {
    let name = &session.namespace;
    let read = session.get(&format!("/api/v1/namespaces/{name}")).await?.expect(200)?;
    ensure!(text(&read, "/metadata/labels/kubernetes.io~1metadata.name") == *name, "{read}");
    ensure!(
        text(&read, "/status/phase") == "Active" && read["spec"]["finalizers"] == json!(["kubernetes"]),
        "{read}"
    );
    Ok(())
}
