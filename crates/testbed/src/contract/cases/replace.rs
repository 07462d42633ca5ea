//! Replace.

use anyhow::ensure;
use serde_json::json;

use super::super::session::{Session, causes, text};
use super::{cases, config_map, widget};

cases![
    replace_with_a_stale_version_conflicts,
    replace_without_a_version,
    replace_that_changes_nothing,
    replace_with_another_uid_conflicts,
    replace_of_a_missing_object,
    replace_with_a_mismatched_name,
    replace_moves_ownership_of_changed_fields,
    replace_dry_run,
    replace_without_managed_fields_keeps_them,
    replace_of_immutable_fields,
];

async fn replace_with_a_stale_version_conflicts(session: &Session) -> anyhow::Result<()> {
    for (path, object) in
        [("configmaps", config_map("a", &json!({"k": "1"}))), ("widgets", widget("a", &json!({"size": 1})))]
    {
        let first = session.post(path, &object).await?.expect(201)?;
        let one = format!("{path}/a");
        let mut second = first.clone();
        second["metadata"]["labels"] = json!({"x": "1"});
        session.put(&one, &second).await?.expect(200)?;
        let status = session.put(&one, &second).await?.refused(409, "Conflict")?;
        ensure!(text(&status, "/details/name") == "a");
    }
    Ok(())
}

async fn replace_without_a_version(session: &Session) -> anyhow::Result<()> {
    session.post("configmaps", &config_map("a", &json!({"k": "1"}))).await?.expect(201)?;
    let changed = session.put("configmaps/a", &config_map("a", &json!({"k": "2"}))).await?.expect(200)?;
    ensure!(text(&changed, "/data/k") == "2");
    session.post("widgets", &widget("a", &json!({"size": 1}))).await?.expect(201)?;
    let status =
        session.put("widgets/a", &widget("a", &json!({"size": 2}))).await?.refused(422, "Invalid")?;
    ensure!(causes(&status) == [("FieldValueInvalid".into(), "metadata.resourceVersion".into())], "{status}");
    Ok(())
}

async fn replace_that_changes_nothing(session: &Session) -> anyhow::Result<()> {
    for (path, object) in
        [("configmaps", config_map("a", &json!({"k": "1"}))), ("widgets", widget("a", &json!({"size": 1})))]
    {
        let made = session.post(path, &object).await?.expect(201)?;
        let same = session.put(&format!("{path}/a"), &made).await?.expect(200)?;
        ensure!(same == made, "{same} != {made}");
        let other = session.put(&format!("{path}/a?fieldManager=other"), &made).await?.expect(200)?;
        ensure!(other == made, "{other} != {made}");
    }
    Ok(())
}

async fn replace_with_another_uid_conflicts(session: &Session) -> anyhow::Result<()> {
    let mut object = session.post("configmaps", &config_map("a", &json!({"k": "1"}))).await?.expect(201)?;
    object["metadata"]["uid"] = json!("00000000-0000-0000-0000-000000000000");
    session.put("configmaps/a", &object).await?.refused(409, "Conflict")?;
    Ok(())
}

async fn replace_of_a_missing_object(session: &Session) -> anyhow::Result<()> {
    session.put("configmaps/a", &config_map("a", &json!({}))).await?.refused(404, "NotFound")?;
    let mut object = widget("a", &json!({}));
    object["metadata"]["resourceVersion"] = json!("1");
    session.put("widgets/a", &object).await?.refused(404, "NotFound")?;
    Ok(())
}

async fn replace_with_a_mismatched_name(session: &Session) -> anyhow::Result<()> {
    session.post("configmaps", &config_map("a", &json!({}))).await?.expect(201)?;
    session.put("configmaps/a", &config_map("b", &json!({}))).await?.refused(400, "BadRequest")?;
    Ok(())
}

async fn replace_moves_ownership_of_changed_fields(session: &Session) -> anyhow::Result<()> {
    let made =
        session.post("configmaps", &config_map("a", &json!({"k": "1", "l": "1"}))).await?.expect(201)?;
    let mut next = made.clone();
    next["data"] = json!({"k": "1", "l": "2", "m": "3"});
    let next = session.put("configmaps/a?fieldManager=second", &next).await?.expect(200)?;
    let mut last = next.clone();
    last["data"] = json!({"m": "4"});
    last["metadata"]["annotations"] = json!({"n": "5"});
    session.put("configmaps/a?fieldManager=third", &last).await?.expect(200)?;
    let made = session
        .post("widgets", &widget("a", &json!({"size": 1, "ports": [{"port": 1}], "tags": ["x"]})))
        .await?
        .expect(201)?;
    let mut next = made.clone();
    next["spec"]["ports"] = json!([{"port": 1, "name": "one", "protocol": "TCP"}, {"port": 2}]);
    next["spec"]["tags"] = json!(["y"]);
    session.put("widgets/a?fieldManager=second", &next).await?.expect(200)?;
    Ok(())
}

async fn replace_dry_run(session: &Session) -> anyhow::Result<()> {
    let mut object = session.post("configmaps", &config_map("a", &json!({"k": "1"}))).await?.expect(201)?;
    object["data"]["k"] = json!("2");
    let shown = session.put("configmaps/a?dryRun=All", &object).await?.expect(200)?;
    ensure!(text(&shown, "/data/k") == "2");
    let read = session.get("configmaps/a").await?.expect(200)?;
    ensure!(text(&read, "/data/k") == "1");
    Ok(())
}

async fn replace_without_managed_fields_keeps_them(session: &Session) -> anyhow::Result<()> {
    let made = session.post("configmaps", &config_map("a", &json!({"k": "1"}))).await?.expect(201)?;
    let mut object = made.clone();
    object["metadata"]["managedFields"] = json!(null);
    let kept = session.put("configmaps/a", &object).await?.expect(200)?;
    ensure!(kept == made);
    object["metadata"]["managedFields"] = json!([]);
    let dropped = session.put("configmaps/a", &object).await?.expect(200)?;
    ensure!(dropped.pointer("/metadata/managedFields").is_none(), "{dropped}");
    session.patch("merge", "configmaps/a", &json!({"data": {"l": "2"}})).await?.expect(200)?;
    let applied =
        session.apply("applier", "configmaps/a", &config_map("a", &json!({"m": "3"}))).await?.expect(200)?;
    ensure!(text(&applied, "/metadata/managedFields/1/manager") == "before-first-apply", "{applied}");
    Ok(())
}

async fn replace_of_immutable_fields(session: &Session) -> anyhow::Result<()> {
    let mut object = config_map("a", &json!({"k": "1"}));
    object["immutable"] = json!(true);
    session.post("configmaps", &object).await?.expect(201)?;
    let status = session
        .patch("merge", "configmaps/a", &json!({"data": {"k": "2"}}))
        .await?
        .refused(422, "Invalid")?;
    ensure!(causes(&status) == [("FieldValueForbidden".into(), "data".into())], "{status}");
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "type": "x/y"});
    session.post("secrets", &secret).await?.expect(201)?;
    session.patch("merge", "secrets/a", &json!({"type": "z"})).await?.refused(422, "Invalid")?;
    Ok(())
}
