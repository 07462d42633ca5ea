//! Looks at a cluster besides the one at what it should run: what it runs while something newer is held back, what it will
//! be like when its wave comes, and what is there when the Application goes.

use std::collections::BTreeSet;

use futures::future::join_all;
use windlass_api::application::Deletion;

use super::{
    controller::ApplicationController,
    destinations::{Meant, meant},
    ledger::Book,
    observe::{Rendering, Round, blank},
    observed::{Observed, SourceFacts, Target, Want},
    plan::{self, inventory},
    waves,
};
use crate::{
    fleet::{Connector, Extra, Found, Member},
    object::ObjectId,
    origin::Origin,
    trouble::Trouble,
};

impl<O: Origin, C: Connector> ApplicationController<O, C> {
    /// Looks at the desired revision where its wave has not come yet, so that what would be refused there is known while
    /// nothing has changed. A cluster that does not answer is judged when it does.
    pub(super) async fn look_ahead(&self, observed: &mut Observed, meant: &[Meant<'_>], round: Round<'_>) {
        let going = observed.rollout.as_ref().filter(|rollout| rollout.outcome == waves::Outcome::Going);
        let (Some(rendering), Some(rollout)) = (round.rendering, going) else { return };
        let shared = &*observed;
        let look = |one| async move {
            let want = Want::New { digest: rendering.digest.clone() };
            self.another(shared, one, want, rendering, round).await
        };
        let waits = |one: &&Meant<'_>| one.destination.is_some() && !rollout.gets_new(&one.member.name);
        let seen: Vec<Target> =
            join_all(meant.iter().filter(waits).map(look)).await.into_iter().flatten().collect();
        for ahead in seen {
            if let Some(target) = named(&mut observed.targets, &ahead.member.name) {
                target.ahead = Some(Box::new(ahead));
            }
        }
    }

    /// Looks at what runs where something newer is held back, so that it can be healed meanwhile.
    pub(super) async fn look_back(&self, observed: &mut Observed, meant: &[Meant<'_>], round: Round<'_>) {
        let kept = plan::kept(observed, self.clock.now());
        if kept.is_empty() {
            return;
        }
        let shared = &*observed;
        let look = |one| self.what_runs(shared, one, round);
        let held = meant.iter().filter(|one| kept.contains(&one.member.name));
        let seen: Vec<Target> = join_all(held.map(look)).await.into_iter().flatten().collect();
        for mut kept in seen {
            // What is no longer wanted is told by the newer revision, and stays until that may go.
            kept.extra = Vec::new();
            if let Some(target) = named(&mut observed.targets, &kept.member.name) {
                target.kept = Some(Box::new(kept));
            }
        }
    }

    /// The revision that was last applied whole on a cluster; `None` when it is not to be had as it was.
    async fn what_runs(&self, observed: &Observed, meant: &Meant<'_>, round: Round<'_>) -> Option<Target> {
        let line = observed.status.clusters.iter().find(|line| line.name == meant.member.name)?;
        let (commit, digest) = (line.revision.clone()?, line.digest.clone()?);
        let rendering = self.rendering(observed, &commit, round.version).await.ok()?;
        // With another spec the same commit is something else.
        if rendering.digest != digest || rendering.is_empty() {
            return None;
        }
        self.another(observed, meant, Want::Keep { commit, digest }, &rendering, round).await
    }

    /// One more look; `None` when the cluster does not answer.
    async fn another(
        &self,
        observed: &Observed,
        meant: &Meant<'_>,
        want: Want,
        rendering: &Rendering,
        round: Round<'_>,
    ) -> Option<Target> {
        let name = &meant.member.name;
        let seen = observed.targets.iter().find(|target| target.member.name == *name)?;
        if seen.member.trouble.is_some() || seen.unseen.is_some() {
            return None;
        }
        let mut target = blank(meant, want, round.book);
        let held: Vec<ObjectId> = round.known.get(name).into_iter().flatten().cloned().collect();
        match self.fill(observed, meant, Some(rendering), &held, &mut target).await {
            Ok(()) => Some(target),
            Err(trouble) => {
                if !trouble.waits_for_change {
                    self.fleet.suspect(name, &trouble);
                }
                None
            }
        }
    }

    /// Notes how everything was found. Where two revisions were looked at, what runs is what counts: it is what is put
    /// back when somebody changes it.
    pub(super) fn note(&self, observed: &Observed) {
        for target in observed.targets.iter().filter(|target| target.unseen.is_none()) {
            let running = target.running();
            let known: BTreeSet<&ObjectId> = running.found().map(|found| found.wanted.id()).collect();
            let others = target.kept.iter().flat_map(|_| target.found());
            let others = others.filter(|found: &&Found| !known.contains(found.wanted.id()));
            let all = running.found().chain(others);
            self.ledger.found(&observed.key, &target.member.name, all, self.clock.now());
        }
    }

    /// What is there of an Application that is being deleted, and the hooks that have their turn then.
    pub(super) async fn leave_everything(&self, observed: &mut Observed, members: &[Member], book: &Book) {
        let known = inventory::by_cluster(&observed.status.inventory);
        let hooks = observed.spec.deletion == Deletion::Delete
            && !observed.requests.skip_deletion_hooks
            && observed.status.clusters.iter().any(|line| line.deletion_hooks.is_some());
        if hooks {
            // Still followed: after a restart the hooks have to be fetched.
            observed.source = self.source(observed).await;
        } else {
            self.origin.forget(&observed.key);
        }
        let spec = observed.spec.clone();
        let (all, unclear) = match meant(&spec, &observed.status, members) {
            Ok(all) => (all, None),
            Err(trouble) => (Vec::new(), Some(trouble).filter(|_| hooks)),
        };
        let round = Round { rendering: None, known: &known, book, version: None };
        let mut targets = Vec::new();
        for (name, held) in &known {
            let Some(member) = members.iter().find(|member| member.name == *name) else {
                observed.lost.push(name.clone());
                continue;
            };
            let of_spec = all.iter().find(|one| one.member.name == *name && !one.leaving);
            let leaving = Meant::leaving(member);
            let mut target = blank(of_spec.unwrap_or(&leaving), Want::Nothing, book);
            target.leaving = true;
            target.extra = held.iter().map(|id| Extra { id: id.clone(), live: None }).collect();
            if let Some(trouble) = &unclear {
                // Who is meant is not clear, so neither is who has hooks.
                target.problems.push(hooks_unknown(observed, trouble));
            } else if member.trouble.is_none() {
                let one = of_spec.filter(|_| hooks).unwrap_or(&leaving);
                self.last_look(observed, one, round, &mut target).await;
            }
            targets.push(target);
        }
        observed.targets = targets;
    }

    async fn last_look(&self, observed: &Observed, meant: &Meant<'_>, round: Round<'_>, target: &mut Target) {
        let name = &meant.member.name;
        let held: Vec<ObjectId> = round.known.get(name).into_iter().flatten().cloned().collect();
        let line =
            observed.status.clusters.iter().find(|line| line.name == *name && line.deletion_hooks.is_some());
        let commit = line.and_then(|line| line.revision.as_deref()).filter(|_| !meant.leaving);
        let rendering = match commit {
            None => None,
            Some(commit) => match self.rendering(observed, commit, meant.member.version.as_deref()).await {
                Ok(rendering) => Some(rendering),
                Err(trouble) => {
                    target.problems.push(hooks_unknown(observed, &trouble));
                    return;
                }
            },
        };
        if let Err(trouble) = self.fill(observed, meant, rendering.as_ref(), &held, target).await {
            target.unseen = Some(trouble);
        }
    }
}

/// Which hooks an Application has at its end is not known, because its revision is not to be had.
fn hooks_unknown(observed: &Observed, trouble: &Trouble) -> Trouble {
    let cause = match &observed.source {
        SourceFacts::Trouble(trouble) => &trouble.what,
        _ => &trouble.what,
    };
    Trouble {
        reason: "HooksUnknown",
        what: format!("its deletion hooks cannot be read: {cause}"),
        ..trouble.clone()
    }
}

fn named<'t>(targets: &'t mut [Target], name: &str) -> Option<&'t mut Target> {
    targets.iter_mut().find(|target| target.member.name == name)
}
