//! The contract of a Kubernetes API, against the simulation.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use windlass_testbed::contract::{self, Differential, Env};
use windlass_testbed::sim::api::Api;

async fn environment(api: &Api) -> Env {
    let forgetful = api.clone();
    contract::deny_on(api);
    api.set_establish_after(Duration::from_millis(70));
    tokio::spawn(api.clone().run());
    let env = Env::prepare(api.client("contract"), "sim").await.unwrap();
    env.forgetting(move || forgetful.compact())
}

#[tokio::test(start_paused = true)]
async fn every_case_holds() {
    let api = Api::new();
    let env = environment(&api).await;
    let outcomes = contract::run(&env).await;
    assert!(outcomes.len() >= 40, "only {} cases", outcomes.len());
    let failed: Vec<String> = outcomes
        .iter()
        .filter_map(|outcome| Some(format!("{}: {:#}", outcome.name, outcome.result.as_ref().err()?)))
        .collect();
    assert!(failed.is_empty(), "{} of {} cases failed:\n{}", failed.len(), outcomes.len(), failed.join("\n"));
}

#[tokio::test(start_paused = true)]
async fn the_same_requests_get_the_same_answers() {
    let mut runs = Vec::new();
    for _ in 0..2 {
        let api = Api::new();
        let env = environment(&api).await;
        let mut lines = Vec::new();
        for outcome in contract::run(&env).await {
            lines.extend(outcome.transcript);
        }
        for seed in 0..20 {
            lines.extend(contract::differential(&env, Differential { seed, steps: 40 }).await.transcript);
        }
        runs.push((lines, api.snapshot(), format!("{:?}", api.objects()), api.version()));
    }
    assert_eq!(runs[0], runs[1]);
}
