//! The hash of a pod template: ten letters and digits that spell no words.

use serde_json::{Value, json};
use windlass_api::rollout::{CanaryStep, POD_TEMPLATE_HASH};
use windlass_manifest::digest::{Digest, digest};

use super::defaults::without_defaults;

/// The alphabet of Kubernetes' own hashes: no vowels and nothing that looks like one.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
const LENGTH: usize = 10;

/// The hash of a template: the same for templates that the API server stores alike.
///
/// `collisions` counts how often two different templates had the same hash, and leads out of it.
pub fn template_hash(template: &Value, collisions: i32) -> String {
    let template = without_defaults(template);
    let value = if collisions == 0 { template } else { json!([template, collisions]) };
    spell(&digest(&value))
}

/// Whether two templates make the same pods. The label with the hash does not count.
pub fn same_template(a: &Value, b: &Value) -> bool {
    let plain = |template: &Value| {
        let mut template = without_defaults(template);
        if let Some(labels) = template.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) {
            labels.remove(POD_TEMPLATE_HASH);
        }
        if template
            .pointer("/metadata/labels")
            .and_then(Value::as_object)
            .is_some_and(serde_json::Map::is_empty)
            && let Some(metadata) = template.get_mut("metadata").and_then(Value::as_object_mut)
        {
            metadata.remove("labels");
        }
        template
    };
    digest(&plain(a)) == digest(&plain(b))
}

/// The hash of the steps of a canary.
pub fn steps_hash(steps: &[CanaryStep]) -> String {
    spell(&digest(&serde_json::to_value(steps).unwrap_or_default()))
}

/// A digest as a hash that Kubernetes would write.
pub fn spell(digest: &Digest) -> String {
    digest[..LENGTH].iter().map(|byte| char::from(ALPHABET[usize::from(*byte) % ALPHABET.len()])).collect()
}
