//! Plays the cases on a real control plane where the controller runs.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anyhow::Context;
use futures::{StreamExt, future::BoxFuture, stream};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, ValidationDirective},
    core::{ApiResource, GroupVersionKind},
};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::{Case, Expect, cases};

type Alive = Arc<dyn Fn() -> BoxFuture<'static, anyhow::Result<()>> + Send + Sync>;
type Look<T> = Arc<dyn Fn(&Value) -> T + Send + Sync>;

/// What the walk has to know about the controller.
#[derive(Clone)]
pub struct Hooks {
    alive: Alive,
    normalize: Look<Value>,
    observed: Look<bool>,
    patience: Duration,
    at_once: usize,
    filter: Arc<dyn Fn(&Case) -> bool + Send + Sync>,
}

impl Hooks {
    /// `alive` fails when the controller has died; it is asked after every case.
    pub fn new<F, Fut>(alive: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = anyhow::Result<()>> + Send + 'static,
    {
        Self {
            alive: Arc::new(move || Box::pin(alive())),
            normalize: Arc::new(|object| object["status"].clone()),
            observed: Arc::new(observed_generation),
            patience: Duration::from_secs(30),
            at_once: 4,
            filter: Arc::new(|_| true),
        }
    }

    /// What of an object has to be equal after a change and after a fresh install; the whole status by default,
    /// without times and generations.
    #[must_use]
    pub fn normalize(mut self, normalize: impl Fn(&Value) -> Value + Send + Sync + 'static) -> Self {
        self.normalize = Arc::new(normalize);
        self
    }

    /// Whether the controller has reported on the object's present spec; by default whether its
    /// `status.observedGeneration` (or the Ready condition's) is the object's generation.
    #[must_use]
    pub fn observed(mut self, observed: impl Fn(&Value) -> bool + Send + Sync + 'static) -> Self {
        self.observed = Arc::new(observed);
        self
    }

    /// How long the controller may take to report.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// How many cases run at once, each with an object of its own.
    #[must_use]
    pub fn at_once(mut self, cases: usize) -> Self {
        self.at_once = cases.max(1);
        self
    }

    /// Only these cases.
    #[must_use]
    pub fn only(mut self, filter: impl Fn(&Case) -> bool + Send + Sync + 'static) -> Self {
        self.filter = Arc::new(filter);
        self
    }
}

fn observed_generation(object: &Value) -> bool {
    let generation = &object["metadata"]["generation"];
    let reported = [
        object.pointer("/status/observedGeneration"),
        ready(object).and_then(|ready| ready.get("observedGeneration")),
    ];
    reported.into_iter().flatten().any(|observed| observed == generation)
}

fn ready(object: &Value) -> Option<&Value> {
    let conditions = object.pointer("/status/conditions")?.as_array()?;
    conditions.iter().find(|condition| condition["type"] == "Ready")
}

/// Something that the walk has found.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The case, as text.
    pub case: String,
    /// What is wrong.
    pub problem: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n    {}", self.case, self.problem)
    }
}

/// The result of a walk.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// How many cases ran.
    pub cases: usize,
    /// How many the API server took.
    pub accepted: usize,
    /// How many it refused.
    pub refused: usize,
    /// How many did not run, since the controller had died before.
    pub skipped: usize,
    /// What is wrong, in the order of the cases.
    pub findings: Vec<Finding>,
}

impl Report {
    /// Fails with every finding.
    ///
    /// # Errors
    /// When there is a finding, or when there was no case at all.
    pub fn check(&self) -> anyhow::Result<()> {
        anyhow::ensure!(
            self.cases > 0,
            "the walk had no case: does the CRD have a schema for the base's version?"
        );
        let all: Vec<String> = self.findings.iter().map(|finding| format!("  {finding}")).collect();
        anyhow::ensure!(all.is_empty(), "{} of {} cases fail:\n{}", all.len(), self.cases, all.join("\n"));
        Ok(())
    }
}

/// Plays every case of a kind. Each case has an object of its own, named after the base with a number, which is
/// installed as the base, changed, compared with a fresh install of the changed object, brought back, and deleted.
///
/// # Errors
/// When the base itself cannot be installed or the API server fails; what cases show is in the report.
pub async fn run(
    client: Client,
    crd: &CustomResourceDefinition,
    base: &Value,
    hooks: &Hooks,
) -> anyhow::Result<Report> {
    let walker = Walker::new(client, crd, base, hooks.clone())?;
    let all: Vec<Case> = cases(crd, base).into_iter().filter(|case| (hooks.filter)(case)).collect();
    let total = all.len();
    let walker = &walker;
    let mut outcomes: Vec<(usize, anyhow::Result<Outcome>)> = stream::iter(all.into_iter().enumerate())
        .map(|(number, case)| async move { (number, walker.play(number, &case).await) })
        .buffer_unordered(hooks.at_once)
        .collect()
        .await;
    outcomes.sort_by_key(|(number, _)| *number);
    let mut report = Report { cases: total, ..Report::default() };
    for (_, outcome) in outcomes {
        let outcome = outcome?;
        match outcome.accepted {
            Some(true) => report.accepted += 1,
            Some(false) => report.refused += 1,
            None => report.skipped += 1,
        }
        report.findings.extend(outcome.findings);
    }
    Ok(report)
}

#[derive(Default)]
struct Outcome {
    /// What the API server said; none when it was not asked.
    accepted: Option<bool>,
    findings: Vec<Finding>,
}

struct Walker {
    api: Api<DynamicObject>,
    base: Value,
    name: String,
    hooks: Hooks,
    /// The controller has died: no case can show anything any more.
    dead: AtomicBool,
}

impl Walker {
    fn new(
        client: Client,
        crd: &CustomResourceDefinition,
        base: &Value,
        hooks: Hooks,
    ) -> anyhow::Result<Self> {
        let api_version = base["apiVersion"].as_str().context("the base object has no apiVersion")?;
        let version = api_version.rsplit('/').next().unwrap_or_default();
        let kind = GroupVersionKind::gvk(&crd.spec.group, version, &crd.spec.names.kind);
        let resource = ApiResource::from_gvk_with_plural(&kind, &crd.spec.names.plural);
        let api = if crd.spec.scope == "Namespaced" {
            let namespace = base.pointer("/metadata/namespace").and_then(Value::as_str);
            Api::namespaced_with(client, namespace.context("the base object has no namespace")?, &resource)
        } else {
            Api::all_with(client, &resource)
        };
        let name =
            base.pointer("/metadata/name").and_then(Value::as_str).context("the base object has no name")?;
        Ok(Self { api, base: base.clone(), name: name.to_owned(), hooks, dead: AtomicBool::new(false) })
    }

    async fn play(&self, number: usize, case: &Case) -> anyhow::Result<Outcome> {
        if self.dead.load(Ordering::Relaxed) {
            return Ok(Outcome::default());
        }
        let name = format!("{}-{number}", self.name);
        let fresh = format!("{name}-fresh");
        let outcome = self.play_as(&name, &fresh, case).await;
        self.delete(&name).await?;
        self.delete(&fresh).await?;
        outcome.with_context(|| format!("case {case}"))
    }

    async fn play_as(&self, name: &str, fresh: &str, case: &Case) -> anyhow::Result<Outcome> {
        let mut findings = Vec::new();
        let mut find = |problem: String| findings.push(Finding { case: case.to_string(), problem });
        self.apply(name, &self.base).await.context("installing the base object")?;
        let first = match self.settled(name).await? {
            Ok(object) => self.normal(&object),
            Err(problem) => {
                let Some(death) = self.death().await else {
                    anyhow::bail!("the base object itself: {problem}")
                };
                find(death);
                return Ok(Outcome { accepted: None, findings });
            }
        };
        let accepted = match self.apply(name, &case.object).await {
            Ok(()) => {
                if case.expect == Expect::Refused {
                    find("the API server takes it, although the schema forbids it".to_owned());
                }
                true
            }
            Err(kube::Error::Api(status)) if (400..=500).contains(&status.code) => {
                if case.expect == Expect::Accepted {
                    find(format!(
                        "the API server refuses it, although the schema allows it: {}",
                        status.message
                    ));
                }
                false
            }
            Err(error) => return Err(error).context("applying the case"),
        };
        if accepted {
            if let Some(problem) = self.compare_with_fresh(name, fresh, case).await? {
                find(problem);
            }
            self.apply(name, &self.base).await.context("going back to the base object")?;
            match self.settled(name).await? {
                Ok(object) if self.normal(&object) == first => {}
                Ok(object) => find(format!(
                    "does not recover: after going back the state is {}, at first it was {first}",
                    self.normal(&object)
                )),
                Err(problem) => find(format!("does not recover: {problem}")),
            }
        }
        if let Some(death) = self.death().await {
            find(death);
        }
        Ok(Outcome { accepted: Some(accepted), findings })
    }

    /// What the controller died of, if it did; that ends the walk.
    async fn death(&self) -> Option<String> {
        let error = (self.hooks.alive)().await.err()?;
        self.dead.store(true, Ordering::Relaxed);
        Some(format!("the controller is not alive: {error:#}"))
    }

    /// Waits for a report on the changed object, and compares it with that on a fresh one.
    async fn compare_with_fresh(
        &self,
        name: &str,
        fresh: &str,
        case: &Case,
    ) -> anyhow::Result<Option<String>> {
        let changed = match self.settled(name).await? {
            Ok(object) => object,
            Err(problem) => return Ok(Some(problem)),
        };
        if let Err(error) = self.apply(fresh, &case.object).await {
            return Ok(Some(format!("accepted as a change, refused as a fresh install: {error}")));
        }
        let installed = match self.settled(fresh).await? {
            Ok(object) => object,
            Err(problem) => return Ok(Some(format!("fresh install: {problem}"))),
        };
        let rename = |text: String| text.replace(fresh, name);
        let (was, is) =
            (rename(self.normal(&installed).to_string()), rename(self.normal(&changed).to_string()));
        Ok((was != is)
            .then(|| format!("depends on its past: changed to it the state is {is}, fresh it is {was}")))
    }

    fn normal(&self, object: &Value) -> Value {
        let mut value = (self.hooks.normalize)(object);
        strip(&mut value);
        value
    }

    async fn apply(&self, name: &str, object: &Value) -> kube::Result<()> {
        let mut object = object.clone();
        object["metadata"]["name"] = Value::from(name);
        let mut params = PatchParams::apply("windlass-walk").force();
        params.field_validation = Some(ValidationDirective::Strict);
        self.api.patch(name, &params, &Patch::Apply(object)).await.map(drop)
    }

    /// The object once the controller has reported on its present spec and explained it, or what is missing.
    async fn settled(&self, name: &str) -> anyhow::Result<Result<Value, String>> {
        let until = Instant::now() + self.hooks.patience;
        loop {
            let object = self.api.get(name).await.with_context(|| format!("reading {name}"))?;
            let object = serde_json::to_value(object).with_context(|| format!("reading {name} as JSON"))?;
            let missing = if (self.hooks.observed)(&object) {
                unexplained(&object)
            } else {
                Some("no report".to_owned())
            };
            match missing {
                None => return Ok(Ok(object)),
                Some(missing) if Instant::now() >= until => {
                    return Ok(Err(format!(
                        "after {:?}: {missing}; status is {}",
                        self.hooks.patience, object["status"]
                    )));
                }
                Some(_) => sleep(Duration::from_millis(50)).await,
            }
        }
    }

    async fn delete(&self, name: &str) -> anyhow::Result<()> {
        match self.api.delete(name, &DeleteParams::default()).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(()),
            Err(error) => return Err(error).with_context(|| format!("deleting {name}")),
        }
        let until = Instant::now() + self.hooks.patience;
        while self.api.get_opt(name).await?.is_some() {
            anyhow::ensure!(
                Instant::now() < until,
                "{name} is still there {:?} after its delete",
                self.hooks.patience
            );
            sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }
}

/// What a status lacks to explain itself: a Ready condition with a reason and a message.
fn unexplained(object: &Value) -> Option<String> {
    let Some(ready) = ready(object) else { return Some("no Ready condition".to_owned()) };
    let empty = |key: &str| ready[key].as_str().unwrap_or_default().trim().is_empty();
    ["status", "reason", "message"]
        .iter()
        .find(|key| empty(key))
        .map(|key| format!("the Ready condition has an empty {key}"))
}

/// Times and generations differ between two objects that are in the same state.
fn strip(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|key, _| {
                key != "observedGeneration" && !key.ends_with("Time") && !key.ends_with("Timestamp")
            });
            map.values_mut().for_each(strip);
            map.sort_keys();
        }
        Value::Array(items) => items.iter_mut().for_each(strip),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_status_has_to_explain_itself() {
        let with = |condition: Value| json!({ "status": { "conditions": [condition] } });
        assert_eq!(unexplained(&json!({})).unwrap(), "no Ready condition");
        let silent = with(json!({ "type": "Ready", "status": "False", "reason": "Bad", "message": " " }));
        assert_eq!(unexplained(&silent).unwrap(), "the Ready condition has an empty message");
        let full = with(json!({ "type": "Ready", "status": "False", "reason": "Bad", "message": "no key" }));
        assert_eq!(unexplained(&full), None);
    }

    #[test]
    fn observed_by_status_or_condition() {
        let object = |status: Value| json!({ "metadata": { "generation": 3 }, "status": status });
        assert!(observed_generation(&object(json!({ "observedGeneration": 3 }))));
        assert!(!observed_generation(&object(json!({ "observedGeneration": 2 }))));
        let condition = json!({ "conditions": [{ "type": "Ready", "observedGeneration": 3 }] });
        assert!(observed_generation(&object(condition)));
    }
}
