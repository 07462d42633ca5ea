//! Objects of an inventory as they are on a cluster, with what they made.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use futures::{StreamExt, stream};
use kube::{
    Api, Client, ResourceExt,
    api::{DynamicObject, ListParams},
    core::GroupVersionKind,
};
use windlass_cluster::discover::{self, Discovered, Lookup};
use windlass_deliver::object::ObjectId;
use windlass_manifest::health::{Status, health};

use crate::show::tree::Node;

/// Objects that are read at a time.
const SIDE_BY_SIDE: usize = 8;

/// Longest wait for a cluster.
const PATIENCE: Duration = Duration::from_secs(20);

/// Kinds that others make, and that are worth to be seen: what a workload consists of.
const MADE: [(&str, &str, &str); 4] = [
    ("apps", "v1", "ReplicaSet"),
    ("batch", "v1", "Job"),
    ("", "v1", "Pod"),
    ("", "v1", "PersistentVolumeClaim"),
];

/// Kinds that make others.
const MAKERS: [&str; 6] = ["Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job", "CronJob"];

/// The objects of an inventory as trees. What stands in the way is told in words.
pub(super) async fn tree(client: &Client, inventory: &[String]) -> Result<Vec<Node>, String> {
    let read = async {
        let known = discover::discover(client).await.map_err(|error| error.to_string())?;
        let ids: Vec<ObjectId> = inventory.iter().filter_map(|id| id.parse().ok()).collect();
        let made = made(client, &known, &ids).await;
        let nodes = stream::iter(&ids).map(|id| node(client, &known, id, &made)).buffered(SIDE_BY_SIDE);
        Ok(nodes.collect().await)
    };
    tokio::time::timeout(PATIENCE, read)
        .await
        .unwrap_or_else(|_| Err(format!("the cluster did not answer within {} s", PATIENCE.as_secs())))
}

/// The name of an inventory entry for people.
pub(super) fn short_name(id: &str) -> String {
    id.parse().map_or_else(|_| id.to_owned(), |id: ObjectId| id.short())
}

/// An error without the details that nobody reads in a tree.
pub(super) fn words(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}

/// Objects by the UID of their owner.
type Made = BTreeMap<String, Vec<DynamicObject>>;

/// Everything that workloads of these namespaces made. What may not be listed is left out.
async fn made(client: &Client, known: &Discovered, ids: &[ObjectId]) -> Made {
    let namespaces: BTreeSet<&str> = ids
        .iter()
        .filter(|id| MAKERS.contains(&id.kind.as_str()) && !id.namespace.is_empty())
        .map(|id| id.namespace.as_str())
        .collect();
    let mut made = Made::new();
    for namespace in namespaces {
        for (group, version, kind) in MADE {
            let Lookup::Found(served) = known.lookup(&GroupVersionKind::gvk(group, version, kind)) else {
                continue;
            };
            let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &served.resource);
            let Ok(list) = api.list(&ListParams::default()).await else { continue };
            for mut object in list.items {
                // Lists leave the kind out.
                object.types.get_or_insert_with(|| kube::api::TypeMeta {
                    api_version: served.resource.api_version.clone(),
                    kind: served.resource.kind.clone(),
                });
                let owner = object.owner_references().iter().find(|owner| owner.controller == Some(true));
                if let Some(owner) = owner.map(|owner| owner.uid.clone()) {
                    made.entry(owner).or_default().push(object);
                }
            }
        }
    }
    made
}

async fn node(client: &Client, known: &Discovered, id: &ObjectId, made: &Made) -> Node {
    let title = id.short();
    let served = match known.lookup(&GroupVersionKind::gvk(&id.group, &id.version, &id.kind)) {
        Lookup::Found(served) => served,
        Lookup::Absent => return Node::new(title).judged(Status::Missing, "its kind is not served there"),
        Lookup::Unknown(why) => return Node::new(title).judged(Status::Unknown, &why),
    };
    let api: Api<DynamicObject> = if served.namespaced {
        Api::namespaced_with(client.clone(), &id.namespace, &served.resource)
    } else {
        Api::all_with(client.clone(), &served.resource)
    };
    match api.get_opt(&id.name).await {
        Ok(Some(object)) => judged(title, &object, made, 0),
        Ok(None) => Node::new(title).judged(Status::Missing, "it is not there"),
        Err(error) => Node::new(title).judged(Status::Unknown, &words(&error)),
    }
}

/// The node of an object, with what it made.
fn judged(title: String, object: &DynamicObject, made: &Made, depth: usize) -> Node {
    let health = serde_json::to_value(object).map_or_else(
        |_| windlass_manifest::health::Health { status: Status::Unknown, message: String::new() },
        |value| health(&value),
    );
    let mut node = Node::new(title).judged(health.status, &health.message);
    let children = object.uid().and_then(|uid| made.get(&uid)).map(Vec::as_slice).unwrap_or_default();
    // Owners form no circle, but nobody checks that either.
    if depth < 8 {
        let shown = children.iter().filter(|child| !is_remains(child));
        node.children = shown.map(|child| judged(title_of(child), child, made, depth + 1)).collect();
    }
    node
}

/// A `ReplicaSet` of an earlier revision that has no pods any more.
fn is_remains(object: &DynamicObject) -> bool {
    let replicas = |pointer: &str| object.data.pointer(pointer).and_then(serde_json::Value::as_i64);
    object.types.as_ref().is_some_and(|types| types.kind == "ReplicaSet")
        && replicas("/spec/replicas") == Some(0)
        && replicas("/status/replicas").unwrap_or(0) == 0
}

fn title_of(object: &DynamicObject) -> String {
    let kind = object.types.as_ref().map_or("(no kind)", |types| types.kind.as_str());
    match object.namespace() {
        Some(namespace) => format!("{kind} {namespace}/{}", object.name_any()),
        None => format!("{kind} {}", object.name_any()),
    }
}
