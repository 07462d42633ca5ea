//! Pods: their labels while they play a part, and their end in a restart.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use kube::Resource;
use serde_json::{Map, Value, json};

use super::{Error, Hands, Whose};

impl Hands {
    /// A pod that is gone, or was made anew, is as good.
    pub(super) async fn patch_pod(
        &self,
        whose: &Whose,
        name: &str,
        uid: &str,
        labels: &BTreeMap<String, Option<String>>,
        annotations: &BTreeMap<String, Option<String>>,
    ) -> Result<(), Error> {
        let mut metadata = Map::from_iter([("uid".to_owned(), Value::from(uid))]);
        for (field, changes) in [("labels", labels), ("annotations", annotations)] {
            if !changes.is_empty() {
                metadata.insert(field.to_owned(), json!(changes));
            }
        }
        match self.merge::<Pod>(&whose.namespace, name, &json!({ "metadata": metadata })).await {
            Ok(_) | Err(Error::Stale(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Asks for the end of a pod by the eviction API, which keeps disruption budgets: a refusal is no failure, the
    /// planner asks again later.
    pub(super) async fn evict(&self, whose: &Whose, name: &str, uid: &str) -> Result<(), Error> {
        let what = format!("evict Pod {name}");
        let path = Pod::url_path(&(), Some(&whose.namespace));
        let body = json!({
            "apiVersion": "policy/v1", "kind": "Eviction",
            "metadata": { "name": name, "namespace": whose.namespace },
            "deleteOptions": { "preconditions": { "uid": uid } },
        });
        let body = serde_json::to_vec(&body).map_err(|source| Error::Shape { what: what.clone(), source })?;
        let request = http::Request::post(format!("{path}/{name}/eviction"))
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(body)
            .map_err(|error| Error::api(what.clone(), kube::Error::HttpError(error)))?;
        match self.client.request::<Value>(request).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 429 => {
                tracing::debug!(pod = name, "a disruption budget keeps the pod for now");
                Ok(())
            }
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
            Err(error) => Err(Error::api(what, error)),
        }
    }
}
