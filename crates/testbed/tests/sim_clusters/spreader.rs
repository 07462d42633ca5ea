//! A small controller over several clusters: `ConfigMap`s with `role: source` on the hub are copied to every cluster.
//!
//! Right in one form and wrong in others: each bug is one that only shows with several clusters.

use std::{collections::BTreeMap, time::Duration};

use futures::future::join_all;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, Preconditions},
};
use serde_json::json;
use windlass_testbed::sim::Instance;

pub const MANAGER: &str = "spreader";
pub const CLUSTERS: [&str; 3] = ["east", "north", "west"];
const ROUND: Duration = Duration::from_secs(6);

/// What is wrong with it; nothing by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    None,
    /// Never comes back to a cluster that did not answer once.
    GivesAClusterUp,
    /// Waits for one cluster after the other, without a bound.
    OneAfterTheOther,
    /// Takes a list that failed for an empty one: deletes what it should not.
    TakesErrorsForEmptiness,
    /// Deletes without saying which UID is meant.
    DeletesByName,
    /// Writes to the hub what is for clusters.
    WritesToTheHub,
}

pub async fn spread(instance: Instance, bug: Bug) {
    let mut given_up = [false; CLUSTERS.len()];
    while !instance.shutdown.is_cancelled() {
        if bug == Bug::OneAfterTheOther {
            for cluster in CLUSTERS {
                let _again = round(&instance, cluster, bug).await;
            }
        } else {
            let rounds = CLUSTERS.iter().zip(given_up).map(|(cluster, given_up)| {
                let instance = &instance;
                async move {
                    if given_up {
                        return true;
                    }
                    let done =
                        tokio::time::timeout(Duration::from_secs(10), round(instance, cluster, bug)).await;
                    bug == Bug::GivesAClusterUp && !matches!(done, Ok(Ok(())))
                }
            });
            for (given_up, now) in given_up.iter_mut().zip(join_all(rounds).await) {
                *given_up |= now;
            }
        }
        tokio::time::sleep(ROUND).await;
    }
}

fn maps(client: Client) -> Api<ConfigMap> {
    Api::namespaced(client, "default")
}

async fn round(instance: &Instance, cluster: &str, bug: Bug) -> kube::Result<()> {
    let sources = maps(instance.client.clone()).list(&ListParams::default().labels("role=source")).await;
    let sources = match sources {
        Err(_) if bug == Bug::TakesErrorsForEmptiness => Vec::new(),
        other => other?.items,
    };
    let there = match bug {
        Bug::WritesToTheHub => maps(instance.client.clone()),
        _ => maps(instance.cluster(cluster)),
    };
    let mut copies: BTreeMap<String, ConfigMap> = there
        .list(&ListParams::default().labels("role=copy"))
        .await?
        .items
        .into_iter()
        .map(|copy| (copy.name_any(), copy))
        .collect();
    for source in sources {
        let name = format!("{}-copy", source.name_any());
        let copy = copies.remove(&name);
        if copy.is_some_and(|copy| copy.data == source.data) {
            continue;
        }
        let wanted = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": source.data,
            "metadata": { "name": name, "labels": { "role": "copy" } },
        });
        there.patch(&name, &PatchParams::apply(MANAGER).force(), &Patch::Apply(&wanted)).await?;
    }
    for (name, copy) in copies {
        let uid = copy.uid().filter(|_| bug != Bug::DeletesByName);
        let options = DeleteParams {
            preconditions: uid.map(|uid| Preconditions { uid: Some(uid), resource_version: None }),
            ..DeleteParams::default()
        };
        match there.delete(&name, &options).await {
            Err(kube::Error::Api(status)) if status.code == 404 || status.code == 409 => {}
            other => drop(other?),
        }
    }
    Ok(())
}
