//! What has to hold: at every moment, and at the end.

use std::time::Duration;

use serde_json::{Value, json};
use windlass_api::rollout::POD_TEMPLATE_HASH;
use windlass_testbed::sim::{
    Compare, World,
    invariants::{self, Confines},
};

use super::HOME;

fn get(world: &World, api: &str, kind: &str, name: &str) -> Option<Value> {
    world.api().get(api, kind, HOME, name)
}

/// Weights of the pair on a route.
fn weights(world: &World, name: &str) -> Option<(i64, i64)> {
    let route = get(world, "gateway.networking.k8s.io/v1", "HTTPRoute", name)?;
    let backends = &route["spec"]["rules"][0]["backendRefs"];
    Some((backends[0]["weight"].as_i64()?, backends[2]["weight"].as_i64()?))
}

/// The `ReplicaSet` that a Service selects.
fn selected(world: &World, rollout: &str, service: &str) -> Option<Value> {
    let service = get(world, "v1", "Service", service)?;
    let hash = service["spec"]["selector"][POD_TEMPLATE_HASH].as_str()?;
    get(world, "apps/v1", "ReplicaSet", &format!("{rollout}-{hash}"))
}

fn available(set: &Value) -> i64 {
    set["status"]["availableReplicas"].as_i64().unwrap_or(0)
}

/// Looks again and again until this holds: on the way traffic never goes where no pod is, and weights sum to 100.
pub async fn watched_until(
    world: &World,
    mut left: Duration,
    done: impl Fn(&World) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let step = Duration::from_millis(250);
    while let Err(missing) = done(world) {
        anyhow::ensure!(!left.is_zero(), "not in time: {missing}");
        world.sleep(step).await;
        left = left.saturating_sub(step);
        for name in ["routed", "stuck"] {
            let Some((stable, canary)) = weights(world, name) else { continue };
            anyhow::ensure!(stable + canary == 100, "{name}: weights {stable} and {canary}");
            if canary > 0 {
                let set = selected(world, name, &format!("{name}-canary"));
                anyhow::ensure!(
                    set.as_ref().is_some_and(|set| available(set) > 0),
                    "{name}: traffic to no pod: {set:?}"
                );
            }
        }
        if let Some(set) = selected(world, "blue", "active") {
            // Until the first pods come up, nothing can be reached.
            let first = set["metadata"]["annotations"][windlass_api::rollout::REVISION] == "1";
            anyhow::ensure!(first || available(&set) > 0, "blue: the active Service selects no pod");
        }
    }
    Ok(())
}

/// The first version of all of them runs.
pub fn begun(world: &World, which: &[&str]) -> anyhow::Result<()> {
    which.iter().try_for_each(|name| phase(world, name, "Completed"))
}

fn phase(world: &World, name: &str, wanted: &str) -> anyhow::Result<()> {
    let rollout = get(world, "windlass.dev/v1alpha1", "Rollout", name).unwrap();
    anyhow::ensure!(rollout["status"]["phase"] == wanted, "{name}: {}", rollout["status"]);
    Ok(())
}

/// The phase and the version that one of them ends with.
fn last(name: &str) -> (&'static str, &'static str) {
    if name == "stuck" { ("Failed", "v1") } else { ("Completed", "v2") }
}

fn version(set: &Value) -> &str {
    set["spec"]["template"]["metadata"]["annotations"]["version"].as_str().unwrap_or_default()
}

/// What runs at the end.
pub fn ended(world: &World, which: &[&str]) -> anyhow::Result<()> {
    which.iter().try_for_each(|name| phase(world, name, last(name).0))?;
    for name in which {
        let (_, wanted) = last(name);
        let sets = world.api().objects().into_iter().filter(|object| {
            object["kind"] == "ReplicaSet" && object["metadata"]["name"].as_str().unwrap().starts_with(*name)
        });
        for set in sets {
            let expected = if version(&set) == wanted { 4 } else { 0 };
            anyhow::ensure!(
                set["spec"]["replicas"] == expected,
                "{name} {}: {}, {}, {}",
                version(&set),
                set["spec"]["replicas"],
                set["metadata"]["annotations"],
                get(world, "windlass.dev/v1alpha1", "Rollout", name).unwrap_or_default()["status"]
            );
        }
        if matches!(*name, "routed" | "stuck") {
            anyhow::ensure!(weights(world, name) == Some((100, 0)), "{name}: {:?}", weights(world, name));
            let set = selected(world, name, &format!("{name}-stable")).unwrap();
            anyhow::ensure!(version(&set) == wanted, "{name}: the stable Service selects {}", version(&set));
        }
    }
    Ok(())
}

/// What holds for every write of every run.
pub fn always(world: &World) -> anyhow::Result<()> {
    invariants::no_panic(world)?;
    invariants::deletes_are_guarded(world, |object| {
        matches!(object["kind"].as_str(), Some("Lease" | "ReplicaSet"))
    })?;
    let kinds = [
        "rollouts.windlass.dev",
        "replicasets.apps",
        "services",
        "httproutes.gateway.networking.k8s.io",
        "leases.coordination.k8s.io",
        "events.events.k8s.io",
    ];
    invariants::confined(world, &kinds.into_iter().fold(Confines::default(), Confines::kind))
}

/// Times and what was told on the way may differ. What runs, and who gets the traffic, may not.
pub fn compare() -> Compare {
    let rule = Compare::default().objects(|object| {
        match object["kind"].as_str() {
            Some("Rollout") => {
                let status = &object["status"];
                object["status"] = json!([
                    status["phase"],
                    status["stableRS"],
                    status["abort"],
                    status["availableReplicas"]
                ]);
            }
            Some("ReplicaSet") => {
                object["status"] = Value::Null;
                object["metadata"]["annotations"] = Value::Null;
            }
            _ => {}
        }
        true
    });
    rule.counts(|_| false)
}
