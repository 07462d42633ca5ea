//! Who writes what.

use std::collections::BTreeSet;

use anyhow::ensure;
use serde_json::Value;

use super::is_lease;
use crate::sim::{call::Verb, world::World, writes::Write};

/// Every delete by an instance names the UID it means and hits only what `ours` says is ours.
///
/// `ours` gets the object as it was. A delete of a collection is never fine: it names nothing. A delete that the
/// API refused is judged by its precondition alone.
///
/// # Errors
/// Names the first delete that breaks it.
pub fn deletes_are_guarded(world: &World, ours: impl Fn(&Value) -> bool) -> anyhow::Result<()> {
    for write in world.instance_writes() {
        match write.call.verb {
            Verb::DeleteCollection => anyhow::bail!("deletes a whole collection: {}", write.line()),
            Verb::Delete => {}
            _ => continue,
        }
        let uid = write.call.body.pointer("/preconditions/uid").and_then(Value::as_str);
        ensure!(
            uid.is_some_and(|uid| !uid.is_empty()),
            "deletes without a UID precondition: {}",
            write.line()
        );
        let foreign = write.accepted() && write.before.as_ref().is_some_and(|object| !ours(object));
        ensure!(!foreign, "deletes what is not ours: {}", write.line());
    }
    Ok(())
}

/// Where an instance may write. An empty set means “anything”.
#[derive(Clone, Debug, Default)]
pub struct Confines {
    managers: BTreeSet<String>,
    namespaces: BTreeSet<String>,
    kinds: BTreeSet<String>,
    identities: BTreeSet<String>,
    clusters: BTreeSet<String>,
    judged: Option<String>,
}

impl Confines {
    /// Only with this field manager.
    #[must_use]
    pub fn manager(mut self, name: &str) -> Self {
        self.managers.insert(name.to_owned());
        self
    }

    /// Only in this namespace; an empty name stands for cluster-scoped objects.
    #[must_use]
    pub fn namespace(mut self, name: &str) -> Self {
        self.namespaces.insert(name.to_owned());
        self
    }

    /// Only this kind, as `plural` or `plural.group`.
    #[must_use]
    pub fn kind(mut self, kind: &str) -> Self {
        self.kinds.insert(kind.to_owned());
        self
    }

    /// Only on this cluster; an empty name stands for the hub.
    #[must_use]
    pub fn cluster(mut self, name: &str) -> Self {
        self.clusters.insert(name.to_owned());
        self
    }

    /// Judges writes to this cluster alone (an empty name stands for the hub): what an instance may do differs from one
    /// to the other.
    #[must_use]
    pub fn judging(mut self, cluster: &str) -> Self {
        self.judged = Some(cluster.to_owned());
        self
    }

    /// Only under this impersonated user; an empty name stands for the instance's own identity.
    #[must_use]
    pub fn identity(mut self, user: &str) -> Self {
        self.identities.insert(user.to_owned());
        self
    }
}

/// No write outside the given field managers, namespaces, kinds, identities and clusters. A delete has no field manager.
///
/// # Errors
/// Names the first write outside.
pub fn confined(world: &World, confines: &Confines) -> anyhow::Result<()> {
    let inside = |set: &BTreeSet<String>, value: &str| set.is_empty() || set.contains(value);
    for write in world.instance_writes() {
        let call = &write.call;
        if confines.judged.as_ref().is_some_and(|judged| *judged != call.cluster) {
            continue;
        }
        ensure!(inside(&confines.clusters, &call.cluster), "foreign cluster: {}", write.line());
        let managed = !matches!(call.verb, Verb::Delete | Verb::DeleteCollection);
        let line = || write.line();
        ensure!(!managed || inside(&confines.managers, &call.manager), "foreign field manager: {}", line());
        let namespace = call.namespace.as_deref().unwrap_or_default();
        ensure!(inside(&confines.namespaces, namespace), "foreign namespace: {}", line());
        ensure!(inside(&confines.kinds, &call.kind()), "foreign kind: {}", line());
        let identity = call.impersonate.as_deref().unwrap_or_default();
        ensure!(inside(&confines.identities, identity), "foreign identity {identity:?}: {}", line());
    }
    Ok(())
}

/// One effective writer: once another instance has written, the first writes no more, unless it has written its
/// Lease again in between and so taken the lead anew. Writes on Leases and those that `free` names do not count.
///
/// A write that was on the wire when its instance died counts as that instance's: no lease can call it back.
///
/// # Errors
/// Names the first write of a writer whose time was over.
pub fn one_effective_writer(world: &World, free: impl Fn(&Write) -> bool) -> anyhow::Result<()> {
    let mut retired: BTreeSet<String> = BTreeSet::new();
    let mut current: Option<String> = None;
    for write in world.instance_writes().iter().filter(|write| write.accepted()) {
        let who = write.call.instance.clone();
        if is_lease(write) {
            retired.remove(&who);
            continue;
        }
        if free(write) || !write.changed() {
            continue;
        }
        ensure!(
            !retired.contains(&who),
            "{who} writes after {} took over: {}",
            current.unwrap_or_default(),
            write.line()
        );
        if let Some(before) = current.replace(who.clone()).filter(|before| *before != who) {
            retired.insert(before);
        }
    }
    Ok(())
}
