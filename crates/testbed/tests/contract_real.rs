//! The contract of a Kubernetes API, against a real kube-apiserver and the simulation side by side.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use windlass_testbed::contract::{self, Differential, Env};
use windlass_testbed::control_plane::ControlPlane;
use windlass_testbed::sim::api::Api;

/// A name for this run, so that a control plane that is kept can be used again.
fn run_name() -> String {
    format!("r{}", std::process::id())
}

async fn environments() -> (Env, Env) {
    let control_plane = ControlPlane::shared().await.unwrap();
    let client = control_plane.admin();
    contract::install_policies(&client).await.unwrap();
    let real = Env::prepare(client, &run_name()).await.unwrap();
    let api = Api::new();
    let forgetful = api.clone();
    contract::deny_on(&api);
    api.set_establish_after(Duration::from_millis(70));
    tokio::spawn(api.clone().run());
    let sim =
        Env::prepare(api.client("contract"), "sim").await.unwrap().forgetting(move || forgetful.compact());
    (real, sim)
}

/// One test, because a control plane is shared within a process and a runtime.
#[tokio::test]
async fn the_simulation_answers_as_the_real_server_does() {
    let (real, sim) = environments().await;
    let mut failed = Vec::new();
    for case in contract::all() {
        let truth = real.run(&case).await;
        let copy = sim.run(&case).await;
        if let Err(error) = &truth.result {
            failed.push(format!("{}: the real server: {error:#}", case.name));
        }
        if let Err(error) = &copy.result {
            failed.push(format!("{}: the simulation: {error:#}", case.name));
        }
        let differences = contract::differences(&truth.transcript, &copy.transcript);
        if let Some(first) = differences.first() {
            failed.push(format!(
                "{}: {} differences, first (- real, + simulation): {first}",
                case.name,
                differences.len()
            ));
        }
    }
    let seeds: u64 = std::env::var("WINDLASS_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(40);
    for seed in 0..seeds {
        let plan = Differential { seed, steps: 30 };
        let truth = contract::differential(&real, plan).await;
        let copy = contract::differential(&sim, plan).await;
        truth.result.unwrap();
        copy.result.unwrap();
        if let Some(first) = contract::differences(&truth.transcript, &copy.transcript).first() {
            failed.push(format!("seed {seed} (- real, + simulation): {first}"));
        }
    }
    assert!(failed.is_empty(), "{} differences:\n{}", failed.len(), failed.join("\n"));
}
