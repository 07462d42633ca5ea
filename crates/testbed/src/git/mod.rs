//! A git server for tests: real repositories, real `git http-backend`, real users, and faults on demand.
//!
//! ```text
//!  git, gix, … ──HTTP(S)──► faults ──► users ──► git http-backend ──► <name>.git (bare)
//!                                                                        ▲
//!  the test ──── Repo::commit_files, reset_to, … (no network) ───────────┘
//! ```
//!
//! Everything that git records is fixed: names, addresses, dates (one minute apart). The same calls give the same
//! commit ids on every machine.

mod cgi;
mod commit;
mod program;
mod repo;
mod service;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;

pub use crate::faults::{Authorization, Fault, Faults, RequestLog, RequestRecord, Scope};
pub use commit::Commit;
pub use program::Git;
pub use repo::Repo;

use crate::faults::auth::Users;
use crate::faults::{HttpServer, ServerIdentity};
use crate::process::ScratchDir;

/// Kind of a request, as counted and as faults can be narrowed to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `GET info/refs` for a fetch. With protocol 2 (the default since git 2.26) it only says what the server can
    /// do; older clients get the refs here.
    FetchRefs,
    /// Protocol 2 only: the request that lists the refs.
    ListRefs,
    /// `POST git-upload-pack` that negotiates or transfers a pack.
    UploadPack,
    /// `GET info/refs` for a push.
    PushRefs,
    /// `POST git-receive-pack`: a push.
    ReceivePack,
    /// Anything else.
    Other,
}

impl Kind {
    /// The word for it in [`RequestRecord`] and [`Scope`].
    pub fn as_str(self) -> &'static str {
        match self {
            Self::FetchRefs => "info/refs upload-pack",
            Self::ListRefs => "ls-refs",
            Self::UploadPack => "upload-pack",
            Self::PushRefs => "info/refs receive-pack",
            Self::ReceivePack => "receive-pack",
            Self::Other => "other",
        }
    }
}

/// A git server on a free port of 127.0.0.1; ends and removes its repositories when dropped.
///
/// Without users everybody may read and push. From the first user on a push takes a user with that right, and
/// reading stays open to everybody until [`GitServer::set_anonymous_read`] says otherwise.
#[derive(Debug)]
pub struct GitServer {
    // Dropped in this order: no request may find its repository gone.
    http: HttpServer,
    identity: Option<ServerIdentity>,
    users: Users,
    anonymous_read: Arc<AtomicBool>,
    git: Git,
    scratch: Arc<ScratchDir>,
}

impl GitServer {
    /// Starts a server that speaks HTTP.
    #[expect(clippy::unused_async, reason = "all servers of the testbed start alike")]
    pub async fn start() -> anyhow::Result<Self> {
        Self::start_with(None)
    }

    /// Starts a server that speaks HTTPS; clients need [`GitServer::ca_pem`] or [`GitServer::ca_path`] to trust it.
    #[expect(clippy::unused_async, reason = "all servers of the testbed start alike")]
    pub async fn start_tls() -> anyhow::Result<Self> {
        Self::start_with(Some(ServerIdentity::generate()?))
    }

    fn start_with(identity: Option<ServerIdentity>) -> anyhow::Result<Self> {
        let scratch = Arc::new(ScratchDir::new("git")?);
        for folder in ["home", "repos"] {
            let folder = scratch.path().join(folder);
            std::fs::create_dir(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        }
        let mut git = Git::new(scratch.path().join("home"));
        if let Some(identity) = &identity {
            let ca = scratch.path().join("ca.pem");
            std::fs::write(&ca, identity.ca_pem())
                .with_context(|| format!("cannot write {}", ca.display()))?;
            git = git.trusting(&ca);
        }
        let backend = git.http_backend()?;
        let (users, anonymous_read) = (Users::default(), Arc::new(AtomicBool::new(true)));
        let service = service::GitService {
            git: git.clone(),
            backend,
            repos: scratch.path().join("repos"),
            users: users.clone(),
            anonymous_read: anonymous_read.clone(),
        };
        let http = HttpServer::start("testbed-git", service, identity.as_ref())?;
        Ok(Self { http, identity, users, anonymous_read, git, scratch })
    }

    /// `http://127.0.0.1:port` (or `https`), without a slash at the end.
    pub fn url(&self) -> String {
        self.http.url()
    }

    /// The certificate authority in PEM, when the server speaks TLS.
    pub fn ca_pem(&self) -> Option<&str> {
        self.identity.as_ref().map(ServerIdentity::ca_pem)
    }

    /// A file with [`GitServer::ca_pem`].
    pub fn ca_path(&self) -> Option<PathBuf> {
        self.identity.as_ref().map(|_| self.scratch.path().join("ca.pem"))
    }

    /// The `git` program in a clean environment, as a client of this server: no settings of the machine, no
    /// questions on the terminal, fixed names and dates, and trust in this server's certificate authority.
    pub fn git(&self) -> &Git {
        &self.git
    }

    /// Adds a user who may read and push, or changes the password.
    pub fn user(&self, name: &str, password: &str) -> &Self {
        self.users.set_password(name, password);
        self
    }

    /// Gives a user a token, which counts as a `Bearer` token and as the password with any user name. Adds the user
    /// when there is none.
    pub fn token(&self, name: &str, token: &str) -> &Self {
        self.users.set_token(name, token);
        self
    }

    /// Says whether a user may push. Adds the user, who cannot sign in yet, when there is none.
    pub fn set_may_push(&self, name: &str, may_push: bool) -> &Self {
        self.users.set_may_write(name, may_push);
        self
    }

    /// Takes a user away.
    pub fn remove_user(&self, name: &str) -> &Self {
        self.users.remove(name);
        self
    }

    /// Says whether one may read without credentials.
    pub fn set_anonymous_read(&self, allowed: bool) -> &Self {
        self.anonymous_read.store(allowed, Ordering::Relaxed);
        self
    }

    /// Makes a bare repository with one commit on `main` that holds the files of a folder.
    pub fn repo_from_folder(&self, name: &str, folder: &Path) -> anyhow::Result<Repo> {
        let repo = self.empty_repo(name)?;
        repo.import_folder(folder)?;
        Ok(repo)
    }

    /// Makes a bare repository with one commit on `main` that holds these files.
    pub fn repo_with_files(&self, name: &str, files: &[(&str, &str)]) -> anyhow::Result<Repo> {
        let repo = self.empty_repo(name)?;
        let files: Vec<_> = files.iter().map(|(path, content)| (*path, Some(*content))).collect();
        repo.commit_files(&files, "Initial commit")?;
        Ok(repo)
    }

    /// Makes a bare repository without commits, with `main` as the branch that HEAD names. The name may have
    /// slashes (`team/app`); the address gets `.git` at the end.
    pub fn empty_repo(&self, name: &str) -> anyhow::Result<Repo> {
        let known = |part: &str| {
            !part.is_empty()
                && !part.starts_with('.')
                && part.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
        };
        anyhow::ensure!(
            name.split('/').all(known) && !name.contains(".git"),
            "{name:?} is no name for a repository: use letters, digits, '-', '_' and '.', in folders if need be"
        );
        let path = self.scratch.path().join("repos").join(format!("{name}.git"));
        anyhow::ensure!(!path.exists(), "there is already a repository {name:?}");
        let url = format!("{}/{name}.git", self.url());
        Repo::init(
            name,
            url,
            path,
            self.git.clone(),
            self.http.faults().clone(),
            self.http.log().clone(),
            self.scratch.clone(),
        )
    }

    /// Lets this fault happen to every request from now on (but see [`Repo::fault`]).
    pub fn fault(&self, fault: Fault) {
        self.http.faults().set(Scope::all(), fault);
    }

    /// Lets this fault happen to every request of a kind from now on.
    pub fn fault_on(&self, kind: Kind, fault: Fault) {
        self.http.faults().set(Scope::kind(kind.as_str()), fault);
    }

    /// Ends all faults, those of single repositories too.
    pub fn clear_faults(&self) {
        self.http.faults().clear_all();
    }

    /// All that can be said about faults, e.g. faults for the next few requests only.
    pub fn faults(&self) -> &Faults {
        self.http.faults()
    }

    /// What came in: counters and requests, also whether they carried credentials.
    pub fn log(&self) -> &RequestLog {
        self.http.log()
    }

    /// Number of requests of a kind since the start or the last `log().reset()`, for all repositories.
    pub fn count(&self, kind: Kind) -> u64 {
        self.log().count(kind.as_str())
    }

    /// Whether any request so far carried an `Authorization` header.
    pub fn saw_credentials(&self) -> bool {
        self.log().requests().iter().any(|request| request.authorization.is_present())
    }
}
