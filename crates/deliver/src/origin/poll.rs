//! Pollers: one for each remote that somebody follows.

use std::{collections::BTreeMap, sync::Arc};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, MissedTickBehavior},
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use windlass_vcs::{mirror::Fetched, remote::Remote, repositories::RepositoriesError};

use super::{
    feed::Feed,
    order,
    repos::{Inner, Render, Repos},
    words,
};

/// How far back it is looked for what a hook told of.
const MOVES: usize = 10;

/// How many fetches run at once. Remotes that failed have lanes of their own: they cannot take those of others.
#[derive(Debug)]
pub(super) struct Lanes {
    good: Arc<Semaphore>,
    failing: Arc<Semaphore>,
}

impl Lanes {
    pub(super) fn new(lanes: usize) -> Self {
        let lanes = lanes.max(1);
        Self { good: Arc::new(Semaphore::new(lanes)), failing: Arc::new(Semaphore::new(lanes.div_ceil(4))) }
    }

    /// `None` is no lane, and no reason to wait for one.
    async fn enter(&self, failing: bool) -> Option<OwnedSemaphorePermit> {
        let lane = if failing { &self.failing } else { &self.good };
        lane.clone().acquire_owned().await.ok()
    }
}

impl<R: Render> Repos<R> {
    /// Keeps all repositories up to date until it is told to stop. Run it once.
    pub async fn run(&self, stop: CancellationToken) {
        let inner = &self.0;
        let mut pollers: BTreeMap<String, Poller> = BTreeMap::new();
        let every = inner.settings.sweep_every;
        let mut sweep = tokio::time::interval_at(Instant::now() + every, every);
        sweep.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            inner.staff(&mut pollers, &stop);
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = inner.changed.notified() => {}
                _ = sweep.tick() => inner.sweep().await,
            }
        }
    }
}

struct Poller {
    feed: Arc<Feed>,
    task: AbortOnDropHandle<()>,
}

impl<R: Render> Inner<R> {
    /// Starts pollers that are missing and ends those that nobody needs.
    fn staff(self: &Arc<Self>, pollers: &mut BTreeMap<String, Poller>, stop: &CancellationToken) {
        let feeds = self.feeds().by_digest.clone();
        pollers.retain(|digest, poller| {
            feeds.get(digest).is_some_and(|feed| Arc::ptr_eq(feed, &poller.feed))
                && !poller.task.is_finished()
        });
        for (digest, feed) in feeds {
            pollers.entry(digest).or_insert_with(|| {
                let task = self.clone().keep_up_to_date(feed.clone(), stop.clone());
                Poller { feed, task: AbortOnDropHandle::new(tokio::spawn(task)) }
            });
        }
        self.count();
    }

    async fn keep_up_to_date(self: Arc<Self>, feed: Arc<Feed>, stop: CancellationToken) {
        loop {
            let due = feed.due(&self.settings.backoff);
            if due <= Instant::now() && !stop.is_cancelled() {
                // Not below: a bell that never stops ringing must not put it off.
                self.fetch(&feed, &stop).await;
                continue;
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                // Something changed: it may be due sooner.
                () = feed.bell.notified() => {}
                () = tokio::time::sleep_until(due) => {}
            }
        }
    }

    async fn fetch(&self, feed: &Feed, stop: &CancellationToken) {
        let was_failing = feed.is_failing();
        let lane = self.lanes.enter(was_failing).await;
        let remote = feed.begin();
        let began = Instant::now();
        let result = self.fetch_patiently(feed, &remote, stop, lane).await;
        if stop.is_cancelled() {
            return;
        }
        if result.is_ok() {
            self.check_pushes(feed, &remote).await;
        }
        let category = result.as_ref().map_or_else(RepositoriesError::category, |_| "ok");
        self.metrics.fetched(category, began.elapsed());
        let result = match &result {
            Ok(fetched) => Ok(fetched),
            Err(error) => {
                tracing::warn!(%remote, error = remote.redact(&error.to_string()), "the fetch failed");
                Err(words::fetch(error, &remote))
            }
        };
        let movements = result.as_ref().map(|fetched| fetched.movements.clone()).unwrap_or_default();
        let mut concerned = feed.settle(result);
        let mirror = feed.state().mirror.clone();
        if let Some(mirror) = mirror.filter(|_| !movements.is_empty()) {
            let folders = feed.folders();
            let all = concerned.clone();
            let sorted = move || order::touched_first(all, &folders, &movements, &mirror);
            concerned = tokio::task::spawn_blocking(sorted).await.unwrap_or(concerned);
        }
        for app in concerned {
            (self.wake)(app);
        }
        if feed.is_failing() != was_failing {
            self.count();
        }
    }

    /// A fetch that takes long gives up its lane, and whoever waits for a first answer is told what there is.
    async fn fetch_patiently(
        &self,
        feed: &Feed,
        remote: &Remote,
        stop: &CancellationToken,
        lane: Option<OwnedSemaphorePermit>,
    ) -> Result<Fetched, RepositoriesError> {
        let mirror = self.repositories.mirror(remote).await?;
        feed.state().mirror = Some(mirror);
        let fetch = self.repositories.fetch(remote, stop);
        tokio::pin!(fetch);
        if let Ok(result) = tokio::time::timeout(self.settings.patience, &mut fetch).await {
            return result;
        }
        drop(lane);
        for app in feed.is_late(words::slow(remote)) {
            (self.wake)(app);
        }
        fetch.await
    }

    /// Looks whether the fetch showed what hooks told of.
    async fn check_pushes(&self, feed: &Feed, remote: &Remote) {
        for (name, commit) in feed.expected() {
            let moves = self.repositories.history(remote, &name, MOVES).await.unwrap_or_default();
            // Also when it went on since then.
            feed.checked(&name, commit, moves.iter().any(|entry| entry.to == Some(commit)));
        }
    }

    fn count(&self) {
        let feeds: Vec<_> = self.feeds().by_digest.values().cloned().collect();
        self.metrics.repositories(feeds.len(), feeds.iter().filter(|feed| feed.is_failing()).count());
    }

    /// Removes mirrors that nobody follows, and Secrets that nobody asked for lately.
    async fn sweep(&self) {
        self.secrets.sweep();
        let feeds: Vec<_> = self.feeds().by_digest.values().cloned().collect();
        let remotes: Vec<Remote> = feeds.iter().map(|feed| feed.state().remote.clone()).collect();
        // Right after a start nobody follows anything: that is no reason to fetch it all again.
        if remotes.is_empty() {
            return;
        }
        match self.repositories.retain(&remotes).await {
            Ok(0) => {}
            Ok(removed) => tracing::info!(removed, "mirrors that nobody follows are removed"),
            Err(error) => tracing::warn!(%error, "mirrors that nobody follows cannot be removed"),
        }
    }
}
