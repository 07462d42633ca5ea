//! Delete.

use anyhow::ensure;
use http::Method;
use serde_json::{Value, json};

use super::super::session::{Session, causes, text};
use super::{cases, config_map, widget};

cases![
    delete_answers_with_a_status,
    delete_with_preconditions,
    delete_waits_for_finalizers,
    delete_refuses_new_finalizers,
    delete_again_while_pending,
    delete_dry_run,
    delete_of_a_missing_object,
    delete_collection_by_label,
    delete_and_create_again_has_a_new_uid,
];

fn with_finalizers(mut object: Value, finalizers: &[&str]) -> Value {
    object["metadata"]["finalizers"] = json!(finalizers);
    object
}

async fn delete_answers_with_a_status(session: &Session) -> anyhow::Result<()> {
    session.post("configmaps", &config_map("a", &json!({}))).await?.expect(201)?;
    let status = session.delete("configmaps/a", &json!({})).await?.expect(200)?;
    ensure!(
        text(&status, "/status") == "Success" && text(&status, "/details/kind") == "configmaps",
        "{status}"
    );
    session.get("configmaps/a").await?.refused(404, "NotFound")?;
    session.post("widgets", &widget("a", &json!({}))).await?.expect(201)?;
    session.delete("widgets/a", &json!({})).await?.expect(200)?;
    Ok(())
}

async fn delete_with_preconditions(session: &Session) -> anyhow::Result<()> {
    let made = session.post("configmaps", &config_map("a", &json!({}))).await?.expect(201)?;
    let (uid, version) = (text(&made, "/metadata/uid"), text(&made, "/metadata/resourceVersion"));
    let other = "00000000-0000-0000-0000-000000000000";
    session
        .delete("configmaps/a", &json!({"preconditions": {"uid": other}}))
        .await?
        .refused(409, "Conflict")?;
    session
        .delete("configmaps/a", &json!({"preconditions": {"resourceVersion": "1"}}))
        .await?
        .refused(409, "Conflict")?;
    session.patch("merge", "configmaps/a", &json!({"data": {"k": "v"}})).await?.expect(200)?;
    let stale = json!({"preconditions": {"uid": uid, "resourceVersion": version}});
    session.delete("configmaps/a", &stale).await?.refused(409, "Conflict")?;
    session.delete("configmaps/a", &json!({"preconditions": {"uid": uid}})).await?.expect(200)?;
    session.post("widgets", &widget("a", &json!({}))).await?.expect(201)?;
    session.delete("widgets/a", &json!({"preconditions": {"uid": other}})).await?.refused(409, "Conflict")?;
    Ok(())
}

async fn delete_waits_for_finalizers(session: &Session) -> anyhow::Result<()> {
    for (path, object) in
        [("configmaps", config_map("a", &json!({}))), ("widgets", widget("a", &json!({"size": 1})))]
    {
        let object = with_finalizers(object, &["example.com/one", "example.com/two"]);
        session.post(path, &object).await?.expect(201)?;
        let one = format!("{path}/a");
        let pending = session.delete(&one, &json!({})).await?.expect(200)?;
        ensure!(!text(&pending, "/metadata/deletionTimestamp").is_empty(), "{pending}");
        session
            .patch("merge", &one, &json!({"metadata": {"finalizers": ["example.com/two"]}}))
            .await?
            .expect(200)?;
        session
            .patch("merge", &one, &json!({"metadata": {"deletionTimestamp": null, "labels": {"x": "y"}}}))
            .await?
            .expect(200)?;
        let last =
            session.patch("merge", &one, &json!({"metadata": {"finalizers": null}})).await?.expect(200)?;
        ensure!(last.pointer("/metadata/finalizers").is_none(), "{last}");
        session.get(&one).await?.refused(404, "NotFound")?;
    }
    Ok(())
}

async fn delete_refuses_new_finalizers(session: &Session) -> anyhow::Result<()> {
    session
        .post("configmaps", &with_finalizers(config_map("a", &json!({})), &["example.com/one"]))
        .await?
        .expect(201)?;
    session.delete("configmaps/a", &json!({})).await?.expect(200)?;
    let patch = json!({"metadata": {"finalizers": ["example.com/one", "example.com/two"]}});
    let status = session.patch("merge", "configmaps/a", &patch).await?.refused(422, "Invalid")?;
    ensure!(causes(&status)[0] == ("FieldValueForbidden".into(), "metadata.finalizers".into()), "{status}");
    session
        .apply("one", "configmaps/a", &with_finalizers(config_map("a", &json!({})), &["example.com/two"]))
        .await?
        .refused(422, "Invalid")?;
    session.patch("merge", "configmaps/a", &json!({"metadata": {"finalizers": null}})).await?.expect(200)?;
    Ok(())
}

async fn delete_again_while_pending(session: &Session) -> anyhow::Result<()> {
    session
        .post("widgets", &with_finalizers(widget("a", &json!({})), &["example.com/one"]))
        .await?
        .expect(201)?;
    let first = session.delete("widgets/a", &json!({})).await?.expect(200)?;
    let second = session.delete("widgets/a", &json!({})).await?.expect(200)?;
    ensure!(first == second, "{first} != {second}");
    session.post("widgets", &widget("a", &json!({}))).await?.refused(409, "AlreadyExists")?;
    session.patch("merge", "widgets/a", &json!({"metadata": {"finalizers": null}})).await?.expect(200)?;
    Ok(())
}

async fn delete_dry_run(session: &Session) -> anyhow::Result<()> {
    session.post("configmaps", &config_map("a", &json!({}))).await?.expect(201)?;
    session.delete("configmaps/a", &json!({"dryRun": ["All"]})).await?.expect(200)?;
    session.request(Method::DELETE, "configmaps/a?dryRun=All", &[], None).await?.expect(200)?;
    session.get("configmaps/a").await?.expect(200)?;
    // Options in a body count alone.
    session.delete("configmaps/a?dryRun=All", &json!({})).await?.expect(200)?;
    session.get("configmaps/a").await?.refused(404, "NotFound")?;
    Ok(())
}

async fn delete_of_a_missing_object(session: &Session) -> anyhow::Result<()> {
    session.delete("configmaps/a", &json!({})).await?.refused(404, "NotFound")?;
    session.delete("widgets/a", &json!({"preconditions": {"uid": "x"}})).await?.refused(404, "NotFound")?;
    session.delete("widgets/a", &json!({"propagationPolicy": "Sideways"})).await?.refused(422, "Invalid")?;
    Ok(())
}

async fn delete_collection_by_label(session: &Session) -> anyhow::Result<()> {
    for (name, colour) in [("a", "red"), ("b", "blue"), ("c", "red")] {
        let mut object = widget(name, &json!({}));
        object["metadata"]["labels"] = json!({"colour": colour});
        session.post("widgets", &object).await?.expect(201)?;
    }
    session.request(Method::DELETE, "widgets?labelSelector=colour%3Dred", &[], None).await?.expect(200)?;
    let left = session.get("widgets").await?.expect(200)?;
    ensure!(
        left.pointer("/items/0/metadata/name") == Some(&json!("b")) && left.pointer("/items/1").is_none(),
        "{left}"
    );
    Ok(())
}

async fn delete_and_create_again_has_a_new_uid(session: &Session) -> anyhow::Result<()> {
    let first = session.post("configmaps", &config_map("a", &json!({}))).await?.expect(201)?;
    session.delete("configmaps/a", &json!({})).await?.expect(200)?;
    let second = session.post("configmaps", &config_map("a", &json!({}))).await?.expect(201)?;
    ensure!(text(&first, "/metadata/uid") != text(&second, "/metadata/uid"));
    session.put("configmaps/a", &first).await?.refused(409, "Conflict")?;
    let uid = text(&first, "/metadata/uid");
    session
        .delete("configmaps/a", &json!({"preconditions": {"uid": uid}}))
        .await?
        .refused(409, "Conflict")?;
    Ok(())
}
