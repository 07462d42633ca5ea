//! What stands between a new revision and the clusters, before anything is decided about one of them.

use jiff::Timestamp;
use windlass_api::application::{PolicyMode, status::ClusterLine, sync::Drift};

use super::{line, operation, quarantine, target};
use crate::{
    application::{
        observed::{Observed, Target, Want},
        windows::{self, Opening},
    },
    fleet::State,
    gate::{self, Decision, Ruling, Verdict},
    trouble::Trouble,
};

/// How a new revision stands.
pub(super) struct Standing {
    /// What policy says, cluster by cluster.
    pub(super) decisions: Vec<Decision>,
    /// What policy will say where the wave has not come yet.
    pub(super) ahead: Vec<Decision>,
    /// Policy lets nothing of the change pass.
    pub(super) blocked: bool,
    /// Why else it is not applied although there is one.
    pub(super) held: Option<Trouble>,
}

/// How a new revision stands now.
pub(super) fn of(observed: &Observed, opening: &Opening) -> Standing {
    let mode = observed.spec.policy.mode;
    let decisions: Vec<Decision> = observed.targets.iter().map(|target| judge(mode, target)).collect();
    let ahead: Vec<Decision> = observed
        .targets
        .iter()
        .filter_map(|target| target.ahead.as_deref())
        .map(|one| judge(mode, one))
        .collect();
    let refused = observed.targets.iter().zip(&decisions).any(|(target, decision)| {
        decision.blocked
            && target::is_new(target, &line(observed, target), observed.status.operation.as_ref())
    });
    // Once somebody has it, a cluster of a later wave is refused for itself when its turn comes.
    let refused_ahead = ahead.iter().any(|decision| decision.blocked) && !has_begun(observed);
    Standing { decisions, ahead, blocked: refused || refused_ahead, held: operation::held(observed, opening) }
}

/// Whether any cluster has the desired revision, or was told to take it.
fn has_begun(observed: &Observed) -> bool {
    let Some(Ok(digest)) = observed.desired.as_ref().map(|desired| desired.digest.as_ref()) else {
        return false;
    };
    let has =
        |line: &ClusterLine| line.digest.as_ref() == Some(digest) || line.target.as_ref() == Some(digest);
    observed.status.clusters.iter().any(has)
}

/// Clusters that go on with what they run, because something newer is held back: what others change there is taken back
/// all the same. Asked by whoever gathers the facts, for it costs a look.
///
/// Guarantees: none where nothing would be taken back anyway (another `drift`, manual syncs, a closed window, a
/// suspended Application), and none where something newer was begun: what runs there is a mixture, and nobody asked for
/// the way back.
pub(crate) fn kept(observed: &Observed, now: Timestamp) -> Vec<String> {
    let sync = &observed.spec.sync;
    let idle = observed.deleting || observed.spec.suspend || !observed.invalid.is_empty();
    if idle || observed.waits_for_fetch() || sync.drift != Drift::Revert || !sync.automated {
        return Vec::new();
    }
    let Ok(opening) = windows::look(&sync.windows, now, super::asked(observed).is_some()) else {
        return Vec::new();
    };
    if !opening.open {
        return Vec::new();
    }
    let standing = of(observed, &opening);
    let all = standing.blocked || standing.held.is_some() || quarantine::of(observed, now).holds;
    observed
        .targets
        .iter()
        .filter(|target| (all || !target.problems.is_empty()) && runs_something_else(observed, target))
        .map(|target| target.member.name.clone())
        .collect()
}

/// Whether a cluster runs something whole that is not what it should get, and nothing newer was begun.
fn runs_something_else(observed: &Observed, target: &Target) -> bool {
    let Want::New { digest } = &target.want else { return false };
    let line = line(observed, target);
    let away = target.member.trouble.is_some() || target.unseen.is_some();
    let Some(runs) = line.digest.filter(|_| line.revision.is_some() && !away && !target.leaving) else {
        return false;
    };
    runs != *digest && line.target.is_none_or(|begun| begun == runs)
}

/// What policy says about one cluster. A kind that is not served, and that the change does not bring, is refused too.
pub(super) fn judge(mode: PolicyMode, target: &Target) -> Decision {
    let mut verdicts: Vec<Verdict> = target.found().filter_map(|found| found.verdict.clone()).collect();
    for part in &target.parts {
        let unknown = part.found.iter().filter(|found| found.state == State::UnknownKind);
        for found in
            unknown.filter(|found| !brings(target, &found.wanted.id().group, &found.wanted.id().kind))
        {
            let id = found.wanted.id();
            verdicts.push(Verdict {
                object: id.clone(),
                cluster: Some(target.member.name.clone()),
                policy: "kind".into(),
                ruling: Ruling::Refused(format!(
                    "the cluster does not serve {} {}. Install its CustomResourceDefinition, or mend the apiVersion",
                    id.api_version(),
                    id.kind
                )),
            });
        }
    }
    gate::decide(mode, &verdicts)
}

/// Whether the same change brings the definition of a kind.
fn brings(target: &Target, group: &str, kind: &str) -> bool {
    target.found().any(|found| {
        let object = found.wanted.object();
        found.wanted.id().kind == "CustomResourceDefinition"
            && object["spec"]["group"] == *group
            && object["spec"]["names"]["kind"] == *kind
    })
}
