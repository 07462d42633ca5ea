//! What has to hold, at the end and at every moment.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, bail, ensure};
use serde_json::Value;
use windlass_testbed::sim::{
    Verb, World, Write,
    invariants::{self, Confines, Ready, Secrets},
};

use crate::{
    bench::{Bench, CANARY, CLUSTERS, OWNER, SHOP, app},
    ledger::{Entry, Kind},
};

/// A question in the form of a create: nothing is stored.
pub fn is_question(write: &Write) -> bool {
    write.call.resource == "selfsubjectreviews"
}

/// Leases and Events of the hub.
pub fn is_bookkeeping(write: &Write) -> bool {
    write.call.cluster.is_empty() && matches!(write.call.resource.as_str(), "leases" | "events")
}

/// The world is as the last commit says, on every cluster, and the Application says so.
pub fn end(world: &World, bench: &Bench, commit: &str) -> anyhow::Result<()> {
    ensure!(bench.is_synced(world), "not synced any more: {:#}", app(world).unwrap_or_default()["status"]);
    let entry = bench.ledger.lock().unwrap().last().clone();
    ensure!(entry.commit == commit, "somebody pushed again");
    runs(world, &entry)
}

/// Every cluster has what a commit says and nothing else of ours, and the inventory says so.
pub fn runs(world: &World, entry: &Entry) -> anyhow::Result<()> {
    let mut wanted: BTreeSet<String> =
        entry.names.iter().map(|name| format!("v1/ConfigMap/{SHOP}/{name}")).collect();
    wanted.insert(format!("v1/Secret/{SHOP}/key"));
    for cluster in CLUSTERS {
        let objects = world.cluster(cluster).context("a cluster is gone")?.objects();
        let ours: BTreeMap<String, Value> = objects
            .into_iter()
            .filter(|object| owner(object) == Some(OWNER))
            .map(|object| (id(&object), object))
            .collect();
        let names: BTreeSet<String> = ours.keys().cloned().collect();
        if let Some(name) = names.symmetric_difference(&wanted).next() {
            let told = told(world, cluster, name).join("\n  ");
            bail!("{cluster} has {names:?}, wanted {wanted:?}; the inventory and {name}:\n  {told}");
        }
        for (name, object) in &ours {
            let number = object.pointer("/data/number").or_else(|| object.pointer("/metadata/labels/number"));
            ensure!(
                number == Some(&Value::from(entry.number.to_string())),
                "{name} on {cluster} is from commit {number:?}, wanted {}",
                entry.number
            );
        }
    }
    let status = app(world).context("the Application is gone")?["status"].clone();
    for cluster in CLUSTERS {
        let held = inventory(&status, cluster);
        ensure!(held == wanted, "the inventory of {cluster} is {held:?}, wanted {wanted:?}");
    }
    Ok(())
}

/// By which writes the inventory of a cluster began and ceased to name an object.
fn told(world: &World, cluster: &str, name: &str) -> Vec<String> {
    let mut before = false;
    let mut told = Vec::new();
    for write in world.writes().iter().filter(|write| write.call.resource == "applications") {
        let Some(after) = write.after.as_ref().filter(|_| write.accepted()) else { continue };
        let now = inventory(&after["status"], cluster).contains(name);
        if now != before {
            told.push(format!("{}: {now}; {}", write.line(), write.changes().join("; ")));
        }
        before = now;
    }
    told
}

/// What holds at every moment of every run.
pub fn always(world: &World, bench: &Bench) -> anyhow::Result<()> {
    house(world)?;
    invariants::deletes_are_guarded(world, |object| {
        object["kind"] == "Lease" || owner(object) == Some(OWNER)
    })?;
    let hub = Confines::default()
        .judging("")
        .kind("applications.windlass.dev")
        .kind("leases.coordination.k8s.io")
        .kind("events.events.k8s.io")
        .kind("selfsubjectreviews.authentication.k8s.io");
    invariants::confined(world, &hub)?;
    for cluster in CLUSTERS {
        let there = Confines::default()
            .judging(cluster)
            .identity("")
            .kind("configmaps")
            .kind("secrets")
            .kind("selfsubjectreviews.authentication.k8s.io");
        invariants::confined(world, &there)?;
    }
    Secrets::planted([CANARY])
        .nowhere(world, &[], |write| write.call.resource == "secrets" && !write.call.cluster.is_empty())?;
    moments(world, bench)
}

/// Goes over all writes in their order, with the Application as it was stored at each moment.
fn moments(world: &World, bench: &Bench) -> anyhow::Result<()> {
    let ledger = bench.ledger.lock().unwrap();
    let mut stored = Value::Null;
    let mut newest: BTreeMap<String, u64> = BTreeMap::new();
    let instances = world.instances();
    for write in world.writes() {
        if write.call.resource == "applications" && write.accepted() {
            if let Some(after) = &write.after {
                stored = (**after).clone();
            }
            for line in stored["status"]["clusters"].as_array().into_iter().flatten() {
                let (Some(name), Some(revision)) = (line["name"].as_str(), line["revision"].as_str()) else {
                    continue;
                };
                let entry = ledger.commit(revision).context("a revision that nobody pushed")?;
                let before = newest.entry(name.to_owned()).or_default();
                ensure!(
                    entry.number >= *before || stored["status"]["pin"]["to"] == revision,
                    "{name} went back from {before} to {}, which no pin says: {}",
                    entry.number,
                    write.line()
                );
                *before = entry.number;
                ensure!(
                    matches!(entry.kind, Kind::Good | Kind::Forced),
                    "{name} runs the {:?} commit {}: {}",
                    entry.kind,
                    entry.number,
                    write.line()
                );
            }
            continue;
        }
        if write.call.cluster.is_empty() || !instances.contains(&write.call.instance) {
            continue;
        }
        if is_question(&write) {
            continue;
        }
        deed(&write, &stored["status"])?;
        let number = write
            .call
            .body
            .pointer("/data/number")
            .or_else(|| write.call.body.pointer("/metadata/labels/number"));
        if let Some(number) = number.and_then(Value::as_str) {
            let entry = number.parse().ok().and_then(|number| ledger.number(number));
            let entry = entry.with_context(|| format!("commit {number}: {}", write.line()))?;
            ensure!(
                matches!(entry.kind, Kind::Good | Kind::Forced),
                "an object of the {:?} commit {number} is applied: {}",
                entry.kind,
                write.line()
            );
        }
    }
    Ok(())
}

/// One write of ours on a cluster.
fn deed(write: &Write, status: &Value) -> anyhow::Result<()> {
    let managed = write.call.verb == Verb::Delete || write.call.manager == "windlass-deliver";
    ensure!(managed, "another field manager: {}", write.line());
    ensure!(write.call.namespace.as_deref() == Some(SHOP), "another namespace: {}", write.line());
    if !write.accepted() {
        return Ok(());
    }
    let object = write.after.as_ref().or(write.before.as_ref()).context("a write without an object")?;
    if let Some(before) = &write.before
        && let Some(other) = owner(before).filter(|owner| *owner != OWNER)
        && write.changed()
    {
        bail!("touches what belongs to {other}: {}", write.line());
    }
    let held = inventory(status, &write.call.cluster);
    let what = if write.call.verb == Verb::Delete { "deletes" } else { "applies" };
    ensure!(held.contains(&id(object)), "{what} what the inventory {held:?} does not name: {}", write.line());
    Ok(())
}

/// What holds whatever is delivered: nobody panics, nothing is deleted but by its UID, one replica writes at a time, and
/// an Application is Ready for its current generation only.
pub fn house(world: &World) -> anyhow::Result<()> {
    invariants::no_panic(world)?;
    invariants::ready_is_current(world, Ready::AtCommit)?;
    invariants::deletes_are_guarded(world, |object| object["kind"] == "Lease" || owner(object).is_some())?;
    invariants::one_effective_writer(world, |write| write.call.resource == "events")
}

/// The accepted writes of replicas on clusters, in their order.
pub fn deeds(world: &World) -> Vec<Write> {
    let writes = world.instance_writes();
    let counts = |write: &Write| !write.call.cluster.is_empty() && write.accepted() && !is_question(write);
    writes.into_iter().filter(counts).collect()
}

/// The Application that an object says it belongs to.
pub fn owner(object: &Value) -> Option<&str> {
    object["metadata"]["annotations"]["windlass.dev/owner"].as_str()
}

fn id(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let metadata = &object["metadata"];
    format!(
        "{}/{}/{}/{}",
        text(&object["apiVersion"]),
        text(&object["kind"]),
        text(&metadata["namespace"]),
        text(&metadata["name"])
    )
}

/// What the inventory names on a cluster.
pub fn inventory(status: &Value, cluster: &str) -> BTreeSet<String> {
    status["inventory"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|entry| {
            entry["clusters"].as_array().is_some_and(|names| names.iter().any(|name| name == cluster))
        })
        .flat_map(|entry| entry["objects"].as_array().cloned().unwrap_or_default())
        .filter_map(|name| name.as_str().map(str::to_owned))
        .collect()
}
