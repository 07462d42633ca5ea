//! Where Applications come from: their repositories, kept up to date for all of them together.
//!
//! ```text
//!  hook ─ pushed ─┐            ┌─ poll: fetch when due, one at a time per remote ─► mirror, journal ─┐
//!  look(app) ─────┴─► Feed ────┤                                                                    ▼
//!                  one per     └─ settle: who is concerned ─► wake(app)        sight: revision ─► commit, movements
//!                  remote and tenant
//! ```

mod address;
mod feed;
mod metrics;
mod order;
mod poll;
mod repos;
mod revert;
mod secrets;
mod sight;
mod words;

use std::{future::Future, sync::Arc};

use windlass_api::application::{
    Source,
    status::{Movement, Revert},
};
use windlass_cluster::drive::Key;

pub use metrics::OriginMetrics;
pub use repos::{Push, Render, Repos, Settings, Wake};
pub use revert::{REVERTS, RevertOrder};

use crate::{render::Rendered, trouble::Trouble};

/// What an Application follows.
#[derive(Clone, Debug, PartialEq)]
pub struct Follow {
    /// The Application.
    pub app: Key,
    /// Its source.
    pub source: Source,
    /// How often the repository is asked for news, unless others want it sooner.
    pub interval: std::time::Duration,
}

/// What is known of the revision that an Application follows, by the last fetch.
#[derive(Clone, Debug, PartialEq)]
pub enum Sighting {
    /// The repository was not fetched yet: the Application is woken when it is.
    NotYet,
    /// Something stands in the way; what was seen before, if anything, is still there to be rendered.
    Trouble(Trouble),
    /// The revision stands for this commit.
    Found(Seen),
}

/// A revision, resolved.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    /// The commit, 40 hexadecimal digits.
    pub commit: String,
    /// Its Jujutsu change id, if it carries one.
    pub change_id: Option<String>,
    /// The branch, tag or change it was found by, for people: `main`.
    pub name: Option<String>,
    /// Movements of that name, newest first, at most 10.
    pub movements: Vec<Movement>,
    /// Where the name was before it came to this commit: what an undo goes back to.
    pub before: Option<String>,
    /// The repository could not be asked the last time: this is what it was before.
    pub stale: Option<Trouble>,
}

/// What is rendered.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted<'a> {
    /// The Application.
    pub app: &'a Key,
    /// Its source.
    pub source: &'a Source,
    /// The commit, 40 hexadecimal digits.
    pub commit: &'a str,
    /// Another folder than the source's, from the root of the repository: plain, kustomize or helm by what is in it.
    pub path: Option<&'a str>,
    /// The namespace that a chart is told: that of the destination.
    pub namespace: Option<&'a str>,
    /// The Kubernetes version that a chart is told unless its source says.
    pub kube_version: Option<&'a str>,
}

/// The repositories of all Applications: the seam at which a simulation takes the place of Git.
///
/// Guarantees: no call but [`Origin::revert`] waits for the network; an Application that follows something is woken when what it follows
/// moved, and when trouble came or went.
pub trait Origin: Send + Sync + 'static {
    /// What is known of the revision. From now on the repository is kept up to date for this Application.
    fn look(&self, follow: &Follow) -> impl Future<Output = Sighting> + Send;

    /// Renders a commit. Answered from a cache when none of its inputs changed.
    fn render(&self, wanted: Wanted<'_>) -> impl Future<Output = Result<Arc<Rendered>, Trouble>> + Send;

    /// Takes a revision back in the repository: a revert commit is pushed, once for each revision however often this is
    /// called. Where one is there already, that one is given.
    fn revert(&self, order: &RevertOrder) -> impl Future<Output = Result<Revert, Trouble>> + Send;

    /// Somebody asked for what the repository has now. Whether it was fetched since: if not, it is fetched at once, and
    /// the Application is woken when that ended, well or not. The same request leads to one fetch, however often it is
    /// asked.
    fn refresh(&self, app: &Key, request: &str) -> bool;

    /// The Application follows nothing any more.
    fn forget(&self, app: &Key);
}
