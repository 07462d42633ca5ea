//! Subresources and generation.

use anyhow::ensure;
use serde_json::json;

use super::super::session::{Session, text};
use super::{cases, config_map, deployment, widget};

cases![
    status_and_spec_are_written_apart,
    generation_counts_changes_of_content,
    status_has_owners_of_its_own,
    status_conditions_of_two_controllers,
    status_of_a_deployment,
    status_needs_a_subresource,
    status_replace_needs_the_current_version,
    scale_of_a_deployment,
    scale_of_a_custom_kind,
];

async fn status_and_spec_are_written_apart(session: &Session) -> anyhow::Result<()> {
    let mut object = widget("a", &json!({"size": 1}));
    object["status"] = json!({"phase": "Ready"});
    let made = session.post("widgets", &object).await?.expect(201)?;
    ensure!(made.get("status").is_none(), "{made}");
    let mut next = made.clone();
    next["status"] = json!({"phase": "Ready"});
    next["spec"]["size"] = json!(9);
    next["metadata"]["labels"] = json!({"x": "y"});
    let next = session.put("widgets/a/status", &next).await?.expect(200)?;
    ensure!(next["spec"]["size"] == 1 && next["status"]["phase"] == "Ready", "{next}");
    ensure!(next.pointer("/metadata/labels").is_none(), "{next}");
    let mut last = next.clone();
    last["status"] = json!({"phase": "Broken"});
    last["spec"]["size"] = json!(2);
    let last = session.put("widgets/a", &last).await?.expect(200)?;
    ensure!(last["spec"]["size"] == 2 && last["status"]["phase"] == "Ready", "{last}");
    session.get("widgets/a/status").await?.expect(200)?;
    Ok(())
}

async fn generation_counts_changes_of_content(session: &Session) -> anyhow::Result<()> {
    session.post("widgets", &widget("a", &json!({"size": 1}))).await?.expect(201)?;
    let generation = |object: &serde_json::Value| {
        object.pointer("/metadata/generation").and_then(serde_json::Value::as_i64)
    };
    let after = session
        .patch("merge", "widgets/a", &json!({"metadata": {"labels": {"x": "y"}}}))
        .await?
        .expect(200)?;
    ensure!(generation(&after) == Some(1));
    let after =
        session.patch("merge", "widgets/a/status", &json!({"status": {"phase": "x"}})).await?.expect(200)?;
    ensure!(generation(&after) == Some(1));
    let after = session.patch("merge", "widgets/a", &json!({"spec": {"size": 2}})).await?.expect(200)?;
    ensure!(generation(&after) == Some(2));
    let after = session.apply("one", "widgets/a", &widget("a", &json!({"size": 2}))).await?.expect(200)?;
    ensure!(generation(&after) == Some(2));
    session
        .patch("merge", "widgets/a", &json!({"metadata": {"finalizers": ["example.com/x"]}}))
        .await?
        .expect(200)?;
    let after = session.delete("widgets/a", &json!({})).await?.expect(200)?;
    ensure!(generation(&after) == Some(3), "{after}");
    session.patch("merge", "widgets/a", &json!({"metadata": {"finalizers": null}})).await?.expect(200)?;
    session.replace(&session.namespace, "<namespace>");
    let name = format!("g-{}", session.namespace);
    let gadget = json!({"apiVersion": "contract.windlass.dev/v1", "kind": "Gadget", "metadata": {"name": name}, "status": {"a": 1}});
    session.post("gadgets", &gadget).await?.expect(201)?;
    let after = session
        .patch("merge", &format!("gadgets/{name}"), &json!({"status": {"a": 2}}))
        .await?
        .expect(200)?;
    ensure!(generation(&after) == Some(2), "{after}");
    session.delete(&format!("gadgets/{name}"), &json!({})).await?.expect(200)?;
    let made = session.post("configmaps", &config_map("a", &json!({}))).await?.expect(201)?;
    ensure!(generation(&made).is_none());
    Ok(())
}

async fn status_has_owners_of_its_own(session: &Session) -> anyhow::Result<()> {
    session.apply("user", "widgets/a", &widget("a", &json!({"size": 1}))).await?.expect(201)?;
    let mut status = widget("a", &json!({"size": 5}));
    status["status"] = json!({"phase": "Ready", "observedGeneration": 1});
    let written = session.apply("controller", "widgets/a/status", &status).await?.expect(200)?;
    ensure!(written["spec"]["size"] == 1 && written["status"]["phase"] == "Ready", "{written}");
    let again = session.apply("controller", "widgets/a/status", &status).await?.expect(200)?;
    ensure!(again == written, "{again} != {written}");
    session
        .patch("merge", "widgets/a/status?fieldManager=other", &json!({"status": {"phase": "x"}}))
        .await?
        .expect(200)?;
    status["status"] = json!({"phase": "Ready"});
    session.apply("controller", "widgets/a/status", &status).await?.refused(409, "Conflict")?;
    session.apply("controller", "widgets/a/status?force=true", &status).await?.expect(200)?;
    session.apply("user", "widgets/a", &widget("a", &json!({"size": 1}))).await?.expect(200)?;
    Ok(())
}

async fn status_conditions_of_two_controllers(session: &Session) -> anyhow::Result<()> {
    session.post("widgets", &widget("a", &json!({}))).await?.expect(201)?;
    let with = |kind: &str, value: &str| {
        let mut object = widget("a", &json!({}));
        object.as_object_mut().map(|fields| fields.remove("spec"));
        object["status"] = json!({"conditions": [{"type": kind, "status": value}]});
        object
    };
    session.apply("one", "widgets/a/status", &with("Ready", "True")).await?.expect(200)?;
    let both = session.apply("two", "widgets/a/status", &with("Synced", "False")).await?.expect(200)?;
    ensure!(both.pointer("/status/conditions/1/type") == Some(&json!("Synced")), "{both}");
    session.apply("two", "widgets/a/status", &with("Ready", "False")).await?.refused(409, "Conflict")?;
    session.apply("one", "widgets/a/status", &with("Ready", "False")).await?.expect(200)?;
    Ok(())
}

async fn status_of_a_deployment(session: &Session) -> anyhow::Result<()> {
    let mut object = deployment("a");
    object["status"] = json!({"replicas": 5});
    let path = format!("/apis/apps/v1/namespaces/{}/deployments", session.namespace);
    let made = session.unwritten(&http::Method::POST, &path, Some(&object)).await?.expect(201)?;
    ensure!(made.pointer("/status/replicas").is_none(), "{made}");
    let change =
        json!({"status": {"replicas": 3}, "spec": {"replicas": 7}, "metadata": {"labels": {"x": "y"}}});
    let media = [("content-type", "application/merge-patch+json")];
    let reply = session
        .raw_with(&http::Method::PATCH, &format!("{path}/a/status?fieldManager=x"), &media, Some(&change))
        .await?
        .expect(200)?;
    ensure!(reply["spec"]["replicas"] == 0 && reply["status"]["replicas"] == 3, "{reply}");
    ensure!(reply.pointer("/metadata/labels").is_none(), "{reply}");
    Ok(())
}

async fn status_needs_a_subresource(session: &Session) -> anyhow::Result<()> {
    session.post("configmaps", &config_map("a", &json!({}))).await?.expect(201)?;
    let reply = session.patch("merge", "configmaps/a/status", &json!({})).await?;
    ensure!(reply.code == 404, "{reply:?}");
    let mut object = widget("b", &json!({}));
    object["status"] = json!({"phase": "x"});
    session.apply("one", "widgets/b/status", &object).await?.refused(404, "NotFound")?;
    session.patch("merge", "widgets/b/status", &json!({"status": {}})).await?.refused(404, "NotFound")?;
    Ok(())
}

async fn status_replace_needs_the_current_version(session: &Session) -> anyhow::Result<()> {
    let mut object = session.post("widgets", &widget("a", &json!({}))).await?.expect(201)?;
    object["status"] = json!({"phase": "1"});
    session.put("widgets/a/status", &object).await?.expect(200)?;
    object["status"] = json!({"phase": "2"});
    session.put("widgets/a/status", &object).await?.refused(409, "Conflict")?;
    object["status"] = json!({"phase": 3});
    object["metadata"].as_object_mut().map(|fields| fields.remove("resourceVersion"));
    session.put("widgets/a/status", &object).await?.refused(422, "Invalid")?;
    Ok(())
}

async fn scale_of_a_deployment(session: &Session) -> anyhow::Result<()> {
    let path = format!("/apis/apps/v1/namespaces/{}/deployments", session.namespace);
    session.unwritten(&http::Method::POST, &path, Some(&deployment("a"))).await?.expect(201)?;
    let scale = session.unwritten(&http::Method::GET, &format!("{path}/a/scale"), None).await?.expect(200)?;
    ensure!(
        text(&scale, "/kind") == "Scale" && scale["spec"] == json!({})
            || scale["spec"] == json!({"replicas": 0}),
        "{scale}"
    );
    ensure!(text(&scale, "/status/selector") == "app=a", "{scale}");
    let media = [("content-type", "application/merge-patch+json")];
    let change = json!({"spec": {"replicas": 2}});
    let scaled = session
        .raw_with(&http::Method::PATCH, &format!("{path}/a/scale?fieldManager=scaler"), &media, Some(&change))
        .await?
        .expect(200)?;
    ensure!(scaled["spec"]["replicas"] == 2, "{scaled}");
    let read = session.unwritten(&http::Method::GET, &format!("{path}/a"), None).await?.expect(200)?;
    ensure!(read["spec"]["replicas"] == 2);
    let entries = read["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let entry = entries.iter().find(|entry| text(entry, "/manager") == "scaler");
    ensure!(
        entry.is_some_and(|entry| entry["fieldsV1"] == json!({"f:spec": {"f:replicas": {}}})
            && text(entry, "/subresource") == "scale"),
        "{read}"
    );
    Ok(())
}

async fn scale_of_a_custom_kind(session: &Session) -> anyhow::Result<()> {
    session.post("widgets", &widget("a", &json!({"replicas": 1}))).await?.expect(201)?;
    session
        .patch("merge", "widgets/a/status", &json!({"status": {"replicas": 1, "selector": "x=y"}}))
        .await?
        .expect(200)?;
    let mut scale = session.get("widgets/a/scale").await?.expect(200)?;
    ensure!(
        scale["spec"]["replicas"] == 1 && scale["status"] == json!({"replicas": 1, "selector": "x=y"}),
        "{scale}"
    );
    scale["spec"]["replicas"] = json!(3);
    session.put("widgets/a/scale?fieldManager=scaler", &scale).await?.expect(200)?;
    session.put("widgets/a/scale?fieldManager=scaler", &scale).await?.refused(409, "Conflict")?;
    session
        .patch("merge", "widgets/a/scale", &json!({"spec": {"replicas": -1}}))
        .await?
        .refused(422, "Invalid")?;
    session.get("widgets/a").await?.expect(200)?;
    session.get("widgets/none/scale").await?.refused(404, "NotFound")?;
    Ok(())
}
