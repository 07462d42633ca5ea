//! `ReplicaSets`: made, adopted, scaled, deleted.

use k8s_openapi::api::apps::v1::ReplicaSet;
use serde_json::{Map, Value, json};

use super::{Error, Hands, Whose, request::owner};
use crate::{
    index::record::{ReplicaSetRecord, controller},
    plan::action::{NewReplicaSet, ReplicaSetPatch},
};

impl Hands {
    fn keep(&self, object: &ReplicaSet) {
        self.index.state().replica_sets.put_own(&object.metadata, ReplicaSetRecord::new(object));
    }

    fn drop_replica_set(&self, whose: &Whose, name: &str, uid: &str) {
        let place = (whose.namespace.clone(), name.to_owned());
        self.index.state().replica_sets.remove(&place, Some(uid));
    }

    pub(super) async fn create_replica_set(&self, whose: &Whose, new: &NewReplicaSet) -> Result<(), Error> {
        let what = || format!("ReplicaSet {}", new.name);
        let object: ReplicaSet = serde_json::from_value(json!({
            "metadata": {
                "name": new.name, "namespace": whose.namespace, "labels": new.labels,
                "annotations": new.annotations, "ownerReferences": [owner(whose)],
            },
            "spec": {
                "replicas": new.replicas, "minReadySeconds": new.min_ready_seconds,
                "selector": new.selector, "template": new.template,
            },
        }))
        .map_err(|source| Error::Shape { what: what(), source })?;
        if let Some(made) = self.make(&whose.namespace, &object).await? {
            self.keep(&made);
            return Ok(());
        }
        // It was made before a crash, or somebody else took the name: the planner has to see which.
        let api = self.api::<ReplicaSet>(&whose.namespace);
        let there =
            api.get_opt(&new.name).await.map_err(|error| Error::api(format!("read {}", what()), error))?;
        let Some(there) = there else { return Err(Error::Stale(what())) };
        let owners = there.metadata.owner_references.as_deref().unwrap_or_default();
        let ours = controller(owners).is_some_and(|owner| owner.uid == whose.uid);
        self.keep(&there);
        if ours { Ok(()) } else { Err(Error::Taken(what())) }
    }

    pub(super) async fn patch_replica_set(
        &self,
        whose: &Whose,
        patch: &ReplicaSetPatch,
    ) -> Result<(), Error> {
        let body = body(patch);
        let Some(object) = self.merge::<ReplicaSet>(&whose.namespace, &patch.name, &body).await? else {
            self.drop_replica_set(whose, &patch.name, &patch.uid);
            return Err(Error::Stale(format!("ReplicaSet {}", patch.name)));
        };
        self.keep(&object);
        Ok(())
    }

    pub(super) async fn delete_replica_set(&self, whose: &Whose, name: &str, uid: &str) -> Result<(), Error> {
        self.delete::<ReplicaSet>(&whose.namespace, name, uid).await?;
        self.drop_replica_set(whose, name, uid);
        Ok(())
    }

    /// Becomes the controller of an orphan, on the version that was read.
    pub(super) async fn adopt(&self, whose: &Whose, name: &str, uid: &str) -> Result<(), Error> {
        self.set_owner(whose, name, uid, true).await
    }

    /// Lets go of one, on the version that was read.
    pub(super) async fn release(&self, whose: &Whose, name: &str, uid: &str) -> Result<(), Error> {
        self.set_owner(whose, name, uid, false).await
    }

    async fn set_owner(&self, whose: &Whose, name: &str, uid: &str, ours: bool) -> Result<(), Error> {
        let stale = || Error::Stale(format!("ReplicaSet {name}"));
        let (version, mut owners) = {
            let state = self.index.state();
            let record = state.replica_sets.get(&whose.namespace, name).filter(|record| record.uid() == uid);
            let record = record.ok_or_else(stale)?;
            let version = state.replica_sets.version(&whose.namespace, name).unwrap_or_default();
            (version.to_owned(), record.owners.clone())
        };
        owners.retain(|other| other.uid != whose.uid);
        if ours {
            owners.push(owner(whose));
        }
        let patch = json!({ "metadata": {
            "uid": uid, "resourceVersion": version, "ownerReferences": owners,
        } });
        let object = self.merge::<ReplicaSet>(&whose.namespace, name, &patch).await?.ok_or_else(stale)?;
        self.keep(&object);
        Ok(())
    }
}

/// One merge patch with all changes. The UID is a precondition.
fn body(patch: &ReplicaSetPatch) -> Value {
    let mut metadata = Map::from_iter([("uid".to_owned(), Value::from(patch.uid.as_str()))]);
    if !patch.annotations.is_empty() {
        metadata.insert("annotations".to_owned(), json!(patch.annotations));
    }
    let mut spec = Map::new();
    if let Some(replicas) = patch.replicas {
        spec.insert("replicas".to_owned(), json!(replicas));
    }
    if let Some(seconds) = patch.min_ready_seconds {
        spec.insert("minReadySeconds".to_owned(), json!(seconds));
    }
    let mut template = Map::new();
    let mut pod = Map::new();
    if !patch.template_labels.is_empty() {
        pod.insert("labels".to_owned(), json!(patch.template_labels));
    }
    if !patch.template_annotations.is_empty() {
        pod.insert("annotations".to_owned(), json!(patch.template_annotations));
    }
    if !pod.is_empty() {
        template.insert("metadata".to_owned(), Value::Object(pod));
    }
    if let Some(affinity) = &patch.affinity {
        template.insert("spec".to_owned(), json!({ "affinity": affinity }));
    }
    if !template.is_empty() {
        spec.insert("template".to_owned(), Value::Object(template));
    }
    let mut body = Map::from_iter([("metadata".to_owned(), Value::Object(metadata))]);
    if !spec.is_empty() {
        body.insert("spec".to_owned(), Value::Object(spec));
    }
    Value::Object(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_says_only_what_changes_and_whose_it_is() {
        let patch = ReplicaSetPatch {
            name: "web-1".into(),
            uid: "u".into(),
            replicas: Some(3),
            annotations: [("a".to_owned(), None), ("b".to_owned(), Some("c".to_owned()))].into(),
            ..ReplicaSetPatch::default()
        };
        let expected = json!({
            "metadata": { "uid": "u", "annotations": { "a": null, "b": "c" } },
            "spec": { "replicas": 3 },
        });
        assert_eq!(body(&patch), expected);
    }
}
