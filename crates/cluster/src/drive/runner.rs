//! Brings watch, store, queue, gate and rounds together.

use std::{collections::BTreeSet, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures::{
    FutureExt, Stream, StreamExt,
    stream::{BoxStream, SelectAll},
};
use kube::{Api, Client};
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
    time::Instant,
};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, debug, error, info_span, warn};

use super::{
    controller::Controller,
    key::{Key, Reference},
    metrics::{Metrics, Round},
    queue::{Outcome, Queue},
    round::{Ended, Rounds},
    store::{Change, Store},
};
use crate::{
    backoff::Backoff,
    clock::Clock,
    events::Recorder,
    lease::{Gate, Held},
    watch::{self as watching, Event, Seen, Selection},
};

/// A list that is not older has seen what the replica before us did.
const JUST_NOW: Duration = Duration::from_secs(5);

/// How a controller is run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Rounds at a time.
    pub workers: usize,
    /// Longest time a round may take.
    pub deadline: Duration,
    /// Every object is looked at again after this time even if nothing happens.
    pub resync: Duration,
    /// Wait after failures.
    pub backoff: Backoff,
    /// Time that rounds under way get to end at a shutdown.
    pub grace: Duration,
    /// Which objects of the kind.
    pub selection: Selection,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            workers: 16,
            deadline: Duration::from_secs(120),
            resync: Duration::from_secs(600),
            backoff: Backoff { first: Duration::from_millis(500), longest: Duration::from_secs(120) },
            grace: Duration::from_millis(1200),
            selection: Selection::default(),
        }
    }
}

/// What all controllers of a process share. Cheap to clone.
#[derive(Clone)]
pub struct Services {
    /// Client of the API that the objects are in.
    pub client: Client,
    /// Which shards are ours.
    pub gate: Gate,
    /// Time of day.
    pub clock: Clock,
    /// Takes what is to be told to people.
    pub recorder: Recorder,
    /// Counts rounds.
    pub metrics: Metrics,
}

/// Wakes objects of a running controller from outside, for example from a webhook. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Waker(mpsc::Sender<Call>);

/// Who is woken.
#[derive(Debug)]
enum Call {
    One(Key),
    All,
}

impl Waker {
    /// Looks at the object soon. A wake that does not fit into the bounded channel is dropped and says so: the caller
    /// decides whether to wait.
    pub fn wake(&self, key: Key) -> bool {
        self.0.try_send(Call::One(key)).is_ok()
    }

    /// Looks at every object soon, for example because something changed that each of them may depend on.
    pub fn wake_all(&self) -> bool {
        self.0.try_send(Call::All).is_ok()
    }
}

/// A controller, ready to run.
pub struct Drive<C: Controller> {
    rounds: Arc<Rounds<C>>,
    options: Options,
    related: SelectAll<BoxStream<'static, Seen>>,
    related_count: usize,
    wakes: (mpsc::Sender<Call>, mpsc::Receiver<Call>),
    warm: watch::Sender<bool>,
}

impl<C: Controller> Drive<C> {
    /// A controller that uses these services.
    pub fn new(controller: Arc<C>, services: Services, options: Options) -> Self {
        let deadline = options.deadline;
        Self {
            rounds: Arc::new(Rounds { controller, services, deadline }),
            options,
            related: SelectAll::new(),
            related_count: 0,
            wakes: mpsc::channel(4096),
            warm: watch::Sender::new(false),
        }
    }

    /// Also watches objects of another kind: a change of one wakes those who read it.
    #[must_use]
    pub fn related(mut self, seen: impl Stream<Item = Seen> + Send + 'static) -> Self {
        // A watch that lists again is not another one that is whole.
        let mut whole = false;
        let once = seen.filter(move |seen| {
            let again = *seen == Seen::Whole && std::mem::replace(&mut whole, true);
            std::future::ready(!again)
        });
        self.related.push(once.boxed());
        self.related_count += 1;
        self
    }

    /// Wakes objects from outside.
    pub fn waker(&self) -> Waker {
        Waker(self.wakes.0.clone())
    }

    /// True once every watch has brought what exists: from then on this replica could act.
    pub fn warm(&self) -> watch::Receiver<bool> {
        self.warm.subscribe()
    }

    /// Runs until `stop`, then lets the rounds under way end within the grace.
    pub async fn run(self, stop: CancellationToken) {
        let Self { rounds, options, related, related_count, wakes, warm } = self;
        let held = rounds.services.gate.held();
        let mut running = Running {
            queue: Queue::new(options.workers, options.backoff),
            store: Store::new(),
            tasks: JoinSet::new(),
            held: Held::default(),
            cold_related: related_count,
            listed: None,
            listing_again: false,
            stale: BTreeSet::new(),
            next_round: 0,
            warm,
            rounds,
            options,
        };
        running.drive(related, wakes.1, held, stop).await;
        running.end().await;
    }
}

struct Running<C: Controller> {
    rounds: Arc<Rounds<C>>,
    options: Options,
    queue: Queue,
    store: Store<C::Object>,
    tasks: JoinSet<(Ended<C::Object>, Duration)>,
    /// Shards held when last looked.
    held: Held,
    cold_related: usize,
    /// When the last list of the kind ended.
    listed: Option<Instant>,
    /// What a replica before us did may not have come to us: no round begins until a list has ended.
    listing_again: bool,
    /// Objects that moved on, to be read before their next round unless the watch brings them first: it may be silent.
    stale: BTreeSet<Key>,
    next_round: u64,
    warm: watch::Sender<bool>,
}

impl<C: Controller> Running<C> {
    async fn drive(
        &mut self,
        mut related: SelectAll<BoxStream<'static, Seen>>,
        mut wakes: mpsc::Receiver<Call>,
        mut held: watch::Receiver<Held>,
        stop: CancellationToken,
    ) {
        let api: Api<C::Object> = Api::all(self.rounds.services.client.clone());
        let (selection, name) = (self.options.selection.clone(), self.name());
        let open = || watching::objects(api.clone(), &selection, name);
        let mut events = std::pin::pin!(open());
        self.gained(&held.borrow_and_update().clone());
        loop {
            self.start_due();
            let due = self.queue.next_due().filter(|_| !self.listing_again);
            let timer = async {
                match due {
                    Some(due) => tokio::time::sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Ok(()) = held.changed() => {
                    let now_held = held.borrow_and_update().clone();
                    let listing = self.listing_again;
                    self.gained(&now_held);
                    if self.listing_again && !listing {
                        events.set(open());
                    }
                }
                Some(done) = self.tasks.join_next(), if !self.tasks.is_empty() => self.finish(done),
                Some(event) = events.next() => self.see(event),
                Some(seen) = related.next(), if !related.is_empty() => self.see_related(seen),
                Some(call) = wakes.recv() => match call {
                    Call::One(key) => self.wake(&key),
                    Call::All => self.wake_all(),
                },
                () = timer => {}
            }
        }
    }

    /// Starts rounds for what is due and ours, as long as workers are free.
    fn start_due(&mut self) {
        if self.listing_again {
            return;
        }
        let now = Instant::now();
        while let Some(key) = self.queue.take(now) {
            let shard = key.shard(self.rounds.services.gate.shards());
            let ours = self.held.contains_key(&shard);
            let Some(object) = ours.then(|| self.store.get(&key)).flatten() else {
                // Not ours: when the shard is gained, everything in it is woken.
                let known = self.store.has(&key);
                self.queue.done(&key, Outcome::Rest, now, known);
                continue;
            };
            let stale = self.stale.remove(&key);
            self.next_round += 1;
            let id = self.next_round;
            let span = info_span!("reconcile", controller = self.name(), object = %key, id);
            let rounds = self.rounds.clone();
            self.tasks.spawn(
                async move {
                    let begin = Instant::now();
                    let round = AssertUnwindSafe(rounds.run(key.clone(), object, stale)).catch_unwind().await;
                    let ended = round.unwrap_or_else(|_| {
                        rounds.services.metrics.error(rounds.controller.name(), "panic");
                        error!("the round panicked; the object is tried again later");
                        let outcome = Outcome::Retry { longest: None, at_least: None };
                        Ended { key, outcome, round: Round::Failed, latest: None, stale }
                    });
                    (ended, begin.elapsed())
                }
                .instrument(span),
            );
        }
        self.rounds.services.metrics.sizes(self.name(), self.store.len(), self.queue.depth(now));
    }

    fn finish(&mut self, done: Result<(Ended<C::Object>, Duration), tokio::task::JoinError>) {
        let Ok((ended, took)) = done else { return };
        self.rounds.services.metrics.round(self.name(), ended.round, took);
        if let Some(object) = ended.latest {
            // What the API gave back after the last finalizer went is no object any more.
            if self.store.holds(&ended.key, &object) {
                let controller = self.rounds.controller.clone();
                self.store.put(object, |object| controller.reads(object));
            }
        }
        let known = self.store.has(&ended.key);
        if ended.stale && known {
            self.stale.insert(ended.key.clone());
        }
        let outcome = match ended.outcome {
            Outcome::Rest if ended.round != Round::Fenced => Outcome::After(self.options.resync),
            other => other,
        };
        self.queue.done(&ended.key, outcome, Instant::now(), known);
    }

    fn see(&mut self, event: Event<C::Object>) {
        match event {
            Event::ListBegins => self.store.begin_list(),
            Event::Listed(object) | Event::Changed(object) => {
                let key = Key::of(&object);
                let controller = self.rounds.controller.clone();
                if self.store.put(object, |object| controller.reads(object)) == Change::Changed {
                    self.stale.remove(&key);
                    self.wake(&key);
                }
            }
            Event::ListEnds => {
                for key in self.store.end_list() {
                    self.forget(&key);
                }
                self.listed = Some(Instant::now());
                self.listing_again = false;
                self.warmed();
            }
            Event::Gone(object) => {
                let key = Key::of(&object);
                if self.store.holds(&key, &object) {
                    self.store.remove(&key);
                    self.forget(&key);
                }
            }
            Event::Broken { category, message } => self.broken(category, &message),
        }
    }

    fn see_related(&mut self, seen: Seen) {
        match seen {
            Seen::Changed(reference) => self.wake_readers(&reference),
            Seen::Whole => {
                self.cold_related = self.cold_related.saturating_sub(1);
                self.warmed();
            }
            Seen::Broken { category, message } => self.broken(category, &message),
        }
    }

    fn wake(&mut self, key: &Key) {
        if self.store.has(key) {
            self.queue.wake(key, Instant::now());
        }
    }

    fn wake_all(&mut self) {
        let now = Instant::now();
        for key in self.store.keys() {
            self.queue.wake(key, now);
        }
    }

    fn wake_readers(&mut self, reference: &Reference) {
        let now = Instant::now();
        for key in self.store.readers(reference) {
            self.queue.wake(key, now);
        }
    }

    fn forget(&mut self, key: &Key) {
        self.queue.forget(key);
        self.stale.remove(key);
        self.rounds.controller.gone(key);
    }

    /// Everything in a shard that was gained is looked at now: the replica before may have stopped in the middle. What
    /// it did last may not have come to us, for a watch can be silent without an error: unless all was listed just now,
    /// it is listed again first.
    fn gained(&mut self, held: &Held) {
        let shards = self.rounds.services.gate.shards();
        let gained: Vec<u32> = held
            .iter()
            .filter(|(shard, gain)| self.held.get(shard) != Some(*gain))
            .map(|(shard, _)| *shard)
            .collect();
        self.held.clone_from(held);
        if gained.is_empty() {
            return;
        }
        let now = Instant::now();
        self.listing_again |= self.listed.is_some_and(|at| now.duration_since(at) >= JUST_NOW);
        for key in self.store.keys() {
            if gained.contains(&key.shard(shards)) {
                self.queue.wake(key, now);
            }
        }
    }

    fn warmed(&self) {
        if self.listed.is_some() && self.cold_related == 0 {
            self.warm.send_if_modified(|warm| !std::mem::replace(warm, true));
        }
    }

    fn broken(&self, category: &'static str, message: &str) {
        self.rounds.services.metrics.watch_error(self.name(), category);
        warn!(controller = self.name(), category, message, "a watch broke and starts again");
    }

    /// Lets the rounds under way end; what does not end in time is dropped: each action is safe to repeat.
    async fn end(mut self) {
        let drain = async { while self.tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(self.options.grace, drain).await.is_err() {
            debug!(
                controller = self.rounds.controller.name(),
                left = self.tasks.len(),
                "rounds are cut short"
            );
            self.tasks.shutdown().await;
        }
    }

    fn name(&self) -> &'static str {
        self.rounds.controller.name()
    }
}
