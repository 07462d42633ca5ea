//! The plan of an experiment.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use serde_json::{Value, json};
use windlass_api::{
    analysis::{AnalysisRunSpec, Phase},
    experiment::{ExperimentSpec, ExperimentStatus, TemplatePhase},
};
use windlass_cluster::drive::{Key, Wake};
use windlass_rollout::experiment::plan::{
    Action, Observed, RunFact, RunFacts, SetFacts, TemplateFacts, plan,
};

/// An experiment in a world that does what it is told.
struct World {
    observed: Observed,
    now: Timestamp,
    /// Pods become available.
    healthy: bool,
    notes: Vec<String>,
    runs: Vec<AnalysisRunSpec>,
}

fn template(name: &str, more: Value) -> Value {
    let mut template = json!({ "name": name, "replicas": 2, "selector": { "matchLabels": { "app": name } }, "template": {
        "metadata": { "labels": { "app": name } },
        "spec": { "containers": [{ "name": "c", "image": "example/app:1", "ports": [{ "containerPort": 8080 }] }] } } });
    template.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    template
}

impl World {
    fn new(spec: Value) -> Self {
        let spec: ExperimentSpec = serde_json::from_value(spec).unwrap();
        let facts = |name: &str, service: bool| TemplateFacts {
            hash: format!("hash-{name}"),
            set_name: format!("exp-{name}"),
            service_name: service.then(|| format!("exp-{name}")),
            ..TemplateFacts::default()
        };
        let templates = spec
            .templates
            .iter()
            .map(|it| (it.name.clone(), facts(&it.name, it.service.is_some())))
            .collect();
        let runs = spec
            .analyses
            .iter()
            .map(|it| (it.name.clone(), RunFacts { name: format!("exp-{}", it.name), run: None }));
        let mut library = windlass_api::analysis::merge::Library::default();
        library.namespaced.insert("checks".into(), serde_json::from_value(json!({
            "args": [{ "name": "hash", "value": "none" }, { "name": "end", "value": "none" }],
            "metrics": [{ "name": "m", "provider": { "prometheus": { "address": "http://p", "query": "up{hash=\"{{args.hash}}\"}" } } }],
        })).unwrap());
        let runs: BTreeMap<String, RunFacts> = runs.collect();
        let observed = Observed {
            experiment: Key { namespace: Some("ns".into()), name: "exp".into() },
            generation: Some(1),
            status: ExperimentStatus::default(),
            deleting: false,
            templates,
            runs,
            library,
            spec,
        };
        Self {
            observed,
            now: "2030-01-01T00:00:00Z".parse().unwrap(),
            healthy: true,
            notes: vec![],
            runs: vec![],
        }
    }

    fn look(&mut self) -> Wake {
        let made = plan(&self.observed, self.now);
        let before = self.observed.templates.clone();
        for action in &made.actions {
            match action {
                Action::CreateSet { template, replicas, .. } => {
                    let set = SetFacts { wanted: *replicas, ..SetFacts::default() };
                    self.observed.templates.get_mut(template).unwrap().set = Some(set);
                }
                Action::Scale { name, replicas, .. } => {
                    let facts = self.observed.templates.values_mut().find(|it| it.set_name == *name).unwrap();
                    facts.set.as_mut().unwrap().wanted = *replicas;
                }
                Action::CreateService { template, .. } => {
                    self.observed.templates.get_mut(template).unwrap().service = true;
                }
                Action::DeleteService { name, .. } => {
                    self.observed
                        .templates
                        .values_mut()
                        .find(|it| it.service_name.as_ref() == Some(name))
                        .unwrap()
                        .service = false;
                }
                Action::CreateRun { name, spec, .. } => {
                    self.runs.push(spec.clone());
                    self.run(name).run = Some(RunFact { phase: Phase::Running, ..RunFact::default() });
                }
                Action::EndRun { name, .. } => {
                    self.run(name).run =
                        Some(RunFact { phase: Phase::Successful, terminate: true, ..RunFact::default() });
                }
            }
        }
        for facts in self.observed.templates.values_mut() {
            if let Some(set) = &mut facts.set {
                let available = if self.healthy { set.wanted } else { 0 };
                (set.replicas, set.ready, set.available) = (set.wanted, available, available);
            }
        }
        let changed = made.status.as_ref().is_some_and(|status| *status != self.observed.status)
            || !made.actions.is_empty();
        let changed = changed || before != self.observed.templates;
        self.observed.status = made.status.unwrap_or_else(|| self.observed.status.clone());
        self.notes.extend(made.notes.into_iter().map(|note| note.reason));
        if changed { Wake::After(Duration::ZERO) } else { made.wake }
    }

    fn run(&mut self, name: &str) -> &mut RunFacts {
        self.observed.runs.values_mut().find(|run| run.name == name).unwrap()
    }

    /// Looks for so many seconds.
    fn pass(&mut self, seconds: u64) {
        let end = self.now.checked_add(Duration::from_secs(seconds)).unwrap();
        for _ in 0..200 {
            match self.look() {
                Wake::After(wait) => {
                    let next = self.now.checked_add(wait).unwrap();
                    if next > end {
                        break;
                    }
                    self.now = next;
                }
                _ => break,
            }
        }
        self.now = end;
        self.look();
    }

    fn status(&self) -> &ExperimentStatus {
        &self.observed.status
    }

    fn pods(&self) -> i32 {
        self.observed.templates.values().filter_map(|it| it.set).map(|set| set.replicas).sum()
    }
}

#[test]
fn versions_run_side_by_side_for_their_time_and_go_after_a_delay() {
    let mut world =
        World::new(json!({ "templates": [template("a", json!({ "service": {} })), template("b", json!({}))],
        "duration": "1m", "scaleDownDelaySeconds": 10 }));
    world.pass(5);
    assert_eq!((world.status().phase, world.pods()), (Phase::Running, 4));
    assert!(world.status().available_at.is_some());
    let of_a = world.status().template_statuses[0].clone();
    assert_eq!(
        (of_a.status, of_a.service_name.as_deref(), of_a.pod_template_hash.as_deref()),
        (TemplatePhase::Running, Some("exp-a"), Some("hash-a"))
    );
    assert!(world.observed.templates["a"].service);
    world.pass(60);
    assert_eq!((world.status().phase, world.pods()), (Phase::Successful, 4), "pods stay for the delay");
    world.pass(15);
    assert_eq!(world.pods(), 0);
    assert!(!world.observed.templates["a"].service, "its Service goes with the pods");
    let rest = plan(&world.observed, world.now);
    assert!(rest.actions.is_empty() && rest.status.as_ref() == Some(world.status()), "{rest:?}");
    assert!(world.notes.contains(&"ExperimentSuccessful".to_owned()), "{:?}", world.notes);
}

#[test]
fn a_version_that_never_becomes_available_fails_the_experiment_at_its_deadline() {
    let mut world = World::new(
        json!({ "templates": [template("a", json!({}))], "progressDeadlineSeconds": 30, "scaleDownDelaySeconds": 0 }),
    );
    world.healthy = false;
    world.pass(20);
    assert_eq!(world.status().phase, Phase::Pending);
    world.pass(30);
    assert_eq!(world.status().phase, Phase::Failed);
    assert!(world.status().message.contains("progressDeadlineSeconds (30)"), "{}", world.status().message);
    assert_eq!(world.pods(), 0);
}

fn analysis(more: Value) -> Value {
    let mut analysis = json!({ "name": "check", "templateName": "checks", "args": [
        { "name": "hash", "value": "{{templates.a.podTemplateHash}}" }, { "name": "end", "value": "{{experiment.finishedAt}}" } ] });
    analysis.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    analysis
}

#[test]
fn analyses_begin_when_all_pods_are_available_and_a_failed_one_ends_the_experiment() {
    let mut world = World::new(
        json!({ "templates": [template("a", json!({}))], "duration": "1h", "analyses": [analysis(json!({}))] }),
    );
    world.healthy = false;
    world.pass(5);
    assert!(world.runs.is_empty(), "nothing is measured before pods are available");
    world.healthy = true;
    world.pass(5);
    assert_eq!(world.runs.len(), 1);
    assert_eq!(world.runs[0].args[0].value.as_deref(), Some("hash-a"));
    let end = world.runs[0].args[1].value.clone().unwrap();
    assert!(end.starts_with("2030-01-01T01:00:"), "{end}");
    world.run("exp-check").run =
        Some(RunFact { phase: Phase::Failed, message: "too slow".into(), terminate: false });
    world.pass(5);
    assert_eq!((world.status().phase, world.status().message.as_str()), (Phase::Failed, "too slow"));
    assert_eq!(world.runs.len(), 1);
}

#[test]
fn a_required_analysis_decides_when_the_experiment_ends() {
    let spec = json!({ "templates": [template("a", json!({}))], "duration": "10s", "analyses": [analysis(json!({ "requiredForCompletion": true }))] });
    let mut world = World::new(spec);
    world.pass(60);
    assert_eq!(
        (world.status().phase, world.pods()),
        (Phase::Running, 2),
        "it waits for the analysis, with its pods"
    );
    world.run("exp-check").run = Some(RunFact { phase: Phase::Successful, ..RunFact::default() });
    world.pass(5);
    assert_eq!(world.status().phase, Phase::Successful);
}

#[test]
fn an_analysis_that_is_not_required_is_ended_with_the_experiment() {
    let mut world = World::new(
        json!({ "templates": [template("a", json!({}))], "duration": "10s", "analyses": [analysis(json!({}))] }),
    );
    world.pass(30);
    assert_eq!(world.status().phase, Phase::Successful);
    assert!(world.run("exp-check").run.as_ref().unwrap().terminate);
}

#[test]
fn an_experiment_can_be_ended_by_hand() {
    let mut world =
        World::new(json!({ "templates": [template("a", json!({}))], "scaleDownDelaySeconds": 0 }));
    world.pass(5);
    assert_eq!(world.status().phase, Phase::Running);
    world.observed.spec.terminate = true;
    world.pass(5);
    assert_eq!((world.status().phase, world.pods()), (Phase::Successful, 0));
}

#[test]
fn what_is_missing_foreign_or_refused_is_told() {
    let lost = json!({ "templates": [template("a", json!({}))], "analyses": [{ "name": "x", "templateName": "lost" }] });
    let mut world = World::new(lost);
    world.pass(5);
    assert_eq!(world.status().phase, Phase::Error);
    assert!(
        world.status().message.contains("AnalysisTemplate lost does not exist"),
        "{}",
        world.status().message
    );

    let mut world = World::new(json!({ "templates": [template("a", json!({}))] }));
    world.observed.templates.get_mut("a").unwrap().set_is_foreign = true;
    world.pass(5);
    assert_eq!(world.status().phase, Phase::Error);
    assert!(world.status().message.contains("belongs to somebody else"), "{}", world.status().message);

    let mut world = World::new(json!({ "templates": [template("a", json!({}))] }));
    world.observed.templates.get_mut("a").unwrap().refused = Some("ReplicaSet exp-a was refused: no".into());
    world.pass(5);
    assert!(world.status().message.contains("was refused"), "{}", world.status().message);
}

#[test]
fn a_spec_that_cannot_be_carried_out_is_a_condition_and_nothing_is_made() {
    for (spec, told) in [
        (json!({ "templates": [template("a", json!({})), template("a", json!({}))] }), "name is taken"),
        (
            json!({ "templates": [template("a", json!({ "selector": { "matchLabels": { "app": "other" } } }))] }),
            "does not match",
        ),
        (json!({ "templates": [template("a", json!({ "selector": {} }))] }), "does not match"),
        (
            json!({ "templates": [template("a", json!({ "template": { "metadata": { "labels": { "app": "a" } } } }))] }),
            "no containers",
        ),
        (json!({ "templates": [template("a", json!({}))], "duration": "soon" }), "not a duration"),
        (json!({ "templates": [template("a", json!({ "minReadySeconds": 700 }))] }), "minReadySeconds"),
    ] {
        let world = World::new(spec);
        let made = plan(&world.observed, world.now);
        assert!(made.actions.is_empty());
        let status = made.status.unwrap();
        let condition = status.conditions.iter().find(|it| it.type_ == "InvalidSpec").unwrap();
        assert!(condition.message.contains(told), "{}", condition.message);
    }
}
