//! Watches.

use anyhow::ensure;
use serde_json::{Value, json};

use super::super::session::{Session, text};
use super::{cases, widget};

cases![
    watch_goes_on_from_a_list,
    watch_from_the_beginning,
    watch_by_label_shows_coming_and_going,
    watch_by_name,
    watch_shows_finalizers_and_removal,
    watch_too_old,
    watch_ends_in_time,
    watch_with_initial_events,
    watch_with_bad_options,
    watch_of_metadata_only,
    watch_does_not_show_what_changed_nothing,
    watch_resumes_from_any_event,
];

async fn version_of_list(session: &Session) -> anyhow::Result<String> {
    Ok(text(&session.get("widgets").await?.expect(200)?, "/metadata/resourceVersion"))
}

async fn watch_goes_on_from_a_list(session: &Session) -> anyhow::Result<()> {
    session.post("widgets", &widget("old", &json!({}))).await?.expect(201)?;
    let version = version_of_list(session).await?;
    let mut watch = session.watch(&format!("widgets?resourceVersion={version}")).await?;
    let made = session.post("widgets", &widget("a", &json!({"size": 1}))).await?.expect(201)?;
    ensure!(watch.expect("ADDED").await? == made);
    let changed = session.patch("merge", "widgets/a", &json!({"spec": {"size": 2}})).await?.expect(200)?;
    ensure!(watch.expect("MODIFIED").await? == changed);
    session.delete("widgets/a", &json!({})).await?.expect(200)?;
    let gone = watch.expect("DELETED").await?;
    ensure!(
        gone["spec"]["size"] == 2
            && text(&gone, "/metadata/resourceVersion") != text(&changed, "/metadata/resourceVersion")
    );
    Ok(())
}

async fn watch_from_the_beginning(session: &Session) -> anyhow::Result<()> {
    for name in ["b", "a"] {
        session.post("widgets", &widget(name, &json!({}))).await?.expect(201)?;
    }
    for query in ["", "?resourceVersion=0"] {
        let mut watch = session.watch(&format!("widgets{query}")).await?;
        let mut names = vec![
            text(&watch.expect("ADDED").await?, "/metadata/name"),
            text(&watch.expect("ADDED").await?, "/metadata/name"),
        ];
        names.sort();
        ensure!(names == ["a", "b"]);
    }
    Ok(())
}

async fn watch_by_label_shows_coming_and_going(session: &Session) -> anyhow::Result<()> {
    let version = version_of_list(session).await?;
    let mut watch =
        session.watch(&format!("widgets?labelSelector=on%3Dyes&resourceVersion={version}")).await?;
    session.post("widgets", &widget("a", &json!({}))).await?.expect(201)?;
    let label = |value: Value| json!({"metadata": {"labels": {"on": value}}});
    session.patch("merge", "widgets/a", &label(json!("yes"))).await?.expect(200)?;
    watch.expect("ADDED").await?;
    session.patch("merge", "widgets/a", &json!({"spec": {"size": 1}})).await?.expect(200)?;
    watch.expect("MODIFIED").await?;
    let after = session.patch("merge", "widgets/a", &label(json!("no"))).await?.expect(200)?;
    let gone = watch.expect("DELETED").await?;
    ensure!(text(&gone, "/metadata/labels/on") == "yes", "{gone}");
    ensure!(text(&gone, "/metadata/resourceVersion") == text(&after, "/metadata/resourceVersion"));
    session.patch("merge", "widgets/a", &json!({"spec": {"size": 2}})).await?.expect(200)?;
    session.patch("merge", "widgets/a", &label(json!("yes"))).await?.expect(200)?;
    watch.expect("ADDED").await?;
    session.delete("widgets/a", &json!({})).await?.expect(200)?;
    watch.expect("DELETED").await?;
    Ok(())
}

async fn watch_by_name(session: &Session) -> anyhow::Result<()> {
    let version = version_of_list(session).await?;
    let mut watch =
        session.watch(&format!("widgets?fieldSelector=metadata.name%3Db&resourceVersion={version}")).await?;
    for name in ["a", "b"] {
        session.post("widgets", &widget(name, &json!({}))).await?.expect(201)?;
    }
    ensure!(text(&watch.expect("ADDED").await?, "/metadata/name") == "b");
    Ok(())
}

async fn watch_shows_finalizers_and_removal(session: &Session) -> anyhow::Result<()> {
    let mut object = widget("a", &json!({}));
    object["metadata"]["finalizers"] = json!(["example.com/x"]);
    let made = session.post("widgets", &object).await?.expect(201)?;
    let version = text(&made, "/metadata/resourceVersion");
    let mut watch = session.watch(&format!("widgets?resourceVersion={version}")).await?;
    session.delete("widgets/a", &json!({})).await?.expect(200)?;
    ensure!(!text(&watch.expect("MODIFIED").await?, "/metadata/deletionTimestamp").is_empty());
    session.patch("merge", "widgets/a", &json!({"metadata": {"finalizers": null}})).await?.expect(200)?;
    watch.expect("DELETED").await?;
    Ok(())
}

async fn watch_too_old(session: &Session) -> anyhow::Result<()> {
    session.post("widgets", &widget("a", &json!({}))).await?.expect(201)?;
    session.forget();
    let mut watch = session.watch("widgets?resourceVersion=1").await?;
    let status = watch.expect("ERROR").await?;
    ensure!(status["code"] == 410 && text(&status, "/reason") == "Expired", "{status}");
    ensure!(watch.next().await?.is_none());
    Ok(())
}

async fn watch_ends_in_time(session: &Session) -> anyhow::Result<()> {
    session.post("widgets", &widget("a", &json!({}))).await?.expect(201)?;
    let mut watch = session.watch("widgets?timeoutSeconds=1").await?;
    watch.expect("ADDED").await?;
    ensure!(watch.next().await?.is_none());
    Ok(())
}

async fn watch_with_initial_events(session: &Session) -> anyhow::Result<()> {
    for name in ["a", "b"] {
        session.post("widgets", &widget(name, &json!({}))).await?.expect(201)?;
    }
    let query = "sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan";
    let mut watch = session.watch(&format!("widgets?{query}")).await?;
    watch.expect("ADDED").await?;
    watch.expect("ADDED").await?;
    let end = watch.expect("BOOKMARK").await?;
    ensure!(end.pointer("/metadata/annotations/k8s.io~1initial-events-end") == Some(&json!("true")), "{end}");
    session.post("widgets", &widget("c", &json!({}))).await?.expect(201)?;
    ensure!(text(&watch.expect("ADDED").await?, "/metadata/name") == "c");
    Ok(())
}

async fn watch_with_bad_options(session: &Session) -> anyhow::Result<()> {
    session.get("widgets?watch=true&sendInitialEvents=true").await?.refused(422, "Invalid")?;
    session.get("widgets?watch=true&resourceVersionMatch=NotOlderThan").await?.refused(422, "Invalid")?;
    session.get("widgets?watch=true&resourceVersion=nonsense").await?.refused(500, "")?;
    session.get("widgets?resourceVersion=nonsense").await?;
    session.get("configmaps?resourceVersion=nonsense").await?;
    Ok(())
}

async fn watch_of_metadata_only(session: &Session) -> anyhow::Result<()> {
    let accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    session.post("widgets", &widget("a", &json!({"size": 1}))).await?.expect(201)?;
    let mut watch = session.watch_with("widgets", accept).await?;
    let seen = watch.expect("ADDED").await?;
    ensure!(text(&seen, "/kind") == "PartialObjectMetadata" && seen.get("spec").is_none(), "{seen}");
    session.delete("widgets/a", &json!({})).await?.expect(200)?;
    watch.expect("DELETED").await?;
    Ok(())
}

async fn watch_does_not_show_what_changed_nothing(session: &Session) -> anyhow::Result<()> {
    let made = session.post("widgets", &widget("a", &json!({"size": 1}))).await?.expect(201)?;
    let version = text(&made, "/metadata/resourceVersion");
    let mut watch = session.watch(&format!("widgets?resourceVersion={version}")).await?;
    session.put("widgets/a", &made).await?.expect(200)?;
    session.patch("merge", "widgets/a", &json!({"spec": {"size": 1}})).await?.expect(200)?;
    session.patch("merge", "widgets/a?dryRun=All", &json!({"spec": {"size": 3}})).await?.expect(200)?;
    session.patch("merge", "widgets/a", &json!({"spec": {"size": 2}})).await?.expect(200)?;
    ensure!(watch.expect("MODIFIED").await?["spec"]["size"] == 2);
    Ok(())
}

async fn watch_resumes_from_any_event(session: &Session) -> anyhow::Result<()> {
    let made = session.post("widgets", &widget("a", &json!({"size": 1}))).await?.expect(201)?;
    let mut versions = vec![text(&made, "/metadata/resourceVersion")];
    for size in 2..5 {
        let next =
            session.patch("merge", "widgets/a", &json!({"spec": {"size": size}})).await?.expect(200)?;
        versions.push(text(&next, "/metadata/resourceVersion"));
    }
    for (index, version) in versions.iter().take(3).enumerate() {
        let mut watch = session.watch(&format!("widgets?resourceVersion={version}")).await?;
        for size in index + 2..5 {
            ensure!(watch.expect("MODIFIED").await?["spec"]["size"] == size);
        }
    }
    Ok(())
}
