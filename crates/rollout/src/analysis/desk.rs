//! Measurements under way, and answers that nobody has fetched yet.
//!
//! ```text
//!  act ── ask ──► task (waits for a seat, reads Secrets, measures) ──► answer ──► wakes the run ──► observe fetches it
//! ```
//!
//! A measurement holds no worker of the loop. What is here is lost when the process ends, and asked for again.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use tokio::{sync::Semaphore, task::AbortHandle, time::Instant};
use windlass_api::analysis::{AnalysisRun, Metric, SecretKeyRef};
use windlass_cluster::{
    clock::Clock,
    drive::{Key, Waker},
};

use super::{
    args::Args,
    measure::{Meter, Question, unasked},
    metrics::{AnalysisMetrics, provider},
    plan::Answer,
};

/// Measurements at the same time, of all runs together.
const SEATS: usize = 64;

/// See the module's text.
pub(super) struct Desk<M> {
    pub(super) client: Client,
    pub(super) clock: Clock,
    pub(super) metrics: AnalysisMetrics,
    meter: M,
    seats: Arc<Semaphore>,
    runs: Mutex<BTreeMap<Key, Entry>>,
    waker: OnceLock<Waker>,
}

struct Entry {
    run: Arc<AnalysisRun>,
    asking: BTreeMap<(String, u32), AbortHandle>,
    answers: Vec<Answer>,
}

impl Entry {
    fn close(&mut self) {
        for task in std::mem::take(&mut self.asking).into_values() {
            task.abort();
        }
    }
}

/// What is known about a run's measurements.
pub(super) struct State {
    pub(super) answers: Vec<Answer>,
    pub(super) asking: BTreeSet<(String, u32)>,
}

impl<M: Meter> Desk<M> {
    pub(super) fn new(client: Client, meter: M, clock: Clock, metrics: AnalysisMetrics) -> Self {
        Self {
            client,
            clock,
            metrics,
            meter,
            seats: Arc::new(Semaphore::new(SEATS)),
            runs: Mutex::default(),
            waker: OnceLock::new(),
        }
    }

    /// Wakes runs with this when an answer comes.
    pub(super) fn wakes(&self, waker: Waker) {
        let _ = self.waker.set(waker);
    }

    /// Looks at a run: what came back, and what is under way. Answers that its status has already are let go.
    pub(super) fn look(&self, key: &Key, run: &Arc<AnalysisRun>) -> State {
        let mut runs = self.runs();
        let entry = runs.entry(key.clone()).or_insert_with(|| Entry {
            run: run.clone(),
            asking: BTreeMap::new(),
            answers: Vec::new(),
        });
        if entry.run.metadata.uid != run.metadata.uid {
            entry.close();
            entry.answers.clear();
        }
        entry.run = run.clone();
        let taken = |metric: &str| {
            let results =
                run.status.as_ref().map(|status| status.metric_results.as_slice()).unwrap_or_default();
            let result = results.iter().find(|result| result.name == metric);
            result.map_or(0, |result| u32::try_from(result.count + result.error).unwrap_or(0))
        };
        entry.answers.retain(|answer| answer.attempt > taken(&answer.metric));
        State { answers: entry.answers.clone(), asking: entry.asking.keys().cloned().collect() }
    }

    /// The run as last looked at.
    pub(super) fn run(&self, key: &Key) -> Option<Arc<AnalysisRun>> {
        self.runs().get(key).map(|entry| entry.run.clone())
    }

    /// Nothing is wanted for this run any more.
    pub(super) fn forget(&self, key: &Key) {
        if let Some(mut entry) = self.runs().remove(key) {
            entry.close();
        }
    }

    /// Puts an answer down and wakes its run.
    pub(super) fn put(&self, key: &Key, answer: Answer) {
        if let Some(entry) = self.runs().get_mut(key) {
            entry.asking.remove(&(answer.metric.clone(), answer.attempt));
            entry.answers.push(answer);
        }
        if let Some(waker) = self.waker.get() {
            waker.wake(key.clone());
        }
    }

    /// Starts a measurement, unless it is under way.
    pub(super) fn ask(self: &Arc<Self>, key: &Key, metric: &str, attempt: u32) {
        let mut runs = self.runs();
        let Some(entry) = runs.get_mut(key) else { return };
        let place = (metric.to_owned(), attempt);
        if entry.asking.contains_key(&place) {
            return;
        }
        let (desk, key, name, run) = (self.clone(), key.clone(), metric.to_owned(), entry.run.clone());
        let task = tokio::spawn(async move {
            // The semaphore is never closed.
            let _seat = desk.seats.acquire().await;
            let answer = desk.measure(&run, &name, attempt).await;
            desk.put(&key, answer);
        });
        entry.asking.insert(place, task.abort_handle());
    }

    async fn measure(&self, run: &AnalysisRun, name: &str, attempt: u32) -> Answer {
        let begin = Instant::now();
        let Some(metric) = run.spec.metrics.iter().find(|metric| metric.name == name) else {
            return unasked(name, attempt, "the metric is not there any more", self.clock.now());
        };
        let answer = match self.filled(run, metric).await {
            Err(why) => unasked(name, attempt, &why, self.clock.now()),
            Ok((filled, secrets)) => {
                let question = Question {
                    metric: filled,
                    attempt,
                    run_started: started(run).unwrap_or_else(|| self.clock.now()),
                    kept: kept(run, name),
                    secrets,
                };
                self.meter.measure(question).await
            }
        };
        self.metrics.measured(provider(metric), answer.measurement.phase, begin.elapsed());
        answer
    }

    /// A metric with arguments and Secrets put in, and the values of those Secrets.
    pub(super) async fn filled(
        &self,
        run: &AnalysisRun,
        metric: &Metric,
    ) -> Result<(Metric, Vec<String>), String> {
        let args = Args::of(&run.spec.args).map_err(|error| error.to_string())?;
        let namespace = run.metadata.namespace.as_deref().unwrap_or_default();
        let mut secrets = BTreeMap::new();
        for (name, wanted) in args.secrets_of(metric) {
            secrets.insert(name, self.secret(namespace, &wanted).await?);
        }
        let filled = args.with_secrets(metric, &secrets).map_err(|error| error.to_string())?;
        Ok((filled, secrets.into_values().collect()))
    }

    async fn secret(&self, namespace: &str, wanted: &SecretKeyRef) -> Result<String, String> {
        let SecretKeyRef { name, key } = wanted;
        let secret = match Api::<Secret>::namespaced(self.client.clone(), namespace).get_opt(name).await {
            Ok(Some(secret)) => secret,
            Ok(None) => return Err(format!("Secret {name} does not exist. Create it in this namespace")),
            Err(kube::Error::Api(status)) if status.code == 403 => {
                return Err(format!(
                    "the controller may not read Secret {name}. Give it get on secrets here"
                ));
            }
            Err(_) => return Err(format!("Secret {name} could not be read. It is tried again")),
        };
        let value = secret.data.as_ref().and_then(|data| data.get(key));
        let value = value.ok_or_else(|| format!("Secret {name} has no key {key}. Add it"))?;
        String::from_utf8(value.0.clone()).map_err(|_| format!("{key} of Secret {name} is not text"))
    }

    fn runs(&self) -> MutexGuard<'_, BTreeMap<Key, Entry>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn started(run: &AnalysisRun) -> Option<Timestamp> {
    run.status.as_ref().and_then(|status| status.started_at.as_ref()).map(|time| time.0)
}

fn kept(run: &AnalysisRun, metric: &str) -> BTreeMap<String, String> {
    let results = run.status.as_ref().map(|status| status.metric_results.as_slice()).unwrap_or_default();
    results
        .iter()
        .find(|result| result.name == metric)
        .map(|result| result.metadata.clone())
        .unwrap_or_default()
}
