//! Which clusters get a new revision now.
//!
//! ```text
//!   wave 1: a b ─ synced, healthy, baked, analysed ─► wave 2: c d e (two at a time) ─► … ─► the rest ─► through
//!             └── one fails: Halt (nobody else gets it) or Rollback (those that have it give it back)
//! ```
//!
//! Nothing is remembered here: how far a rollout has come follows from what runs on each cluster, so the same facts
//! always give the same answer, also after a crash.

mod progress;

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use windlass_api::application::{
    progressive::Progressive,
    status::{HealthWord, SyncWord},
};

use super::selector;
use crate::trouble::Trouble;
use progress::{Group, Progress};

/// When to look again at templates that make no run, if nothing happens before.
const RETRY: SignedDuration = SignedDuration::from_mins(1);

/// What is to be deployed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revision {
    /// The commit.
    pub commit: String,
    /// Digest of what it renders to.
    pub digest: String,
    /// All waves are through with this digest, or were once: it was deployed everywhere and is known to be good. Then
    /// every cluster gets it at once, and what fails later is no failure of a rollout. True as well for a revision that
    /// an Application goes back to.
    pub proven: bool,
}

/// One cluster, and how it stands.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClusterState {
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Something can be delivered to it.
    pub reachable: bool,
    /// The commit that was last applied there whole.
    pub revision: Option<String>,
    /// Digest of what was last applied there whole.
    pub digest: Option<String>,
    /// Digest of what it was last told to take, where that is known: a cluster that began stays with it.
    pub target: Option<String>,
    /// Whether that is still so.
    pub sync: SyncWord,
    /// How it fares.
    pub health: HealthWord,
    /// What is wrong with it, for people.
    pub message: Option<String>,
    /// Since when it is synced and healthy without a break.
    pub healthy_since: Option<Timestamp>,
    /// Why the **new** digest failed there: it could not be applied, or did not become healthy in time.
    pub failed: Option<String>,
}

/// An analysis that was made for a wave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnalysisState {
    /// The wave, from 0.
    pub wave: usize,
    /// Its name.
    pub name: String,
    /// How it stands.
    pub phase: AnalysisPhase,
    /// Why, for people.
    pub message: Option<String>,
}

/// How an analysis stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnalysisPhase {
    /// It is not done yet.
    Running,
    /// It found nothing wrong.
    Successful,
    /// It found something wrong, or could not be carried out.
    Failed,
    /// It cannot tell: somebody has to decide, and nothing is taken back until then.
    Inconclusive,
}

/// What a cluster gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Target {
    /// The new revision.
    New,
    /// What it has: it is kept, and healed to, its own last revision. One that has none yet gets nothing.
    Keep,
}

/// How a rollout stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum Outcome {
    /// It goes on.
    Going,
    /// Every wave is through.
    Through,
    /// Nobody else gets the revision; who has it keeps it.
    Halted(Stop),
    /// Who has the revision is to go back to what was before, and it is not to be tried again. Every target is `Keep`:
    /// the revision to go back to becomes the new one by a pin.
    RollBack(Stop),
}

/// Why a rollout was stopped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Stop {
    /// The wave, from 0.
    pub wave: usize,
    /// The cluster; `None` when an analysis is the cause.
    pub cluster: Option<String>,
    /// The whole, for people.
    pub why: String,
}

/// Which clusters get a new revision now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Assignment {
    /// What each cluster gets.
    pub targets: BTreeMap<String, Target>,
    /// The wave of each cluster, from 0. The one after the last that is written down has the rest.
    pub waves: BTreeMap<String, usize>,
    /// The wave that is at work; `None` when all are through.
    pub current: Option<usize>,
    /// How it stands.
    pub outcome: Outcome,
    /// The wave whose analyses should run and of which none is there yet.
    pub analyse: Option<usize>,
    /// What is waited for, and who was passed over, for people.
    pub notes: Vec<String>,
    /// When to look again, if nothing happens before.
    pub wake: Option<Timestamp>,
}

impl Assignment {
    /// Whether a cluster gets the new revision.
    pub fn gets_new(&self, cluster: &str) -> bool {
        self.targets.get(cluster) == Some(&Target::New)
    }

    /// Why the revision is to be taken back, if it is.
    pub fn rollback(&self) -> Option<&str> {
        match &self.outcome {
            Outcome::RollBack(stop) => Some(&stop.why),
            _ => None,
        }
    }

    /// A wave's analysis cannot be made from its templates. It is tried again when one of them changes, and now and then.
    pub fn cannot_analyse(&mut self, wave: usize, why: &str, now: Timestamp) {
        self.notes.push(format!("the analysis of wave {} cannot be made: {why}", wave + 1));
        let next = now.saturating_add(RETRY).unwrap_or(Timestamp::MAX);
        self.wake = Some(self.wake.map_or(next, |wake| wake.min(next)));
    }

    /// Why nobody else gets the revision, if so.
    pub fn halted(&self) -> Option<&str> {
        match &self.outcome {
            Outcome::Halted(stop) => Some(&stop.why),
            _ => None,
        }
    }
}

/// Name of the analysis of a wave: the same revision and wave give the same name, so that it is made once.
pub fn analysis_name(app: &str, wave: usize, digest: &str) -> String {
    let digest = digest.get(..10).unwrap_or(digest);
    let app: String = app.chars().take(200).collect();
    format!("{app}-{}-{digest}", wave + 1)
}

/// Assigns a revision to clusters.
///
/// Guarantees: a cluster belongs to the first wave that selects it, or else to the last one. A cluster begins only when
/// every earlier wave is through: each reachable cluster of it has the new digest whole, is healthy for `bake`, and the
/// wave's analyses succeeded. A cluster begins only while fewer than `maxParallel` reachable ones of its wave are under
/// way. Who began stays with the new revision, unless it is rolled back. A cluster that cannot be reached holds nobody
/// up, is no failure, and has its turn when it is back.
pub fn assign(
    spec: &Progressive,
    new: &Revision,
    clusters: &[ClusterState],
    analyses: &[AnalysisState],
    now: Timestamp,
) -> Result<Assignment, Trouble> {
    let groups = group(spec, clusters)?;
    let waves =
        groups.iter().flat_map(|group| group.clusters.iter().map(|c| (c.name.clone(), group.at))).collect();
    let progress = Progress { new, analyses, now, on_failure: spec.on_failure };
    let mut assignment = Assignment {
        targets: BTreeMap::new(),
        waves,
        current: None,
        outcome: Outcome::Through,
        analyse: None,
        notes: Vec::new(),
        wake: None,
    };
    if new.proven {
        assignment.targets = clusters.iter().map(|cluster| (cluster.name.clone(), Target::New)).collect();
        return Ok(assignment);
    }
    for cluster in clusters {
        let target = if progress.began(cluster) { Target::New } else { Target::Keep };
        assignment.targets.insert(cluster.name.clone(), target);
    }
    if let Some(outcome) = progress.failure(&groups) {
        if matches!(outcome, Outcome::RollBack(_)) {
            assignment.targets.values_mut().for_each(|target| *target = Target::Keep);
        }
        let (Outcome::Halted(stop) | Outcome::RollBack(stop)) = &outcome else { return Ok(assignment) };
        assignment.current = Some(stop.wave);
        assignment.outcome = outcome;
        return Ok(assignment);
    }
    for group in &groups {
        progress.pass_over(group, &mut assignment);
        if !progress.is_through(group, &mut assignment) {
            assignment.current = Some(group.at);
            assignment.outcome = Outcome::Going;
            progress.begin(group, &mut assignment);
            break;
        }
    }
    Ok(assignment)
}

/// The clusters of each wave, by name, and last of all the rest.
fn group<'a>(spec: &'a Progressive, clusters: &'a [ClusterState]) -> Result<Vec<Group<'a>>, Trouble> {
    let mut groups: Vec<Group<'a>> = spec
        .waves
        .iter()
        .enumerate()
        .map(|(at, wave)| Group { at, wave: Some(wave), clusters: Vec::new() })
        .collect();
    groups.push(Group { at: spec.waves.len(), wave: None, clusters: Vec::new() });
    let mut sorted: Vec<&ClusterState> = clusters.iter().collect();
    sorted.sort_by(|a, b| a.name.cmp(&b.name));
    for cluster in sorted {
        let mut place = spec.waves.len();
        for (at, wave) in spec.waves.iter().enumerate() {
            let selects = selector::matches(&wave.selector, &cluster.labels).map_err(|trouble| Trouble {
                what: format!("spec.progressive.waves[{at}].selector: {}", trouble.what),
                ..trouble
            })?;
            if selects {
                place = at;
                break;
            }
        }
        groups[place].clusters.push(cluster);
    }
    Ok(groups)
}

#[cfg(test)]
mod tests;
