//! In which order objects are deleted, when nothing but their names is known.

use std::{cmp::Reverse, collections::BTreeMap};

use serde_json::{Value, json};
use windlass_manifest::order;

use crate::object::ObjectId;

/// The order in which to delete objects, each with its wave if that is known (0 otherwise).
///
/// It is the reverse of the order in which they are created: the last wave first; within a wave webhooks before what
/// they watch over, workloads before what they mount, objects before their definition and their namespace. What is in
/// one group can be deleted together; the next group waits until it is gone. An object that is named twice counts once,
/// in its highest wave.
pub fn deletion_order(objects: impl IntoIterator<Item = (ObjectId, i32)>) -> Vec<Vec<ObjectId>> {
    let mut wave_of: BTreeMap<ObjectId, i32> = BTreeMap::new();
    for (id, wave) in objects {
        let known = wave_of.entry(id).or_insert(wave);
        *known = wave.max(*known);
    }
    let mut waves: BTreeMap<Reverse<i32>, Vec<ObjectId>> = BTreeMap::new();
    for (id, wave) in wave_of {
        waves.entry(Reverse(wave)).or_default().push(id);
    }
    let mut groups = Vec::new();
    for ids in waves.into_values() {
        let values: Vec<Value> = ids.iter().map(skeleton).collect();
        let layers = order::layers(&values).reverse();
        groups.extend(
            layers.into_iter().map(|layer| layer.into_iter().map(|at| ids[at].clone()).collect::<Vec<_>>()),
        );
    }
    groups
}

/// An object with nothing but a name: enough for its stage and the namespace that it is in.
fn skeleton(id: &ObjectId) -> Value {
    let mut object =
        json!({ "apiVersion": id.api_version(), "kind": id.kind, "metadata": { "name": id.name } });
    if !id.namespace.is_empty() {
        object["metadata"]["namespace"] = Value::String(id.namespace.clone());
    }
    object
}
