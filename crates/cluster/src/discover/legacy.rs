//! Discovery one group version at a time, for API servers that do not aggregate.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use bytes::Bytes;
use futures::{StreamExt, stream};
use http::StatusCode;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{
    APIGroupList, APIResource, APIResourceList, APIVersions,
};
use kube::{Client, api::ApiResource};

use super::{DiscoverError, Discovered, Served, api_version, fetch};

/// Requests made at a time.
const PARALLEL: usize = 8;

/// How long one group may take: a dead backend must not hold up the others.
const GROUP_TIMEOUT: Duration = Duration::from_secs(15);

/// A group version that is to be asked.
struct Wanted {
    group: String,
    version: String,
    rank: usize,
}

impl Wanted {
    fn path(&self) -> String {
        let root = if self.group.is_empty() { "/api" } else { "/apis" };
        format!("{root}/{}", api_version(&self.group, &self.version))
    }
}

pub(super) async fn core(client: &Client, body: &Bytes, into: &mut Discovered) -> Result<(), DiscoverError> {
    let versions: APIVersions =
        serde_json::from_slice(body).map_err(|_| DiscoverError::Malformed { path: "/api".to_owned() })?;
    let wanted = versions.versions.into_iter().enumerate();
    ask(client, wanted.map(|(rank, version)| Wanted { group: String::new(), version, rank }), into).await;
    Ok(())
}

pub(super) async fn groups(
    client: &Client,
    body: &Bytes,
    into: &mut Discovered,
) -> Result<(), DiscoverError> {
    let list: APIGroupList =
        serde_json::from_slice(body).map_err(|_| DiscoverError::Malformed { path: "/apis".to_owned() })?;
    let mut wanted = Vec::new();
    for group in list.groups {
        let preferred = group.preferred_version.map(|version| version.version).unwrap_or_default();
        for (place, version) in group.versions.into_iter().enumerate() {
            let rank = if version.version == preferred { 0 } else { place + 1 };
            wanted.push(Wanted { group: group.name.clone(), version: version.version, rank });
        }
    }
    ask(client, wanted, into).await;
    Ok(())
}

async fn ask(client: &Client, wanted: impl IntoIterator<Item = Wanted>, into: &mut Discovered) {
    let answers: Vec<(Wanted, Result<APIResourceList, String>)> = stream::iter(wanted)
        .map(|wanted| async {
            let path = wanted.path();
            let answer = tokio::time::timeout(GROUP_TIMEOUT, resources(client, &path)).await;
            (
                wanted,
                answer.unwrap_or_else(|_| Err(format!("the API server did not answer for {path} in time"))),
            )
        })
        .buffered(PARALLEL)
        .collect()
        .await;
    for (wanted, answer) in answers {
        match answer {
            Ok(list) => add(&wanted, list, into),
            Err(reason) => into.fail(&wanted.group, &wanted.version, &reason),
        }
    }
}

async fn resources(client: &Client, path: &str) -> Result<APIResourceList, String> {
    let (status, body) = fetch(client, path, "application/json").await.map_err(|error| error.to_string())?;
    if status != StatusCode::OK {
        return Err(DiscoverError::Status { path: path.to_owned(), code: status.as_u16() }.to_string());
    }
    serde_json::from_slice(&body).map_err(|_| DiscoverError::Malformed { path: path.to_owned() }.to_string())
}

fn add(wanted: &Wanted, list: APIResourceList, into: &mut Discovered) {
    let mut subresources: BTreeMap<String, BTreeMap<String, BTreeSet<String>>> = BTreeMap::new();
    let mut own = Vec::new();
    for resource in list.resources {
        match resource.name.split_once('/') {
            Some((parent, name)) => {
                let of_parent = subresources.entry(parent.to_owned()).or_default();
                of_parent.insert(name.to_owned(), resource.verbs.into_iter().collect());
            }
            None => own.push(resource),
        }
    }
    for resource in own {
        let subresources = subresources.remove(&resource.name).unwrap_or_default();
        into.add(served(wanted, resource, subresources));
    }
}

fn served(wanted: &Wanted, found: APIResource, subresources: BTreeMap<String, BTreeSet<String>>) -> Served {
    Served {
        resource: ApiResource {
            group: wanted.group.clone(),
            version: wanted.version.clone(),
            api_version: api_version(&wanted.group, &wanted.version),
            kind: found.kind,
            plural: found.name,
        },
        namespaced: found.namespaced,
        verbs: found.verbs.into_iter().collect(),
        subresources,
        short_names: found.short_names.unwrap_or_default(),
        categories: found.categories.unwrap_or_default(),
        rank: wanted.rank,
        stale: false,
    }
}
