//! What is served: aggregated and plain discovery, and the server's version.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::kinds::{Registry, Resource, Version};

const VERBS: [&str; 8] = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
const SUBRESOURCE_VERBS: [&str; 3] = ["get", "patch", "update"];

/// Resources of one version of a group.
type Served<'a> = Vec<(&'a Resource, &'a Version)>;

/// Served versions of a group, most preferred first, each with its resources.
fn groups(registry: &Registry) -> BTreeMap<&str, Vec<(String, Served<'_>)>> {
    let mut groups: BTreeMap<&str, BTreeMap<String, Served<'_>>> = BTreeMap::new();
    for resource in registry.values() {
        for version in resource.versions.iter().filter(|version| version.served) {
            let versions = groups.entry(&resource.key.group).or_default();
            versions.entry(version.name.clone()).or_default().push((resource, version));
        }
    }
    groups
        .into_iter()
        .map(|(group, versions)| {
            let mut versions: Vec<_> = versions.into_iter().collect();
            versions.sort_by_key(|(name, _)| std::cmp::Reverse(rank(name)));
            (group, versions)
        })
        .collect()
}

/// The order of versions: `v2` over `v1` over `v1beta2` over `v1alpha1` over anything else.
fn rank(version: &str) -> (u8, u32, u32) {
    let parse = |text: &str| text.parse::<u32>().ok();
    let Some(rest) = version.strip_prefix('v') else {
        return (0, 0, 0);
    };
    for (stage, word) in [(2, "beta"), (1, "alpha")] {
        if let Some((major, minor)) = rest.split_once(word)
            && let (Some(major), Some(minor)) = (parse(major), parse(minor))
        {
            return (stage, major, minor);
        }
    }
    parse(rest).map_or((0, 0, 0), |major| (3, major, 0))
}

/// Aggregated discovery of the core group (`/api`) or of all others (`/apis`).
pub(super) fn aggregated(registry: &Registry, core: bool) -> Value {
    let items: Vec<Value> = groups(registry)
        .into_iter()
        .filter(|(group, _)| group.is_empty() == core)
        .map(|(group, versions)| {
            let mut metadata = Map::new();
            if !group.is_empty() {
                metadata.insert("name".into(), group.into());
            }
            metadata.insert("creationTimestamp".into(), Value::Null);
            let versions: Vec<Value> = versions
                .into_iter()
                .map(|(name, resources)| {
                    let resources: Vec<Value> = resources
                        .into_iter()
                        .map(|(resource, version)| aggregated_resource(resource, version))
                        .collect();
                    json!({"version": name, "resources": resources, "freshness": "Current"})
                })
                .collect();
            json!({"metadata": metadata, "versions": versions})
        })
        .collect();
    json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items})
}

fn aggregated_resource(resource: &Resource, version: &Version) -> Value {
    let kind = json!({"group": resource.key.group, "version": version.name, "kind": resource.kind});
    let mut out = Map::new();
    out.insert("resource".into(), resource.key.plural.clone().into());
    out.insert("responseKind".into(), kind.clone());
    out.insert("scope".into(), if resource.namespaced { "Namespaced" } else { "Cluster" }.into());
    out.insert("singularResource".into(), resource.singular.clone().into());
    out.insert("verbs".into(), json!(VERBS));
    if !resource.short_names.is_empty() {
        out.insert("shortNames".into(), json!(resource.short_names));
    }
    if !resource.categories.is_empty() {
        out.insert("categories".into(), json!(resource.categories));
    }
    let subresources: Vec<Value> = subresources(version)
        .into_iter()
        .map(|name| {
            let kind = match name {
                "scale" => json!({"group": "autoscaling", "version": "v1", "kind": "Scale"}),
                _ => kind.clone(),
            };
            json!({"subresource": name, "responseKind": kind, "verbs": SUBRESOURCE_VERBS})
        })
        .collect();
    if !subresources.is_empty() {
        out.insert("subresources".into(), subresources.into());
    }
    Value::Object(out)
}

fn subresources(version: &Version) -> Vec<&'static str> {
    let scale = version.scale.is_some().then_some("scale");
    let status = version.status.then_some("status");
    scale.into_iter().chain(status).collect()
}

/// `/api`.
pub(super) fn core_versions() -> Value {
    json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []})
}

/// `/apis`.
pub(super) fn group_list(registry: &Registry) -> Value {
    let all: Vec<Value> = groups(registry)
        .into_iter()
        .filter(|(name, _)| !name.is_empty())
        .map(|(name, versions)| group_json(name, &versions))
        .collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": all})
}

/// `/apis/<group>`.
pub(super) fn group(registry: &Registry, name: &str) -> Option<Value> {
    let versions = groups(registry).remove(name)?;
    let mut group = group_json(name, &versions);
    if let Some(fields) = group.as_object_mut() {
        fields.insert("kind".into(), "APIGroup".into());
        fields.insert("apiVersion".into(), "v1".into());
    }
    Some(group)
}

fn group_json(name: &str, versions: &[(String, Served<'_>)]) -> Value {
    let all: Vec<Value> = versions
        .iter()
        .map(|(version, _)| json!({"groupVersion": format!("{name}/{version}"), "version": version}))
        .collect();
    json!({"name": name, "versions": all, "preferredVersion": all.first()})
}

/// `/api/v1` or `/apis/<group>/<version>`.
pub(super) fn resources(registry: &Registry, group: &str, version: &str) -> Option<Value> {
    let found = groups(registry).remove(group)?.into_iter().find(|(name, _)| name == version)?.1;
    let mut list = Vec::new();
    for (resource, served) in found {
        list.push(json!({
            "name": resource.key.plural,
            "singularName": resource.singular,
            "namespaced": resource.namespaced,
            "kind": resource.kind,
            "verbs": VERBS,
            "shortNames": resource.short_names,
            "categories": resource.categories,
        }));
        for name in subresources(served) {
            let mut entry = json!({
                "name": format!("{}/{name}", resource.key.plural),
                "singularName": "",
                "namespaced": resource.namespaced,
                "kind": if name == "scale" { "Scale" } else { &resource.kind },
                "verbs": SUBRESOURCE_VERBS,
            });
            if let Some(fields) = entry.as_object_mut().filter(|_| name == "scale") {
                fields.insert("group".into(), "autoscaling".into());
                fields.insert("version".into(), "v1".into());
            }
            list.push(entry);
        }
    }
    let group_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    Some(
        json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": list}),
    )
}

/// `/version`.
pub(super) fn server_version() -> Value {
    json!({
        "major": "1", "minor": "36", "gitVersion": "v1.36.3", "gitCommit": "", "gitTreeState": "clean",
        "buildDate": "2026-01-01T00:00:00Z", "goVersion": "go1.26", "compiler": "gc", "platform": "linux/amd64",
    })
}

#[cfg(test)]
mod tests {
    use super::rank;

    #[test]
    fn versions_are_ranked_as_kubernetes_does() {
        let mut versions = ["v1alpha1", "v2", "foo", "v1", "v1beta2", "v2beta1", "v10"];
        versions.sort_by_key(|version| std::cmp::Reverse(rank(version)));
        assert_eq!(versions, ["v10", "v2", "v1", "v2beta1", "v1beta2", "v1alpha1", "foo"]);
    }
}
