//! Discovery and health.

use anyhow::{Context as _, ensure};
use http::Method;
use serde_json::{Value, json};

use super::super::session::{Session, text};
use super::cases;

cases![discover_aggregated, discover_by_group, discover_health_and_version];

fn find<'a>(list: &'a Value, pointer: &str, field: &str, wanted: &str) -> anyhow::Result<&'a Value> {
    let items = list.pointer(pointer).and_then(Value::as_array).into_iter().flatten();
    let is_wanted = |item: &&Value| text(item, field) == wanted;
    items.into_iter().find(is_wanted).with_context(|| format!("no {wanted} in {pointer}"))
}

/// Requests without writing down: a real server serves much more.
async fn read(session: &Session, path: &str, accept: &str) -> anyhow::Result<Value> {
    session.raw_with(&Method::GET, path, &[("accept", accept)], None).await?.expect(200)
}

async fn discover_aggregated(session: &Session) -> anyhow::Result<()> {
    let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let list = read(session, "/apis", accept).await?;
    ensure!(text(&list, "/kind") == "APIGroupDiscoveryList", "{list}");
    let group = find(&list, "/items", "/metadata/name", "contract.windlass.dev")?;
    let versions = group["versions"].as_array().cloned().unwrap_or_default();
    let served: Vec<String> = versions.iter().map(|version| text(version, "/version")).collect();
    ensure!(served == ["v1", "v1beta1"], "{served:?}");
    let widgets = find(group, "/versions/0/resources", "/resource", "widgets")?;
    ensure!(text(widgets, "/scope") == "Namespaced" && text(widgets, "/singularResource") == "widget");
    ensure!(
        widgets["responseKind"]
            == json!({"group": "contract.windlass.dev", "version": "v1", "kind": "Widget"})
    );
    ensure!(widgets["shortNames"] == json!(["wg"]) && widgets["categories"] == json!(["contract"]));
    let mut verbs: Vec<String> = serde_json::from_value(widgets["verbs"].clone())?;
    verbs.sort();
    ensure!(verbs == ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]);
    find(widgets, "/subresources", "/subresource", "status")?;
    let scale = find(widgets, "/subresources", "/subresource", "scale")?;
    ensure!(
        scale["responseKind"] == json!({"group": "autoscaling", "version": "v1", "kind": "Scale"}),
        "{scale}"
    );
    let gadgets = find(group, "/versions/0/resources", "/resource", "gadgets")?;
    ensure!(text(gadgets, "/scope") == "Cluster");
    let core = read(session, "/api", accept).await?;
    let config_maps = find(&core, "/items/0/versions/0/resources", "/resource", "configmaps")?;
    ensure!(text(config_maps, "/responseKind/kind") == "ConfigMap");
    ensure!(text(&core, "/items/0/versions/0/freshness") == "Current");
    Ok(())
}

async fn discover_by_group(session: &Session) -> anyhow::Result<()> {
    let json = "application/json";
    let groups = read(session, "/apis", json).await?;
    let group = find(&groups, "/groups", "/name", "contract.windlass.dev")?;
    ensure!(text(group, "/preferredVersion/version") == "v1");
    let group = read(session, "/apis/contract.windlass.dev", json).await?;
    ensure!(
        text(&group, "/kind") == "APIGroup"
            && text(&group, "/preferredVersion/groupVersion") == "contract.windlass.dev/v1"
    );
    let resources = read(session, "/apis/contract.windlass.dev/v1", json).await?;
    let widgets = find(&resources, "/resources", "/name", "widgets")?;
    ensure!(widgets["namespaced"] == true && text(widgets, "/kind") == "Widget");
    find(&resources, "/resources", "/name", "widgets/status")?;
    let core = read(session, "/api/v1", json).await?;
    find(&core, "/resources", "/name", "secrets")?;
    ensure!(read(session, "/api", json).await?["versions"] == json!(["v1"]));
    session.get("/apis/no.such.group").await?.expect(404)?;
    Ok(())
}

async fn discover_health_and_version(session: &Session) -> anyhow::Result<()> {
    for path in ["/healthz", "/readyz", "/livez"] {
        ensure!(session.get(path).await?.expect(200)? == json!("ok"));
    }
    let version = read(session, "/version", "application/json").await?;
    ensure!(text(&version, "/major") == "1" && text(&version, "/minor") == "36", "{version}");
    Ok(())
}
