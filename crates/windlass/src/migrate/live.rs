//! Objects in a cluster.

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{
    Api, Client, Resource,
    api::{ApiResource, DynamicObject, ListParams},
    discovery::{self, verbs},
    error::DiscoveryError,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::{Tool, argocd::SECRET_TYPE};
use crate::{cli, error::CommandError};

/// Objects that are asked for at a time.
const PAGE: u32 = 500;

/// Groups of the kinds of a tool, and those of their kinds that are read; all when none is named.
const ARGOCD: [(&str, &[&str]); 1] = [("argoproj.io", &["Application", "ApplicationSet", "AppProject"])];
const FLUX: [(&str, &[&str]); 5] = [
    ("source.toolkit.fluxcd.io", &[]),
    ("kustomize.toolkit.fluxcd.io", &[]),
    ("helm.toolkit.fluxcd.io", &[]),
    ("notification.toolkit.fluxcd.io", &[]),
    ("image.toolkit.fluxcd.io", &[]),
];

const ARGO_ROLLOUTS: [(&str, &[&str]); 1] =
    [(super::argo_rollouts::GROUP, &["Rollout", "AnalysisTemplate", "ClusterAnalysisTemplate"])];

/// Everything of the tool that the cluster holds, in one namespace or in all.
pub(crate) async fn read(
    tool: Tool,
    client: &Client,
    namespace: Option<&str>,
) -> Result<Vec<Value>, CommandError> {
    let groups: &[(&str, &[&str])] = match tool {
        Tool::ArgoCd => &ARGOCD,
        Tool::Flux => &FLUX,
        Tool::ArgoRollouts => &ARGO_ROLLOUTS,
    };
    let mut objects = Vec::new();
    let mut served = false;
    for (group, kinds) in groups {
        for resource in resources(client, group, kinds).await? {
            served = true;
            objects.extend(custom(client, &resource, namespace).await?);
        }
    }
    if !served {
        return Err(CommandError::failure("the cluster does not serve any kind of this tool")
            .hint("Name another cluster with --kubeconfig and --context, or files with -f."));
    }
    if tool == Tool::ArgoCd {
        objects.extend(beside(client, namespace).await);
    }
    Ok(objects)
}

/// Kinds of a group that can be listed; none when the group is not served.
async fn resources(client: &Client, group: &str, kinds: &[&str]) -> Result<Vec<ApiResource>, CommandError> {
    let found = match discovery::group(client, group).await {
        Ok(found) => found,
        Err(kube::Error::Discovery(DiscoveryError::MissingApiGroup(_))) => return Ok(Vec::new()),
        Err(kube::Error::Api(status)) if status.code == 404 => return Ok(Vec::new()),
        Err(error) => {
            return Err(CommandError::failure(format!("cannot ask for the kinds of {group}")).because(error));
        }
    };
    let wanted = |kind: &str| kinds.is_empty() || kinds.contains(&kind);
    let resources = found.recommended_resources().into_iter();
    Ok(resources
        .filter(|(resource, can)| can.supports_operation(verbs::LIST) && wanted(&resource.kind))
        .map(|(resource, _)| resource)
        .collect())
}

async fn custom(
    client: &Client,
    resource: &ApiResource,
    namespace: Option<&str>,
) -> Result<Vec<Value>, CommandError> {
    // A kind without a namespace is read as a whole.
    let namespace = namespace.filter(|_| !resource.kind.starts_with("Cluster"));
    let api: Api<DynamicObject> = match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, resource),
        None => Api::all_with(client.clone(), resource),
    };
    let failed =
        |error: kube::Error| CommandError::failure(format!("cannot list {}", resource.plural)).because(error);
    let mut objects = list(&api, &ListParams::default()).await.map_err(failed)?;
    for object in &mut objects {
        object["apiVersion"] = resource.api_version.clone().into();
        object["kind"] = resource.kind.clone().into();
    }
    Ok(objects)
}

/// Secrets and settings of Argo CD. Somebody who may not read them gets the rest.
async fn beside(client: &Client, namespace: Option<&str>) -> Vec<Value> {
    let mut objects = Vec::new();
    let secrets: Api<Secret> = api(client, namespace);
    let labelled = ListParams::default().labels(SECRET_TYPE);
    match list(&secrets, &labelled).await {
        Ok(found) => objects.extend(found),
        Err(error) => cli::note(&format!("the Secrets of clusters and repositories were not read: {error}")),
    }
    let settings: Api<ConfigMap> = api(client, namespace);
    for name in super::argocd::SETTINGS {
        match list(&settings, &ListParams::default().fields(&format!("metadata.name={name}"))).await {
            Ok(found) => objects.extend(found),
            Err(error) => cli::note(&format!("the ConfigMap {name} was not read: {error}")),
        }
    }
    objects
}

fn api<K>(client: &Client, namespace: Option<&str>) -> Api<K>
where
    K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
{
    match namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    }
}

/// All pages.
async fn list<K>(api: &Api<K>, params: &ListParams) -> kube::Result<Vec<Value>>
where
    K: Clone + DeserializeOwned + Serialize + std::fmt::Debug,
{
    let mut objects = Vec::new();
    let mut params = params.clone().limit(PAGE);
    loop {
        let page = api.list(&params).await?;
        for item in &page.items {
            objects.push(serde_json::to_value(item).map_err(kube::Error::SerdeError)?);
        }
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params.continue_token = Some(token),
            None => return Ok(objects),
        }
    }
}
