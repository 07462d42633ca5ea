//! What the admission webhooks say. The rules are pure functions; here they are given requests.

pub(crate) mod cluster;

use kube::core::{DynamicObject, admission::Operation};
use windlass_api::Cluster;
use windlass_server::admission::{DenyReason, Request, Verdict};

use self::cluster::ClusterRules;

/// The webhook `/admit/clusters`.
pub(crate) fn clusters(rules: ClusterRules) -> impl Fn(&Request) -> Verdict + Send + Sync + 'static {
    move |request| {
        if !matches!(request.operation, Operation::Create | Operation::Update) {
            return Verdict::Allow;
        }
        let Some(Ok(new)) = request.object.clone().map(DynamicObject::try_parse::<Cluster>) else {
            // The API server checked it against the schema, so this is another version than ours: no guess.
            return Verdict::Deny {
                message: "this version of Windlass cannot read the Cluster".to_owned(),
                reason: DenyReason::Invalid,
            };
        };
        let old = request.old_object.clone().and_then(|old| old.try_parse::<Cluster>().ok());
        rules.judge(&new, old.as_ref())
    }
}
