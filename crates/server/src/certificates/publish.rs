//! The `caBundle` in webhook configurations.

use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration, WebhookClientConfig,
};
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use thiserror::Error;
use tracing::{debug, info, warn};

/// How often to try again when others keep changing the configuration.
const ATTEMPTS: usize = 5;

/// A bundle that could not be published.
#[derive(Debug, Error)]
pub enum PublishError {
    /// Not even readable.
    #[error("cannot read {target}; Windlass needs get and patch on it to keep its caBundle up to date")]
    Read {
        /// Which configuration.
        target: WebhookConfiguration,
        /// What the API server said.
        source: kube::Error,
    },
    /// Not writable.
    #[error("cannot patch {target}; Windlass needs get and patch on it to keep its caBundle up to date")]
    Patch {
        /// Which configuration.
        target: WebhookConfiguration,
        /// What the API server said.
        source: kube::Error,
    },
    /// A patch that is not one.
    #[error("cannot write the caBundle of {target} as a patch")]
    Encode {
        /// Which configuration.
        target: WebhookConfiguration,
        /// What serde said.
        source: serde_json::Error,
    },
    /// Changed by others every time.
    #[error("cannot patch {target}: others keep changing it")]
    Contended {
        /// Which configuration.
        target: WebhookConfiguration,
    },
}

/// The two kinds of configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum WebhookConfigurationKind {
    /// `ValidatingWebhookConfiguration`.
    Validating,
    /// `MutatingWebhookConfiguration`.
    Mutating,
}

/// A webhook configuration to keep up to date.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct WebhookConfiguration {
    /// Which kind.
    pub kind: WebhookConfigurationKind,
    /// Its name.
    pub name: String,
}

impl WebhookConfiguration {
    /// A `ValidatingWebhookConfiguration`.
    pub fn validating(name: impl Into<String>) -> Self {
        Self { kind: WebhookConfigurationKind::Validating, name: name.into() }
    }

    /// A `MutatingWebhookConfiguration`.
    pub fn mutating(name: impl Into<String>) -> Self {
        Self { kind: WebhookConfigurationKind::Mutating, name: name.into() }
    }
}

impl std::fmt::Display for WebhookConfiguration {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}WebhookConfiguration {}", self.kind, self.name)
    }
}

/// Where our listener is, as webhooks name it: the bundle goes into those that do and into no others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Endpoint {
    /// `clientConfig.service`.
    Service {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// `clientConfig.url` that is this, or below it: `https://127.0.0.1:9443`.
    Url(String),
}

impl Endpoint {
    /// True when the webhook calls us.
    pub fn is_called_by(&self, config: &WebhookClientConfig) -> bool {
        match self {
            Self::Service { namespace, name } => config
                .service
                .as_ref()
                .is_some_and(|service| service.namespace == *namespace && service.name == *name),
            // The prefix has to end where the authority does: port 94 is not port 9443.
            Self::Url(origin) => config
                .url
                .as_deref()
                .and_then(|url| url.strip_prefix(origin.trim_end_matches('/')))
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/')),
        }
    }
}

/// What became of a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Published {
    /// It had the bundle already, or has no webhook of ours, or does not exist.
    Unchanged,
    /// It has the bundle now.
    Patched,
}

/// Writes bundles into configurations.
#[derive(Clone)]
pub(super) struct Publisher {
    client: Client,
    endpoints: Vec<Endpoint>,
}

impl Publisher {
    pub(super) fn new(client: Client, endpoints: Vec<Endpoint>) -> Self {
        Self { client, endpoints }
    }

    /// Makes sure that every webhook of ours in the target has this bundle, and that nothing else changes.
    pub(super) async fn publish(
        &self,
        target: &WebhookConfiguration,
        bundle: &[u8],
    ) -> Result<Published, PublishError> {
        match target.kind {
            WebhookConfigurationKind::Validating => {
                self.publish_as::<ValidatingWebhookConfiguration>(target, bundle).await
            }
            WebhookConfigurationKind::Mutating => {
                self.publish_as::<MutatingWebhookConfiguration>(target, bundle).await
            }
        }
    }

    async fn publish_as<K>(
        &self,
        target: &WebhookConfiguration,
        bundle: &[u8],
    ) -> Result<Published, PublishError>
    where
        K: Configuration,
    {
        let api = Api::<K>::all(self.client.clone());
        for _ in 0..ATTEMPTS {
            let read = api.get_opt(&target.name).await;
            let Some(found) = read.map_err(|source| PublishError::Read { target: target.clone(), source })?
            else {
                debug!(%target, "not installed, so there is no caBundle to publish");
                return Ok(Published::Unchanged);
            };
            let webhooks = found.client_configs();
            if !webhooks.iter().any(|config| self.is_ours(config)) {
                warn!(%target, "has no webhook that calls this service, so there is no caBundle to publish");
            }
            let resource_version = found.meta().resource_version.clone().unwrap_or_default();
            let Some(operations) = patch(&self.endpoints, &resource_version, &webhooks, bundle) else {
                return Ok(Published::Unchanged);
            };
            let operations = serde_json::from_value(operations)
                .map_err(|source| PublishError::Encode { target: target.clone(), source })?;
            let params = PatchParams {
                field_manager: Some("windlass-certificates".to_owned()),
                ..PatchParams::default()
            };
            match api.patch(&target.name, &params, &Patch::Json::<()>(operations)).await {
                Ok(_) => {
                    info!(%target, "published the caBundle");
                    return Ok(Published::Patched);
                }
                // 422: the test in the patch failed. 409 and 404: changed or deleted meanwhile.
                Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409 | 422) => {
                    debug!(%target, code = status.code, "changed meanwhile, reading it again");
                }
                Err(source) => return Err(PublishError::Patch { target: target.clone(), source }),
            }
        }
        Err(PublishError::Contended { target: target.clone() })
    }

    fn is_ours(&self, config: &WebhookClientConfig) -> bool {
        self.endpoints.iter().any(|endpoint| endpoint.is_called_by(config))
    }
}

/// A JSON patch that sets our bundles on exactly the version that was read; `None` when they are all right.
fn patch(
    endpoints: &[Endpoint],
    resource_version: &str,
    webhooks: &[WebhookClientConfig],
    bundle: &[u8],
) -> Option<Value> {
    let bundle = ByteString(bundle.to_vec());
    let mut operations: Vec<Value> = webhooks
        .iter()
        .enumerate()
        .filter(|(_, config)| endpoints.iter().any(|endpoint| endpoint.is_called_by(config)))
        .filter(|(_, config)| config.ca_bundle.as_ref() != Some(&bundle))
        .map(|(index, _)| json!({"op": "add", "path": format!("/webhooks/{index}/clientConfig/caBundle"), "value": bundle}))
        .collect();
    if operations.is_empty() {
        return None;
    }
    // Webhooks have no address but their place in the list: on any other version it may be another's place.
    operations
        .insert(0, json!({"op": "test", "path": "/metadata/resourceVersion", "value": resource_version}));
    Some(Value::Array(operations))
}

/// What the two kinds have in common.
trait Configuration: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned {
    fn client_configs(&self) -> Vec<WebhookClientConfig>;
}

impl Configuration for ValidatingWebhookConfiguration {
    fn client_configs(&self) -> Vec<WebhookClientConfig> {
        self.webhooks.iter().flatten().map(|webhook| webhook.client_config.clone()).collect()
    }
}

impl Configuration for MutatingWebhookConfiguration {
    fn client_configs(&self) -> Vec<WebhookClientConfig> {
        self.webhooks.iter().flatten().map(|webhook| webhook.client_config.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::admissionregistration::v1::ServiceReference;

    use super::*;

    fn service(namespace: &str, name: &str, bundle: Option<&[u8]>) -> WebhookClientConfig {
        WebhookClientConfig {
            ca_bundle: bundle.map(|bundle| ByteString(bundle.to_vec())),
            service: Some(ServiceReference {
                namespace: namespace.into(),
                name: name.into(),
                ..Default::default()
            }),
            url: None,
        }
    }

    fn url(url: &str) -> WebhookClientConfig {
        WebhookClientConfig { url: Some(url.into()), ..Default::default() }
    }

    #[test]
    fn only_webhooks_that_call_us_are_patched() {
        let ours = [Endpoint::Service { namespace: "windlass".into(), name: "webhook".into() }];
        let webhooks = [
            service("windlass", "webhook", Some(b"new")),
            service("windlass", "other", Some(b"old")),
            service("other", "webhook", None),
            service("windlass", "webhook", None),
            service("windlass", "webhook", Some(b"old")),
            url("https://webhook.windlass.svc/"),
        ];
        assert_eq!(
            patch(&ours, "7", &webhooks, b"new").unwrap(),
            json!([
                {"op": "test", "path": "/metadata/resourceVersion", "value": "7"},
                {"op": "add", "path": "/webhooks/3/clientConfig/caBundle", "value": "bmV3"},
                {"op": "add", "path": "/webhooks/4/clientConfig/caBundle", "value": "bmV3"},
            ])
        );
        assert_eq!(patch(&ours, "7", &webhooks[..3], b"new"), None, "nothing to do, nothing to send");
    }

    #[test]
    fn urls_match_by_whole_origin() {
        let ours = Endpoint::Url("https://127.0.0.1:94/".into());
        assert!(ours.is_called_by(&url("https://127.0.0.1:94/admit/clusters")));
        assert!(ours.is_called_by(&url("https://127.0.0.1:94")));
        assert!(!ours.is_called_by(&url("https://127.0.0.1:9443/admit/clusters")));
        assert!(!ours.is_called_by(&url("https://127.0.0.1:94.evil.example/")));
        assert!(!ours.is_called_by(&service("windlass", "webhook", None)));
    }
}
