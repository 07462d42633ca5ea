//! All that a decision about an `Application` is made from.

use std::{collections::BTreeMap, fmt};

use jiff::Timestamp;
use serde::Serialize;
use windlass_api::{AnalysisRun, ApplicationSpec, ApplicationStatus};
use windlass_cluster::drive::Key;

use super::{contest::Reverts, depends::Blocked, program::Program, waves::Assignment};
use crate::{
    fleet::{Extra, Found, Member, State, Work},
    object::ObjectId,
    origin::{RevertOrder, Seen},
    trouble::Trouble,
};

/// The facts.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The Application.
    pub key: Key,
    /// The generation that was observed.
    pub generation: Option<i64>,
    /// What is wanted.
    pub spec: ApplicationSpec,
    /// What was said before.
    pub status: ApplicationStatus,
    /// What people asked for by annotation.
    pub requests: Requests,
    /// The `ServiceAccount` that everything is applied as; the controller's own rights if `None`.
    pub account: Option<String>,
    /// The object is being deleted.
    pub deleting: bool,
    /// Since when: it names the run of the hooks that a deletion has.
    pub deleted_at: Option<Timestamp>,
    /// What is wrong with the spec itself: a selector, a window, a health rule.
    pub invalid: Vec<Trouble>,
    /// What the repository gives.
    pub source: SourceFacts,
    /// What the wanted revision is, and whether it could be rendered.
    pub desired: Option<Desired>,
    /// Another Application has to be ready first.
    pub blocked: Option<Blocked>,
    /// One entry per cluster, by name.
    pub targets: Vec<Target>,
    /// Clusters that are in the inventory and exist no more.
    pub lost: Vec<String>,
    /// Which cluster gets what, wave by wave; `None` without waves.
    pub rollout: Option<Assignment>,
    /// The run that a wave needs and that is not there yet.
    pub analysis: Option<Box<AnalysisRun>>,
    /// How often what was reverted.
    pub reverts: Reverts,
    /// `Rollout`s that failed with what is wanted, as their own status says.
    pub failed: Vec<FailedRollout>,
    /// Some `Rollout` that is not well could not be read: it is looked at again soon.
    pub unsure: bool,
    /// How the last try to revert a revision in the repository ended.
    pub revert: Option<RevertTry>,
}

/// A `Rollout` that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedRollout {
    /// The cluster.
    pub cluster: String,
    /// `Rollout shop/web`.
    pub object: String,
    /// When, as its controller says.
    pub at: Timestamp,
    /// Why.
    pub reason: String,
}

/// A try to revert a revision in the repository.
#[derive(Clone, Debug, PartialEq)]
pub struct RevertTry {
    /// The revision that failed.
    pub bad: String,
    /// What was pushed, or what stood in the way.
    pub result: Result<windlass_api::application::status::Revert, Trouble>,
    /// When.
    pub at: Timestamp,
    /// How often in a row it failed.
    pub count: u32,
}

impl Observed {
    /// The repository was not fetched yet in this life of the controller, and all that the status says was said about the
    /// spec as it is: there is nothing to add before the fetch, which wakes the Application.
    pub fn waits_for_fetch(&self) -> bool {
        self.source == SourceFacts::NotYet
            && self.status.sync.revision.is_some()
            && self.status.observed_generation == self.generation
    }
}

/// What people asked for by annotation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    /// A sync.
    pub sync: Option<String>,
    /// Deletions.
    pub approve: Option<String>,
    /// A quarantined revision passes all the same.
    pub lift: Option<String>,
    /// The Application goes without its deletion hooks.
    pub skip_deletion_hooks: bool,
}

/// What the repository gives.
#[derive(Clone, Debug, PartialEq)]
pub enum SourceFacts {
    /// Not looked at: suspended or being deleted.
    NotLooked,
    /// Not fetched yet.
    NotYet,
    /// Something stands in the way.
    Trouble(Trouble),
    /// The revision stands for this commit.
    Seen(Seen),
}

/// The revision that should run.
#[derive(Clone, Debug, PartialEq)]
pub struct Desired {
    /// The commit.
    pub commit: String,
    /// Its Jujutsu change id, if known.
    pub change_id: Option<String>,
    /// The pin that decides, if one does.
    pub pin: Option<windlass_api::application::status::Pin>,
    /// Digest of all that it renders to; or why it could not be rendered.
    pub digest: Result<String, Trouble>,
    /// It renders to nothing at all.
    pub empty: bool,
}

/// One cluster.
#[derive(Clone, Debug)]
pub struct Target {
    /// The cluster.
    pub member: Member,
    /// It is no destination any more.
    pub leaving: bool,
    /// What it should run.
    pub want: Want,
    /// Namespace of objects that name none.
    pub namespace: String,
    /// Infrastructure first, then the rest.
    pub parts: Vec<Part>,
    /// Objects of the inventory that are no longer wanted.
    pub extra: Vec<Extra>,
    /// What makes the wanted objects unfit for this cluster.
    pub problems: Vec<Trouble>,
    /// Why the cluster could not be looked at.
    pub unseen: Option<Trouble>,
    /// Connection secrets of the infrastructure that are not there yet.
    pub missing_secrets: Vec<String>,
    /// What was applied since the controller runs: digest of each.
    pub applied: BTreeMap<ObjectId, [u8; 32]>,
    /// What failed before.
    pub attempts: BTreeMap<ObjectId, Attempt>,
    /// The same cluster, looked at with what it runs while something newer is held back: that is healed meanwhile.
    pub kept: Option<Box<Target>>,
    /// The same cluster, looked at with the desired revision while its wave has not come: what would be refused there is
    /// known before anybody gets it.
    pub ahead: Option<Box<Target>>,
}

/// What a cluster should run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Want {
    /// The desired revision.
    New {
        /// Digest of it.
        digest: String,
    },
    /// What it runs already: its wave has not come, or there is nothing newer that is any good.
    Keep {
        /// The commit.
        commit: String,
        /// Digest of it.
        digest: String,
    },
    /// Nothing is known that it could run.
    Nothing,
}

/// Objects that are applied together, in steps.
#[derive(Clone, Debug)]
pub struct Part {
    /// What they are.
    pub kind: PartKind,
    /// The steps. Places point into `found`.
    pub program: Program,
    /// The objects.
    pub found: Vec<Found>,
}

/// What the objects of a part are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum PartKind {
    /// Applied first and waited for.
    Infrastructure,
    /// The rest.
    Main,
}

/// Something that was tried and failed.
#[derive(Clone, Debug, PartialEq)]
pub struct Attempt {
    /// Digest of what was wanted.
    pub digest: [u8; 32],
    /// What stood in the way.
    pub trouble: Trouble,
    /// When.
    pub at: Timestamp,
    /// How often in a row.
    pub count: u32,
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub enum Action {
    /// Work on clusters, side by side.
    Work {
        /// The Application.
        app: Key,
        /// One per cluster.
        batches: Vec<Batch>,
    },
    /// Make an `AnalysisRun`.
    Analyse(Box<AnalysisRun>),
    /// Take a revision back in its repository.
    Revert(Box<RevertOrder>),
}

/// Work on one cluster.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Batch {
    /// The cluster.
    pub cluster: String,
    /// The user that it is done as; the controller itself if `None`.
    pub as_user: Option<String>,
    /// One after the other; the work of a step side by side.
    pub steps: Vec<Vec<Work>>,
    /// Which of it takes somebody's change back.
    pub reverting: Vec<Reverting>,
}

/// A change that is taken back.
#[derive(Clone, PartialEq, Eq, Serialize)]
pub struct Reverting {
    /// The object.
    pub object: ObjectId,
    /// Digest of what is wanted.
    #[serde(skip)]
    pub digest: [u8; 32],
    /// Who made the change, if known.
    pub manager: Option<String>,
}

impl fmt::Debug for Reverting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} changed by {}", self.object, self.manager.as_deref().unwrap_or("somebody"))
    }
}

impl Reverting {
    /// The change that made an object differ, with whoever made it as far as known.
    pub fn of(found: &Found) -> Self {
        let manager = match &found.state {
            State::Differs(all) => all.iter().find_map(|difference| difference.owner.as_ref()),
            _ => None,
        };
        Self {
            object: found.wanted.id().clone(),
            digest: *found.wanted.digest(),
            manager: manager.map(|owner| owner.manager.clone()),
        }
    }

    /// Who made the change, if known.
    pub fn manager(&self) -> Option<&str> {
        self.manager.as_deref()
    }
}

impl Target {
    /// What failed the last time and is not tried again yet: why it failed, and when it is. With a digest only if just
    /// that was tried.
    pub(super) fn held(
        &self,
        object: &ObjectId,
        digest: Option<&[u8; 32]>,
        retry_at: &dyn Fn(Timestamp, u32) -> Timestamp,
        now: Timestamp,
    ) -> Option<(Trouble, Timestamp)> {
        let attempt = self.attempts.get(object)?;
        let next = retry_at(attempt.at, attempt.count);
        let same = digest.is_none_or(|digest| attempt.digest == *digest);
        (same && next > now).then(|| (attempt.trouble.clone(), next))
    }

    /// Digest of what it should run.
    pub fn digest(&self) -> Option<&str> {
        match &self.want {
            Want::New { digest } | Want::Keep { digest, .. } => Some(digest),
            Want::Nothing => None,
        }
    }

    /// The look that shows what runs there: what the desired revision would be like does not make that any worse.
    pub(super) fn running(&self) -> &Self {
        self.kept.as_deref().unwrap_or(self)
    }

    /// All wanted objects.
    pub fn found(&self) -> impl Iterator<Item = &Found> {
        self.parts.iter().flat_map(|part| &part.found)
    }
}
