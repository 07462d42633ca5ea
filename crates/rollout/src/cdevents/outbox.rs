//! The queues between a status and the sinks.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    future::Future,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};
use windlass_cluster::{backoff::Backoff, drive::Key};

use super::{Message, Sink};

/// Hands a message to a sink. The seam at which a simulation takes the network's place.
pub trait Post: Send + Sync + 'static {
    /// Sends; `Ok` only if the sink has said that it took the message.
    fn post(&self, sink: &Sink, message: &Message) -> impl Future<Output = Result<(), Refusal>> + Send;
}

/// Why a message did not go.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It may go later.
    #[error("{0}")]
    Later(String),
    /// The sink will never take this message.
    #[error("the sink refuses the event with status {0}")]
    Never(u16),
}

/// Over the network.
#[derive(Clone, Debug)]
pub struct Web(reqwest::Client);

impl Web {
    /// A client that follows no redirect: credentials stay with whom they are for.
    pub fn new(timeout: Duration) -> Result<Self, reqwest::Error> {
        let client = reqwest::Client::builder()
            .timeout(timeout)
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("windlass/", env!("CARGO_PKG_VERSION")))
            .build()?;
        Ok(Self(client))
    }
}

impl Post for Web {
    async fn post(&self, sink: &Sink, message: &Message) -> Result<(), Refusal> {
        let mut request = self.0.post(sink.url().clone()).body(message.body.clone());
        for (name, value) in &message.headers {
            request = request.header(*name, value);
        }
        if let Some(authorization) = sink.authorization() {
            request = request.header("authorization", authorization);
        }
        // The error would repeat the address, and with it a token in its query.
        let answer = request.send().await.map_err(|error| Refusal::Later(error.without_url().to_string()))?;
        match answer.status().as_u16() {
            200..=299 => Ok(()),
            code @ (400 | 405 | 406 | 410 | 413 | 415 | 422) => Err(Refusal::Never(code)),
            code => Err(Refusal::Later(format!("the sink answers with status {code}"))),
        }
    }
}

/// Bounds of the queues.
#[derive(Clone, Copy, Debug)]
pub struct OutboxOptions {
    /// Events that may wait for one sink.
    pub capacity: usize,
    /// Waits after failures.
    pub backoff: Backoff,
}

impl Default for OutboxOptions {
    fn default() -> Self {
        let backoff = Backoff { first: Duration::from_millis(500), longest: Duration::from_secs(60) };
        Self { capacity: 1000, backoff }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct BySink {
    sink: String,
    result: &'static str,
}

/// What Prometheus is told about events. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct OutboxMetrics {
    events: Family<BySink, Counter>,
    waiting: Gauge,
}

impl OutboxMetrics {
    /// Metrics in a registry.
    pub fn registered(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register(
            "windlass_cdevents",
            "CDEvents by sink and what became of them: sent, failed (tried again), refused, dropped",
            metrics.events.clone(),
        );
        registry.register(
            "windlass_cdevents_waiting",
            "CDEvents that wait for a sink",
            metrics.waiting.clone(),
        );
        metrics
    }

    fn count(&self, sink: &Sink, result: &'static str) {
        self.events.get_or_create(&BySink { sink: sink.address(), result }).inc();
    }

    /// How often this happened.
    #[cfg(test)]
    pub(super) fn counted(&self, sink: &Sink, result: &'static str) -> u64 {
        self.events.get_or_create(&BySink { sink: sink.address(), result }).get()
    }
}

/// Ids that are remembered as done. Beyond it the smallest go; forgetting one costs a repetition, no loss.
const REMEMBERED: usize = 20_000;

struct Waiting {
    key: Key,
    message: Arc<Message>,
}

#[derive(Default)]
struct Desk {
    /// One queue a sink, oldest first.
    queues: Vec<VecDeque<Waiting>>,
    /// How many sinks an event still waits for.
    open: BTreeMap<String, usize>,
    /// Events that every sink has taken or refused for good.
    settled: BTreeSet<String>,
}

struct Shared {
    sinks: Vec<Sink>,
    desk: Mutex<Desk>,
    news: Vec<Notify>,
    capacity: usize,
    metrics: OutboxMetrics,
}

/// Takes events whose status is stored. Cheap to clone.
#[derive(Clone)]
pub struct Outbox(Arc<Shared>);

/// Called with the Rollout of which an event has reached every sink.
pub type Woken = Arc<dyn Fn(&Key) + Send + Sync>;

/// The half that sends.
pub struct Posting<P> {
    shared: Arc<Shared>,
    post: Arc<P>,
    backoff: Backoff,
}

impl Outbox {
    /// Queues for these sinks.
    pub fn new<P: Post>(
        sinks: Vec<Sink>,
        post: P,
        options: OutboxOptions,
        metrics: OutboxMetrics,
    ) -> (Self, Posting<P>) {
        let desk = Desk { queues: sinks.iter().map(|_| VecDeque::new()).collect(), ..Desk::default() };
        let news = sinks.iter().map(|_| Notify::new()).collect();
        let shared = Arc::new(Shared {
            sinks,
            desk: Mutex::new(desk),
            news,
            capacity: options.capacity.max(1),
            metrics,
        });
        (Self(shared.clone()), Posting { shared, post: Arc::new(post), backoff: options.backoff })
    }

    /// Whether anybody listens.
    pub fn is_on(&self) -> bool {
        !self.0.sinks.is_empty()
    }

    /// Takes an event on. One that waits already, or is done, is not taken twice.
    pub fn offer(&self, key: &Key, message: Message) {
        let mut desk = self.0.desk();
        if desk.settled.contains(&message.id) || desk.open.contains_key(&message.id) {
            return;
        }
        desk.open.insert(message.id.clone(), self.0.sinks.len());
        let message = Arc::new(message);
        for index in 0..self.0.sinks.len() {
            let dropped = desk.queues.get_mut(index).and_then(|queue| {
                let dropped = (queue.len() >= self.0.capacity).then(|| queue.pop_front()).flatten();
                queue.push_back(Waiting { key: key.clone(), message: message.clone() });
                dropped
            });
            if let (Some(dropped), Some(sink)) = (dropped, self.0.sinks.get(index)) {
                // Not settled: it stands in the status and is offered again at the next look.
                desk.open.remove(&dropped.message.id);
                self.0.metrics.count(sink, "dropped");
                warn!(%sink, event = dropped.message.id, "too many events wait for the sink: the oldest is dropped");
            }
        }
        self.0.gauge(&desk);
        drop(desk);
        for news in &self.0.news {
            news.notify_one();
        }
    }

    /// Whether every sink has taken the event, or refused it for good.
    pub fn settled(&self, id: &str) -> bool {
        self.0.desk().settled.contains(id)
    }
}

impl Shared {
    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn gauge(&self, desk: &Desk) {
        let waiting: usize = desk.queues.iter().map(VecDeque::len).sum();
        self.metrics.waiting.set(i64::try_from(waiting).unwrap_or(i64::MAX));
    }

    fn first(&self, index: usize) -> Option<Arc<Message>> {
        self.desk().queues.get(index)?.front().map(|waiting| waiting.message.clone())
    }

    /// The event is done at this sink. Gives the Rollout if it was the last one.
    fn done(&self, index: usize, id: &str) -> Option<Key> {
        let mut desk = self.desk();
        let queue = desk.queues.get_mut(index)?;
        // While it was on its way it may have been dropped.
        let waiting = queue.pop_front_if(|waiting| waiting.message.id == id)?;
        self.gauge(&desk);
        let left = desk.open.get_mut(id)?;
        *left = left.saturating_sub(1);
        if *left > 0 {
            return None;
        }
        desk.open.remove(id);
        if desk.settled.len() >= REMEMBERED {
            desk.settled.pop_first();
        }
        desk.settled.insert(id.to_owned());
        Some(waiting.key)
    }
}

impl<P: Post> Posting<P> {
    /// Sends until `stop`. Every sink has its own turn: one that is away delays no other.
    pub async fn run(self, woken: Woken, stop: CancellationToken) {
        let turns = (0..self.shared.sinks.len()).map(|index| self.serve(index, &woken));
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            _ = futures::future::join_all(turns) => stop.cancelled().await,
        }
    }

    async fn serve(&self, index: usize, woken: &Woken) {
        let (Some(sink), Some(news)) = (self.shared.sinks.get(index), self.shared.news.get(index)) else {
            return;
        };
        let mut failures = 0u32;
        loop {
            let Some(message) = self.shared.first(index) else {
                news.notified().await;
                continue;
            };
            match self.post.post(sink, &message).await {
                Ok(()) => {
                    failures = 0;
                    self.shared.metrics.count(sink, "sent");
                    debug!(%sink, event = message.id, "event sent");
                }
                Err(refusal @ Refusal::Never(_)) => {
                    self.shared.metrics.count(sink, "refused");
                    warn!(%sink, event = message.id, %refusal, "the event is given up");
                }
                Err(refusal) => {
                    failures = failures.saturating_add(1);
                    self.shared.metrics.count(sink, "failed");
                    let wait = self.backoff.delay(failures, &sink.address());
                    debug!(%sink, event = message.id, %refusal, ?wait, "the event is tried again");
                    tokio::time::sleep(wait).await;
                    continue;
                }
            }
            if let Some(key) = self.shared.done(index, &message.id) {
                woken(&key);
            }
        }
    }
}
