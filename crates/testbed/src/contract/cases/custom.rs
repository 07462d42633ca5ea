//! Custom kinds: defaults, pruning, validation, versions.

use anyhow::ensure;
use serde_json::{Value, json};

use super::super::session::{Session, causes, text};
use super::{cases, widget};

cases![
    custom_defaults_and_pruning,
    custom_validation_names_every_cause,
    custom_required_and_lists,
    custom_versions_show_one_object,
    custom_nulls,
    custom_preserves_what_it_is_told_to,
];

async fn custom_defaults_and_pruning(session: &Session) -> anyhow::Result<()> {
    let made = session
        .post("widgets", &widget("a", &json!({"inner": {"must": "x", "extra": 1}, "colour": "red"})))
        .await?
        .expect(201)?;
    ensure!(made["spec"] == json!({"inner": {"must": "x", "depth": 3}, "mode": "Safe"}), "{made}");
    let without_spec = json!({"apiVersion": "contract.windlass.dev/v1", "kind": "Widget", "metadata": {"name": "b", "colour": "red"}, "other": 1});
    let made = session.post("widgets", &without_spec).await?.expect(201)?;
    ensure!(made.get("spec").is_none() && made.get("other").is_none(), "{made}");
    session
        .patch("merge", "widgets/a", &json!({"spec": {"mode": null, "inner": {"depth": null}}}))
        .await?
        .expect(200)?;
    Ok(())
}

async fn custom_validation_names_every_cause(session: &Session) -> anyhow::Result<()> {
    let refused = |spec: Value| async move {
        let status = session.post("widgets", &widget("a", &spec)).await?.refused(422, "Invalid")?;
        anyhow::Ok(causes(&status))
    };
    let cause = |reason: &str, field: &str| (reason.to_owned(), field.to_owned());
    ensure!(refused(json!({"size": 11})).await? == [cause("FieldValueInvalid", "spec.size")]);
    ensure!(refused(json!({"size": "1"})).await? == [cause("FieldValueTypeInvalid", "spec.size")]);
    ensure!(refused(json!({"size": 1.5})).await?.contains(&cause("FieldValueTypeInvalid", "spec.size")));
    ensure!(refused(json!({"mode": "Odd"})).await? == [cause("FieldValueNotSupported", "spec.mode")]);
    for name in ["x", "muchtoolong", "UPPER"] {
        refused(json!({"name": name})).await?;
    }
    refused(json!({"args": ["1", "2", "3", "4", "5"]})).await?;
    refused(json!({"args": "1"})).await?;
    refused(json!({"target": true})).await?;
    refused(json!({"labels": {"a": 1}})).await?;
    let both = refused(json!({"size": -1, "mode": "Odd"})).await?;
    ensure!(
        both == [cause("FieldValueInvalid", "spec.size"), cause("FieldValueNotSupported", "spec.mode")],
        "{both:?}"
    );
    Ok(())
}

async fn custom_required_and_lists(session: &Session) -> anyhow::Result<()> {
    let status =
        session.post("widgets", &widget("a", &json!({"inner": {}}))).await?.refused(422, "Invalid")?;
    ensure!(causes(&status) == [("FieldValueRequired".into(), "spec.inner.must".into())], "{status}");
    let status = session
        .post("widgets", &widget("a", &json!({"ports": [{"port": 1}, {"name": "x"}]})))
        .await?
        .refused(422, "Invalid")?;
    ensure!(
        causes(&status).contains(&("FieldValueRequired".into(), "spec.ports[1].port".into())),
        "{status}"
    );
    let status = session
        .post("widgets", &widget("a", &json!({"tags": ["a", "b", "a"]})))
        .await?
        .refused(422, "Invalid")?;
    ensure!(causes(&status) == [("FieldValueDuplicate".into(), "spec.tags[2]".into())], "{status}");
    let ports = json!([{"port": 1}, {"port": 1, "protocol": "TCP"}]);
    let status =
        session.post("widgets", &widget("a", &json!({"ports": ports}))).await?.refused(422, "Invalid")?;
    ensure!(causes(&status) == [("FieldValueDuplicate".into(), "spec.ports[1]".into())], "{status}");
    Ok(())
}

async fn custom_versions_show_one_object(session: &Session) -> anyhow::Result<()> {
    let made = session.post("widgets", &widget("a", &json!({"size": 1}))).await?.expect(201)?;
    let old = session.get("widgets-v1beta1/a").await?.expect(200)?;
    ensure!(text(&old, "/apiVersion") == "contract.windlass.dev/v1beta1");
    ensure!(text(&old, "/metadata/uid") == text(&made, "/metadata/uid"));
    let mut next = old.clone();
    next["spec"]["size"] = json!(2);
    session.put("widgets-v1beta1/a", &next).await?.expect(200)?;
    session.get("widgets/a").await?.expect(200)?;
    Ok(())
}

async fn custom_nulls(session: &Session) -> anyhow::Result<()> {
    let made = session
        .post("widgets", &widget("a", &json!({"mode": null, "note": null, "size": null, "args": null})))
        .await?
        .expect(201)?;
    ensure!(made["spec"].get("note") == Some(&Value::Null), "{made}");
    ensure!(made["spec"]["mode"] == "Safe", "{made}");
    Ok(())
}

async fn custom_preserves_what_it_is_told_to(session: &Session) -> anyhow::Result<()> {
    let free = json!({"a": {"b": [1, {"c": null}]}, "d": 1.5, "e": "x"});
    let made =
        session.post("widgets", &widget("a", &json!({"free": free, "target": "80%"}))).await?.expect(201)?;
    ensure!(made["spec"]["free"] == free, "{made}");
    session
        .patch("merge", "widgets/a", &json!({"spec": {"free": {"a": null, "f": {"g": true}}}}))
        .await?
        .expect(200)?;
    Ok(())
}
