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

/// Who has to look again because a Rollout names other Services than before.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Moved {
    /// Rollouts that name, or named, the same.
    pub(crate) others: BTreeSet<Key>,
    /// Services that it names no more.
    pub(crate) left: BTreeSet<Key>,
}

/// See the module's text.
#[derive(Debug, Default)]
pub(crate) struct Rivals(Mutex<Claims>);

impl Rivals {
    fn claims(&self) -> MutexGuard<'_, Claims> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether any Rollout names a Service.
    pub(crate) fn is_named(&self, namespace: &str, service: &str) -> bool {
        self.claims().services.contains_key(&(namespace.to_owned(), service.to_owned()))
    }

    /// Notes what a Rollout names.
    pub(crate) fn note(&self, rollout: &Rollout) -> Moved {
        let meta = &rollout.metadata;
        let (namespace, name) =
            (meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default());
        let services = wanted::services(&rollout.spec.strategy);
        let mut claims = self.claims();
        let before = claims.rollouts.get(&(namespace.clone(), name.clone()));
        if before == Some(&services) || (before.is_none() && services.is_empty()) {
            return Moved::default();
        }
        let (mut others, left) = claims.forget(&namespace, &name);
        for service in &services {
            let names = claims.services.entry((namespace.clone(), service.clone())).or_default();
            others.extend(names.keys().cloned());
            names.insert(name.clone(), claim(meta));
        }
        let left = left.difference(&services).cloned().collect();
        claims.rollouts.insert((namespace.clone(), name), services);
        Moved { others: keys(&namespace, others), left: keys(&namespace, left) }
    }

    /// A Rollout is gone.
    pub(crate) fn gone(&self, key: &Key) -> Moved {
        let namespace = key.namespace.as_deref().unwrap_or_default();
        let (others, left) = self.claims().forget(namespace, &key.name);
        Moved { others: keys(namespace, others), left: keys(namespace, left) }
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
    /// Gives those that name the same, and what it named.
    fn forget(&mut self, namespace: &str, name: &str) -> (BTreeSet<String>, BTreeSet<String>) {
        let mut others = BTreeSet::new();
        let named = self.rollouts.remove(&(namespace.to_owned(), name.to_owned())).unwrap_or_default();
        for service in &named {
            let place = (namespace.to_owned(), service.clone());
            if let Some(names) = self.services.get_mut(&place) {
                names.remove(name);
                others.extend(names.keys().cloned());
                if names.is_empty() {
                    self.services.remove(&place);
                }
            }
        }
        (others, named)
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
        assert_eq!(rivals.note(&new), Moved::default());
        assert_eq!(rivals.note(&old).others.len(), 1);
        assert_eq!(rivals.note(&old), Moved::default());
        assert!(rivals.of(&new)[0].older);
        assert!(!rivals.of(&old)[0].older);
        let key = |name: &str| Key { namespace: Some("shop".into()), name: name.into() };
        let moved = rivals.note(&rollout("old", "2026-01-01T00:00:00Z", "other"));
        assert_eq!(moved, Moved { others: [key("new")].into(), left: [key("web")].into() });
        assert!(rivals.of(&new).is_empty());
        assert!(rivals.is_named("shop", "web"));
        assert_eq!(rivals.gone(&key("new")), Moved { left: [key("web")].into(), ..Moved::default() });
        assert!(!rivals.is_named("shop", "web"));
    }
}
