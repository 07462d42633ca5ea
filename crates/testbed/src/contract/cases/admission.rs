//! Admission policies, and what a dry run tells beforehand.

use anyhow::ensure;
use serde_json::json;

use super::super::policies::{DENIES, FORBIDS};
use super::super::session::{Session, text};
use super::{cases, config_map, deployment, widget};

cases![
    admission_denies_a_create,
    admission_denies_a_change,
    admission_lets_deletes_pass,
    admission_after_validation_before_the_name,
    dry_run_apply_answers_as_the_apply_would,
    dry_run_apply_with_force_takes_nothing,
    dry_run_apply_is_refused_as_the_apply_would_be,
    dry_run_apply_of_a_deployment,
    dry_run_delete_checks_preconditions,
    apply_with_strict_fields,
    watch_by_label_follows_an_apply,
];

async fn admission_denies_a_create(session: &Session) -> anyhow::Result<()> {
    let denied = config_map("a", &json!({DENIES: "x"}));
    let said = format!(
        "configmaps \"a\" is forbidden: ValidatingAdmissionPolicy '{DENIES}' with binding '{DENIES}' denied request: \
         {DENIES} is not wanted here"
    );
    for path in ["configmaps", "configmaps?dryRun=All"] {
        let status = session.post(path, &denied).await?.refused(422, "Invalid")?;
        ensure!(text(&status, "/message") == said, "{status}");
        ensure!(said.ends_with(&text(&status, "/details/causes/0/message")), "{status}");
    }
    for path in ["configmaps/a", "configmaps/a?dryRun=All", "configmaps/a?force=true&dryRun=All"] {
        let status = session.apply("one", path, &denied).await?.refused(422, "Invalid")?;
        ensure!(text(&status, "/message") == said, "{status}");
    }
    let forbidden = config_map("a", &json!({FORBIDS: "x"}));
    session.post("configmaps", &forbidden).await?.refused(403, "Forbidden")?;
    session.apply("one", "configmaps/a?dryRun=All", &forbidden).await?.refused(403, "Forbidden")?;
    session.get("configmaps/a").await?.refused(404, "NotFound")?;
    Ok(())
}

async fn admission_denies_a_change(session: &Session) -> anyhow::Result<()> {
    let made =
        session.apply("one", "configmaps/a", &config_map("a", &json!({"k": "1"}))).await?.expect(201)?;
    let change = json!({"data": {DENIES: "x"}});
    session.patch("merge", "configmaps/a", &change).await?.refused(422, "Invalid")?;
    session.patch("merge", "configmaps/a?dryRun=All", &change).await?.refused(422, "Invalid")?;
    session
        .apply("one", "configmaps/a?dryRun=All", &config_map("a", &json!({FORBIDS: "x"})))
        .await?
        .refused(403, "Forbidden")?;
    let mut replaced = made.clone();
    replaced["data"] = json!({DENIES: "x"});
    session.put("configmaps/a", &replaced).await?.refused(422, "Invalid")?;
    ensure!(session.get("configmaps/a").await?.expect(200)? == made);
    Ok(())
}

async fn admission_lets_deletes_pass(session: &Session) -> anyhow::Result<()> {
    session.post("configmaps", &config_map("a", &json!({"k": "1"}))).await?.expect(201)?;
    session.delete("configmaps/a", &json!({})).await?.expect(200)?;
    Ok(())
}

async fn admission_after_validation_before_the_name(session: &Session) -> anyhow::Result<()> {
    session.post("configmaps", &config_map("a", &json!({"k": "1"}))).await?.expect(201)?;
    // A name that is taken is found last.
    session.post("configmaps", &config_map("a", &json!({FORBIDS: "x"}))).await?.refused(403, "Forbidden")?;
    // An object that is not valid is never shown to a policy.
    let status = session
        .post("configmaps", &config_map("b", &json!({FORBIDS: "x", "not a key": ""})))
        .await?
        .refused(422, "Invalid")?;
    ensure!(!text(&status, "/message").contains(FORBIDS), "{status}");
    Ok(())
}

async fn dry_run_apply_answers_as_the_apply_would(session: &Session) -> anyhow::Result<()> {
    for (path, one, two) in [
        ("widgets/a", widget("a", &json!({"size": 1})), widget("a", &json!({"size": 2, "tags": ["x"]}))),
        ("configmaps/a", config_map("a", &json!({"k": "1"})), config_map("a", &json!({"l": "2"}))),
    ] {
        let dry = format!("{path}?dryRun=All");
        let shown = session.apply("one", &dry, &one).await?.expect(201)?;
        ensure!(text(&shown, "/metadata/resourceVersion").is_empty(), "{shown}");
        ensure!(!text(&shown, "/metadata/uid").is_empty());
        session.get(path).await?.refused(404, "NotFound")?;
        let made = session.apply("one", path, &one).await?.expect(201)?;
        let shown = session.apply("one", &dry, &two).await?.expect(200)?;
        // The version of the live object, and the generation that the change would have.
        ensure!(text(&shown, "/metadata/resourceVersion") == text(&made, "/metadata/resourceVersion"));
        let generation = |object: &serde_json::Value| object.pointer("/metadata/generation").cloned();
        ensure!(path != "widgets/a" || generation(&shown) == Some(json!(2)), "{shown}");
        ensure!(session.apply("one", &dry, &one).await?.expect(200)? == made);
        ensure!(session.get(path).await?.expect(200)? == made);
        let changed = session.apply("one", path, &two).await?.expect(200)?;
        let without = |object: &serde_json::Value| {
            let mut object = object.clone();
            for field in ["resourceVersion", "managedFields"] {
                object["metadata"].as_object_mut().map(|metadata| metadata.shift_remove(field));
            }
            object
        };
        ensure!(without(&changed) == without(&shown), "{changed} != {shown}");
    }
    Ok(())
}

async fn dry_run_apply_with_force_takes_nothing(session: &Session) -> anyhow::Result<()> {
    let made = session.apply("one", "widgets/a", &widget("a", &json!({"size": 1}))).await?.expect(201)?;
    let other = widget("a", &json!({"size": 2}));
    let status = session.apply("two", "widgets/a?dryRun=All", &other).await?.refused(409, "Conflict")?;
    ensure!(text(&status, "/details/causes/0/reason") == "FieldManagerConflict", "{status}");
    ensure!(text(&status, "/details/causes/0/field") == ".spec.size", "{status}");
    let shown = session.apply("two", "widgets/a?dryRun=All&force=true", &other).await?.expect(200)?;
    ensure!(shown["spec"]["size"] == 2);
    ensure!(session.get("widgets/a").await?.expect(200)? == made);
    Ok(())
}

async fn dry_run_apply_is_refused_as_the_apply_would_be(session: &Session) -> anyhow::Result<()> {
    for dry in ["", "&dryRun=All"] {
        let path = format!("widgets/a?force=true{dry}");
        session.apply("one", &path, &widget("a", &json!({"size": 11}))).await?.refused(422, "Invalid")?;
        let path = format!("/api/v1/namespaces/no-such-namespace/configmaps/a?force=true{dry}");
        session.apply("one", &path, &config_map("a", &json!({}))).await?.refused(404, "NotFound")?;
        let path = format!("/apis/no.such.group/v1/namespaces/default/things/a?force=true{dry}");
        session
            .apply("one", &path, &json!({"apiVersion": "no.such.group/v1", "kind": "Thing"}))
            .await?
            .expect(404)?;
        let path = format!("configmaps/Upper?force=true{dry}");
        session.apply("one", &path, &config_map("Upper", &json!({}))).await?.refused(422, "Invalid")?;
    }
    Ok(())
}

async fn dry_run_apply_of_a_deployment(session: &Session) -> anyhow::Result<()> {
    let shown = session.apply("one", "deployments/a?dryRun=All", &deployment("a")).await?.expect(201)?;
    ensure!(text(&shown, "/spec/strategy/type") == "RollingUpdate", "{shown}");
    session.apply("one", "deployments/a", &deployment("a")).await?.expect(201)?;
    // The selector is immutable, which a dry run tells as well.
    let mut other = deployment("a");
    other["spec"]["selector"]["matchLabels"] = json!({"app": "b"});
    other["spec"]["template"]["metadata"]["labels"] = json!({"app": "b"});
    session.apply("one", "deployments/a?dryRun=All&force=true", &other).await?.refused(422, "Invalid")?;
    Ok(())
}

async fn dry_run_delete_checks_preconditions(session: &Session) -> anyhow::Result<()> {
    let made = session.post("configmaps", &config_map("a", &json!({"k": "1"}))).await?.expect(201)?;
    let wrong = json!({"dryRun": ["All"], "preconditions": {"uid": "00000000-0000-0000-0000-000000000000"}});
    session.delete("configmaps/a", &wrong).await?.refused(409, "Conflict")?;
    let right = json!({"dryRun": ["All"], "preconditions": {"uid": text(&made, "/metadata/uid")}});
    session.delete("configmaps/a", &right).await?.expect(200)?;
    ensure!(session.get("configmaps/a").await?.expect(200)? == made);
    Ok(())
}

async fn apply_with_strict_fields(session: &Session) -> anyhow::Result<()> {
    let mut object = config_map("a", &json!({"k": "1"}));
    let strict = "configmaps/a?fieldValidation=Strict&force=true";
    session.apply("one", strict, &object).await?.expect(201)?;
    object["colour"] = json!("red");
    for dry in ["", "&dryRun=All"] {
        let reply = session.apply("one", &format!("{strict}{dry}"), &object).await?;
        ensure!(reply.code >= 400, "{reply:?}");
        let path = format!("widgets/a?fieldValidation=Strict&force=true{dry}");
        let reply = session.apply("one", &path, &widget("a", &json!({"colour": "red"}))).await?;
        ensure!(reply.code >= 400, "{reply:?}");
        let path = format!("deployments/a?fieldValidation=Strict&force=true{dry}");
        let mut unknown = deployment("a");
        unknown["spec"]["colour"] = json!("red");
        let reply = session.apply("one", &path, &unknown).await?;
        ensure!(reply.code >= 400, "{reply:?}");
    }
    Ok(())
}

async fn watch_by_label_follows_an_apply(session: &Session) -> anyhow::Result<()> {
    // By label from the start: a real cluster puts a map of its own into every namespace.
    let none = session.get("configmaps?labelSelector=app%3Dshop").await?.expect(200)?;
    let version = text(&none, "/metadata/resourceVersion");
    let mut watch =
        session.watch(&format!("configmaps?labelSelector=app%3Dshop&resourceVersion={version}")).await?;
    let plain = config_map("a", &json!({"k": "1"}));
    let mut ours = plain.clone();
    ours["metadata"]["labels"] = json!({"app": "shop"});
    session.apply("one", "configmaps/a", &plain).await?.expect(201)?;
    session.apply("one", "configmaps/a", &ours).await?.expect(200)?;
    watch.expect("ADDED").await?;
    session.apply("one", "configmaps/a", &plain).await?.expect(200)?;
    let gone = watch.expect("DELETED").await?;
    ensure!(text(&gone, "/metadata/labels/app") == "shop", "{gone}");
    session.apply("one", "configmaps/a", &ours).await?.expect(200)?;
    watch.expect("ADDED").await?;
    Ok(())
}
