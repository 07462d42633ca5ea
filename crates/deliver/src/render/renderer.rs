//! The renderer: memo, key, cache, and the three ways to render.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    ffi::OsString,
    fmt,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use prometheus_client::{metrics::counter::Counter, registry::Registry};
use tokio::time::Duration;
use windlass_api::application::{Source, source::Directory};
use windlass_cluster::drive;
use windlass_vcs::{
    id::{CommitId, ParseIdError},
    mirror::Mirror,
    tree::{self, RepoPath},
};

use super::{
    Decrypt, Rendered,
    cache::{Cache, Outcome},
    cell::Cells,
    folder::{self, Kind},
    helm,
    key::{Hasher, Key},
    kustomize, objects, plain,
    snapshot::Snapshot,
    tool::{Program, Stamp, Tool, Tools},
};
use crate::{
    origin::{Render, Wanted},
    trouble::Trouble,
};

/// How many answers are remembered by their question. One takes about a hundred bytes.
const REMEMBERED: usize = 16_384;

/// Less than this is parsed where it is; more goes to a thread that nobody waits for.
const SMALL: usize = 128 * 1024;

/// Part of every key: another number when this code renders the same inputs to something else.
const EDITION: &str = "1";

/// How much a render may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The longest that a tool may run.
    pub time: Duration,
    /// Bytes that a tool may print.
    pub output: usize,
    /// Bytes that are read for one render.
    pub input_bytes: u64,
    /// Files that are read for one render.
    pub files: usize,
    /// Bytes of memory that a tool may use.
    pub memory: u64,
    /// Bytes of renders that are kept.
    pub cache_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            time: Duration::from_secs(60),
            output: 32 << 20,
            input_bytes: 64 << 20,
            files: 20_000,
            memory: 1 << 30,
            cache_bytes: 64 << 20,
        }
    }
}

/// How to render.
#[derive(Clone, Debug)]
pub struct RendererOptions {
    /// A folder of this process's own, for what tools read.
    pub scratch: PathBuf,
    /// The kustomize program. `None`: found on `PATH`.
    pub kustomize: Option<PathBuf>,
    /// The helm program. `None`: found on `PATH`.
    pub helm: Option<PathBuf>,
    /// Program and first arguments that call [`crate::sandbox::door`]: `windlass sandbox`.
    pub door: Vec<OsString>,
    /// How much a render may take.
    pub limits: Limits,
    /// Tools that run at once.
    pub concurrency: usize,
}

impl RendererOptions {
    /// Tools from `PATH`, the default limits, two tools at once.
    pub fn new(scratch: impl Into<PathBuf>, door: Vec<OsString>) -> Self {
        Self {
            scratch: scratch.into(),
            kustomize: None,
            helm: None,
            door,
            limits: Limits::default(),
            concurrency: 2,
        }
    }
}

/// What is rendered.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// The Application: its name is the default name of a release.
    pub app: &'a drive::Key,
    /// Its source.
    pub source: &'a Source,
    /// The commit.
    pub commit: CommitId,
    /// Another folder than the source's: plain, kustomize or helm by what is in it.
    pub path: Option<&'a str>,
    /// The namespace that a chart is told: that of the destination. `None`: `default`.
    pub namespace: Option<&'a str>,
    /// The Kubernetes version that a chart is told unless its source says.
    pub kube_version: Option<&'a str>,
    /// Who decrypts.
    pub keys: Option<&'a dyn Decrypt>,
}

impl fmt::Debug for Request<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.app, self.commit)
    }
}

/// What was done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Renders done, failed ones too.
    pub renders: u64,
    /// Renders that ended in trouble.
    pub failures: u64,
    /// Calls that were answered without a render.
    pub hits: u64,
}

#[derive(Default)]
struct Counters {
    renders: Counter,
    failures: Counter,
    hits: Counter,
}

/// Renders folders. Cheap to clone; one per process.
#[derive(Clone)]
pub struct Renderer(Arc<Inner>);

struct Inner {
    cells: Cells,
    tools: Tools,
    limits: Limits,
    cache: Cache,
    memo: Mutex<Memo>,
    counters: Counters,
}

/// Answers by their question, so that a question that was asked before needs no look into the repository.
#[derive(Default)]
struct Memo {
    answers: BTreeMap<Key, (Key, Option<Stamp>)>,
    asked: VecDeque<Key>,
    /// Builds that read more than their kustomization files tell, oldest first.
    wide: BTreeSet<Key>,
    widened: VecDeque<Key>,
}

/// What is rendered from, read from the repository.
enum Inputs {
    Plain { folder: RepoPath, options: Directory },
    Kustomize { inputs: Box<kustomize::Inputs>, narrow: Key, is_wide: bool },
    Helm(Box<helm::Inputs>),
}

impl Renderer {
    /// A renderer. Removes what an earlier process left in the scratch folder.
    pub fn new(options: RendererOptions) -> Result<Self, Trouble> {
        let RendererOptions { scratch, kustomize, helm, door, limits, concurrency } = options;
        let cells = Cells::new(&scratch, door, concurrency, limits).map_err(|error| {
            Trouble::standing(
                "ScratchUnusable",
                format!("the scratch folder {} cannot be used: {error}", scratch.display()),
                "give the process a folder that it may write",
            )
        })?;
        Ok(Self(Arc::new(Inner {
            cells,
            tools: Tools::new(kustomize, helm),
            limits,
            cache: Cache::new(limits.cache_bytes),
            memo: Mutex::default(),
            counters: Counters::default(),
        })))
    }

    /// Renders a folder at a commit, or gives what the same inputs rendered to before.
    ///
    /// Of equal calls at the same time one renders. A call that is dropped ends the tool that it runs.
    pub async fn render(&self, mirror: &Arc<Mirror>, request: Request<'_>) -> Result<Arc<Rendered>, Trouble> {
        let inner = &self.0;
        let question = question(mirror, &request);
        if let Some(outcome) = inner.remembered(&question) {
            inner.counters.hits.inc();
            return outcome;
        }
        let limits = tree::Limits {
            files: inner.limits.files,
            file_bytes: inner.limits.input_bytes,
            total_bytes: inner.limits.input_bytes,
            ..tree::Limits::default()
        };
        let snapshot = Snapshot::new(mirror.clone(), request.commit, limits);
        let (key, inputs, tool) = inner.prepare(&snapshot, &request).await?;
        let stamp = tool.as_ref().map(|tool| tool.stamp.clone());
        let render = || inner.fresh(&snapshot, inputs, tool, request.keys);
        let (outcome, rendered) = inner.cache.get_or(key, render).await;
        let counter = if rendered { &inner.counters.renders } else { &inner.counters.hits };
        counter.inc();
        if rendered && outcome.is_err() {
            inner.counters.failures.inc();
        }
        inner.memo().remember(question, key, stamp);
        outcome
    }

    /// What was done so far.
    pub fn counts(&self) -> Counts {
        let Counters { renders, failures, hits } = &self.0.counters;
        Counts { renders: renders.get(), failures: failures.get(), hits: hits.get() }
    }

    /// Shows what was done so far among the metrics.
    pub fn register(&self, registry: &mut Registry) {
        let Counters { renders, failures, hits } = &self.0.counters;
        registry.register("windlass_renders", "Folders that were rendered, failed ones too", renders.clone());
        registry.register("windlass_renders_failed", "Renders that ended in trouble", failures.clone());
        registry.register(
            "windlass_renders_spared",
            "Renders that were not needed, because the inputs were known",
            hits.clone(),
        );
    }
}

/// What is asked, commit and all.
fn question(mirror: &Mirror, request: &Request<'_>) -> Key {
    let mut hasher = Hasher::new("question");
    hasher
        .part(mirror.digest())
        .part(request.commit.to_string())
        .part(request.app.name.as_bytes())
        .maybe(request.path)
        .maybe(request.namespace)
        .maybe(request.kube_version)
        .maybe(request.keys.map(Decrypt::fingerprint))
        .maybe(request.source.path.as_ref())
        .options(&request.source.directory)
        .options(&request.source.kustomize)
        .options(&request.source.helm);
    hasher.key()
}

impl Inner {
    fn memo(&self) -> std::sync::MutexGuard<'_, Memo> {
        self.memo.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The answer to a question that was asked before, unless the tool is another one by now.
    fn remembered(&self, question: &Key) -> Option<Outcome> {
        let (key, stamp) = self.memo().answers.get(question).cloned()?;
        if let Some(stamp) = stamp {
            let now = [Program::Kustomize, Program::Helm].map(|program| self.tools.stamp(program).ok());
            if !now.iter().flatten().any(|now| *now == stamp) {
                return None;
            }
        }
        self.cache.get(&key)
    }

    /// Reads what a render depends on, and hashes it.
    async fn prepare(
        &self,
        snapshot: &Snapshot,
        request: &Request<'_>,
    ) -> Result<(Key, Inputs, Option<Tool>), Trouble> {
        let (source, other) = (request.source.clone(), request.path.map(str::to_owned));
        let limits = self.limits;
        let release = helm::Release {
            name: request.app.name.to_string(),
            namespace: request.namespace.unwrap_or("default").to_owned(),
            kube_version: request.kube_version.map(str::to_owned),
        };
        let reader = snapshot.clone();
        let (mut hasher, inputs) =
            blocking(move || gather(&reader, &source, other.as_deref(), release, &limits)).await?;
        let tool = match inputs {
            Inputs::Plain { .. } => None,
            Inputs::Kustomize { .. } => Some(self.tools.find(Program::Kustomize, &self.cells).await?),
            Inputs::Helm(_) => Some(self.tools.find(Program::Helm, &self.cells).await?),
        };
        hasher
            .maybe(tool.as_ref().map(|tool| tool.version.as_bytes()))
            .maybe(request.keys.map(Decrypt::fingerprint));
        let key = hasher.key();
        let Inputs::Kustomize { inputs, .. } = inputs else { return Ok((key, inputs, tool)) };
        let is_wide = self.memo().wide.contains(&key);
        let narrow = key;
        let key = if is_wide { wide(snapshot, &narrow).await? } else { narrow };
        Ok((key, Inputs::Kustomize { inputs, narrow, is_wide }, tool))
    }

    /// Renders anew.
    async fn fresh(
        &self,
        snapshot: &Snapshot,
        inputs: Inputs,
        tool: Option<Tool>,
        keys: Option<&dyn Decrypt>,
    ) -> Outcome {
        let mut found = match (inputs, tool) {
            (Inputs::Helm(inputs), Some(tool)) => helm::template(&self.cells, &tool, &inputs, keys).await?,
            (Inputs::Kustomize { inputs, narrow, is_wide }, Some(tool)) => {
                self.build(snapshot, inputs, narrow, is_wide, &tool).await?
            }
            (Inputs::Plain { folder, options }, _) => read(snapshot, folder, options, keys).await?,
            (_, None) => Vec::new(),
        };
        objects::decrypt(&mut found, keys)?;
        objects::seal(found).map(Arc::new)
    }

    /// Builds with the files that the kustomization names; when that misses one, with all files of the repository.
    async fn build(
        &self,
        snapshot: &Snapshot,
        inputs: Box<kustomize::Inputs>,
        narrow: Key,
        is_wide: bool,
        tool: &Tool,
    ) -> Result<Vec<objects::Found>, Trouble> {
        if !is_wide {
            match kustomize::build(&self.cells, tool, &inputs).await {
                Ok(found) => return Ok(found),
                Err((trouble, false)) => return Err(trouble),
                Err((_, true)) => {}
            }
        }
        // From now on a change anywhere may mend it or break it.
        self.memo().widen(narrow);
        let reader = snapshot.clone();
        let whole = blocking(move || inputs.widen(&reader)).await?;
        kustomize::build(&self.cells, tool, &whole).await.map_err(|(trouble, _)| trouble)
    }
}

/// The key of a build that reads who knows what: all of the repository is its input.
async fn wide(snapshot: &Snapshot, narrow: &Key) -> Result<Key, Trouble> {
    let reader = snapshot.clone();
    let root = blocking(move || reader.hash(&RepoPath::root())).await?;
    let mut hasher = Hasher::new("wide");
    hasher.part(narrow).part(root.to_string());
    Ok(hasher.key())
}

impl Memo {
    fn remember(&mut self, question: Key, answer: Key, stamp: Option<Stamp>) {
        if self.answers.insert(question, (answer, stamp)).is_none() {
            self.asked.push_back(question);
        }
        while self.asked.len() > REMEMBERED {
            if let Some(oldest) = self.asked.pop_front() {
                self.answers.remove(&oldest);
            }
        }
    }

    fn widen(&mut self, narrow: Key) {
        if self.wide.insert(narrow) {
            self.widened.push_back(narrow);
        }
        while self.widened.len() > REMEMBERED {
            if let Some(oldest) = self.widened.pop_front() {
                self.wide.remove(&oldest);
            }
        }
    }
}

/// Reads what a render depends on. Blocks.
fn gather(
    snapshot: &Snapshot,
    source: &Source,
    other: Option<&str>,
    mut release: helm::Release,
    limits: &Limits,
) -> Result<(Hasher, Inputs), Trouble> {
    let folder = folder::path(source, other)?;
    let hash = snapshot.hash(&folder)?;
    let mut hasher = Hasher::new(EDITION);
    Ok(match folder::kind(source, other, snapshot, &folder)? {
        Kind::Plain(options) => {
            // The path is told in places of objects and in errors.
            hasher.part("plain").part(folder.as_bytes()).part(hash.to_string()).options(&options);
            (hasher, Inputs::Plain { folder, options })
        }
        Kind::Kustomize(options) => {
            let inputs = Box::new(kustomize::Inputs::gather(snapshot, &folder, &options, limits)?);
            inputs.hash(hasher.part("kustomize"));
            (hasher, Inputs::Kustomize { inputs, narrow: Key::default(), is_wide: false })
        }
        Kind::Helm(options) => {
            if let Some(name) = &options.release_name {
                release.name.clone_from(name);
            }
            if let Some(version) = &options.kube_version {
                release.kube_version = Some(version.clone());
            }
            let inputs = helm::Inputs::gather(snapshot, &folder, *options, release, limits)?;
            inputs.hash(hasher.part("helm"));
            (hasher, Inputs::Helm(Box::new(inputs)))
        }
    })
}

/// The objects of plain files.
async fn read(
    snapshot: &Snapshot,
    folder: RepoPath,
    options: Directory,
    keys: Option<&dyn Decrypt>,
) -> Result<Vec<objects::Found>, Trouble> {
    let reader = snapshot.clone();
    let read = blocking(move || plain::files(&reader, &folder, &options)).await?;
    let mut files = Vec::with_capacity(read.len());
    let mut bytes = 0;
    for file in read {
        let path = file.path.to_string();
        let clear = keys.map(|keys| keys.decrypt_file(&path, &file.bytes)).transpose()?.flatten();
        let content = clear.unwrap_or(file.bytes);
        bytes += content.len();
        files.push((path, content));
    }
    let parse = move || {
        let mut all = Vec::new();
        for (path, content) in &files {
            all.append(&mut objects::of_file(path, content)?);
        }
        Ok(all)
    };
    if bytes < SMALL { parse() } else { blocking(parse).await }
}

/// Runs something that blocks where nobody waits for the thread.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Trouble> + Send + 'static,
) -> Result<T, Trouble> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| {
        Err(Trouble::passing(
            "Interrupted",
            format!("a render was interrupted: {error}"),
            "it is tried again",
        ))
    })
}

impl Render for Renderer {
    async fn render(
        &self,
        mirror: &Arc<Mirror>,
        wanted: &Wanted<'_>,
        keys: Option<&dyn Decrypt>,
    ) -> Result<Arc<Rendered>, Trouble> {
        let commit: CommitId = wanted.commit.parse().map_err(|error: ParseIdError| {
            Trouble::standing(
                "InvalidCommit",
                error.to_string(),
                "Name a commit by its 40 hexadecimal digits",
            )
        })?;
        let request = Request {
            app: wanted.app,
            source: wanted.source,
            commit,
            path: wanted.path,
            namespace: wanted.namespace,
            kube_version: wanted.kube_version,
            keys,
        };
        Self::render(self, mirror, request).await
    }
}
