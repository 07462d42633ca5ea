//! Repositories on paper: what Applications come from in a simulation, without Git, network or disk.
//!
//! ```text
//!  scenario ─push, force, delete, down─► Forge ◄─fetch── Paper (one per instance) ──wake──► Application
//!                                                         │ look, render: from what was fetched last
//!                                                         └─ Disk: what was fetched, may outlive the process
//! ```
//!
//! Everything is a function of what the scenario did and of virtual time: ids come from content, time from tokio's timer
//! and a clock that is handed in, order from sorted maps.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use sha2::{Digest as _, Sha256};
use tokio::{sync::Notify, time::Instant};
use tokio_util::sync::CancellationToken;
use windlass_api::application::{
    Source,
    source::Directory,
    status::{Movement, Revert},
};
use windlass_cluster::drive::Key;
use windlass_deliver::{
    object::ObjectId,
    origin::{Follow, Origin, RevertOrder, Seen, Sighting, Wanted},
    render::{Manifest, Rendered},
    trouble::Trouble,
};
use windlass_manifest::{digest, parse};

/// The branch that a repository is looked at when nobody says otherwise.
pub const MAIN: &str = "main";
/// How long a fetch takes.
const FETCH: Duration = Duration::from_millis(30);
/// How many movements are kept of a name.
const MOVEMENTS: usize = 10;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ok = write!(text, "{byte:02x}");
        text
    })
}

/// What a commit holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Commit {
    parent: Option<String>,
    change_id: Option<String>,
    conflicted: bool,
    files: BTreeMap<String, String>,
}

impl Commit {
    fn id(&self, number: u64) -> String {
        let mut hash = Sha256::new();
        hash.update(format!("{number} {:?} {:?} {}", self.parent, self.change_id, self.conflicted));
        for (path, text) in &self.files {
            hash.update(format!("\0{path}\0{text}"));
        }
        hex(&hash.finalize())[..40].to_owned()
    }
}

#[derive(Clone, Debug, Default)]
struct Repository {
    commits: BTreeMap<String, Commit>,
    /// Branches and tags alike.
    names: BTreeMap<String, String>,
    down: bool,
    made: u64,
}

impl Repository {
    fn ancestors(&self, tip: &str) -> Vec<String> {
        let mut line = Vec::new();
        let mut next = Some(tip.to_owned());
        while let Some(id) = next {
            next = self.commits.get(&id).and_then(|commit| commit.parent.clone());
            line.push(id);
        }
        line
    }
}

/// The servers that hold repositories, by address. What the scenario does happens here, and nobody knows of it before
/// the next fetch. Clones are the same servers.
#[derive(Clone, Default)]
pub struct Forge {
    repositories: Arc<Mutex<BTreeMap<String, Repository>>>,
}

impl Forge {
    fn with<T>(&self, url: &str, act: impl FnOnce(&mut Repository) -> T) -> T {
        act(lock(&self.repositories).entry(url.to_owned()).or_default())
    }

    fn commit(&self, url: &str, name: &str, parent: Option<String>, mut commit: Commit) -> String {
        self.with(url, |repository| {
            repository.made += 1;
            commit.parent = parent;
            let id = commit.id(repository.made);
            repository.commits.insert(id.clone(), commit);
            repository.names.insert(name.to_owned(), id.clone());
            id
        })
    }

    /// Changes files on a branch: each to a text, or to nothing. Gives the new commit. A branch that is not there is
    /// made.
    pub fn push(&self, url: &str, branch: &str, changes: &[(&str, Option<&str>)]) -> String {
        let tip = self.tip(url, branch);
        let mut commit = self.content(url, tip.as_deref());
        apply(&mut commit.files, changes);
        self.commit(url, branch, tip, commit)
    }

    /// Replaces what a branch holds by another history: a commit without a parent and with these files alone.
    pub fn force_push(&self, url: &str, branch: &str, files: &[(&str, &str)]) -> String {
        let files = files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
        self.commit(url, branch, None, Commit { files, ..Commit::default() })
    }

    /// Points a branch or tag at a commit that is there.
    pub fn point(&self, url: &str, name: &str, commit: &str) {
        self.with(url, |repository| repository.names.insert(name.to_owned(), commit.to_owned()));
    }

    /// As [`Forge::push`], as a Jujutsu change: pushed again under the same id it takes the place of what it was.
    pub fn push_change(
        &self,
        url: &str,
        branch: &str,
        change: &str,
        changes: &[(&str, Option<&str>)],
    ) -> String {
        let tip = self.tip(url, branch);
        let mut commit = self.content(url, tip.as_deref());
        let rewritten = commit.change_id.as_deref() == Some(change);
        let parent = if rewritten { commit.parent.clone() } else { tip };
        apply(&mut commit.files, changes);
        self.commit(
            url,
            branch,
            parent,
            Commit { change_id: Some(change.to_owned()), conflicted: false, ..commit },
        )
    }

    /// A commit with conflicts in it, as Jujutsu can push one.
    pub fn push_conflicted(&self, url: &str, branch: &str) -> String {
        let tip = self.tip(url, branch);
        let commit = Commit { conflicted: true, ..self.content(url, tip.as_deref()) };
        self.commit(url, branch, tip, commit)
    }

    /// Deletes a branch or tag; its commits stay.
    pub fn delete_branch(&self, url: &str, name: &str) {
        self.with(url, |repository| repository.names.remove(name));
    }

    /// The server does not answer, or answers again.
    pub fn set_down(&self, url: &str, down: bool) {
        self.with(url, |repository| repository.down = down);
    }

    /// Where a branch or tag is.
    pub fn tip(&self, url: &str, name: &str) -> Option<String> {
        self.with(url, |repository| repository.names.get(name).cloned())
    }

    fn content(&self, url: &str, commit: Option<&str>) -> Commit {
        let found = commit.and_then(|id| self.with(url, |repository| repository.commits.get(id).cloned()));
        Commit { conflicted: false, ..found.unwrap_or_default() }
    }
}

fn apply(files: &mut BTreeMap<String, String>, changes: &[(&str, Option<&str>)]) {
    for (path, text) in changes {
        match text {
            Some(text) => files.insert((*path).to_owned(), (*text).to_owned()),
            None => files.remove(*path),
        };
    }
}

/// What was fetched of one repository.
#[derive(Clone, Default)]
struct Mirror {
    commits: BTreeMap<String, Commit>,
    names: BTreeMap<String, String>,
    movements: BTreeMap<String, Vec<Movement>>,
}

/// What an instance has fetched. Given to the next life of an instance it is a disk that outlived the process; a new one
/// is a disk that did not.
#[derive(Clone, Default)]
pub struct Disk {
    mirrors: Arc<Mutex<BTreeMap<String, Mirror>>>,
}

/// How the last fetches of one repository went, in this life.
#[derive(Default)]
struct Polled {
    followers: BTreeMap<Key, Follow>,
    /// When it is asked again; at once when there is none.
    next: Option<Instant>,
    asked: bool,
    trouble: Option<Trouble>,
}

type Wake = Arc<dyn Fn(&Key) + Send + Sync>;
type Now = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// An origin on paper. Clones are the same origin.
#[derive(Clone)]
pub struct Paper {
    forge: Forge,
    disk: Disk,
    polled: Arc<Mutex<BTreeMap<String, Polled>>>,
    changed: Arc<Notify>,
    now: Now,
    wake: Wake,
    renders: Arc<Mutex<u64>>,
}

impl Paper {
    /// An origin that fetches from `forge`, keeps what it got on `disk`, and wakes Applications through `wake`.
    /// [`Paper::run`] has to run for it to fetch anything.
    pub fn new(
        forge: &Forge,
        disk: &Disk,
        now: impl Fn() -> Timestamp + Send + Sync + 'static,
        wake: impl Fn(&Key) + Send + Sync + 'static,
    ) -> Self {
        Self {
            forge: forge.clone(),
            disk: disk.clone(),
            polled: Arc::default(),
            changed: Arc::default(),
            now: Arc::new(now),
            wake: Arc::new(wake),
            renders: Arc::default(),
        }
    }

    /// A hook: this repository is asked at once.
    pub fn poke(&self, url: &str) {
        if let Some(polled) = lock(&self.polled).get_mut(url) {
            polled.next = None;
        }
        self.changed.notify_one();
    }

    /// How many renders were asked for.
    pub fn renders(&self) -> u64 {
        *lock(&self.renders)
    }

    /// Fetches what is followed, each repository as often as the most impatient of its followers wants.
    pub async fn run(&self, stop: CancellationToken) {
        loop {
            let now = Instant::now();
            let due: Vec<String> = lock(&self.polled)
                .iter()
                .filter(|(_, polled)| {
                    !polled.followers.is_empty() && polled.next.is_none_or(|next| next <= now)
                })
                .map(|(url, _)| url.clone())
                .collect();
            for url in due {
                self.fetch(&url).await;
            }
            let next = lock(&self.polled)
                .values()
                .filter(|polled| !polled.followers.is_empty())
                .map(|polled| polled.next.unwrap_or(now))
                .min();
            let wait = async {
                match next {
                    Some(next) => tokio::time::sleep_until(next).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = self.changed.notified() => {}
                () = wait => {}
            }
        }
    }

    async fn fetch(&self, url: &str) {
        let interval = {
            let mut polled = lock(&self.polled);
            let Some(polled) = polled.get_mut(url) else { return };
            let interval = polled.followers.values().map(|follow| follow.interval).min();
            // Whatever is poked from here on is fetched again.
            let interval = interval.unwrap_or(Duration::from_secs(30));
            polled.next = Some(Instant::now() + interval);
            interval
        };
        tokio::time::sleep(FETCH).await;
        let before = self.sightings(url);
        let server = self.forge.with(url, |repository| repository.clone());
        let trouble = if server.down { Some(unavailable(url)) } else { None };
        if trouble.is_none() {
            let now = (self.now)();
            lock(&self.disk.mirrors).entry(url.to_owned()).or_default().take(&server, now);
        }
        if let Some(polled) = lock(&self.polled).get_mut(url) {
            polled.asked = true;
            polled.trouble = trouble;
            polled.next = polled.next.map(|next| next.max(Instant::now()).min(Instant::now() + interval));
        }
        for (key, sighting) in self.sightings(url) {
            if before.get(&key) != Some(&sighting) {
                (self.wake)(&key);
            }
        }
    }

    fn sightings(&self, url: &str) -> BTreeMap<Key, Sighting> {
        let followers =
            lock(&self.polled).get(url).map(|polled| polled.followers.clone()).unwrap_or_default();
        followers.into_iter().map(|(key, follow)| (key, self.sighting(&follow.source))).collect()
    }

    fn sighting(&self, source: &Source) -> Sighting {
        let (asked, trouble) = match lock(&self.polled).get(&source.repo_url) {
            Some(polled) => (polled.asked, polled.trouble.clone()),
            None => (false, None),
        };
        if !asked {
            return Sighting::NotYet;
        }
        let mirrors = lock(&self.disk.mirrors);
        match (mirrors.get(&source.repo_url), trouble) {
            (None, Some(trouble)) => Sighting::Trouble(trouble),
            (None, None) => Sighting::NotYet,
            (Some(mirror), stale) => match mirror.resolve(source.revision.as_deref()) {
                Ok(seen) => Sighting::Found(Seen { stale, ..seen }),
                Err(trouble) => Sighting::Trouble(trouble),
            },
        }
    }
}

impl Origin for Paper {
    async fn look(&self, follow: &Follow) -> Sighting {
        {
            let mut polled = lock(&self.polled);
            for (url, polled) in polled.iter_mut() {
                if *url != follow.source.repo_url {
                    polled.followers.remove(&follow.app);
                }
            }
            let polled = polled.entry(follow.source.repo_url.clone()).or_default();
            let known = polled.followers.insert(follow.app.clone(), follow.clone());
            if known.is_none_or(|known| known.interval != follow.interval) {
                let soonest = Instant::now() + follow.interval;
                polled.next = polled.next.map(|next| next.min(soonest));
                self.changed.notify_one();
            }
        }
        self.sighting(&follow.source)
    }

    async fn render(&self, wanted: Wanted<'_>) -> Result<Arc<Rendered>, Trouble> {
        *lock(&self.renders) += 1;
        let url = &wanted.source.repo_url;
        let commit =
            lock(&self.disk.mirrors).get(url).and_then(|mirror| mirror.commits.get(wanted.commit).cloned());
        let Some(commit) = commit else {
            let what = format!("commit {} is not in what was fetched of {url}", wanted.commit);
            return Err(Trouble::standing(
                "CommitNotFound",
                what,
                "push it again, or follow another revision",
            ));
        };
        render(&commit, &wanted).map(Arc::new)
    }

    async fn revert(&self, _order: &RevertOrder) -> Result<Revert, Trouble> {
        Err(Trouble::standing("RevertRefused", "a repository on paper takes no pushes", "revert it by hand"))
    }

    fn refresh(&self, _app: &Key, _request: &str) -> bool {
        // Its polls are short: what is fetched counts as new.
        true
    }

    fn forget(&self, app: &Key) {
        for polled in lock(&self.polled).values_mut() {
            polled.followers.remove(app);
        }
        self.changed.notify_one();
    }
}

fn unavailable(url: &str) -> Trouble {
    let what = format!("{url} does not answer");
    Trouble::passing("RepositoryUnavailable", what, "it is tried again; look after the server if it stays")
}

impl Mirror {
    /// Takes over what a server has, and notes what moved.
    fn take(&mut self, server: &Repository, now: Timestamp) {
        let names: BTreeSet<String> = self.names.keys().chain(server.names.keys()).cloned().collect();
        for name in names {
            let (from, to) = (self.names.get(&name).cloned(), server.names.get(&name).cloned());
            if from == to {
                continue;
            }
            let line = to.as_deref().map(|to| server.ancestors(to)).unwrap_or_default();
            let forced = to.is_some() && from.as_ref().is_some_and(|from| !line.contains(from));
            for id in line {
                // What was fetched once stays, as in a mirror that keeps what a name has pointed at.
                if let Some(commit) = server.commits.get(&id) {
                    self.commits.insert(id, commit.clone());
                }
            }
            let movement = Movement { from, to: to.clone(), forced, by: None, at: Some(Time(now)) };
            let movements = self.movements.entry(name.clone()).or_default();
            movements.insert(0, movement);
            movements.truncate(MOVEMENTS);
            match to {
                Some(to) => self.names.insert(name, to),
                None => self.names.remove(&name),
            };
        }
    }

    /// What a revision stands for: a branch or tag, a commit, or a change id.
    fn resolve(&self, revision: Option<&str>) -> Result<Seen, Trouble> {
        let wanted = revision.unwrap_or(MAIN);
        let (commit, name) = if let Some(commit) = self.names.get(wanted) {
            (commit.clone(), Some(wanted.to_owned()))
        } else if self.commits.contains_key(wanted) {
            (wanted.to_owned(), None)
        } else if let Some(commit) = self.change(wanted) {
            (commit, Some(wanted.to_owned()))
        } else if self.movements.contains_key(wanted) {
            let what = format!("{wanted} was deleted in the repository");
            return Err(Trouble::standing(
                "RevisionDeleted",
                what,
                "push it again, or correct spec.source.revision",
            ));
        } else {
            let what = format!("the repository has no {wanted}");
            return Err(Trouble::standing("RevisionNotFound", what, "correct spec.source.revision"));
        };
        let found = self.commits.get(&commit).cloned().unwrap_or_default();
        if found.conflicted {
            let what = format!("commit {commit} has conflicts");
            return Err(Trouble::standing("CommitConflicted", what, "resolve them and push"));
        }
        let movements = name.as_ref().and_then(|name| self.movements.get(name)).cloned().unwrap_or_default();
        let before = movements.first().and_then(|movement| movement.from.clone());
        Ok(Seen { commit, change_id: found.change_id, name, movements, before, stale: None })
    }

    /// The commit of a change that a branch leads to.
    fn change(&self, change: &str) -> Option<String> {
        let mut tips: Vec<&String> = self.names.values().collect();
        tips.sort();
        tips.into_iter().find_map(|tip| {
            let mut next = Some(tip);
            while let Some(id) = next {
                let commit = self.commits.get(id)?;
                if commit.change_id.as_deref() == Some(change) {
                    return Some(id.clone());
                }
                next = commit.parent.as_ref();
            }
            None
        })
    }
}

/// Plain files of a folder, in the order of their paths.
fn render(commit: &Commit, wanted: &Wanted<'_>) -> Result<Rendered, Trouble> {
    let source = wanted.source;
    let directory = source.directory.clone().unwrap_or_default();
    let tools = source.kustomize.is_some() || source.helm.is_some() || source.decryption.is_some();
    if tools || directory != (Directory { recurse: directory.recurse, ..Directory::default() }) {
        let what = "on paper there are plain files only";
        return Err(Trouble::standing(
            "NotOnPaper",
            what,
            "leave kustomize, helm, decryption and patterns out",
        ));
    }
    let folder = wanted.path.or(source.path.as_deref()).unwrap_or_default().trim_matches('/');
    let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
    let mut below = commit
        .files
        .iter()
        .filter_map(|(path, text)| Some((path, path.strip_prefix(&prefix)?, text)))
        .peekable();
    if below.peek().is_none() && !folder.is_empty() {
        let what = format!("there is no folder {folder} at commit {}", wanted.commit);
        return Err(Trouble::standing("PathNotFound", what, "correct spec.source.path"));
    }
    let mut objects = Vec::new();
    let mut seen = BTreeMap::new();
    for (path, name, text) in below {
        let manifest = [".yaml", ".yml", ".json"].iter().any(|ending| name.ends_with(ending));
        if !manifest || (!directory.recurse && name.contains('/')) {
            continue;
        }
        let invalid = |error: &parse::ParseError| {
            Trouble::standing("InvalidYaml", format!("{path}: {error}"), "correct the file and push")
        };
        let documents = parse::parse(text, &parse::Limits::default()).map_err(|error| invalid(&error))?;
        for object in parse::objects(documents).map_err(|error| invalid(&error))? {
            let place = format!("{path}:{}", object.position.line);
            let id = ObjectId::of(&object.value).map_err(|error| {
                Trouble::standing("NotAnObject", format!("{place}: {error}"), "correct the file and push")
            })?;
            if let Some(first) = seen.insert(id.key(), place.clone()) {
                let what = format!("{} stands twice: at {first} and at {place}", id.short());
                return Err(Trouble::standing("DuplicateObject", what, "remove one of them"));
            }
            objects.push(Manifest { id, place: Some(place), object: Arc::new(object.value) });
        }
    }
    // Equal sets of objects are equal renders, in whatever order they stand.
    let mut digests: Vec<digest::Digest> =
        objects.iter().map(|manifest| digest::digest(&manifest.object)).collect();
    digests.sort_unstable();
    let mut all = Sha256::new();
    for digest in digests {
        all.update(digest);
    }
    Ok(Rendered { objects, digest: hex(&all.finalize()) })
}
