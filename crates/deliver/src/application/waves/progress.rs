//! How far the clusters of a wave are.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use windlass_api::application::{
    progressive::{OnFailure, Wave},
    status::{HealthWord, SyncWord},
};

use super::{AnalysisPhase, AnalysisState, Assignment, ClusterState, Outcome, Revision, Stop, Target};

/// Clusters that a sentence names at most.
const NAMED: usize = 5;

/// One wave and its clusters, by name.
pub(super) struct Group<'a> {
    pub(super) at: usize,
    /// `None` for the rest, which no wave selects.
    pub(super) wave: Option<&'a Wave>,
    pub(super) clusters: Vec<&'a ClusterState>,
}

impl Group<'_> {
    fn name(&self) -> String {
        match self.wave {
            Some(Wave { name: Some(name), .. }) => format!("wave {} ({name})", self.at + 1),
            Some(_) => format!("wave {}", self.at + 1),
            None => "the clusters that no wave selects".to_owned(),
        }
    }

    fn bake(&self) -> Duration {
        self.wave.and_then(|wave| wave.bake).map_or(Duration::ZERO, |bake| bake.0)
    }

    fn most(&self) -> usize {
        let most = self.wave.and_then(|wave| wave.max_parallel);
        most.map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(usize::MAX).max(1))
    }

    fn reachable(&self) -> impl Iterator<Item = &ClusterState> {
        self.clusters.iter().copied().filter(|cluster| cluster.reachable)
    }
}

/// What the clusters are judged by.
pub(super) struct Progress<'a> {
    pub(super) new: &'a Revision,
    pub(super) analyses: &'a [AnalysisState],
    pub(super) now: Timestamp,
    pub(super) on_failure: OnFailure,
}

impl Progress<'_> {
    /// The new revision was applied whole.
    fn has(&self, cluster: &ClusterState) -> bool {
        cluster.digest.as_ref() == Some(&self.new.digest)
    }

    /// The new revision was applied, or that was begun.
    pub(super) fn began(&self, cluster: &ClusterState) -> bool {
        self.has(cluster) || cluster.target.as_ref() == Some(&self.new.digest)
    }

    /// The new revision runs and is well.
    fn is_done(&self, cluster: &ClusterState) -> bool {
        self.has(cluster) && cluster.sync == SyncWord::Synced && cluster.health == HealthWord::Healthy
    }

    /// What is wrong with the new revision on this cluster. What it had before is not the new one's fault.
    fn fault(&self, cluster: &ClusterState) -> Option<String> {
        if !cluster.reachable || !self.began(cluster) {
            return None;
        }
        if let Some(why) = &cluster.failed {
            return Some(why.clone());
        }
        let degraded = self.has(cluster) && cluster.health == HealthWord::Degraded;
        degraded.then(|| cluster.message.clone().unwrap_or_else(|| "it is Degraded".to_owned()))
    }

    /// Whether something failed, and what then: the first one by wave and name.
    pub(super) fn failure(&self, groups: &[Group<'_>]) -> Option<Outcome> {
        for group in groups {
            for cluster in &group.clusters {
                if let Some(why) = self.fault(cluster) {
                    let why = format!("{}, cluster {}: {why}", group.name(), cluster.name);
                    let stop = Stop { wave: group.at, cluster: Some(cluster.name.clone()), why };
                    return Some(match self.on_failure {
                        OnFailure::Halt => Outcome::Halted(stop),
                        OnFailure::Rollback => Outcome::RollBack(stop),
                    });
                }
            }
            for analysis in self.of(group) {
                let (word, back) = match analysis.phase {
                    AnalysisPhase::Failed => ("failed", self.on_failure == OnFailure::Rollback),
                    AnalysisPhase::Inconclusive => ("cannot tell", false),
                    AnalysisPhase::Running | AnalysisPhase::Successful => continue,
                };
                let message = analysis.message.as_deref().map(|text| format!(": {text}")).unwrap_or_default();
                let why = format!("{}, analysis {} {word}{message}", group.name(), analysis.name);
                let stop = Stop { wave: group.at, cluster: None, why };
                return Some(if back { Outcome::RollBack(stop) } else { Outcome::Halted(stop) });
            }
        }
        None
    }

    fn of(&self, group: &Group<'_>) -> impl Iterator<Item = &AnalysisState> {
        let at = group.at;
        let wanted = group.wave.is_some_and(|wave| wave.analysis.is_some());
        self.analyses.iter().filter(move |analysis| wanted && analysis.wave == at)
    }

    /// Tells who is passed over because it cannot be reached.
    pub(super) fn pass_over(&self, group: &Group<'_>, assignment: &mut Assignment) {
        let away: Vec<&str> = group
            .clusters
            .iter()
            .filter(|cluster| !cluster.reachable && !self.has(cluster))
            .map(|cluster| cluster.name.as_str())
            .collect();
        if !away.is_empty() {
            let note = format!("{} cannot be reached and gets the revision when it is back", list(&away));
            assignment.notes.push(note);
        }
    }

    /// Whether the next wave may begin. Says what is missing, and when to look again.
    pub(super) fn is_through(&self, group: &Group<'_>, assignment: &mut Assignment) -> bool {
        let open: Vec<&str> =
            group.reachable().filter(|c| !self.is_done(c)).map(|cluster| cluster.name.as_str()).collect();
        if !open.is_empty() {
            assignment.notes.push(format!("{} waits for {}", group.name(), list(&open)));
            return false;
        }
        if group.reachable().next().is_none() {
            return true;
        }
        let baked = self.is_baked(group, assignment);
        let analysed = self.is_analysed(group, assignment);
        baked && analysed
    }

    fn is_baked(&self, group: &Group<'_>, assignment: &mut Assignment) -> bool {
        let begin = group.reachable().map(|cluster| cluster.healthy_since.unwrap_or(self.now)).max();
        let bake = SignedDuration::try_from(group.bake()).unwrap_or(SignedDuration::MAX);
        let until = begin.unwrap_or(self.now).saturating_add(bake).unwrap_or(Timestamp::MAX);
        if until > self.now {
            assignment.notes.push(format!("{} bakes until {until:.0}", group.name()));
            assignment.wake = Some(until);
        }
        until <= self.now
    }

    fn is_analysed(&self, group: &Group<'_>, assignment: &mut Assignment) -> bool {
        if group.wave.is_none_or(|wave| wave.analysis.is_none()) {
            return true;
        }
        let mut known = self.of(group).peekable();
        if known.peek().is_none() {
            assignment.analyse = Some(group.at);
            return false;
        }
        let running: Vec<&str> = known
            .filter(|analysis| analysis.phase != AnalysisPhase::Successful)
            .map(|analysis| analysis.name.as_str())
            .collect();
        if !running.is_empty() {
            assignment.notes.push(format!("{} waits for analysis {}", group.name(), list(&running)));
        }
        running.is_empty()
    }

    /// Lets as many clusters of the wave begin as may be under way together.
    pub(super) fn begin(&self, group: &Group<'_>, assignment: &mut Assignment) {
        let under_way = group.reachable().filter(|c| self.began(c) && !self.is_done(c)).count();
        let room = group.most().saturating_sub(under_way);
        for cluster in group.reachable().filter(|cluster| !self.began(cluster)).take(room) {
            assignment.targets.insert(cluster.name.clone(), Target::New);
        }
    }
}

fn list(names: &[&str]) -> String {
    let named = names.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
    if names.len() > NAMED { format!("{named} and {} more", names.len() - NAMED) } else { named }
}
