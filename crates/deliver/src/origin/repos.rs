//! The keeper of repositories: [`Origin`] on top of real mirrors.

use std::{
    collections::BTreeMap,
    future::Future,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use kube::Client;
use tokio::sync::Notify;
use windlass_api::application::{Source, status::Revert};
use windlass_cluster::{backoff::Backoff, drive::Key};
use windlass_vcs::{
    id::CommitId,
    journal::Pusher,
    jujutsu::{self, ConflictError},
    mirror::{Mirror, MirrorError},
    remote::{Credentials, Remote, Scheme, SecretDefaults, UrlPolicy},
    repo::ReadError,
    repositories::{Repositories, RepositoriesError},
};

use super::{
    Follow, Origin, RevertOrder, Sighting, Wanted,
    address::Address,
    feed::{Feed, Known, Stake},
    metrics::OriginMetrics,
    poll::Lanes,
    secrets::Secrets,
    sight, words,
};
use crate::{
    render::{Decrypt, Rendered},
    trouble::Trouble,
};

/// Makes objects of a folder at a commit: the seam between repositories and rendering.
pub trait Render: Send + Sync + 'static {
    /// Renders what is wanted from a mirror that has the commit.
    fn render(
        &self,
        mirror: &Arc<Mirror>,
        wanted: &Wanted<'_>,
        keys: Option<&dyn Decrypt>,
    ) -> impl Future<Output = Result<Arc<Rendered>, Trouble>> + Send;
}

/// Wakes an Application.
pub type Wake = Arc<dyn Fn(Key) + Send + Sync>;

/// How repositories are kept.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What addresses are allowed.
    pub urls: UrlPolicy,
    /// What holds where a Secret does not say it.
    pub secrets: SecretDefaults,
    /// Waits after failed fetches. The longest is also what a remote waits at most, whatever its Applications say.
    pub backoff: Backoff,
    /// A first fetch that takes longer gives way to what is there from earlier; any that does gives up its lane.
    pub patience: Duration,
    /// So many fetches at once, of remotes that answer.
    pub lanes: usize,
    /// How long a Secret is kept.
    pub secret_ttl: Duration,
    /// How often mirrors that nobody follows are removed.
    pub sweep_every: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            urls: UrlPolicy::default(),
            secrets: SecretDefaults::default(),
            backoff: Backoff { first: Duration::from_secs(5), longest: Duration::from_secs(300) },
            patience: Duration::from_secs(10),
            lanes: 16,
            secret_ttl: Duration::from_secs(60),
            sweep_every: Duration::from_secs(3600),
        }
    }
}

/// A push that a hook told of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Push {
    /// All addresses of the repository that the hook names.
    pub urls: Vec<String>,
    /// The ref that moved.
    pub reference: Option<String>,
    /// The commit that it moved to.
    pub commit: Option<String>,
    /// Who pushed.
    pub pusher: Option<String>,
}

/// The repositories of all Applications. Clones share everything.
///
/// Guarantees: one poller and one mirror per remote and tenant, however many Applications follow it; a remote that
/// does not answer delays no other; no credentials in anything it says.
pub struct Repos<R>(pub(super) Arc<Inner<R>>);

impl<R> Clone for Repos<R> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<R> std::fmt::Debug for Repos<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Repos").field("settings", &self.0.settings).finish_non_exhaustive()
    }
}

pub(super) struct Inner<R> {
    pub(super) repositories: Arc<Repositories>,
    renderer: R,
    pub(super) secrets: Secrets,
    pub(super) wake: Wake,
    pub(super) settings: Settings,
    pub(super) lanes: Lanes,
    pub(super) metrics: OriginMetrics,
    /// Rung when a feed came or went.
    pub(super) changed: Notify,
    feeds: Mutex<Feeds>,
}

#[derive(Debug, Default)]
pub(super) struct Feeds {
    /// By digest of the remote.
    pub(super) by_digest: BTreeMap<String, Arc<Feed>>,
    /// Which one each Application follows.
    pub(super) by_app: BTreeMap<Key, Arc<Feed>>,
}

impl<R: Render> Repos<R> {
    /// Repositories in a work folder; Secrets are read from the hub. Nothing is fetched before [`Repos::run`].
    pub fn new(
        hub: Client,
        repositories: Arc<Repositories>,
        renderer: R,
        wake: Wake,
        settings: Settings,
        metrics: OriginMetrics,
    ) -> Self {
        Self(Arc::new(Inner {
            repositories,
            renderer,
            secrets: Secrets::new(hub, settings.secret_ttl),
            wake,
            lanes: Lanes::new(settings.lanes),
            settings,
            metrics,
            changed: Notify::new(),
            feeds: Mutex::default(),
        }))
    }

    /// A hook told of a push: the repositories that it means are fetched at once. Returns how many they are.
    ///
    /// Does not wait for anything. Pushes during a fetch lead to one more.
    pub fn pushed(&self, push: &Push) -> usize {
        let addresses: Vec<Address> = push.urls.iter().filter_map(|url| Address::parse(url)).collect();
        let meant: Vec<Arc<Feed>> = {
            let feeds = self.0.feeds();
            feeds.by_digest.values().filter(|feed| addresses.contains(&feed.address)).cloned().collect()
        };
        let commit = push.commit.as_deref().and_then(|commit| commit.parse::<CommitId>().ok());
        let pusher = push.pusher.as_deref().map(printable).filter(|name| !name.is_empty());
        for feed in &meant {
            if let (Some(commit), Some(name)) = (commit, &pusher) {
                let who = Pusher { name: name.clone(), via: "hook".to_owned() };
                let remote = feed.state().remote.clone();
                self.0.repositories.pushed_by(&remote, commit, who);
            }
            if let (Some(commit), Some(reference)) = (commit, &push.reference) {
                feed.expect(reference, commit);
            }
            feed.poke();
        }
        self.0.metrics.pushed(!meant.is_empty());
        meant.len()
    }

    /// A Secret changed: it is read again when it is next needed.
    pub fn secret_changed(&self, namespace: &str, name: &str) {
        self.0.secrets.changed(namespace, name);
    }
}

/// Whoever pushed may call themselves anything.
fn printable(name: &str) -> String {
    name.trim().chars().filter(|letter| !letter.is_control()).take(128).collect()
}

impl<R: Render> Origin for Repos<R> {
    async fn look(&self, follow: &Follow) -> Sighting {
        match self.0.remote(&follow.app, &follow.source).await {
            Ok(remote) => self.0.look(follow, remote).await,
            Err(trouble) => {
                if trouble.waits_for_change {
                    self.0.park(&follow.app, &follow.source);
                }
                Sighting::Trouble(trouble)
            }
        }
    }

    async fn render(&self, wanted: Wanted<'_>) -> Result<Arc<Rendered>, Trouble> {
        let inner = &self.0;
        let (mirror, remote, feed) = inner.mirror(wanted.app, wanted.source).await?;
        inner.require_usable(&mirror, &remote, feed.as_deref(), wanted.commit).await?;
        let keys = match &wanted.source.decryption {
            None => None,
            Some(decryption) => {
                let namespace = wanted.app.namespace.as_deref().unwrap_or_default();
                Some(inner.secrets.get(namespace, &decryption.secret_ref.name).await?.keys()?)
            }
        };
        let keys = keys.as_deref().map(|keys| keys as &dyn Decrypt);
        inner.renderer.render(&mirror, &wanted, keys).await
    }

    async fn revert(&self, order: &RevertOrder) -> Result<Revert, Trouble> {
        self.0.revert(order).await
    }

    fn refresh(&self, app: &Key, request: &str) -> bool {
        let feed = self.0.feeds().by_app.get(app).cloned();
        // Who follows nothing yet is about to: then it is fetched for the first time.
        feed.is_some_and(|feed| feed.ask(app, request))
    }

    fn forget(&self, app: &Key) {
        let inner = &self.0;
        let left = inner.feeds().leave(app);
        if left {
            inner.changed.notify_one();
        }
    }
}

impl<R: Render> Inner<R> {
    pub(super) fn feeds(&self) -> MutexGuard<'_, Feeds> {
        self.feeds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn look(&self, follow: &Follow, remote: Remote) -> Sighting {
        let Follow { app, source, interval } = follow;
        let revision = source.revision.as_deref();
        let (feed, known, is_changed) = self.feeds().join(app, remote, revision, *interval);
        feed.renders(app, source.path.as_deref().unwrap_or_default());
        if is_changed {
            self.changed.notify_one();
        }
        let Some(known) = known else { return Sighting::NotYet };
        let answer = if let Some(answer) = known.answer {
            answer
        } else {
            let answer = sight::look(&self.repositories, &known.remote, source).await;
            // What may pass by itself is looked for again.
            if answer.as_ref().map_or_else(|trouble| trouble.waits_for_change, |_| true) {
                feed.remember(revision, known.generation, answer.clone());
            }
            answer
        };
        match answer {
            Ok((seen, stake)) => {
                feed.stakes(app, revision, stake);
                Sighting::Found(super::Seen { stale: known.stale, ..seen })
            }
            Err(trouble) => {
                feed.stakes(app, revision, Stake::Any);
                // What is missing may be there, could it only be fetched.
                let missing = ["RevisionNotFound", "RepositoryNotFetched"].contains(&trouble.reason);
                Sighting::Trouble(known.stale.filter(|_| missing).unwrap_or(trouble))
            }
        }
    }

    /// An Application may not use its remote: nothing is fetched with credentials that were taken away, and what was
    /// fetched stays, for that is what runs.
    fn park(&self, app: &Key, source: &Source) {
        let changed = self.feeds().park(app, self.bare(app, source).ok());
        if changed {
            self.changed.notify_one();
        }
    }

    /// The remote of a source, with what its Secret holds.
    pub(super) async fn remote(&self, app: &Key, source: &Source) -> Result<Remote, Trouble> {
        let remote = self.bare(app, source)?;
        let Some(secret) = &source.secret_ref else {
            if remote.url().scheme() == Scheme::Ssh {
                return Err(words::no_key(remote.url()));
            }
            return Ok(remote);
        };
        let namespace = app.namespace.as_deref().unwrap_or_default();
        let content = self.secrets.get(namespace, &secret.name).await?;
        remote
            .with_secret(&content.data, &self.settings.secrets)
            .map_err(|error| words::remote(&error, Some(&content.name)))
    }

    /// The remote of a source without what its Secret holds: enough to find its mirror.
    ///
    /// Whoever uses credentials has a mirror for these alone: one per Secret, and one per Application that has them in
    /// its address. What needs none is public, and one mirror serves all.
    fn bare(&self, app: &Key, source: &Source) -> Result<Remote, Trouble> {
        let remote = Remote::with_policy(&source.repo_url, self.settings.urls)
            .map_err(|error| words::remote(&error, None))?;
        let namespace = app.namespace.as_deref().unwrap_or_default();
        Ok(match &source.secret_ref {
            Some(secret) => remote.in_scope(&format!("{namespace}/{}", secret.name)),
            None if *remote.credentials() == Credentials::Anonymous => remote,
            None => remote.in_scope(&format!("{namespace}/application/{}", app.name)),
        })
    }

    /// The mirror of a source, whether it is followed at the moment or not.
    async fn mirror(
        &self,
        app: &Key,
        source: &Source,
    ) -> Result<(Arc<Mirror>, Remote, Option<Arc<Feed>>), Trouble> {
        let bare = self.bare(app, source)?;
        let feed = self.feeds().by_digest.get(&bare.digest()).cloned();
        // A mirror uses the credentials of whoever asked for it last: those of the feed stay.
        let (remote, held) = match &feed {
            Some(feed) => {
                let state = feed.state();
                (state.remote.clone(), state.mirror.clone())
            }
            None => (bare, None),
        };
        if let Some(mirror) = held {
            return Ok((mirror, remote, feed));
        }
        let mirror =
            self.repositories.mirror(&remote).await.map_err(|error| words::resolve(&error, &remote))?;
        if let Some(feed) = &feed {
            feed.state().mirror = Some(mirror.clone());
        }
        Ok((mirror, remote, feed))
    }

    /// Refuses a commit that is not there, or that carries conflicts.
    async fn require_usable(
        &self,
        mirror: &Arc<Mirror>,
        remote: &Remote,
        feed: Option<&Feed>,
        commit: &str,
    ) -> Result<(), Trouble> {
        // What is missing may be there, could it only be fetched.
        let gone = || feed.and_then(Feed::stale).unwrap_or_else(|| words::commit_gone(commit, remote));
        let id: CommitId = commit.parse().map_err(|_| words::commit_gone(commit, remote))?;
        let generation = match feed.map(|feed| feed.is_usable(id)) {
            Some(Ok(())) => return Ok(()),
            Some(Err(generation)) => Some(generation),
            None => None,
        };
        let reader = mirror.clone();
        let checked =
            tokio::task::spawn_blocking(move || reader.read(|repo| jujutsu::require_clean(repo, id)));
        match checked.await {
            Ok(Ok(Ok(()))) => {}
            Ok(Ok(Err(ConflictError::Read(ReadError::Missing { .. } | ReadError::Kind { .. })))) => {
                return Err(gone());
            }
            Ok(Ok(Err(error))) => return Err(words::resolve(&error.into(), remote)),
            Ok(Err(MirrorError::NotFetched { .. })) => {
                return Err(feed.and_then(Feed::stale).unwrap_or_else(|| words::not_fetched(remote)));
            }
            Ok(Err(error)) => return Err(words::resolve(&error.into(), remote)),
            Err(_) => return Err(words::resolve(&RepositoriesError::Interrupted, remote)),
        }
        if let (Some(feed), Some(generation)) = (feed, generation) {
            feed.usable(generation, id);
        }
        Ok(())
    }
}

impl Feeds {
    /// An Application follows a remote from now on. Its feed, what is known of the revision, and whether feeds changed.
    ///
    /// In one step: nobody else can find the feed without followers meanwhile.
    fn join(
        &mut self,
        app: &Key,
        remote: Remote,
        revision: Option<&str>,
        interval: Duration,
    ) -> (Arc<Feed>, Option<Known>, bool) {
        let (feed, changed) = self.feed(app, &remote);
        let known = feed.follow(app, remote, revision, interval);
        (feed, known, changed)
    }

    /// An Application may not use its remote. Whether feeds changed.
    fn park(&mut self, app: &Key, remote: Option<Remote>) -> bool {
        let (feed, changed) = match (remote, self.by_app.get(app)) {
            (Some(remote), _) => self.feed(app, &remote),
            (None, Some(feed)) => (feed.clone(), false),
            (None, None) => return false,
        };
        feed.park(app);
        changed
    }

    /// The feed of a remote, and no other one's for the Application. Whether feeds changed.
    fn feed(&mut self, app: &Key, remote: &Remote) -> (Arc<Feed>, bool) {
        let digest = remote.digest();
        let moves = self.by_app.get(app).is_some_and(|feed| feed.digest != digest);
        let is_left = moves && self.leave(app);
        let is_new = !self.by_digest.contains_key(&digest);
        let feed =
            self.by_digest.entry(digest).or_insert_with(|| Arc::new(Feed::new(remote.clone()))).clone();
        self.by_app.entry(app.clone()).or_insert_with(|| feed.clone());
        (feed, is_left || is_new)
    }

    /// Whether a feed went with the Application.
    fn leave(&mut self, app: &Key) -> bool {
        let Some(feed) = self.by_app.remove(app) else { return false };
        let is_last = feed.leave(app);
        if is_last {
            self.by_digest.remove(&feed.digest);
        }
        is_last
    }
}
