//! The scheduler: everything that travels between instances and the API waits here for its turn.
//!
//! ```text
//!  instance ──request──► inbox ──settle, sort──► queue ──one a tick──► API
//!  instance ◄──response / watch event──────────── queue ◄──────────────┘
//! ```
//!
//! Three rules make a run a function of its seed. A request is admitted to the queue only once the runtime has
//! come to rest (virtual time moved on), and those of one moment are admitted in the order of their content, not
//! of their arrival. Delays come from [`Dice`], by content as well. And each virtual millisecond releases one
//! thing at most, so that all that follows from it has happened before the next.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use http::{Response, request::Parts};
use http_body_util::combinators::UnsyncBoxBody;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio_util::sync::{CancellationToken, DropGuard};
use tower::BoxError;

use super::{
    api::Api,
    call::Call,
    clock::Clock,
    clusters::Unreachable,
    dice::Dice,
    faults::{Faults, Pace, Strikes},
    life::{Life, Slot},
    trace::Trace,
    writes::Write,
};

/// A response body of any origin.
pub(crate) type AnyBody = UnsyncBoxBody<Bytes, BoxError>;
/// What a request is answered with.
pub(crate) type Answer = Result<Response<AnyBody>, BoxError>;

/// A request on its way to the API.
pub(crate) struct Sent {
    pub(crate) life: Arc<Life>,
    pub(crate) call: Call,
    pub(crate) parts: Parts,
    pub(crate) body: Bytes,
    pub(crate) reply: oneshot::Sender<Answer>,
    /// Names this request among all of the run: its key and how often that key came before.
    pub(crate) subject: String,
    /// When the instance made it.
    pub(crate) since: u64,
    /// Delayed once already by a fault.
    pub(crate) delayed: bool,
    /// Made while the instance stood still.
    pub(crate) made_in_pause: bool,
}

impl Sent {
    /// Made by an instance that stands still: it has not left it yet.
    pub(crate) fn is_held(&self) -> bool {
        self.life.paused_since().is_some_and(|paused| self.since >= paused)
    }

    /// A task of the instance ran on while the process stood still, made this request and gave it up. A process that
    /// really stands still would have given it up before it made it.
    fn never_left(&self) -> bool {
        self.made_in_pause && self.reply.is_closed()
    }
}

/// What waits in the queue.
pub(crate) enum Item {
    Request(Box<Sent>),
    Reply {
        life: Arc<Life>,
        /// The cluster that answers.
        cluster: String,
        reply: oneshot::Sender<Answer>,
        answer: Box<Answer>,
        line: String,
    },
    /// The next frame of a watch stream may go.
    Frame {
        stream: u64,
    },
}

pub(crate) enum Submission {
    Request(Box<Sent>),
    Frame { stream: u64 },
}

/// A watch stream that an instance has open.
pub(crate) struct Stream {
    pub(crate) life: Arc<Life>,
    pub(crate) call: Call,
    pub(crate) subject: String,
    pub(crate) frames: VecDeque<Frame>,
    pub(crate) delivered: u64,
    pub(crate) out: mpsc::UnboundedSender<Result<Bytes, BoxError>>,
    pub(crate) hung: bool,
    /// Frames whose turn came while the view was frozen or the instance paused.
    pub(crate) owed: u64,
    pub(crate) _open: DropGuard,
}

pub(crate) enum Frame {
    Line(Bytes),
    End,
    Broken(String),
}

/// A view that stands still.
pub(crate) struct Freeze {
    pub(crate) instance: String,
    pub(crate) resource: Option<String>,
    /// The resourceVersion at which it stands, by cluster.
    pub(crate) versions: BTreeMap<String, String>,
}

impl Freeze {
    pub(crate) fn holds(&self, call: &Call) -> bool {
        self.instance == call.instance
            && self.versions.contains_key(&call.cluster)
            && self.resource.as_ref().is_none_or(|resource| *resource == call.resource)
    }
}

#[derive(Default)]
pub(crate) struct State {
    inbox: Vec<(u64, Submission)>,
    queue: BTreeMap<(u64, u64, u64), Item>,
    sequence: u64,
    occurrences: BTreeMap<String, u64>,
    /// Requests and replies of paused instances, and those that hang because a cluster is away.
    pub(crate) parked: Vec<Item>,
    pub(crate) trace: Trace,
    pub(crate) writes: Vec<Write>,
    pub(crate) strikes: Strikes,
    pub(crate) slots: BTreeMap<String, Slot>,
    pub(crate) streams: BTreeMap<u64, Stream>,
    pub(crate) next_stream: u64,
    pub(crate) freezes: Vec<Freeze>,
    /// Instances (and resources) whose next watch has to answer 410.
    pub(crate) forgotten: Vec<(String, Option<String>)>,
    pub(crate) steps: u64,
    /// Clusters that no instance reaches.
    pub(crate) away: BTreeMap<String, Unreachable>,
}

impl State {
    /// Whether what goes to or comes from a cluster stands still.
    pub(crate) fn hangs(&self, cluster: &str) -> bool {
        self.away.get(cluster) == Some(&Unreachable::Hangs)
    }
}

/// Everything between the instances and the APIs.
pub(crate) struct Hub {
    pub(crate) dice: Dice,
    pub(crate) clock: Clock,
    pub(crate) pace: Pace,
    state: Mutex<State>,
    /// Every API, by the name of its cluster; the hub's own has none.
    pub(crate) apis: Mutex<BTreeMap<String, Api>>,
    pub(crate) wake: Arc<Notify>,
    /// Cancelled when the run has taken more steps than any sound one would.
    pub(crate) exhausted: CancellationToken,
}

/// More steps than this is a loop that goes on for ever.
const MOST_STEPS: u64 = 400_000;

impl Hub {
    pub(crate) fn new(dice: Dice, clock: Clock, plan: &Faults) -> Arc<Self> {
        let state = State { strikes: Strikes::new(plan.faults.clone()), ..State::default() };
        Arc::new(Self {
            dice,
            clock,
            pace: plan.pace.clone(),
            state: Mutex::new(state),
            apis: Mutex::default(),
            wake: Arc::default(),
            exhausted: CancellationToken::new(),
        })
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn note(&self, who: &str, what: String) {
        let at = self.clock.elapsed();
        self.lock().trace.push(at, who, what);
    }

    pub(crate) fn submit(&self, submission: Submission) {
        let tick = self.clock.tick();
        self.lock().inbox.push((tick, submission));
        self.wake.notify_one();
    }

    /// Puts something into the queue, to be released after a seeded delay.
    pub(crate) fn enqueue(&self, item: Item, subject: &str, extra: u64) {
        let due = self.clock.tick() + extra + self.pace.delay(self.dice, subject);
        let tie = self.dice.pick("tie", subject, 0..=u64::MAX);
        let mut state = self.lock();
        state.sequence += 1;
        let key = (due, tie, state.sequence);
        state.queue.insert(key, item);
        drop(state);
        self.wake.notify_one();
    }

    /// Runs until the world ends.
    pub(crate) async fn drive(self: Arc<Self>) {
        loop {
            let now = self.clock.tick();
            self.admit(now);
            self.carry_out_due();
            if let Some(item) = self.take_due(now) {
                let steps = {
                    let mut state = self.lock();
                    state.steps += 1;
                    state.steps
                };
                if steps > MOST_STEPS {
                    self.exhausted.cancel();
                    return;
                }
                self.release(item).await;
            }
            match self.next_tick(now) {
                None => self.wake.notified().await,
                Some(tick) => {
                    tokio::select! {
                        biased;
                        () = tokio::time::sleep_until(self.clock.instant(tick)) => {}
                        () = self.wake.notified() => {}
                    }
                }
            }
        }
    }

    /// Moves what was submitted before this tick into the queue, in the order of its content.
    fn admit(&self, now: u64) {
        let mut settled = Vec::new();
        {
            let mut state = self.lock();
            if !state.inbox.iter().any(|(tick, _)| *tick < now) {
                return;
            }
            for (tick, submission) in std::mem::take(&mut state.inbox) {
                if tick < now { settled.push(submission) } else { state.inbox.push((tick, submission)) }
            }
        }
        settled.sort_by_cached_key(|submission| match submission {
            Submission::Request(sent) => (sent.call.key(), sent.call.digest.clone()),
            Submission::Frame { stream } => (format!("frame {stream:012}"), String::new()),
        });
        for submission in settled {
            match submission {
                Submission::Request(mut sent) if !sent.life.is_dead() => {
                    let key = sent.call.key();
                    let nth = {
                        let mut state = self.lock();
                        let count = state.occurrences.entry(key.clone()).or_default();
                        *count += 1;
                        *count
                    };
                    sent.subject = format!("{key} {nth}");
                    let subject = sent.subject.clone();
                    self.enqueue(Item::Request(sent), &subject, 0);
                }
                Submission::Request(_) => {}
                Submission::Frame { stream } => {
                    let nth = {
                        let mut state = self.lock();
                        let count = state.occurrences.entry(format!("frame {stream}")).or_default();
                        *count += 1;
                        *count
                    };
                    self.enqueue(Item::Frame { stream }, &format!("frame {stream} {nth}"), 0);
                }
            }
        }
    }

    fn take_due(&self, now: u64) -> Option<Item> {
        let mut state = self.lock();
        let entry = state.queue.first_entry().filter(|entry| entry.key().0 <= now)?;
        Some(entry.remove())
    }

    /// The next tick at which there may be something to do; none while nothing waits.
    fn next_tick(&self, now: u64) -> Option<u64> {
        let agenda = self.next_due();
        let state = self.lock();
        if !state.inbox.is_empty() {
            return Some(now + 1);
        }
        let queue = state.queue.first_key_value().map(|((due, _, _), _)| *due);
        queue.into_iter().chain(agenda).min().map(|due| due.max(now + 1))
    }

    /// Requests of a dead life: by the seed, one already on the wire still arrives; the rest never left.
    pub(crate) fn bury(&self, life: &Arc<Life>) {
        let mut state = self.lock();
        let belongs = |item: &Item| match item {
            Item::Request(sent) => Arc::ptr_eq(&sent.life, life),
            Item::Reply { life: owner, .. } => Arc::ptr_eq(owner, life),
            Item::Frame { .. } => false,
        };
        let on_the_wire = |item: &Item| match item {
            Item::Request(sent) => self.dice.chance("on the wire", &sent.subject, 0.5),
            _ => false,
        };
        state.queue.retain(|_, item| !belongs(item) || on_the_wire(item));
        state.parked.retain(|item| !belongs(item));
        state.streams.retain(|_, stream| !Arc::ptr_eq(&stream.life, life));
    }

    /// Lets go of what was held for paused instances and frozen views, as far as nothing holds it any longer.
    pub(crate) fn unpark(&self) {
        let mut free = Vec::new();
        let mut frames = Vec::new();
        {
            let mut state = self.lock();
            let parked = std::mem::take(&mut state.parked);
            for item in parked {
                let held = match &item {
                    Item::Request(sent) => sent.is_held() || state.hangs(&sent.call.cluster),
                    Item::Reply { life, cluster, .. } => life.is_paused() || state.hangs(cluster),
                    Item::Frame { .. } => false,
                };
                if held {
                    state.parked.push(item);
                } else if !matches!(&item, Item::Request(sent) if sent.never_left()) {
                    free.push(item);
                }
            }
            let State { streams, freezes, away, .. } = &mut *state;
            for (id, stream) in streams {
                let held = stream.life.is_paused()
                    || away.contains_key(&stream.call.cluster)
                    || freezes.iter().any(|freeze| freeze.holds(&stream.call));
                if !held {
                    frames.extend(std::iter::repeat_n(*id, usize::try_from(stream.owed).unwrap_or_default()));
                    stream.owed = 0;
                }
            }
        }
        for (index, item) in free.into_iter().enumerate() {
            let subject = match &item {
                Item::Request(sent) => format!("{} resumed", sent.subject),
                _ => format!("reply resumed {index}"),
            };
            self.enqueue(item, &subject, 0);
        }
        for (index, stream) in frames.into_iter().enumerate() {
            self.enqueue(Item::Frame { stream }, &format!("frame {stream} resumed {index}"), 0);
        }
    }

    /// Nothing waits to be delivered, apart from what is held on purpose.
    pub(crate) fn is_idle(&self) -> bool {
        let state = self.lock();
        state.inbox.is_empty() && state.queue.is_empty()
    }

    pub(crate) fn now(&self) -> Duration {
        self.clock.elapsed()
    }
}
