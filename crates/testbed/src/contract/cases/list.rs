//! Lists.

use anyhow::ensure;
use http::Method;
use serde_json::{Value, json};

use super::super::session::{Session, text};
use super::{cases, config_map, widget};

cases![
    list_is_ordered_and_typed,
    list_by_labels,
    list_by_fields,
    list_with_bad_selectors,
    list_in_pages_is_consistent,
    list_from_any_version,
    list_of_metadata_only,
    list_in_an_unknown_namespace_is_empty,
];

fn names(list: &Value) -> Vec<String> {
    let items = list.get("items").and_then(Value::as_array).into_iter().flatten();
    items.map(|item| text(item, "/metadata/name")).collect()
}

async fn colours(session: &Session) -> anyhow::Result<()> {
    for (name, colour) in [("c", "red"), ("a", "blue"), ("d", ""), ("b", "green")] {
        let mut object = widget(name, &json!({}));
        if !colour.is_empty() {
            object["metadata"]["labels"] = json!({"colour": colour, "tier": "1"});
        }
        session.post("widgets", &object).await?.expect(201)?;
    }
    Ok(())
}

async fn list_is_ordered_and_typed(session: &Session) -> anyhow::Result<()> {
    colours(session).await?;
    let list = session.get("widgets").await?.expect(200)?;
    ensure!(names(&list) == ["a", "b", "c", "d"] && text(&list, "/kind") == "WidgetList", "{list}");
    ensure!(text(&list, "/items/0/kind") == "Widget");
    for name in ["z", "y"] {
        let mut object = config_map(name, &json!({}));
        object["metadata"]["labels"] = json!({"mine": "yes"});
        session.post("configmaps", &object).await?.expect(201)?;
    }
    let list = session.get("configmaps?labelSelector=mine").await?.expect(200)?;
    ensure!(names(&list) == ["y", "z"] && list.pointer("/items/0/kind").is_none(), "{list}");
    Ok(())
}

async fn list_by_labels(session: &Session) -> anyhow::Result<()> {
    colours(session).await?;
    for (selector, expected) in [
        ("colour%3Dred", vec!["c"]),
        ("colour%3D%3Dred", vec!["c"]),
        ("colour!%3Dred", vec!["a", "b", "d"]),
        ("colour", vec!["a", "b", "c"]),
        ("!colour", vec!["d"]),
        ("colour%20in%20(red,blue)", vec!["a", "c"]),
        ("colour%20notin%20(red,blue)", vec!["b", "d"]),
        ("tier%3D1,colour%20in%20(red)", vec!["c"]),
    ] {
        let list = session.get(&format!("widgets?labelSelector={selector}")).await?.expect(200)?;
        ensure!(names(&list) == expected, "{selector}: {:?}", names(&list));
    }
    Ok(())
}

async fn list_by_fields(session: &Session) -> anyhow::Result<()> {
    colours(session).await?;
    let list = session.get("widgets?fieldSelector=metadata.name%3Da").await?.expect(200)?;
    ensure!(names(&list) == ["a"]);
    let list = session.get("widgets?fieldSelector=metadata.name!%3Da").await?.expect(200)?;
    ensure!(names(&list) == ["b", "c", "d"]);
    let path = format!(
        "/apis/contract.windlass.dev/v1/widgets?fieldSelector=metadata.namespace%3D{}",
        session.namespace
    );
    let list = session.get(&path).await?.expect(200)?;
    ensure!(names(&list).len() == 4);
    Ok(())
}

async fn list_with_bad_selectors(session: &Session) -> anyhow::Result<()> {
    for query in [
        "labelSelector=a%3Db%3Dc",
        "labelSelector=a%20in%20b",
        "fieldSelector=spec.size%3D1",
        "fieldSelector=nonsense",
    ] {
        session.get(&format!("widgets?{query}")).await?.refused(400, "BadRequest")?;
    }
    session.get("widgets?continue=nonsense&limit=1").await?.refused(400, "BadRequest")?;
    Ok(())
}

async fn list_in_pages_is_consistent(session: &Session) -> anyhow::Result<()> {
    for name in ["a", "b", "c", "d", "e"] {
        session.post("widgets", &widget(name, &json!({}))).await?.expect(201)?;
    }
    let first = session.get("widgets?limit=2").await?.expect(200)?;
    ensure!(names(&first) == ["a", "b"] && first["metadata"]["remainingItemCount"] == 3, "{first}");
    session.delete("widgets/d", &json!({})).await?.expect(200)?;
    session.post("widgets", &widget("bb", &json!({}))).await?.expect(201)?;
    session.patch("merge", "widgets/e", &json!({"spec": {"size": 5}})).await?.expect(200)?;
    let mut seen = Vec::new();
    let mut token = text(&first, "/metadata/continue");
    let mut versions = vec![text(&first, "/metadata/resourceVersion")];
    while !token.is_empty() {
        let path = format!(
            "/apis/contract.windlass.dev/v1/namespaces/{}/widgets?limit=2&continue={token}",
            session.namespace
        );
        let page = session.page(&path).await?.expect(200)?;
        seen.extend(names(&page));
        ensure!(page.pointer("/items/1/spec/size").is_none(), "{page}");
        versions.push(text(&page, "/metadata/resourceVersion"));
        token = text(&page, "/metadata/continue");
    }
    ensure!(seen == ["c", "d", "e"], "{seen:?}");
    versions.dedup();
    ensure!(versions.len() == 1, "{versions:?}");
    let labelled = session.get("widgets?limit=1&labelSelector=!colour").await?.expect(200)?;
    ensure!(
        labelled["metadata"].get("remainingItemCount").is_none()
            && !text(&labelled, "/metadata/continue").is_empty()
    );
    Ok(())
}

async fn list_from_any_version(session: &Session) -> anyhow::Result<()> {
    for name in ["a", "b"] {
        session.post("widgets", &widget(name, &json!({}))).await?.expect(201)?;
    }
    let current = session.get("widgets").await?.expect(200)?;
    let version = text(&current, "/metadata/resourceVersion");
    session.replace(&format!("resourceVersion={version}"), "resourceVersion=<asked>");
    let list = session
        .get(&format!("widgets?resourceVersion={version}&resourceVersionMatch=NotOlderThan"))
        .await?
        .expect(200)?;
    ensure!(names(&list) == ["a", "b"]);
    let cached = session.get("widgets?resourceVersion=0").await?.expect(200)?;
    ensure!(names(&cached) == ["a", "b"]);
    session.delete("widgets/a", &json!({})).await?.expect(200)?;
    let exact = session
        .get(&format!("widgets?resourceVersion={version}&resourceVersionMatch=Exact"))
        .await?
        .expect(200)?;
    ensure!(names(&exact) == ["a", "b"], "{exact}");
    Ok(())
}

async fn list_of_metadata_only(session: &Session) -> anyhow::Result<()> {
    let mut object = widget("a", &json!({"size": 1}));
    object["metadata"]["labels"] = json!({"x": "y"});
    session.post("widgets", &object).await?.expect(201)?;
    let accept = [("accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1")];
    let list = session.request(Method::GET, "widgets", &accept, None).await?.expect(200)?;
    ensure!(
        text(&list, "/kind") == "PartialObjectMetadataList" && list.pointer("/items/0/spec").is_none(),
        "{list}"
    );
    ensure!(text(&list, "/items/0/metadata/labels/x") == "y");
    let accept = [("accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1")];
    let one = session.request(Method::GET, "widgets/a", &accept, None).await?.expect(200)?;
    ensure!(text(&one, "/kind") == "PartialObjectMetadata" && one.get("spec").is_none(), "{one}");
    let missing = session.request(Method::GET, "widgets/b", &accept, None).await?;
    missing.refused(404, "NotFound")?;
    let headers = [accept[0], ("content-type", "application/merge-patch+json")];
    let patched = session
        .request(Method::PATCH, "widgets/a", &headers, Some(&json!({"spec": {"size": 2}})))
        .await?
        .expect(200)?;
    ensure!(text(&patched, "/kind") == "PartialObjectMetadata", "{patched}");
    Ok(())
}

async fn list_in_an_unknown_namespace_is_empty(session: &Session) -> anyhow::Result<()> {
    let list = session.get("/api/v1/namespaces/no-such-namespace/configmaps").await?.expect(200)?;
    ensure!(list["items"] == json!([]), "{list}");
    Ok(())
}
