//! What an API server's answer means for the work on an object.

use windlass_cluster::{apply::ApplyError, discover::DiscoverError};

use super::Refused;
use crate::{object::ObjectId, trouble::Trouble};

/// The cluster, and not the object, is what fails: the same holds for all other objects.
pub(super) fn is_away(error: &ApplyError) -> bool {
    match error {
        ApplyError::Unreachable { .. } | ApplyError::Unauthorized => true,
        ApplyError::Transient { message, .. } => failed_webhook(message).is_none(),
        _ => false,
    }
}

/// The webhook that could not be asked, by the API server's message.
pub(super) fn failed_webhook(message: &str) -> Option<&str> {
    let (_, rest) = message.split_once("failed calling webhook \"")?;
    rest.split_once('"').map(|(name, _)| name)
}

/// The namespace that a message says does not exist.
pub(super) fn missing_namespace(error: &ApplyError) -> Option<&str> {
    let ApplyError::NotFound { message } = error else { return None };
    let (_, rest) = message.split_once("namespaces \"")?;
    rest.split_once("\" not found").map(|(name, _)| name)
}

/// Whether a field was changed that cannot be.
pub(super) fn is_immutable(error: &ApplyError) -> bool {
    let says = |text: &str| {
        [
            "field is immutable",
            "is immutable",
            "may not be changed",
            "updates to statefulset spec for fields other",
        ]
        .iter()
        .any(|words| text.contains(words))
    };
    match error {
        ApplyError::Invalid { message, causes } => {
            says(message) || causes.iter().any(|cause| says(&cause.message))
        }
        // Some kinds refuse with 403 what others refuse with 422.
        ApplyError::Forbidden { message } => says(message),
        _ => false,
    }
}

/// Why a request was not even sent.
fn unsent(error: &ApplyError) -> Option<&Refused> {
    let ApplyError::Unreachable { source: kube::Error::Service(source), .. } = error else { return None };
    source.downcast_ref()
}

/// Trouble with a cluster as a whole.
pub(super) fn away(cluster: &str, error: &ApplyError) -> Trouble {
    if let Some(refused) = unsent(error) {
        return Trouble::standing(
            "CannotImpersonate",
            format!("nothing is sent to cluster {cluster}: {refused}"),
            "Correct spec.sync.serviceAccountName of the Application, or the kubeconfig of the Cluster.",
        );
    }
    match error {
        ApplyError::Unauthorized => Trouble::passing(
            "Unauthorized",
            format!("cluster {cluster} does not accept the credentials"),
            "Renew the kubeconfig in the Secret of the Cluster.",
        ),
        ApplyError::Transient { code, message, .. } => Trouble::passing(
            "ApiServerBusy",
            format!("the API server of cluster {cluster} cannot answer now (HTTP {code}): {message}"),
            "It is asked again.",
        ),
        _ => Trouble::passing(
            "Unreachable",
            format!("cluster {cluster} does not answer"),
            "It is asked again; look at the conditions of the Cluster.",
        ),
    }
}

/// Whether trouble says that the cluster as a whole does not answer.
pub fn is_unreachable(trouble: &Trouble) -> bool {
    matches!(trouble.reason, "Unreachable" | "Unauthorized" | "DiscoveryFailed")
}

/// Trouble with discovery.
pub(super) fn undiscovered(cluster: &str, error: &DiscoverError) -> Trouble {
    Trouble::passing(
        "DiscoveryFailed",
        format!("the kinds of cluster {cluster} are not known: {error}"),
        "It is asked again; look at the conditions of the Cluster.",
    )
}

/// A group of kinds whose backend is down: neither there nor known to be gone.
pub(super) fn uncertain(cluster: &str, id: &ObjectId, reason: &str) -> Trouble {
    Trouble::passing(
        "KindUncertain",
        format!("cluster {cluster} cannot say whether it serves {} {}: {reason}", id.api_version(), id.kind),
        "Look at the APIService of the group: kubectl get apiservices.",
    )
}

/// The cluster does not serve a kind.
pub(super) fn unknown_kind(cluster: &str, id: &ObjectId) -> Trouble {
    Trouble::passing(
        "UnknownKind",
        format!(
            "cluster {cluster} does not serve {} {}, which {} needs",
            id.api_version(),
            id.kind,
            id.short()
        ),
        "Install its CustomResourceDefinition first, or correct apiVersion and kind.",
    )
}

/// An object that belongs to another Application.
pub(super) fn foreign(id: &ObjectId, owner: &str) -> Trouble {
    Trouble::standing(
        "BelongsToAnother",
        format!("{} belongs to the Application {owner}", id.short()),
        "Take it out of one of the two Applications.",
    )
}

/// Trouble with one object.
pub(super) fn trouble(cluster: &str, id: &ObjectId, error: &ApplyError) -> Trouble {
    let what = format!("{} on cluster {cluster}: {error}", id.short());
    if is_away(error) {
        return away(cluster, error);
    }
    if is_immutable(error) {
        return Trouble::standing("FieldImmutable", what, IMMUTABLE_REMEDY);
    }
    if let Some(namespace) = missing_namespace(error) {
        return Trouble::passing(
            "NamespaceMissing",
            format!("{}: namespace {namespace} does not exist on cluster {cluster}", id.short()),
            NAMESPACE_REMEDY,
        );
    }
    match error {
        ApplyError::UnknownKind => unknown_kind(cluster, id),
        ApplyError::Conflict { .. } | ApplyError::Modified { .. } => {
            Trouble::passing("Conflict", what, "It is tried again.")
        }
        ApplyError::Invalid { .. } => Trouble::standing("Invalid", what, "Correct the object in its source."),
        ApplyError::UnknownField { .. } => Trouble::standing(
            "UnknownField",
            what,
            "Remove the field, or use a version of the kind that has it.",
        ),
        ApplyError::NotFound { .. } => Trouble::passing("NotFound", what, "It is tried again."),
        ApplyError::Forbidden { .. } => Trouble::standing(
            "Forbidden",
            what,
            "Give the account that applies it the right to do so, or change the object.",
        ),
        ApplyError::Denied { .. } => {
            Trouble::standing("Denied", what, "Change the object so that the policy allows it.")
        }
        ApplyError::Quota { .. } => {
            Trouble::passing("QuotaExceeded", what, "Raise the quota of the namespace, or ask for less.")
        }
        ApplyError::Terminating => {
            Trouble::passing("NamespaceTerminating", what, "Wait until the namespace is gone.")
        }
        ApplyError::TooLarge { .. } => {
            Trouble::standing("TooLarge", what, "Split the object: an API server stores about 1 MiB.")
        }
        ApplyError::Transient { .. } => {
            Trouble::passing("WebhookFailed", what, "Bring the webhook's service back; it is tried again.")
        }
        ApplyError::Other { .. } | ApplyError::Unauthorized | ApplyError::Unreachable { .. } => {
            Trouble::passing("ApiServerError", what, "It is tried again.")
        }
    }
}

/// What helps where a field cannot be changed in place.
pub(super) const IMMUTABLE_REMEDY: &str = "Give the object another name, or annotate it with windlass.dev/sync-options: Force=true to have it deleted and created anew.";

/// What helps where a namespace is missing.
pub(super) const NAMESPACE_REMEDY: &str =
    "Add the Namespace to the source, or set spec.sync.createNamespace.";

/// Refuses an identity that would be none: a request without it would be made with our own, larger rights.
pub(super) fn check_identity(as_user: Option<&str>) -> Result<(), Trouble> {
    match as_user {
        Some(user) if user.trim().is_empty() => Err(Trouble::standing(
            "IdentityMissing",
            "the account to act as has no name",
            "Set spec.sync.serviceAccountName to the name of a ServiceAccount, or leave it out.",
        )),
        _ => Ok(()),
    }
}
