//! Waits for the kinds that a controller needs.

use std::time::Duration;

use kube::Client;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};
use windlass_api::{GROUP, VERSION};
use windlass_server::readiness::ReadinessCheck;

/// Between two looks. Discovery is cheap, and somebody is installing things right now.
const PAUSE: Duration = Duration::from_secs(2);

/// The same trouble is logged again after so many looks.
const REPEAT: u32 = 30;

/// Longest wait for one answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Waits until the API server serves the kind. False when told to end before.
///
/// Without its `CustomResourceDefinition` a controller can do nothing, but ending the process would only make the
/// kubelet start it again, ever more slowly: it waits, says what is missing, and goes on by itself.
pub(super) async fn served(
    client: &Client,
    plural: &str,
    check: &ReadinessCheck,
    stop: &CancellationToken,
) -> bool {
    let mut looks = 0u32;
    loop {
        let Some(trouble) = look(client, plural).await else {
            if looks > 0 {
                info!(kind = plural, "the kind is served now");
            }
            return true;
        };
        check.not_ready(trouble.clone());
        if looks.is_multiple_of(REPEAT) {
            warn!(kind = plural, trouble, "waiting for the kind to be served");
        }
        looks = looks.wrapping_add(1);
        tokio::select! {
            () = stop.cancelled() => return false,
            () = tokio::time::sleep(PAUSE) => {}
        }
    }
}

/// What is in the way; `None` if nothing is. Discovery needs no rights beyond those that every account has.
async fn look(client: &Client, plural: &str) -> Option<String> {
    let version = format!("{GROUP}/{VERSION}");
    let missing = || {
        format!(
            "the CustomResourceDefinition {plural}.{GROUP} is not installed; \
             install it with: windlass crds | kubectl apply --server-side -f -"
        )
    };
    match tokio::time::timeout(PATIENCE, client.list_api_group_resources(&version)).await {
        Ok(Ok(list)) if list.resources.iter().any(|resource| resource.name == plural) => None,
        Ok(Ok(_)) => Some(missing()),
        Ok(Err(kube::Error::Api(status))) if status.code == 404 => Some(missing()),
        Ok(Err(kube::Error::Api(status))) => {
            Some(format!("the API server refuses ({}): {}", status.code, status.message))
        }
        // A decoding error quotes what was answered; only that there was one is told.
        Ok(Err(kube::Error::SerdeError(_))) => {
            Some("the server does not answer as a Kubernetes API server".to_owned())
        }
        Ok(Err(error)) => Some(format!("the API server does not answer: {error}")),
        Err(_) => Some(format!("the API server did not answer within {} s", PATIENCE.as_secs())),
    }
}
