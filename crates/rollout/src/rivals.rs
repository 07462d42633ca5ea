//! Which Rollouts name which Services, so that two on one are found.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, MutexGuard, PoisonError},
};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use windlass_api::Rollout;
use windlass_cluster::drive::Key;

use crate::{index::record::created, observed::Rival, wanted};

/// One that names a Service: the oldest keeps it, and of the same age the one with the smaller name.
type Claim = (Timestamp, String);

#[derive(Debug, Default)]
struct Claims {
    /// By namespace and Service, then by Rollout.
    services: BTreeMap<(String, String), BTreeMap<String, Claim>>,
    /// What each Rollout names.
    rollouts: BTreeMap<(String, String), BTreeSet<String>>,
}

/// See the module's text.
#[derive(Debug, Default)]
pub(crate) struct Rivals(Mutex<Claims>);

impl Rivals {
    fn claims(&self) -> MutexGuard<'_, Claims> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes what a Rollout names. Gives the others that name, or named, the same and have to look again.
    pub(crate) fn note(&self, rollout: &Rollout) -> BTreeSet<Key> {
        let meta = &rollout.metadata;
        let (namespace, name) =
            (meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default());
        let services = wanted::services(&rollout.spec.strategy);
        let mut claims = self.claims();
        let before = claims.rollouts.get(&(namespace.clone(), name.clone()));
        if before == Some(&services) || (before.is_none() && services.is_empty()) {
            return BTreeSet::new();
        }
        let mut others = claims.forget(&namespace, &name);
        for service in &services {
            let names = claims.services.entry((namespace.clone(), service.clone())).or_default();
            others.extend(names.keys().cloned());
            names.insert(name.clone(), claim(meta));
        }
        claims.rollouts.insert((namespace.clone(), name), services);
        keys(&namespace, others)
    }

    /// A Rollout is gone. Gives those that named the same.
    pub(crate) fn gone(&self, key: &Key) -> BTreeSet<Key> {
        let namespace = key.namespace.as_deref().unwrap_or_default();
        keys(namespace, self.claims().forget(namespace, &key.name))
    }

    /// The others that name one of its Services.
    pub(crate) fn of(&self, rollout: &Rollout) -> Vec<Rival> {
        let meta = &rollout.metadata;
        let (namespace, name) =
            (meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default());
        let mine = claim(meta);
        let claims = self.claims();
        let mut rivals = Vec::new();
        for service in wanted::services(&rollout.spec.strategy) {
            let names = claims.services.get(&(namespace.clone(), service.clone()));
            for (other, claim) in names.into_iter().flatten().filter(|(other, _)| **other != name) {
                rivals.push(Rival { service: service.clone(), rollout: other.clone(), older: *claim < mine });
            }
        }
        rivals
    }
}

/// How another one that names a Service of this one stands to it.
pub(crate) fn between(rollout: &Rollout, other: &Rollout, service: String) -> Rival {
    let older = claim(&other.metadata) < claim(&rollout.metadata);
    Rival { service, rollout: other.metadata.name.clone().unwrap_or_default(), older }
}

fn claim(meta: &ObjectMeta) -> Claim {
    (created(meta), meta.name.clone().unwrap_or_default())
}

impl Claims {
    fn forget(&mut self, namespace: &str, name: &str) -> BTreeSet<String> {
        let mut others = BTreeSet::new();
        let named = self.rollouts.remove(&(namespace.to_owned(), name.to_owned())).unwrap_or_default();
        for service in named {
            let place = (namespace.to_owned(), service);
            if let Some(names) = self.services.get_mut(&place) {
                names.remove(name);
                others.extend(names.keys().cloned());
                if names.is_empty() {
                    self.services.remove(&place);
                }
            }
        }
        others
    }
}

fn keys(namespace: &str, names: BTreeSet<String>) -> BTreeSet<Key> {
    let key = |name: String| Key { namespace: Some(namespace.into()), name: name.as_str().into() };
    names.into_iter().map(key).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    fn rollout(name: &str, age: &str, service: &str) -> Rollout {
        serde_json::from_value(json!({
            "apiVersion": "windlass.dev/v1alpha1", "kind": "Rollout",
            "metadata": { "name": name, "namespace": "shop", "creationTimestamp": age },
            "spec": { "strategy": { "blueGreen": { "activeService": service } } }
        }))
        .unwrap()
    }

    #[test]
    fn the_older_of_two_rollouts_on_one_service_keeps_it_and_both_hear_of_each_other() {
        let rivals = Rivals::default();
        let (old, new) =
            (rollout("old", "2026-01-01T00:00:00Z", "web"), rollout("new", "2026-02-01T00:00:00Z", "web"));
        assert!(rivals.note(&new).is_empty());
        assert_eq!(rivals.note(&old).len(), 1);
        assert!(rivals.note(&old).is_empty());
        assert!(rivals.of(&new)[0].older);
        assert!(!rivals.of(&old)[0].older);
        assert_eq!(rivals.note(&rollout("old", "2026-01-01T00:00:00Z", "other")).len(), 1);
        assert!(rivals.of(&new).is_empty());
        let key = Key { namespace: Some("shop".into()), name: "new".into() };
        assert!(rivals.gone(&key).is_empty());
    }
}
