//! How a verb changes a Rollout: bound to what was read, and recorded with who asked for it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{
    Api, ResourceExt,
    api::{DynamicObject, Patch, PatchParams, PostParams},
    core::{ApiResource, GroupVersionKind},
};
use serde_json::{Map, Value, json};
use windlass_api::rollout::{
    Rollout,
    status::{CONTROLS, Control},
};

use super::words::title;
use crate::{
    error::CommandError,
    verbs::hub::{Hub, MANAGER, failed, find, now},
};

/// How often a write is tried that others get in the way of.
const TRIES: usize = 10;

/// What a verb changes, decided from what was read.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Change {
    /// Fields of the status; `Null` takes one away.
    pub(super) status: Map<String, Value>,
    /// `spec.paused`, if it changes.
    pub(super) paused: Option<bool>,
    /// More about it, for the record.
    pub(super) note: Option<String>,
    /// What the user gets to read.
    pub(super) told: String,
}

/// A verb and who asked for it.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) verb: String,
    pub(super) by: String,
}

impl Request {
    /// A verb of the user of this hub.
    pub(super) async fn of(hub: &Hub, verb: &str) -> Self {
        Self { verb: verb.to_owned(), by: hub.user().await }
    }
}

/// Rollouts of the namespace that is meant.
pub(super) fn rollouts(hub: &Hub) -> Api<Rollout> {
    Api::namespaced(hub.client.clone(), &hub.namespace)
}

/// One Rollout. A name that is not there gets the one that was meant.
pub(super) async fn rollout(hub: &Hub, name: &str) -> Result<Rollout, CommandError> {
    find(&rollouts(hub), "Rollout", name, Some(&hub.namespace)).await
}

/// Decides on what is there, records it, and changes status and spec. Others who write in between make it decide anew.
pub(super) async fn carry_out(
    hub: &Hub,
    name: &str,
    request: &Request,
    decide: impl Fn(&Rollout) -> Result<Change, CommandError>,
) -> Result<String, CommandError> {
    for _ in 0..TRIES {
        let read = rollout(hub, name).await?;
        let change = decide(&read)?;
        if !record(hub, &read, request, &change).await? {
            continue;
        }
        if let Some(paused) = change.paused {
            edit(&specs(hub), &read.name_any(), read.uid().as_deref(), |value| {
                value["spec"]["paused"] = paused.into();
                Ok(())
            })
            .await?;
        }
        return Ok(change.told);
    }
    Err(busy(name))
}

/// Writes the status with a line about who asked for what. `false`: the Rollout moved on since it was read.
pub(super) async fn record(
    hub: &Hub,
    read: &Rollout,
    request: &Request,
    change: &Change,
) -> Result<bool, CommandError> {
    let mut status = change.status.clone();
    status.insert("controls".to_owned(), json!(controls(read, request, change.note.clone())));
    let patch = json!({
        "metadata": { "uid": read.metadata.uid, "resourceVersion": read.metadata.resource_version },
        "status": status,
    });
    let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
    match rollouts(hub).patch_status(&read.name_any(), &params, &Patch::Merge(&patch)).await {
        Ok(_) => Ok(true),
        Err(error) if is_conflict(&error) => Ok(false),
        Err(error) => Err(failed(&format!("cannot change Rollout {}", title(read)), error)),
    }
}

/// What people asked for, with this request as the newest.
fn controls(read: &Rollout, request: &Request, note: Option<String>) -> Vec<Control> {
    let status = read.status.as_ref();
    let mut controls = status.map(|status| status.controls.clone()).unwrap_or_default();
    controls.push(Control {
        verb: request.verb.clone(),
        by: Some(request.by.clone()),
        at: Time(now()),
        revision: status.and_then(|status| status.revision),
        note,
    });
    controls.drain(..controls.len().saturating_sub(CONTROLS));
    controls
}

/// Rollouts as they are stored: a field that this version does not know is kept.
pub(super) fn specs(hub: &Hub) -> Api<DynamicObject> {
    let resource = ApiResource::erase::<Rollout>(&());
    Api::namespaced_with(hub.client.clone(), &hub.namespace, &resource)
}

/// Deployments, for Rollouts that take their template from one.
pub(super) fn deployments(hub: &Hub) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("apps", "v1", "Deployment"));
    Api::namespaced_with(hub.client.clone(), &hub.namespace, &resource)
}

/// Reads an object, changes it and writes it back, bound to the version that was read. One that was deleted and made
/// anew meanwhile is another one.
pub(super) async fn edit(
    api: &Api<DynamicObject>,
    name: &str,
    uid: Option<&str>,
    change: impl Fn(&mut Value) -> Result<(), CommandError>,
) -> Result<(), CommandError> {
    let params = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
    for _ in 0..TRIES {
        let mut object =
            api.get(name).await.map_err(|error| failed(&format!("cannot read {name}"), error))?;
        if uid.is_some() && object.metadata.uid.as_deref() != uid {
            return Err(CommandError::failure(format!("{name} was deleted and made anew in the meantime"))
                .hint("Look at it, then ask again."));
        }
        change(&mut object.data)?;
        match api.replace(name, &params, &object).await {
            Ok(_) => return Ok(()),
            Err(error) if is_conflict(&error) => {}
            Err(error) => return Err(failed(&format!("cannot change {name}"), error)),
        }
    }
    Err(busy(name))
}

fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409)
}

fn busy(name: &str) -> CommandError {
    CommandError::failure(format!("{name} is changed by others all the time: {TRIES} tries were in vain"))
        .hint("Ask again.")
}

#[cfg(test)]
mod tests {
    use super::{super::fixtures, *};

    #[test]
    fn the_newest_requests_are_kept_and_name_who_asked() {
        let mut rollout = fixtures::paused();
        let request = Request { verb: "promote".into(), by: "dev-a".into() };
        for number in 0..30 {
            let kept = controls(&rollout, &request, Some(number.to_string()));
            rollout.status.as_mut().unwrap().controls = kept;
        }
        let kept = rollout.status.unwrap().controls;
        assert_eq!(kept.len(), CONTROLS);
        let last = kept.last().unwrap();
        assert_eq!(
            (last.by.as_deref(), last.note.as_deref(), last.revision),
            (Some("dev-a"), Some("29"), Some(2))
        );
        assert_eq!(kept[0].note.as_deref(), Some("10"));
    }
}
