//! Server-side apply: ownership of fields.

use anyhow::ensure;
use serde_json::json;

use super::super::session::{Session, causes, text};
use super::{cases, config_map, deployment, widget};

cases![
    apply_creates_and_owns_what_it_names,
    apply_again_changes_nothing,
    apply_conflicts_name_manager_and_field,
    apply_with_force_takes_fields,
    apply_removes_what_it_no_longer_names,
    apply_shares_fields_with_equal_values,
    apply_over_an_update_conflicts,
    apply_without_force_takes_no_mark_of_another,
    apply_then_update_moves_ownership,
    apply_of_an_unknown_field,
    apply_of_a_wrong_type,
    apply_needs_a_manager_and_a_header,
    apply_dry_run,
    apply_with_a_uid_or_version,
    apply_releases_everything,
    apply_in_two_versions,
    apply_removes_a_field_that_others_updated_around,
    apply_of_empty_maps,
    apply_deployment_with_defaults,
];

async fn apply_creates_and_owns_what_it_names(session: &Session) -> anyhow::Result<()> {
    let mut object = config_map("a", &json!({"k": "1"}));
    object["metadata"]["labels"] = json!({"x": "y"});
    let made = session.apply("one", "configmaps/a", &object).await?.expect(201)?;
    let entry = &made["metadata"]["managedFields"][0];
    ensure!(text(entry, "/operation") == "Apply" && text(entry, "/manager") == "one");
    ensure!(
        entry["fieldsV1"] == json!({"f:data": {"f:k": {}}, "f:metadata": {"f:labels": {"f:x": {}}}}),
        "{entry}"
    );
    session
        .apply("one", "widgets/a", &widget("a", &json!({"size": 1, "inner": {"must": "x"}})))
        .await?
        .expect(201)?;
    Ok(())
}

async fn apply_again_changes_nothing(session: &Session) -> anyhow::Result<()> {
    for (path, object) in [
        ("configmaps/a", config_map("a", &json!({"k": "1"}))),
        ("widgets/a", widget("a", &json!({"size": 1, "ports": [{"port": 80}], "tags": ["b", "a"]}))),
        ("deployments/a", deployment("a")),
    ] {
        let made = session.apply("one", path, &object).await?.expect(201)?;
        let again = session.apply("one", path, &object).await?.expect(200)?;
        if path != "deployments/a" {
            ensure!(again == made, "{again} != {made}");
        }
    }
    Ok(())
}

async fn apply_conflicts_name_manager_and_field(session: &Session) -> anyhow::Result<()> {
    session
        .apply("one", "configmaps/a", &config_map("a", &json!({"k": "1", "l": "1"})))
        .await?
        .expect(201)?;
    let status = session
        .apply("two", "configmaps/a", &config_map("a", &json!({"k": "2", "l": "2", "m": "2"})))
        .await?
        .refused(409, "Conflict")?;
    let conflict = |field: &str| ("FieldManagerConflict".to_owned(), field.to_owned());
    ensure!(causes(&status) == [conflict(".data.k"), conflict(".data.l")], "{status}");
    let message =
        status.pointer("/details/causes/0/message").and_then(|message| message.as_str()).unwrap_or_default();
    ensure!(message == "conflict with \"one\"", "{message}");
    session.get("configmaps/a").await?.expect(200)?;
    Ok(())
}

async fn apply_with_force_takes_fields(session: &Session) -> anyhow::Result<()> {
    session
        .apply("one", "configmaps/a", &config_map("a", &json!({"k": "1", "l": "1"})))
        .await?
        .expect(201)?;
    session
        .apply("two", "configmaps/a?force=true", &config_map("a", &json!({"k": "2"})))
        .await?
        .expect(200)?;
    let status = session.apply("one", "configmaps/a", &config_map("a", &json!({"k": "1", "l": "1"}))).await?;
    status.refused(409, "Conflict")?;
    session.apply("one", "configmaps/a", &config_map("a", &json!({"l": "1"}))).await?.expect(200)?;
    Ok(())
}

async fn apply_removes_what_it_no_longer_names(session: &Session) -> anyhow::Result<()> {
    let mut object = config_map("a", &json!({"k": "1", "l": "1"}));
    object["metadata"]["annotations"] = json!({"x": "y"});
    session.apply("one", "configmaps/a", &object).await?.expect(201)?;
    let left =
        session.apply("one", "configmaps/a", &config_map("a", &json!({"k": "1"}))).await?.expect(200)?;
    ensure!(left["data"] == json!({"k": "1"}) && left.pointer("/metadata/annotations").is_none(), "{left}");
    let mut bare = config_map("a", &json!({}));
    bare.as_object_mut().map(|fields| fields.remove("data"));
    let left = session.apply("one", "configmaps/a", &bare).await?.expect(200)?;
    ensure!(left.get("data").is_none(), "{left}");
    session
        .apply(
            "one",
            "widgets/a",
            &widget("a", &json!({"mode": "Fast", "size": 2, "inner": {"must": "x", "depth": 9}})),
        )
        .await?
        .expect(201)?;
    let left = session
        .apply("one", "widgets/a", &widget("a", &json!({"inner": {"must": "x"}})))
        .await?
        .expect(200)?;
    ensure!(left["spec"] == json!({"mode": "Safe", "inner": {"must": "x", "depth": 3}}), "{left}");
    Ok(())
}

async fn apply_shares_fields_with_equal_values(session: &Session) -> anyhow::Result<()> {
    session.apply("one", "configmaps/a", &config_map("a", &json!({"k": "1"}))).await?.expect(201)?;
    session
        .apply("two", "configmaps/a", &config_map("a", &json!({"k": "1", "l": "2"})))
        .await?
        .expect(200)?;
    session.apply("three", "configmaps/a", &config_map("a", &json!({"k": "1"}))).await?.expect(200)?;
    let left = session.apply("one", "configmaps/a", &config_map("a", &json!({}))).await?.expect(200)?;
    ensure!(left["data"]["k"] == "1", "{left}");
    let status = session.apply("two", "configmaps/a", &config_map("a", &json!({"k": "2", "l": "2"}))).await?;
    ensure!(causes(&status.refused(409, "Conflict")?).len() == 1);
    Ok(())
}

async fn apply_over_an_update_conflicts(session: &Session) -> anyhow::Result<()> {
    session.post("configmaps", &config_map("a", &json!({"k": "1"}))).await?.expect(201)?;
    let status = session
        .apply("one", "configmaps/a", &config_map("a", &json!({"k": "2"})))
        .await?
        .refused(409, "Conflict")?;
    let message =
        status.pointer("/details/causes/0/message").and_then(|message| message.as_str()).unwrap_or_default();
    ensure!(message.starts_with("conflict with \"tester\" using v1"), "{message}");
    session.apply("one", "configmaps/a", &config_map("a", &json!({"k": "1"}))).await?.expect(200)?;
    session
        .apply("one", "configmaps/a?force=true", &config_map("a", &json!({"k": "2"})))
        .await?
        .expect(200)?;
    Ok(())
}

/// What whoever makes an object relies on: without force, what somebody else made in the meantime is not touched. The same
/// manager is not told apart from itself.
async fn apply_without_force_takes_no_mark_of_another(session: &Session) -> anyhow::Result<()> {
    let marked = |name: &str, owner: &str| {
        let mut object = config_map(name, &json!({"k": owner}));
        object["metadata"]["annotations"] = json!({"windlass.dev/owner": owner});
        object
    };
    session.post("configmaps", &marked("a", "team/one")).await?.expect(201)?;
    let status =
        session.apply("two", "configmaps/a", &marked("a", "team/two")).await?.refused(409, "Conflict")?;
    let mark = ("FieldManagerConflict".to_owned(), ".metadata.annotations.windlass.dev/owner".to_owned());
    ensure!(causes(&status).contains(&mark), "{status}");
    let left = session.get("configmaps/a").await?.expect(200)?;
    ensure!(text(&left, "/data/k") == "team/one", "{left}");
    session.apply("two", "configmaps/b", &marked("b", "team/one")).await?.expect(201)?;
    session.apply("two", "configmaps/b", &marked("b", "team/two")).await?.expect(200)?;
    Ok(())
}

async fn apply_then_update_moves_ownership(session: &Session) -> anyhow::Result<()> {
    session
        .apply("one", "configmaps/a", &config_map("a", &json!({"k": "1", "l": "1"})))
        .await?
        .expect(201)?;
    session
        .patch("merge", "configmaps/a?fieldManager=human", &json!({"data": {"k": "2"}}))
        .await?
        .expect(200)?;
    let left =
        session.apply("one", "configmaps/a", &config_map("a", &json!({"l": "1"}))).await?.expect(200)?;
    ensure!(left["data"]["k"] == "2", "{left}");
    session.patch("merge", "configmaps/a?fieldManager=human", &json!({"data": null})).await?.expect(200)?;
    session.apply("one", "configmaps/a", &config_map("a", &json!({"l": "1"}))).await?.expect(200)?;
    Ok(())
}

async fn apply_of_an_unknown_field(session: &Session) -> anyhow::Result<()> {
    let mut object = config_map("a", &json!({"k": "1"}));
    object["colour"] = json!("red");
    let reply = session.apply("one", "configmaps/a", &object).await?;
    ensure!(
        reply.code == 500 && text(&reply.body, "/message").contains("field not declared in schema"),
        "{reply:?}"
    );
    let reply = session.apply("one", "widgets/a", &widget("a", &json!({"colour": "red"}))).await?;
    ensure!(
        reply.code == 500 && text(&reply.body, "/message").contains(".spec.colour: field not declared"),
        "{reply:?}"
    );
    Ok(())
}

async fn apply_of_a_wrong_type(session: &Session) -> anyhow::Result<()> {
    let reply = session.apply("one", "configmaps/a", &config_map("a", &json!({"k": 1}))).await?;
    ensure!(reply.code == 500, "{reply:?}");
    let reply = session.apply("one", "widgets/a", &widget("a", &json!({"size": "big"}))).await?;
    ensure!(reply.code == 500, "{reply:?}");
    let reply = session.apply("one", "widgets/a", &widget("a", &json!({"tags": ["a", "a"]}))).await?;
    ensure!(reply.code == 500, "{reply:?}");
    session.apply("one", "widgets/a", &widget("a", &json!({"size": 99}))).await?.refused(422, "Invalid")?;
    Ok(())
}

async fn apply_needs_a_manager_and_a_header(session: &Session) -> anyhow::Result<()> {
    let object = config_map("a", &json!({}));
    let headers = [("content-type", "application/apply-patch+yaml"), ("user-agent", "x")];
    let reply = session.request(http::Method::PATCH, "configmaps/a", &headers, Some(&object)).await?;
    ensure!(reply.code == 400 || reply.code == 422, "{reply:?}");
    let reply = session.apply("one", "configmaps/a", &json!({"metadata": {"name": "a"}})).await?;
    ensure!(reply.code == 400 || reply.code == 500, "{reply:?}");
    let mut object = config_map("a", &json!({}));
    object["metadata"]["managedFields"] = json!([]);
    session.apply("one", "configmaps/a", &object).await?.refused(400, "BadRequest")?;
    session.apply("one", "configmaps/a", &config_map("b", &json!({}))).await?.refused(400, "BadRequest")?;
    Ok(())
}

async fn apply_dry_run(session: &Session) -> anyhow::Result<()> {
    session
        .apply("one", "configmaps/a?dryRun=All", &config_map("a", &json!({"k": "1"})))
        .await?
        .expect(201)?;
    session.get("configmaps/a").await?.refused(404, "NotFound")?;
    session.apply("one", "configmaps/a", &config_map("a", &json!({"k": "1"}))).await?.expect(201)?;
    let shown = session
        .apply("one", "configmaps/a?dryRun=All", &config_map("a", &json!({"l": "2"})))
        .await?
        .expect(200)?;
    ensure!(shown["data"] == json!({"l": "2"}));
    session
        .apply("two", "configmaps/a?dryRun=All", &config_map("a", &json!({"k": "2"})))
        .await?
        .refused(409, "Conflict")?;
    session.get("configmaps/a").await?.expect(200)?;
    Ok(())
}

async fn apply_with_a_uid_or_version(session: &Session) -> anyhow::Result<()> {
    let mut object = config_map("a", &json!({"k": "1"}));
    object["metadata"]["uid"] = json!("00000000-0000-0000-0000-000000000000");
    session.apply("one", "configmaps/a", &object).await?.refused(409, "Conflict")?;
    let made =
        session.apply("one", "configmaps/a", &config_map("a", &json!({"k": "1"}))).await?.expect(201)?;
    session.apply("one", "configmaps/a", &object).await?.refused(422, "Invalid")?;
    let mut object = config_map("a", &json!({"k": "2"}));
    object["metadata"]["uid"] = made["metadata"]["uid"].clone();
    object["metadata"]["resourceVersion"] = made["metadata"]["resourceVersion"].clone();
    session.apply("one", "configmaps/a", &object).await?.expect(200)?;
    object["data"]["k"] = json!("3");
    session.apply("one", "configmaps/a", &object).await?.refused(409, "Conflict")?;
    Ok(())
}

async fn apply_releases_everything(session: &Session) -> anyhow::Result<()> {
    session.apply("one", "configmaps/a", &config_map("a", &json!({"k": "1"}))).await?.expect(201)?;
    session.apply("two", "configmaps/a", &config_map("a", &json!({"l": "2"}))).await?.expect(200)?;
    let bare = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    let left = session.apply("one", "configmaps/a", &bare).await?.expect(200)?;
    ensure!(left["data"] == json!({"l": "2"}));
    let managers =
        left.pointer("/metadata/managedFields").and_then(|entries| entries.as_array()).map(Vec::len);
    ensure!(managers == Some(1), "{left}");
    Ok(())
}

async fn apply_in_two_versions(session: &Session) -> anyhow::Result<()> {
    session.apply("one", "widgets/a", &widget("a", &json!({"size": 1, "note": "x"}))).await?.expect(201)?;
    let mut object = widget("a", &json!({"size": 2}));
    object["apiVersion"] = json!("contract.windlass.dev/v1beta1");
    let changed = session.apply("one", "widgets-v1beta1/a", &object).await?.expect(200)?;
    ensure!(text(&changed, "/apiVersion") == "contract.windlass.dev/v1beta1");
    session.get("widgets/a").await?.expect(200)?;
    Ok(())
}

async fn apply_removes_a_field_that_others_updated_around(session: &Session) -> anyhow::Result<()> {
    session
        .apply(
            "one",
            "widgets/a",
            &widget("a", &json!({"inner": {"must": "x", "depth": 5}, "free": {"p": {"q": 1}}})),
        )
        .await?
        .expect(201)?;
    session
        .patch("merge", "widgets/a?fieldManager=human", &json!({"spec": {"free": {"p": {"r": 2}}}}))
        .await?
        .expect(200)?;
    // Nothing but a null is left of what the manager gives up, and a null is not allowed there.
    session.apply("one", "widgets/a", &widget("a", &json!({"size": 1}))).await?.refused(422, "Invalid")?;
    session
        .apply(
            "one",
            "widgets/b",
            &widget("b", &json!({"size": null, "mode": null, "note": null, "free": null})),
        )
        .await?;
    session.apply("one", "widgets/c", &widget("c", &json!({"mode": null, "note": null}))).await?;
    session.apply("one", "widgets/c", &widget("c", &json!({"note": "x"}))).await?;
    session.apply("one", "widgets/c", &widget("c", &json!({}))).await?;
    let mut object = config_map("c", &json!({}));
    object["data"] = json!(null);
    object["metadata"]["labels"] = json!(null);
    session.apply("one", "configmaps/c", &object).await?;
    Ok(())
}

/// Empty maps have owners, too; what follows from that is for the transcript.
async fn apply_of_empty_maps(session: &Session) -> anyhow::Result<()> {
    let mut empty = config_map("a", &json!({"k": "1"}));
    empty["data"] = json!({});
    session.apply("one", "configmaps/a", &empty).await?.expect(201)?;
    session.apply("two", "configmaps/a", &empty).await?;
    session.apply("two", "configmaps/a", &config_map("a", &json!({"k": "1"}))).await?;
    session.apply("one", "configmaps/a", &empty).await?;
    session.apply("one", "widgets/a", &widget("a", &json!({"labels": {}, "free": {}}))).await?.expect(201)?;
    session
        .apply("two", "widgets/a", &widget("a", &json!({"labels": {"x": "y"}, "free": {"z": null}})))
        .await?;
    session.apply("one", "widgets/a", &widget("a", &json!({"labels": {}}))).await?;
    session.apply("two", "widgets/a", &widget("a", &json!({}))).await?;
    session.apply("one", "widgets/a", &widget("a", &json!({}))).await?;
    Ok(())
}

async fn apply_deployment_with_defaults(session: &Session) -> anyhow::Result<()> {
    let mut object = deployment("a");
    object["spec"]["template"]["spec"]["containers"][0]["ports"] = json!([{"containerPort": 80}]);
    session.apply("one", "deployments/a", &object).await?.expect(201)?;
    let other = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}, "spec": {"template": {"spec": {"containers": [
        {"name": "main", "ports": [{"containerPort": 80, "protocol": "UDP"}], "env": [{"name": "X", "value": "1"}]}]}}}});
    let merged = session.apply("two", "deployments/a", &other).await?.expect(200)?;
    let ports = merged
        .pointer("/spec/template/spec/containers/0/ports")
        .and_then(|ports| ports.as_array())
        .map(Vec::len);
    ensure!(ports == Some(2), "{merged}");
    let mut object = deployment("a");
    object["spec"]["template"]["spec"]["containers"][0]["image"] = json!("example.com/main:2");
    session.apply("one", "deployments/a", &object).await?.expect(200)?;
    session
        .apply(
            "two",
            "deployments/a",
            &json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}}),
        )
        .await?
        .expect(200)?;
    Ok(())
}
