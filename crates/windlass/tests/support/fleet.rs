//! Clusters on a real control plane.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::{
    ByteString,
    api::{coordination::v1::Lease, core::v1::Secret},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    apimachinery::pkg::apis::meta::v1::Condition,
};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use windlass_api::{Cluster, condition};

use super::eventually;

/// Installs the CRDs as `windlass crds | kubectl apply --server-side -f -` does, and waits until they are served.
pub async fn install_crds(client: &Client) {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    for crd in windlass_api::crds::all() {
        api.patch(&crd.name_any(), &PatchParams::apply("test").force(), &Patch::Apply(&crd)).await.unwrap();
    }
    let clusters: Api<Cluster> = Api::all(client.clone());
    eventually("the kinds are served", Duration::from_secs(30), || async {
        clusters.list(&ListParams::default()).await.map(drop).map_err(|error| error.to_string())
    })
    .await;
}

/// Clusters whose kubeconfigs are in one namespace.
pub struct Fleet {
    /// May do everything.
    pub client: Client,
    /// Where the Secrets are.
    pub namespace: String,
}

impl Fleet {
    /// The Clusters.
    pub fn clusters(&self) -> Api<Cluster> {
        Api::all(self.client.clone())
    }

    /// Stores a kubeconfig.
    pub async fn secret(&self, name: &str, kubeconfig: &str) {
        let data = BTreeMap::from([("kubeconfig".to_owned(), ByteString(kubeconfig.as_bytes().to_vec()))]);
        let secret = Secret {
            metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
            data: Some(data),
            ..Secret::default()
        };
        let api: Api<Secret> = Api::namespaced(self.client.clone(), &self.namespace);
        api.create(&PostParams::default(), &secret).await.unwrap();
    }

    /// Registers a Cluster with a kubeconfig of its own, probed often and given up soon.
    pub async fn register(&self, name: &str, kubeconfig: &str) {
        self.secret(name, kubeconfig).await;
        self.create(name, &self.spec(name)).await.unwrap();
    }

    /// The spec of a Cluster with this Secret.
    pub fn spec(&self, secret: &str) -> Value {
        json!({
            "kubeconfig": { "secretRef": { "name": secret, "namespace": self.namespace } },
            "probe": { "interval": "5s", "timeout": "2s" },
        })
    }

    /// Creates a Cluster.
    pub async fn create(&self, name: &str, spec: &Value) -> kube::Result<Cluster> {
        let cluster = json!({
            "apiVersion": "windlass.dev/v1alpha1", "kind": "Cluster", "metadata": { "name": name }, "spec": spec,
        });
        self.clusters().create(&PostParams::default(), &serde_json::from_value(cluster).unwrap()).await
    }

    /// Changes the spec; gives the new generation.
    pub async fn change(&self, name: &str, qps: u32) -> i64 {
        let patch = json!({ "spec": { "qps": qps } });
        let changed =
            self.clusters().patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
        changed.metadata.generation.unwrap()
    }

    /// The Ready condition, if the status speaks of the present generation.
    pub async fn condition(&self, name: &str) -> Result<Condition, String> {
        let cluster = self.clusters().get(name).await.map_err(|error| error.to_string())?;
        let status = cluster.status.unwrap_or_default();
        if status.observed_generation != cluster.metadata.generation {
            return Err(format!("observed generation {:?}", status.observed_generation));
        }
        condition::get(&status.conditions, condition::READY).cloned().ok_or_else(|| "no condition".to_owned())
    }

    /// Waits until the status speaks of the present generation and Ready is as wanted.
    pub async fn wait(&self, name: &str, status: &str, within: Duration) -> Condition {
        eventually(&format!("{name} becomes Ready={status}"), within, || async {
            let ready = self.condition(name).await?;
            if ready.status == status {
                Ok(ready)
            } else {
                Err(format!("{}: {}", ready.reason, ready.message))
            }
        })
        .await
    }

    /// Who holds the only shard of an installation.
    pub async fn holder(&self, installation: &str) -> Option<String> {
        let api: Api<Lease> = Api::namespaced(self.client.clone(), &self.namespace);
        let lease = api.get_opt(&format!("{installation}-shard-0")).await.ok()??;
        lease.spec?.holder_identity.filter(|holder| !holder.is_empty())
    }

    /// Waits until somebody other than this replica holds the only shard.
    pub async fn holder_other_than(&self, installation: &str, old: &str, within: Duration) -> String {
        eventually(&format!("another replica than {old:?} takes over"), within, || async {
            match self.holder(installation).await {
                Some(holder) if holder != old => Ok(holder),
                other => Err(format!("holder {other:?}")),
            }
        })
        .await
    }

    /// Waits until a Cluster is gone.
    pub async fn gone(&self, name: &str, within: Duration) {
        eventually(&format!("{name} is gone"), within, || async {
            match self.clusters().get_opt(name).await {
                Ok(None) => Ok(()),
                Ok(Some(cluster)) => Err(format!("finalizers {:?}", cluster.finalizers())),
                Err(error) => Err(error.to_string()),
            }
        })
        .await;
    }

    /// Removes every Cluster, also without a controller: the next test starts from nothing.
    pub async fn wipe(&self) {
        let api = self.clusters();
        for cluster in api.list(&ListParams::default()).await.unwrap() {
            let name = cluster.name_any();
            let _ = api.delete(&name, &DeleteParams::default()).await;
            let none = json!({ "metadata": { "finalizers": null } });
            let _ = api.patch(&name, &PatchParams::default(), &Patch::Merge(&none)).await;
        }
    }
}
