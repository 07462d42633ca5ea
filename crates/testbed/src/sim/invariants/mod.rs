//! Invariants: what has to hold in every run, as checks over the log of writes, the states and the outputs.
//!
//! Each check names the write or object that breaks it. Call them at the end of a scenario, with `?`.

mod secrets;
mod stable;
mod writers;

use std::time::Duration;

use anyhow::{bail, ensure};
use serde_json::Value;

pub use secrets::Secrets;
pub use stable::{Allow, Stable, eventually_stable};
pub use writers::{Confines, confined, deletes_are_guarded, one_effective_writer};

use super::{call::Verb, world::World, writes::Write};

/// No instance panicked, in any task.
///
/// # Errors
/// With the panics' messages.
pub fn no_panic(world: &World) -> anyhow::Result<()> {
    let panics = world.panics();
    ensure!(panics.is_empty(), "panicked: {}", panics.join("\n"));
    Ok(())
}

/// A gauge never went above its bound; see [`World::gauge`].
///
/// # Errors
/// When it did, or when there is no such gauge.
pub fn bounded(world: &World, gauge: &str, most: u64) -> anyhow::Result<()> {
    let Some(peak) = world.peak(gauge) else { bail!("there is no gauge {gauge:?}") };
    ensure!(peak <= most, "{gauge} reached {peak}, its bound is {most}");
    Ok(())
}

/// A poison object never delays others: while it is there, every healthy one becomes ready within the bound.
///
/// # Errors
/// Names those that were not ready in time.
pub async fn others_unaffected(
    world: &World,
    within: Duration,
    healthy: &[&str],
    ready: impl Fn(&World, &str) -> bool,
) -> anyhow::Result<()> {
    let waiting = || healthy.iter().filter(|name| !ready(world, name)).copied().collect::<Vec<_>>();
    let ready =
        world.eventually("healthy objects beside a poison one", within, || waiting().is_empty()).await;
    ready.map_err(|error| error.context(format!("not ready in time: {}", waiting().join(", "))))
}

/// How strict [`ready_is_current`] is about a spec that moved during a reconcile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ready {
    /// At the commit of a status by an instance, Ready=True carries the object's generation of that moment. Holds
    /// for controllers that write status with the resourceVersion they read.
    AtCommit,
    /// Ready=True may carry an older generation (readers compare it), never a newer one and never none.
    Honest,
}

/// Ready=True only with a current observedGeneration, at every status that an instance commits.
///
/// The condition's own `observedGeneration` counts, else `status.observedGeneration`. The user's change of a spec
/// leaves an old status behind for a moment; only instances' writes are judged.
///
/// # Errors
/// Names the first write that breaks it.
pub fn ready_is_current(world: &World, rule: Ready) -> anyhow::Result<()> {
    for write in world.instance_writes().iter().filter(|write| write.accepted()) {
        let Some(after) = &write.after else { continue };
        let Some(ready) = ready_condition(after).filter(|ready| ready["status"] == "True") else { continue };
        let was = write.before.as_ref().and_then(|before| before.get("status"));
        if was == after.get("status") {
            continue;
        }
        let observed =
            ready.get("observedGeneration").or_else(|| after.pointer("/status/observedGeneration"));
        let generation = after.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or_default();
        let Some(observed) = observed.and_then(Value::as_i64) else {
            bail!("Ready=True without observedGeneration: {}", write.line());
        };
        let fine = match rule {
            Ready::AtCommit => observed == generation,
            Ready::Honest => observed <= generation,
        };
        ensure!(
            fine,
            "Ready=True with observedGeneration {observed} at generation {generation}: {}",
            write.line()
        );
    }
    Ok(())
}

fn ready_condition(object: &Value) -> Option<&Value> {
    let conditions = object.pointer("/status/conditions")?.as_array()?;
    conditions.iter().find(|condition| condition["type"] == "Ready")
}

/// A number in the status (or anywhere) only goes forward, at every committed state of an object with one UID.
///
/// # Errors
/// Names the first write that sets it back.
pub fn only_forward(world: &World, kind: &str, read: impl Fn(&Value) -> Option<i64>) -> anyhow::Result<()> {
    for write in world.instance_writes().iter().filter(|write| write.accepted() && write.call.kind() == kind)
    {
        let (Some(before), Some(after)) = (&write.before, &write.after) else { continue };
        if let (Some(was), Some(is)) = (read(before), read(after)) {
            ensure!(is >= was, "went back from {was} to {is}: {}", write.line());
        }
    }
    Ok(())
}

/// The hub's Leases are renewed for ever; nothing else is written when all is quiet.
pub(crate) fn is_lease(write: &Write) -> bool {
    write.call.cluster.is_empty()
        && write.call.resource == "leases"
        && write.call.verb != Verb::DeleteCollection
}
