//! One remote and the Applications that follow it: what was last heard of it, when to ask again, whom to wake.
//!
//! Everything here is in memory and quick: whoever holds the lock never waits.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::Notify, time::Instant};
use windlass_cluster::{backoff::Backoff, drive::Key};
use windlass_vcs::{id::CommitId, mirror::Fetched, mirror::Mirror, remote::Remote, revision::Via};

use super::{Seen, address::Address};
use crate::trouble::Trouble;

/// How many pushes are waited for, how often each, and half of the first wait.
const EXPECTED: usize = 64;
const MISSES: u32 = 3;
const SOON: Duration = Duration::from_millis(250);

/// How many commits are remembered as usable.
const USABLE: usize = 1024;

/// A remote that is followed.
#[derive(Debug)]
pub(super) struct Feed {
    /// Digest of the remote.
    pub(super) digest: String,
    /// For hooks.
    pub(super) address: Address,
    /// Rung when it may be time to fetch sooner than was thought.
    pub(super) bell: Notify,
    state: Mutex<State>,
}

/// What is known of it.
#[derive(Debug)]
pub(super) struct State {
    /// With the credentials that were given last.
    pub(super) remote: Remote,
    /// Held, so that nobody removes it while somebody follows the remote.
    pub(super) mirror: Option<Arc<Mirror>>,
    followers: BTreeMap<Key, Follower>,
    /// How the last fetch ended; `None` before the first one did.
    outcome: Option<Result<(), Trouble>>,
    /// The first fetch takes so long that what is there from earlier is used meanwhile.
    late: Option<Trouble>,
    /// When the last fetch ended.
    ended: Option<Instant>,
    failures: u32,
    poked: bool,
    /// Pushes that hooks told of and no fetch has shown yet: where each ref should be, and how often it was not.
    expected: BTreeMap<String, (CommitId, u32)>,
    /// What Applications asked for, and how far it is.
    asked: BTreeMap<Key, (String, Asked)>,
    default_branch: Option<String>,
    /// Grows whenever a revision may have come to stand for something else.
    generation: u64,
    answers: BTreeMap<Option<String>, (u64, Answer)>,
    /// Commits that are there and can be deployed, as of a generation.
    usable: (u64, BTreeSet<CommitId>),
}

/// How far a request for a fetch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    /// The next fetch answers it.
    Open,
    /// The one under way does.
    Begun,
    /// It was answered, well or not.
    Answered,
}

#[derive(Clone, Debug)]
struct Follower {
    interval: Duration,
    revision: Option<String>,
    /// The folder that it renders.
    folder: String,
    stake: Stake,
    /// It may not use the remote at the moment: nothing is fetched for it, and what is there stays.
    parked: bool,
}

/// Which movements can change what an Application follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stake {
    /// Any: it follows a commit or a change, or is in trouble.
    Any,
    /// The default branch, whichever it is.
    Default,
    /// A branch or a tag of this name, or the ref with this full name.
    Name(String),
}

/// What a revision stands for, or why for nothing.
pub(super) type Answer = Result<(Seen, Stake), Trouble>;

/// What is known of a revision without looking into the mirror.
pub(super) struct Known {
    pub(super) remote: Remote,
    /// What stands between us and the remote.
    pub(super) stale: Option<Trouble>,
    pub(super) generation: u64,
    pub(super) answer: Option<Answer>,
}

impl Stake {
    /// The stake of whoever asked for a revision that turned out to be this.
    pub(super) fn of(revision: Option<&str>, via: &Via) -> Self {
        match (revision, via) {
            (_, Via::Commit | Via::Change) => Self::Any,
            (None, _) => Self::Default,
            (Some(name), _) => Self::Name(name.to_owned()),
        }
    }

    fn is_moved(&self, moved: &BTreeSet<&str>, default: Option<&str>, default_changed: bool) -> bool {
        let of_name = |name: &str| {
            let name = name.strip_prefix("refs/remotes/origin/").unwrap_or(name);
            // A new branch goes before a tag of its name, so both count.
            moved.contains(name)
                || moved.contains(format!("refs/heads/{name}").as_str())
                || moved.contains(format!("refs/tags/{name}").as_str())
        };
        match self {
            Self::Any => true,
            Self::Default => default_changed || default.is_some_and(of_name),
            Self::Name(name) => of_name(name),
        }
    }
}

impl Feed {
    pub(super) fn new(remote: Remote) -> Self {
        Self {
            digest: remote.digest(),
            address: Address::of(remote.url()),
            bell: Notify::new(),
            state: Mutex::new(State {
                remote,
                mirror: None,
                followers: BTreeMap::new(),
                outcome: None,
                late: None,
                ended: None,
                failures: 0,
                poked: false,
                expected: BTreeMap::new(),
                asked: BTreeMap::new(),
                default_branch: None,
                generation: 0,
                answers: BTreeMap::new(),
                usable: (0, BTreeSet::new()),
            }),
        }
    }

    /// Nothing in it can be left half-done by a panic.
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fetch now, or once more if a fetch is under way.
    pub(super) fn poke(&self) {
        self.state().poked = true;
        self.bell.notify_one();
    }

    /// An Application asks for a fetch. Whether this request was answered; each leads to one fetch.
    pub(super) fn ask(&self, app: &Key, request: &str) -> bool {
        let mut state = self.state();
        if let Some((known, asked)) = state.asked.get(app)
            && known == request
        {
            return *asked == Asked::Answered;
        }
        state.asked.insert(app.clone(), (request.to_owned(), Asked::Open));
        state.poked = true;
        drop(state);
        self.bell.notify_one();
        false
    }

    /// A hook says that a ref is at a commit now. Servers tell of a push before all of their copies have it: when the
    /// fetch does not show it, a few more follow soon. A ref that nobody follows is not waited for.
    pub(super) fn expect(&self, reference: &str, commit: CommitId) {
        let mut state = self.state();
        let moved = BTreeSet::from([reference]);
        let default = state.default_branch.as_deref();
        let followed =
            state.followers.values().any(|follower| follower.stake.is_moved(&moved, default, false));
        if followed && state.expected.len() < EXPECTED {
            state.expected.insert(reference.to_owned(), (commit, 0));
        }
    }

    /// What hooks told of and no fetch has shown yet.
    pub(super) fn expected(&self) -> Vec<(String, CommitId)> {
        self.state().expected.iter().map(|(name, (commit, _))| (name.clone(), *commit)).collect()
    }

    /// A fetch showed what a hook told of, or did not: after a few times it is not waited for any more.
    pub(super) fn checked(&self, reference: &str, commit: CommitId, is_there: bool) {
        let mut state = self.state();
        let Some((expected, misses)) = state.expected.get_mut(reference) else { return };
        if *expected != commit {
            return;
        }
        *misses += 1;
        if is_there || *misses > MISSES {
            state.expected.remove(reference);
        }
    }

    /// An Application follows a revision of this remote. Says what is known of it, `None` before the first fetch.
    ///
    /// In one step: whatever is heard after it wakes the Application.
    pub(super) fn follow(
        &self,
        app: &Key,
        remote: Remote,
        revision: Option<&str>,
        interval: Duration,
    ) -> Option<Known> {
        let mut state = self.state();
        let shortest = state.interval();
        if !same_way(&state.remote, &remote) {
            // New credentials: what failed before may work now.
            state.remote = remote;
            state.failures = 0;
            state.poked = true;
        } else if state.failures > 0 {
            // Another way to write the same address, such as without `.git`, may be the one that the server knows.
            state.remote = remote;
        }
        let follower = state.followers.entry(app.clone()).or_insert_with(|| Follower {
            interval,
            revision: revision.map(ToOwned::to_owned),
            folder: String::new(),
            stake: Stake::Any,
            parked: false,
        });
        follower.interval = interval;
        follower.parked = false;
        if follower.revision.as_deref() != revision {
            follower.revision = revision.map(ToOwned::to_owned);
            follower.stake = Stake::Any;
        }
        if state.poked || shortest.is_none_or(|shortest| interval < shortest) {
            self.bell.notify_one();
        }
        state.known(revision)
    }

    /// An Application may not use the remote at the moment, and what it follows there is to stay.
    pub(super) fn park(&self, app: &Key) {
        let mut state = self.state();
        let follower = state.followers.entry(app.clone()).or_insert_with(|| Follower {
            interval: Duration::MAX,
            revision: None,
            folder: String::new(),
            stake: Stake::Any,
            parked: true,
        });
        follower.parked = true;
        drop(state);
        self.bell.notify_one();
    }

    /// Says what an Application has at stake, unless it follows something else by now.
    pub(super) fn stakes(&self, app: &Key, revision: Option<&str>, stake: Stake) {
        if let Some(follower) = self.state().followers.get_mut(app)
            && follower.revision.as_deref() == revision
        {
            follower.stake = stake;
        }
    }

    /// An Application follows it no longer. Whether nobody does.
    pub(super) fn leave(&self, app: &Key) -> bool {
        let mut state = self.state();
        state.followers.remove(app);
        state.asked.remove(app);
        let State { followers, answers, .. } = &mut *state;
        answers.retain(|revision, _| followers.values().any(|follower| follower.revision == *revision));
        state.followers.is_empty()
    }

    /// Keeps what a revision stood for at a generation.
    pub(super) fn remember(&self, revision: Option<&str>, generation: u64, answer: Answer) {
        let mut state = self.state();
        let revision = revision.map(ToOwned::to_owned);
        if state.answers.get(&revision).is_none_or(|(known, _)| *known <= generation) {
            state.answers.insert(revision, (generation, answer));
        }
    }

    /// Whether a commit is known to be there and fit to be deployed; else the generation to tell it with.
    pub(super) fn is_usable(&self, commit: CommitId) -> Result<(), u64> {
        let state = self.state();
        let known = state.usable.0 == state.generation && state.usable.1.contains(&commit);
        if known { Ok(()) } else { Err(state.generation) }
    }

    /// A commit is there and fit to be deployed, as of a generation.
    pub(super) fn usable(&self, generation: u64, commit: CommitId) {
        let mut state = self.state();
        if state.usable.0 != generation || state.usable.1.len() >= USABLE {
            state.usable = (generation, BTreeSet::new());
        }
        state.usable.1.insert(commit);
    }

    /// When the next fetch is due.
    pub(super) fn due(&self, backoff: &Backoff) -> Instant {
        let state = self.state();
        let now = Instant::now();
        if state.interval().is_none() {
            // Nobody may use it. Whoever may rings the bell.
            return now + backoff.longest;
        }
        let Some(ended) = state.ended.filter(|_| !state.poked) else { return now };
        let misses = state.expected.values().map(|(_, misses)| *misses).filter(|misses| *misses > 0).min();
        let soon = misses.map(|misses| SOON.saturating_mul(1 << misses.min(10)));
        let wait = match state.failures {
            0 => [state.interval(), soon].into_iter().flatten().min().unwrap_or(backoff.longest),
            // However seldom its Applications ask: what failed is tried again soon.
            failures => backoff.delay(failures, &self.digest).min(backoff.longest),
        };
        ended + wait
    }

    /// A fetch begins: pokes up to now are answered by it. The remote to fetch.
    pub(super) fn begin(&self) -> Remote {
        let mut state = self.state();
        state.poked = false;
        state
            .asked
            .values_mut()
            .filter(|(_, asked)| *asked == Asked::Open)
            .for_each(|(_, asked)| *asked = Asked::Begun);
        state.remote.clone()
    }

    /// The fetch takes long. Whom to wake: those who wait for the first answer, or asked for this fetch.
    pub(super) fn is_late(&self, trouble: Trouble) -> Vec<Key> {
        let mut state = self.state();
        // Who asked is not kept waiting for ever: what is known already is all that there is for now.
        let asked = state.answered();
        if state.outcome.is_some() || state.late.is_some() {
            return asked;
        }
        state.late = Some(trouble);
        state.followers.keys().cloned().collect()
    }

    /// A fetch ended. Whom to wake.
    pub(super) fn settle(&self, result: Result<&Fetched, Trouble>) -> Vec<Key> {
        let mut state = self.state();
        let mut concerned = state.answered();
        for app in Self::concerned(&mut state, result) {
            if !concerned.contains(&app) {
                concerned.push(app);
            }
        }
        concerned
    }

    /// Whom the end of a fetch concerns.
    fn concerned(state: &mut State, result: Result<&Fetched, Trouble>) -> Vec<Key> {
        state.ended = Some(Instant::now());
        let reason = |outcome: &Option<Result<(), Trouble>>| match outcome {
            None => None,
            Some(Ok(())) => Some(""),
            Some(Err(trouble)) => Some(trouble.reason),
        };
        let before = reason(&state.outcome);
        state.late = None;
        let Ok(fetched) = result else {
            state.failures = state.failures.saturating_add(1);
            // Some refs may have moved before it failed.
            state.generation += 1;
            state.outcome = Some(result.map(drop));
            let turned = before != reason(&state.outcome);
            return if turned { state.followers.keys().cloned().collect() } else { Vec::new() };
        };
        state.failures = 0;
        state.outcome = Some(Ok(()));
        let default_changed = state.default_branch != fetched.default_branch;
        if default_changed || fetched.cloned_anew || !fetched.movements.is_empty() || before != Some("") {
            state.generation += 1;
        }
        state.default_branch.clone_from(&fetched.default_branch);
        if before != Some("") || fetched.cloned_anew {
            return state.followers.keys().cloned().collect();
        }
        if fetched.movements.is_empty() && !default_changed {
            return Vec::new();
        }
        let moved: BTreeSet<&str> = fetched.movements.iter().map(|movement| movement.name.as_str()).collect();
        let default = state.default_branch.as_deref();
        let concerned = |follower: &Follower| follower.stake.is_moved(&moved, default, default_changed);
        state
            .followers
            .iter()
            .filter(|(_, follower)| concerned(follower))
            .map(|(app, _)| app.clone())
            .collect()
    }

    /// Which folder an Application renders.
    pub(super) fn renders(&self, app: &Key, folder: &str) {
        if let Some(follower) = self.state().followers.get_mut(app)
            && follower.folder != folder
        {
            folder.clone_into(&mut follower.folder);
        }
    }

    /// The folders of all who follow.
    pub(super) fn folders(&self) -> BTreeMap<Key, String> {
        let state = self.state();
        state.followers.iter().map(|(app, follower)| (app.clone(), follower.folder.clone())).collect()
    }

    /// What stands between us and the remote.
    pub(super) fn stale(&self) -> Option<Trouble> {
        self.state().stale()
    }

    /// Whether the last fetch failed.
    pub(super) fn is_failing(&self) -> bool {
        self.state().failures > 0
    }
}

/// Whether two remotes are reached in the same way, however their address is written.
fn same_way(one: &Remote, other: &Remote) -> bool {
    one.credentials() == other.credentials()
        && one.proxy() == other.proxy()
        && one.ca() == other.ca()
        && one.client_certificate() == other.client_certificate()
}

impl State {
    /// How often the remote is asked for news; `None` when nobody may.
    fn interval(&self) -> Option<Duration> {
        let active = self.followers.values().filter(|follower| !follower.parked);
        active.map(|follower| follower.interval).min()
    }

    /// The fetch under way answers those who asked before it began. Who they are.
    fn answered(&mut self) -> Vec<Key> {
        let begun = self.asked.iter_mut().filter(|(_, (_, asked))| *asked == Asked::Begun);
        begun
            .map(|(app, (_, asked))| {
                *asked = Asked::Answered;
                app.clone()
            })
            .collect()
    }

    fn stale(&self) -> Option<Trouble> {
        match &self.outcome {
            None => self.late.clone(),
            Some(outcome) => outcome.clone().err(),
        }
    }

    /// `None` before anything is known.
    fn known(&self, revision: Option<&str>) -> Option<Known> {
        if self.outcome.is_none() && self.late.is_none() {
            return None;
        }
        let answer = self.answers.get(&revision.map(ToOwned::to_owned));
        let answer = answer.filter(|(generation, _)| *generation == self.generation);
        Some(Known {
            remote: self.remote.clone(),
            stale: self.stale(),
            generation: self.generation,
            answer: answer.map(|(_, answer)| answer.clone()),
        })
    }
}

#[cfg(test)]
mod tests;
