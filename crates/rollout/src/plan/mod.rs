//! `plan(observed, now)`: what to do about a Rollout, as one pure function.
//!
//! Two things are said, both from the stored status and the facts alone:
//! what the stored status asks for and is not there yet (the actions), and where the status may move to because what it
//! asked for can be seen (the next status). A decision is stored before anything follows from it, so a crash anywhere
//! is followed by the same actions. There is one file for each strategy and one for each subject that they share.
//!
//! `CDEvents` are made from `status.transitions`: the planner appends to it, the shell sends what has a larger number than
//! `status.announced` and then writes that number. Only the removal is an action, since a status goes with its object.

mod ab_test;
mod abort;
pub mod action;
mod blue_green;
mod canary;
mod conditions;
mod create;
mod draft;
mod experiment;
mod invalid;
pub(crate) mod metadata;
mod older;
mod pause;
mod progress;
pub(crate) mod restart;
pub(crate) mod runs;
pub(crate) mod scene;
mod status;
mod steps;
mod traffic;
mod transitions;
mod workload;

use jiff::Timestamp;
use windlass_api::rollout::{RolloutStatus, status::TransitionKind};
use windlass_cluster::drive::{Plan, Wake};

pub use ab_test::as_canary;
pub use action::{Action, NewExperiment, NewReplicaSet, NewRun, ReplicaSetPatch};

use crate::{
    lint,
    observed::{Observed, ReplicaSetFacts},
    revision,
};
use draft::Draft;
use scene::{Scene, Way};

/// Decides what to do about a Rollout.
pub fn plan(observed: &Observed, now: Timestamp) -> Plan<Action, RolloutStatus> {
    let deleting = observed.rollout.metadata.deletion_timestamp.is_some();
    let findings = if deleting { Vec::new() } else { lint::lint(observed) };
    let scene = Scene::new(observed, now).filter(|_| findings.is_empty());
    let Some(scene) = scene else {
        return if deleting { released(Vec::new()) } else { invalid::plan(observed, &findings, now) };
    };
    if deleting {
        return released(vec![Action::Announce(transitions::removed(&scene))]);
    }
    let mut draft = Draft::new(&status::counted(&scene));
    claims(&scene, &mut draft);
    if collides(&scene) {
        let count = scene.status.collision_count.unwrap_or(0) + 1;
        draft.next.collision_count = Some(count);
        draft.warn("HashCollision", "Create", format!("Another template has the hash {}", scene.hash));
        draft.wake_at(now);
    } else if begins(&scene) {
        begin(&scene, &mut draft);
        draft.wake_at(now);
    } else {
        match &scene.way {
            Way::Canary(canary) => canary::sync(&scene, canary, &mut draft),
            Way::BlueGreen(blue_green) => blue_green::sync(&scene, blue_green, &mut draft),
        }
    }
    conditions::conclude(&scene, &mut draft);
    workload::sync(&scene, &mut draft);
    draft.into_plan(now)
}

/// Nothing of ours is left: `ReplicaSets` go with their owner.
fn released(actions: Vec<Action>) -> Plan<Action, RolloutStatus> {
    Plan { actions, status: None, notes: Vec::new(), wake: Wake::OnChange, released: true }
}

/// Orphans are adopted, what the selector no longer matches is let go.
fn claims(scene: &Scene<'_>, draft: &mut Draft) {
    for set in &scene.claim.adopt {
        draft.first(Action::AdoptReplicaSet { name: set.name.clone(), uid: set.uid.clone() });
    }
    for set in &scene.claim.release {
        draft.first(Action::ReleaseReplicaSet { name: set.name.clone(), uid: set.uid.clone() });
    }
}

fn collides(scene: &Scene<'_>) -> bool {
    scene.roles.new.is_none()
        && revision::roles::collides(
            &scene.observed.replica_sets,
            scene.name,
            scene.uid,
            &scene.hash,
            &scene.template,
            ReplicaSetFacts::plain_template,
        )
}

/// The template is not the one that the status speaks of.
fn begins(scene: &Scene<'_>) -> bool {
    scene.status.current_pod_hash.as_deref() != Some(&scene.hash)
}

/// An update begins: the status forgets the one before. Nothing is done before that is stored.
fn begin(scene: &Scene<'_>, draft: &mut Draft) {
    let next = &mut draft.next;
    next.current_pod_hash = Some(scene.hash.clone());
    pause::clear(draft);
    let next = &mut draft.next;
    next.abort = false;
    next.aborted_at = None;
    next.abort_reason = None;
    next.promote_full = false;
    next.restarted_at.clone_from(
        &scene.spec.restart_at.clone().filter(|at| at.0 <= scene.now).or(next.restarted_at.clone()),
    );
    next.blue_green.pre_promotion_analysis_run_status = None;
    next.blue_green.post_promotion_analysis_run_status = None;
    next.blue_green.scale_up_preview_check_point = false;
    next.canary.current_step_analysis_run_status = None;
    next.canary.current_background_analysis_run_status = None;
    next.canary.current_experiment = None;
    next.current_step_index = None;
    next.current_step_hash = None;
    next.revision = Some(scene.revision());
    if let Way::Canary(canary) = &scene.way {
        let steps = canary.steps.len();
        let skips = scene.promoted() || scene.within_window();
        next.current_step_hash = Some(revision::steps_hash(&canary.steps));
        next.current_step_index = canary::index(if skips { steps } else { 0 }, steps);
        if skips && steps > 0 {
            let what = if scene.promoted() {
                "the stable template"
            } else {
                "a revision within the rollback window"
            };
            draft.note("SkipSteps", "Rollback", format!("All steps are skipped: back to {what}"));
        }
    }
    if scene.promoted() && !scene.status.abort {
        transitions::record(scene, draft, TransitionKind::RolledBack);
    }
    let revision = scene.revision();
    draft.note(
        "RolloutNotCompleted",
        "Update",
        format!("Update to revision {revision} ({}) begins", scene.hash),
    );
    // Numbers that belong to the template before are no progress of the new one.
    draft.settled = false;
}
