//! Server-side apply: lists.

use anyhow::ensure;
use serde_json::json;

use super::super::session::{Session, text};
use super::{cases, config_map, widget};

cases![
    apply_keyed_lists_by_item,
    apply_keyed_lists_keep_order,
    apply_sets_by_item,
    apply_atomic_lists_and_maps_as_a_whole,
    apply_finalizers_of_two_managers,
    apply_owner_references_by_uid,
    apply_int_or_string_and_free_fields,
];

async fn apply_keyed_lists_by_item(session: &Session) -> anyhow::Result<()> {
    session
        .apply("one", "widgets/a", &widget("a", &json!({"ports": [{"port": 1, "name": "a"}]})))
        .await?
        .expect(201)?;
    session
        .apply(
            "two",
            "widgets/a",
            &widget("a", &json!({"ports": [{"port": 2, "name": "b"}, {"port": 1, "protocol": "UDP"}]})),
        )
        .await?
        .expect(200)?;
    session
        .apply("two", "widgets/a", &widget("a", &json!({"ports": [{"port": 1, "name": "c"}]})))
        .await?
        .refused(409, "Conflict")?;
    let left = session.apply("one", "widgets/a", &widget("a", &json!({}))).await?.expect(200)?;
    let ports = left.pointer("/spec/ports").and_then(|ports| ports.as_array()).map(Vec::len);
    ensure!(ports == Some(2), "{left}");
    session
        .apply(
            "two",
            "widgets/a",
            &widget("a", &json!({"ports": [{"port": 1, "protocol": "UDP", "name": "d"}]})),
        )
        .await?
        .expect(200)?;
    session
        .apply(
            "three",
            "widgets/a?force=true",
            &widget("a", &json!({"ports": [{"port": 1, "protocol": "UDP", "name": "e"}]})),
        )
        .await?
        .expect(200)?;
    session.apply("two", "widgets/a", &widget("a", &json!({}))).await?.expect(200)?;
    Ok(())
}

async fn apply_keyed_lists_keep_order(session: &Session) -> anyhow::Result<()> {
    let ports = |numbers: &[i32]| json!({"ports": numbers.iter().map(|port| json!({"port": port})).collect::<Vec<_>>()});
    session.apply("one", "widgets/a", &widget("a", &ports(&[1, 2, 3, 4]))).await?.expect(201)?;
    session.apply("two", "widgets/a", &widget("a", &ports(&[9, 3, 1, 8]))).await?.expect(200)?;
    session.apply("one", "widgets/a", &widget("a", &ports(&[4, 2, 7]))).await?.expect(200)?;
    session.apply("two", "widgets/a", &widget("a", &ports(&[7, 6, 4]))).await?.expect(200)?;
    session.apply("three", "widgets/a", &widget("a", &ports(&[5, 2, 6, 4, 1]))).await?.expect(200)?;
    Ok(())
}

async fn apply_sets_by_item(session: &Session) -> anyhow::Result<()> {
    session.apply("one", "widgets/a", &widget("a", &json!({"tags": ["x", "y"]}))).await?.expect(201)?;
    session.apply("two", "widgets/a", &widget("a", &json!({"tags": ["y", "z"]}))).await?.expect(200)?;
    let left = session.apply("one", "widgets/a", &widget("a", &json!({"tags": ["w"]}))).await?.expect(200)?;
    let mut tags: Vec<String> = serde_json::from_value(left["spec"]["tags"].clone())?;
    tags.sort();
    ensure!(tags == ["w", "y", "z"], "{left}");
    session.apply("two", "widgets/a", &widget("a", &json!({"tags": []}))).await?.expect(200)?;
    session.apply("one", "widgets/a", &widget("a", &json!({}))).await?.expect(200)?;
    Ok(())
}

async fn apply_atomic_lists_and_maps_as_a_whole(session: &Session) -> anyhow::Result<()> {
    session
        .apply("one", "widgets/a", &widget("a", &json!({"args": ["1"], "whole": {"a": "1"}})))
        .await?
        .expect(201)?;
    session
        .apply("two", "widgets/a", &widget("a", &json!({"args": ["1", "2"]})))
        .await?
        .refused(409, "Conflict")?;
    session
        .apply("two", "widgets/a", &widget("a", &json!({"whole": {"b": "1"}})))
        .await?
        .refused(409, "Conflict")?;
    let taken = session
        .apply("two", "widgets/a?force=true", &widget("a", &json!({"args": ["2"], "whole": {"b": "1"}})))
        .await?
        .expect(200)?;
    ensure!(taken["spec"]["whole"] == json!({"b": "1"}), "{taken}");
    session.apply("one", "widgets/a", &widget("a", &json!({}))).await?.expect(200)?;
    Ok(())
}

async fn apply_finalizers_of_two_managers(session: &Session) -> anyhow::Result<()> {
    let with = |finalizers: &[&str]| {
        let mut object = config_map("a", &json!({}));
        object["metadata"]["finalizers"] = json!(finalizers);
        object
    };
    session.apply("one", "configmaps/a", &with(&["example.com/one"])).await?.expect(201)?;
    let both = session.apply("two", "configmaps/a", &with(&["example.com/two"])).await?.expect(200)?;
    ensure!(both["metadata"]["finalizers"] == json!(["example.com/one", "example.com/two"]), "{both}");
    let left = session.apply("one", "configmaps/a", &config_map("a", &json!({}))).await?.expect(200)?;
    ensure!(left["metadata"]["finalizers"] == json!(["example.com/two"]), "{left}");
    session.apply("two", "configmaps/a", &config_map("a", &json!({}))).await?.expect(200)?;
    Ok(())
}

async fn apply_owner_references_by_uid(session: &Session) -> anyhow::Result<()> {
    let first = session.post("configmaps", &config_map("first", &json!({}))).await?.expect(201)?;
    let second = session.post("configmaps", &config_map("second", &json!({}))).await?.expect(201)?;
    let with = |owner: &serde_json::Value| {
        let mut object = config_map("a", &json!({}));
        object["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "ConfigMap",
            "name": text(owner, "/metadata/name"), "uid": text(owner, "/metadata/uid")}]);
        object
    };
    for owner in [&first, &second] {
        let (uid, name) = (text(owner, "/metadata/uid"), text(owner, "/metadata/name"));
        session.replace(&uid, &format!("<uid of {name}>"));
    }
    session.apply("one", "configmaps/a", &with(&first)).await?.expect(201)?;
    let both = session.apply("two", "configmaps/a", &with(&second)).await?.expect(200)?;
    let owners = both.pointer("/metadata/ownerReferences").and_then(|owners| owners.as_array()).map(Vec::len);
    ensure!(owners == Some(2), "{both}");
    session.apply("one", "configmaps/a", &config_map("a", &json!({}))).await?.expect(200)?;
    Ok(())
}

async fn apply_int_or_string_and_free_fields(session: &Session) -> anyhow::Result<()> {
    session
        .apply(
            "one",
            "widgets/a",
            &widget("a", &json!({"target": 80, "free": {"x": [1, {"y": 2}], "z": {"deep": {"er": true}}}})),
        )
        .await?
        .expect(201)?;
    session
        .apply("two", "widgets/a", &widget("a", &json!({"target": "http"})))
        .await?
        .refused(409, "Conflict")?;
    session
        .apply(
            "one",
            "widgets/a",
            &widget("a", &json!({"target": "http", "free": {"x": "now text", "z": {"deep": 1}}})),
        )
        .await?
        .expect(200)?;
    session
        .apply("two", "widgets/a", &widget("a", &json!({"free": {"z": {"deep": {"er": 2}}}})))
        .await?
        .refused(409, "Conflict")?;
    Ok(())
}
