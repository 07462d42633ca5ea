//! Merge, JSON and strategic patches.

use anyhow::ensure;
use serde_json::json;

use super::super::session::{Session, text};
use super::{cases, config_map, deployment, widget};

cases![
    merge_patch_sets_and_removes,
    merge_patch_with_a_stale_version_conflicts,
    json_patch_operates_in_order,
    strategic_patch_merges_lists_by_key,
    patch_of_a_missing_object,
    patch_of_an_unknown_kind_of_patch,
    patch_that_changes_nothing,
    patch_cannot_change_identity,
];

async fn merge_patch_sets_and_removes(session: &Session) -> anyhow::Result<()> {
    session.post("configmaps", &config_map("a", &json!({"k": "1", "l": "1"}))).await?.expect(201)?;
    let patched = session
        .patch(
            "merge",
            "configmaps/a?fieldManager=other",
            &json!({"data": {"k": null, "m": "2"}, "metadata": {"labels": {"x": "y"}}}),
        )
        .await?
        .expect(200)?;
    ensure!(patched.get("data") == Some(&json!({"l": "1", "m": "2"})), "{patched}");
    session.post("widgets", &widget("a", &json!({"args": ["1", "2"], "size": 1}))).await?.expect(201)?;
    session
        .patch("merge", "widgets/a", &json!({"spec": {"args": ["3"], "size": null, "colour": "red"}}))
        .await?
        .expect(200)?;
    Ok(())
}

async fn merge_patch_with_a_stale_version_conflicts(session: &Session) -> anyhow::Result<()> {
    let made = session.post("configmaps", &config_map("a", &json!({"k": "1"}))).await?.expect(201)?;
    session.patch("merge", "configmaps/a", &json!({"data": {"k": "2"}})).await?.expect(200)?;
    let version = text(&made, "/metadata/resourceVersion");
    let patch = json!({"metadata": {"resourceVersion": version}, "data": {"k": "3"}});
    session.patch("merge", "configmaps/a", &patch).await?.refused(409, "Conflict")?;
    let patch = json!({"metadata": {"uid": "00000000-0000-0000-0000-000000000000"}, "data": {"k": "3"}});
    session.patch("merge", "configmaps/a", &patch).await?.refused(422, "Invalid")?;
    session.post("widgets", &widget("a", &json!({}))).await?.expect(201)?;
    session.patch("merge", "widgets/a", &patch).await?.refused(422, "Invalid")?;
    Ok(())
}

async fn json_patch_operates_in_order(session: &Session) -> anyhow::Result<()> {
    session.post("configmaps", &config_map("a", &json!({"k": "1"}))).await?.expect(201)?;
    let patch = json!([
        {"op": "test", "path": "/data/k", "value": "1"},
        {"op": "add", "path": "/data/l", "value": "2"},
        {"op": "replace", "path": "/data/k", "value": "3"},
        {"op": "add", "path": "/metadata/finalizers", "value": ["example.com/a"]},
        {"op": "add", "path": "/metadata/finalizers/-", "value": "example.com/b"},
        {"op": "remove", "path": "/metadata/finalizers/0"},
    ]);
    let patched = session.patch("json", "configmaps/a", &patch).await?.expect(200)?;
    ensure!(patched.pointer("/metadata/finalizers") == Some(&json!(["example.com/b"])), "{patched}");
    let failing =
        json!([{"op": "test", "path": "/data/k", "value": "1"}, {"op": "remove", "path": "/data/k"}]);
    session.patch("json", "configmaps/a", &failing).await?.refused(422, "Invalid")?;
    session
        .patch("json", "configmaps/a", &json!([{"op": "remove", "path": "/data/none"}]))
        .await?
        .refused(422, "Invalid")?;
    session.patch("json", "configmaps/a", &json!({"op": "remove"})).await?.refused(400, "BadRequest")?;
    session
        .patch("json", "configmaps/a", &json!([{"op": "remove", "path": "/metadata/finalizers"}]))
        .await?
        .expect(200)?;
    Ok(())
}

async fn strategic_patch_merges_lists_by_key(session: &Session) -> anyhow::Result<()> {
    session.post("deployments", &deployment("a")).await?.expect(201)?;
    let patch = json!({"spec": {"template": {"spec": {"containers": [
        {"name": "side", "image": "example.com/side:1"},
        {"name": "main", "env": [{"name": "X", "value": "1"}]},
    ]}}}});
    let patched =
        session.patch("strategic", "deployments/a?fieldManager=other", &patch).await?.expect(200)?;
    let containers =
        patched.pointer("/spec/template/spec/containers").and_then(|list| list.as_array()).map(Vec::len);
    ensure!(containers == Some(2), "{patched}");
    let patch =
        json!({"spec": {"template": {"spec": {"containers": [{"name": "side", "$patch": "delete"}]}}}});
    session.patch("strategic", "deployments/a", &patch).await?.expect(200)?;
    session.post("widgets", &widget("a", &json!({}))).await?.expect(201)?;
    session.patch("strategic", "widgets/a", &json!({})).await?.refused(415, "UnsupportedMediaType")?;
    Ok(())
}

async fn patch_of_a_missing_object(session: &Session) -> anyhow::Result<()> {
    session.patch("merge", "configmaps/a", &json!({"data": {}})).await?.refused(404, "NotFound")?;
    session.patch("json", "widgets/a", &json!([])).await?.refused(404, "NotFound")?;
    Ok(())
}

async fn patch_of_an_unknown_kind_of_patch(session: &Session) -> anyhow::Result<()> {
    session.post("configmaps", &config_map("a", &json!({}))).await?.expect(201)?;
    let headers = [("content-type", "application/json")];
    let reply = session.request(http::Method::PATCH, "configmaps/a", &headers, Some(&json!({}))).await?;
    ensure!(reply.code == 415, "{reply:?}");
    Ok(())
}

async fn patch_that_changes_nothing(session: &Session) -> anyhow::Result<()> {
    let made = session.post("configmaps", &config_map("a", &json!({"k": "1"}))).await?.expect(201)?;
    let same = session
        .patch("merge", "configmaps/a?fieldManager=other", &json!({"data": {"k": "1"}}))
        .await?
        .expect(200)?;
    ensure!(same == made, "{same} != {made}");
    let same = session.patch("merge", "configmaps/a", &json!({})).await?.expect(200)?;
    ensure!(same == made);
    Ok(())
}

async fn patch_cannot_change_identity(session: &Session) -> anyhow::Result<()> {
    session.post("configmaps", &config_map("a", &json!({"k": "1"}))).await?.expect(201)?;
    session
        .patch("merge", "configmaps/a", &json!({"metadata": {"name": "b"}}))
        .await?
        .refused(400, "BadRequest")?;
    session
        .patch("merge", "configmaps/a", &json!({"metadata": {"namespace": "b"}}))
        .await?
        .refused(400, "BadRequest")?;
    let patch = json!({"metadata": {"creationTimestamp": "2020-01-01T00:00:00Z", "generation": 9}});
    session.patch("merge", "configmaps/a", &patch).await?.expect(200)?;
    Ok(())
}
