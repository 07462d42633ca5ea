//! Create.

use anyhow::ensure;
use http::Method;
use serde_json::json;

use super::super::session::{Session, causes, text};
use super::{cases, config_map, widget};

cases![
    create_fills_in_metadata,
    create_twice_already_exists,
    create_generates_a_name,
    create_needs_a_name,
    create_in_a_missing_namespace,
    create_with_a_wrong_header,
    create_with_a_version,
    create_with_invalid_metadata,
    create_takes_the_manager_from_the_user_agent,
    create_with_an_unknown_field,
    create_with_a_wrong_type,
    create_dry_run,
    create_keeps_no_empty_or_null_fields,
    secret_string_data_becomes_data,
    event_is_one_object_in_two_groups,
    get_of_what_is_not_there,
];

async fn create_fills_in_metadata(session: &Session) -> anyhow::Result<()> {
    let mut object = config_map("a", &json!({"k": "v"}));
    object["metadata"]["labels"] = json!({"x": "y"});
    object["metadata"]["generation"] = json!(7);
    let made = session.post("configmaps", &object).await?.expect(201)?;
    ensure!(
        !text(&made, "/metadata/uid").is_empty() && !text(&made, "/metadata/creationTimestamp").is_empty()
    );
    ensure!(
        made.pointer("/metadata/managedFields/0/fieldsV1")
            == Some(&json!({
        "f:data": {".": {}, "f:k": {}}, "f:metadata": {"f:labels": {".": {}, "f:x": {}}}}))
    );
    let read = session.get("configmaps/a").await?.expect(200)?;
    ensure!(read == made, "{read} != {made}");
    let made = session.post("widgets", &widget("a", &json!({"size": 1}))).await?.expect(201)?;
    ensure!(made.pointer("/metadata/generation") == Some(&json!(1)));
    Ok(())
}

async fn create_twice_already_exists(session: &Session) -> anyhow::Result<()> {
    session.post("configmaps", &config_map("a", &json!({}))).await?.expect(201)?;
    let status = session
        .post("configmaps", &config_map("a", &json!({"k": "v"})))
        .await?
        .refused(409, "AlreadyExists")?;
    ensure!(text(&status, "/details/name") == "a" && text(&status, "/details/kind") == "configmaps");
    session.post("widgets", &widget("a", &json!({}))).await?.expect(201)?;
    let status = session.post("widgets", &widget("a", &json!({}))).await?.refused(409, "AlreadyExists")?;
    ensure!(text(&status, "/details/group") == "contract.windlass.dev");
    Ok(())
}

async fn create_generates_a_name(session: &Session) -> anyhow::Result<()> {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "gen-"}});
    let path = format!("/api/v1/namespaces/{}/configmaps", session.namespace);
    let mut names = Vec::new();
    for token in ["<first>", "<second>"] {
        let reply = session.unwritten(&Method::POST, &path, Some(&object)).await?.expect(201)?;
        let name = text(&reply, "/metadata/name");
        ensure!(name.len() == "gen-".len() + 5 && name.starts_with("gen-"), "{name}");
        session.replace(&name, token);
        session.get(&format!("configmaps/{name}")).await?.expect(200)?;
        names.push(name);
    }
    ensure!(names[0] != names[1]);
    Ok(())
}

async fn create_needs_a_name(session: &Session) -> anyhow::Result<()> {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}});
    let status = session.post("configmaps", &object).await?.refused(422, "Invalid")?;
    ensure!(causes(&status) == [("FieldValueRequired".into(), "metadata.name".into())]);
    Ok(())
}

async fn create_in_a_missing_namespace(session: &Session) -> anyhow::Result<()> {
    let status = session
        .post("/api/v1/namespaces/no-such-namespace/configmaps", &config_map("a", &json!({})))
        .await?
        .refused(404, "NotFound")?;
    ensure!(text(&status, "/details/kind") == "namespaces");
    let path = "/apis/contract.windlass.dev/v1/namespaces/no-such-namespace/widgets";
    session.post(path, &widget("a", &json!({}))).await?.refused(404, "NotFound")?;
    Ok(())
}

async fn create_with_a_wrong_header(session: &Session) -> anyhow::Result<()> {
    let mut object = config_map("a", &json!({}));
    object["metadata"]["namespace"] = json!("other");
    session.post("configmaps", &object).await?.refused(400, "BadRequest")?;
    let mut object = config_map("a", &json!({}));
    object["kind"] = json!("Secret");
    session.post("configmaps", &object).await?.refused(400, "BadRequest")?;
    let mut object = widget("a", &json!({}));
    object["apiVersion"] = json!("contract.windlass.dev/v1beta1");
    session.post("widgets", &object).await?.refused(400, "BadRequest")?;
    let reply = session.post("/api/v1/configmaps", &config_map("a", &json!({}))).await?;
    ensure!(reply.code == 405, "{reply:?}");
    Ok(())
}

async fn create_with_a_version(session: &Session) -> anyhow::Result<()> {
    let mut object = config_map("a", &json!({}));
    object["metadata"]["resourceVersion"] = json!("1");
    let reply = session.post("configmaps", &object).await?;
    ensure!(reply.code >= 400, "{reply:?}");
    Ok(())
}

async fn create_with_invalid_metadata(session: &Session) -> anyhow::Result<()> {
    for name in ["Upper", "a_b", "-a", "a."] {
        let status =
            session.post("configmaps", &config_map(name, &json!({}))).await?.refused(422, "Invalid")?;
        ensure!(causes(&status)[0].1 == "metadata.name", "{status}");
    }
    let mut object = config_map("a", &json!({}));
    object["metadata"]["labels"] = json!({"x": "not a label"});
    let status = session.post("configmaps", &object).await?.refused(422, "Invalid")?;
    ensure!(causes(&status) == [("FieldValueInvalid".into(), "metadata.labels".into())], "{status}");
    let status = session
        .post("configmaps", &config_map("a", &json!({"not a key": ""})))
        .await?
        .refused(422, "Invalid")?;
    ensure!(causes(&status) == [("FieldValueInvalid".into(), "data[not a key]".into())], "{status}");
    let mut object = config_map("a", &json!({}));
    object["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": ""}]);
    session.post("configmaps", &object).await?.refused(422, "Invalid")?;
    Ok(())
}

async fn create_takes_the_manager_from_the_user_agent(session: &Session) -> anyhow::Result<()> {
    let headers = [("content-type", "application/json"), ("user-agent", "my-agent/1.0 (linux)")];
    let object = config_map("a", &json!({"k": "v"}));
    let made = session.request(Method::POST, "configmaps", &headers, Some(&object)).await?.expect(201)?;
    ensure!(text(&made, "/metadata/managedFields/0/manager") == "my-agent");
    Ok(())
}

async fn create_with_an_unknown_field(session: &Session) -> anyhow::Result<()> {
    let mut object = config_map("a", &json!({"k": "v"}));
    object["colour"] = json!("red");
    let reply = session.post("configmaps", &object).await?;
    ensure!(reply.warnings.iter().any(|warning| warning.contains("colour")), "{reply:?}");
    ensure!(reply.expect(201)?.get("colour").is_none());
    session.post("configmaps?fieldValidation=Strict", &object).await?.refused(400, "BadRequest")?;
    session
        .post("widgets?fieldValidation=Strict", &widget("a", &json!({"colour": "red"})))
        .await?
        .refused(400, "BadRequest")?;
    let made = session
        .post("widgets?fieldValidation=Ignore", &widget("a", &json!({"colour": "red"})))
        .await?
        .expect(201)?;
    ensure!(made.pointer("/spec/colour").is_none());
    Ok(())
}

async fn create_with_a_wrong_type(session: &Session) -> anyhow::Result<()> {
    session.post("configmaps", &config_map("a", &json!({"k": 1}))).await?.refused(400, "BadRequest")?;
    session.post("configmaps", &config_map("a", &json!(["k"]))).await?.refused(400, "BadRequest")?;
    Ok(())
}

async fn create_dry_run(session: &Session) -> anyhow::Result<()> {
    let made =
        session.post("configmaps?dryRun=All", &config_map("a", &json!({"k": "v"}))).await?.expect(201)?;
    ensure!(!text(&made, "/metadata/uid").is_empty() && text(&made, "/metadata/resourceVersion").is_empty());
    session.get("configmaps/a").await?.refused(404, "NotFound")?;
    Ok(())
}

async fn create_keeps_no_empty_or_null_fields(session: &Session) -> anyhow::Result<()> {
    let mut object = config_map("a", &json!({}));
    object["metadata"]["labels"] = json!({});
    object["metadata"]["annotations"] = json!(null);
    object["metadata"]["finalizers"] = json!([]);
    let made = session.post("configmaps", &object).await?.expect(201)?;
    ensure!(made.get("data").is_none() && made.pointer("/metadata/labels").is_none(), "{made}");
    let mut object = widget("a", &json!({"labels": {}, "args": [], "name": null, "note": null}));
    object["metadata"]["labels"] = json!({});
    let made = session.post("widgets", &object).await?.expect(201)?;
    ensure!(made.pointer("/spec/labels") == Some(&json!({})), "{made}");
    Ok(())
}

async fn secret_string_data_becomes_data(session: &Session) -> anyhow::Result<()> {
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "stringData": {"k": "hello"}});
    let made = session.post("secrets", &secret).await?.expect(201)?;
    ensure!(text(&made, "/data/k") == "aGVsbG8=" && text(&made, "/type") == "Opaque", "{made}");
    Ok(())
}

async fn event_is_one_object_in_two_groups(session: &Session) -> anyhow::Result<()> {
    let event = json!({
        "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "a"},
        "eventTime": "2026-01-01T00:00:00.000000Z", "reportingController": "x/y", "reportingInstance": "z",
        "action": "Test", "reason": "Tested", "type": "Normal", "note": "hello",
        "regarding": {"kind": "ConfigMap", "name": "a", "namespace": session.namespace},
    });
    // Typed objects show some of their empty fields, which is not for the transcript.
    let namespace = &session.namespace;
    let path = format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events");
    session.unwritten(&Method::POST, &path, Some(&event)).await?.expect(201)?;
    let read = session
        .unwritten(&Method::GET, &format!("/api/v1/namespaces/{namespace}/events/a"), None)
        .await?
        .expect(200)?;
    ensure!(text(&read, "/message") == "hello" && text(&read, "/involvedObject/name") == "a", "{read}");
    Ok(())
}

async fn get_of_what_is_not_there(session: &Session) -> anyhow::Result<()> {
    let status = session.get("configmaps/a").await?.refused(404, "NotFound")?;
    ensure!(text(&status, "/details/kind") == "configmaps" && text(&status, "/details/name") == "a");
    session.get("widgets/a").await?.refused(404, "NotFound")?;
    for path in [
        "things/a",
        "/apis/no.such.group/v1/things",
        "/apis/contract.windlass.dev/v1/things",
        "/apis/contract.windlass.dev/v1alpha1/widgets",
        "/apis/apps/v7/deployments",
    ] {
        let reply = session.get(path).await?;
        ensure!(reply.code == 404, "{path}: {reply:?}");
    }
    session.get("/apis/contract.windlass.dev/v1/gadgets/a/status").await?.expect(404)?;
    Ok(())
}
