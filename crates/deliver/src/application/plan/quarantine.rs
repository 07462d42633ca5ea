//! A revision whose `Rollout` failed is applied nowhere any more.
//!
//! ```text
//!   a Rollout of the desired revision fails ─► quarantine ─► held back everywhere, not healed to where it runs
//!                                                  │            └─► gitRollback: one revert commit or branch
//!                                                  └─ ends when the source says something else, or somebody lifts it
//! ```
//!
//! What runs is not touched: the Rollout has gone back to its stable pods by itself, and to apply an older revision over
//! it would be one more update that nobody asked for. Whoever wants that pins it, or has `progressive.onFailure:
//! Rollback` or a revert commit do it.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use windlass_api::{
    application::{
        status::{Deployment, DeploymentResult, Lifted, Quarantine},
        sync::GitRollbackMode,
    },
    condition::whole_seconds,
};

use super::{is_for, retry_at};
use crate::{
    application::{
        history,
        observed::{Action, FailedRollout, Observed, SourceFacts},
    },
    origin::RevertOrder,
    trouble::Trouble,
};

/// Characters of a commit in the name of a branch.
const SHORT: usize = 10;

/// How the revision that failed stands.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Standstill {
    /// What the status says of it.
    pub(super) entry: Option<Quarantine>,
    /// It is what is desired, and nobody lifted it: it is not applied.
    pub(super) holds: bool,
    /// Why it could not be reverted in the repository.
    pub(super) refused: Option<Trouble>,
    /// When the revert is made or tried again.
    pub(super) wake: Option<Timestamp>,
}

impl Standstill {
    /// What is told of it while it holds something back.
    pub(super) fn trouble(&self) -> Option<Trouble> {
        let entry = self.entry.as_ref().filter(|_| self.holds)?;
        let what = format!("{} failed and is quarantined: {}", short(&entry.revision), told(entry));
        let remedy = "Push a commit that mends it; go back with: windlass rollback; or let it pass with: windlass approve";
        Some(Trouble::standing("Quarantined", what, remedy))
    }

    /// Why the operation under way failed, if it did for this.
    pub(super) fn why(&self) -> Option<String> {
        self.entry.as_ref().filter(|_| self.holds).map(told)
    }

    /// What history says of the revision: it was no success, whatever it looked like before.
    pub(super) fn mark(&self, history: &mut [Deployment]) {
        let Some(entry) = self.entry.as_ref().filter(|_| self.holds) else { return };
        let same = |known: &&mut Deployment| {
            known.digest.as_ref() == Some(&entry.digest) && known.result == DeploymentResult::Succeeded
        };
        for known in history.iter_mut().filter(same) {
            known.result = DeploymentResult::Failed;
            known.message = Some(told(entry));
        }
    }
}

fn told(entry: &Quarantine) -> String {
    format!("{} on {}: {}", entry.object, entry.cluster, entry.reason)
}

fn short(revision: &str) -> &str {
    revision.get(..SHORT).unwrap_or(revision)
}

/// How the revision that failed stands: the one that is known, or one that failed just now.
pub(super) fn of(observed: &Observed, now: Timestamp) -> Standstill {
    let digest = observed.desired.as_ref().and_then(|desired| desired.digest.as_ref().ok());
    let mut entry = known(observed).or_else(|| fresh(observed, now));
    if let Some(entry) = entry.as_mut().filter(|entry| entry.lifted.is_none()) {
        entry.lifted = lifted(observed, entry, now);
    }
    let holds = entry.as_ref().is_some_and(|entry| entry.lifted.is_none() && Some(&entry.digest) == digest);
    Standstill { entry, holds, refused: None, wake: None }
}

/// The quarantine that is in the status, as long as the source is not past it. While a pin leads elsewhere, it is kept
/// for the time after.
fn known(observed: &Observed) -> Option<Quarantine> {
    let entry = observed.status.quarantine.clone()?;
    let (SourceFacts::Seen(seen), Some(desired)) = (&observed.source, &observed.desired) else {
        return Some(entry);
    };
    let stays = match &desired.digest {
        Ok(digest) if desired.pin.is_none() => *digest == entry.digest,
        Ok(digest) => *digest == entry.digest || seen.commit == entry.revision,
        Err(_) => true,
    };
    stays.then_some(entry)
}

/// The quarantine of what is desired, if one of its Rollouts failed after it was begun. One that failed before is the
/// failure of another revision: a commit that mends something beside it is not to be blamed. Times have whole seconds, and
/// nothing fails in the second that it begins in.
fn fresh(observed: &Observed, now: Timestamp) -> Option<Quarantine> {
    let desired = observed.desired.as_ref()?;
    let digest = desired.digest.as_ref().ok()?;
    let begun = begun(observed, digest)?;
    let told = |cluster: &str| {
        observed.status.clusters.iter().any(|line| {
            line.name == cluster
                && (line.target.as_ref() == Some(digest) || line.digest.as_ref() == Some(digest))
        })
    };
    let failed: &FailedRollout =
        observed.failed.iter().find(|failed| failed.at > begun && told(&failed.cluster))?;
    Some(Quarantine {
        revision: desired.commit.clone(),
        change_id: desired.change_id.clone(),
        digest: digest.clone(),
        since: Some(Time(whole_seconds(now))),
        cluster: failed.cluster.clone(),
        object: failed.object.clone(),
        reason: failed.reason.clone(),
        lifted: None,
        revert: None,
    })
}

/// When what is desired began to be applied.
fn begun(observed: &Observed, digest: &str) -> Option<Timestamp> {
    let operation = observed.status.operation.as_ref().filter(|operation| is_for(operation, digest));
    let deployed = observed.status.history.first().filter(|known| known.digest.as_deref() == Some(digest));
    let began = operation.map_or_else(|| deployed?.started_at.as_ref(), |one| one.started_at.as_ref());
    began.map(|began| began.0)
}

/// Who lets it pass: `<commit> by <who>`.
fn lifted(observed: &Observed, entry: &Quarantine, now: Timestamp) -> Option<Lifted> {
    let asked = observed.requests.lift.as_deref()?;
    let (revision, by) = asked.split_once(" by ").unwrap_or((asked, "somebody"));
    (revision.trim() == entry.revision)
        .then(|| Lifted { by: by.trim().to_owned(), at: Some(Time(whole_seconds(now))) })
}

/// What is done about it in the repository. What is known of that goes into the status.
///
/// Only a quarantine that is in the status already is reverted: what is pushed has been told before.
pub(super) fn revert(observed: &Observed, standstill: &mut Standstill, now: Timestamp) -> Option<Action> {
    let holds = standstill.holds;
    let entry = standstill.entry.as_mut().filter(|_| holds)?;
    let mode = observed.spec.sync.git_rollback.mode;
    if mode == GitRollbackMode::Never || entry.revert.is_some() {
        return None;
    }
    let tried = observed.revert.as_ref().filter(|tried| tried.bad == entry.revision);
    match tried.map(|tried| (&tried.result, tried)) {
        Some((Ok(revert), _)) => {
            entry.revert = Some(revert.clone());
            return None;
        }
        Some((Err(trouble), tried)) => {
            standstill.refused = Some(trouble.clone());
            let next = retry_at(observed, tried.at, tried.count);
            if next > now {
                standstill.wake = Some(next);
                return None;
            }
        }
        None => {}
    }
    let stored = observed.status.quarantine.as_ref().is_some_and(|known| known.digest == entry.digest);
    match order(observed, entry, mode) {
        Ok(order) if stored => Some(Action::Revert(Box::new(order))),
        Ok(_) => {
            // Nobody else may wake us: what the watch tells of our own write is no news.
            standstill.wake = Some(now);
            None
        }
        Err(trouble) => {
            standstill.refused = Some(trouble);
            None
        }
    }
}

fn order(observed: &Observed, entry: &Quarantine, mode: GitRollbackMode) -> Result<RevertOrder, Trouble> {
    let impossible = |what: String, remedy: &str| Trouble::standing("RevertImpossible", what, remedy);
    let good = history::last_good(&observed.status.history, &entry.digest).ok_or_else(|| {
        impossible(
            format!("no revision before {} succeeded", short(&entry.revision)),
            "push a commit that mends it",
        )
    })?;
    let (spec, policy) = (&observed.spec, &observed.spec.sync.git_rollback);
    let branch = match (mode, &observed.source) {
        (GitRollbackMode::Branch, _) => {
            let form = policy.branch.as_deref().unwrap_or("windlass/revert-{application}-{revision}");
            form.replace("{application}", &observed.key.name).replace("{revision}", short(&entry.revision))
        }
        (_, SourceFacts::Seen(seen)) => seen.name.clone().ok_or_else(|| {
            impossible(
                "the Application follows no branch".into(),
                "follow a branch in spec.source.revision, or set spec.sync.gitRollback.mode to Branch",
            )
        })?,
        _ => {
            return Err(Trouble::passing("RevertFailed", "the repository is not known", "it is tried again"));
        }
    };
    let infrastructure = spec.infrastructure.as_ref().map(|one| one.path.clone());
    let author = policy.author.as_ref().map_or_else(
        || ("windlass".to_owned(), String::new()),
        |author| (author.name.clone(), author.email.clone().unwrap_or_default()),
    );
    Ok(RevertOrder {
        app: observed.key.clone(),
        source: spec.source.clone(),
        folders: [spec.source.path.clone().unwrap_or_default()].into_iter().chain(infrastructure).collect(),
        good: good.revision.clone(),
        bad: entry.revision.clone(),
        mode,
        branch,
        author,
        at: entry.since.as_ref().map(|since| since.0).unwrap_or_default(),
        object: entry.object.clone(),
        cluster: entry.cluster.clone(),
        reason: entry.reason.clone(),
    })
}
