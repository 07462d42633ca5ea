//! A canary: what the stored place asks for is done, and the place moves on when that can be seen.

use windlass_api::{
    rollout::{
        Canary,
        status::{PauseReason, RunPhase, TransitionKind},
    },
    span::Span,
};

use super::{
    abort::{self, Leaving},
    create,
    draft::Draft,
    experiment, metadata, older, pause, restart,
    runs::{self, Purpose, Verdict},
    scene::Scene,
    steps::{Place, Walk, words},
    traffic, transitions,
};
use crate::revision::steps_hash;

/// Does what the stored status asks for, and moves the status on.
pub(crate) fn sync(scene: &Scene<'_>, canary: &Canary, draft: &mut Draft) {
    let walk = Walk::new(scene, canary);
    act(&walk, draft);
    advance(&walk, draft);
}

fn act(walk: &Walk<'_>, draft: &mut Draft) {
    let scene = walk.scene;
    create::number(scene, draft);
    let restarted = restart::sync(scene, draft);
    if let Some(new) = scene.roles.new {
        create::keep(scene, draft, new);
    }
    traffic::sync(walk, draft);
    analyse(walk, draft);
    if !restarted {
        scale(walk, draft);
    }
    metadata::sync(scene, draft);
    older::history(scene, draft);
}

fn scale(walk: &Walk<'_>, draft: &mut Draft) {
    let scene = walk.scene;
    let place = walk.stored();
    if scene.halted() || walk.changed() {
        if scene.roles.new.is_none() {
            create::make(scene, draft, 0);
        }
        return;
    }
    let counts = walk.counts(place, traffic::seen(scene));
    if let Some(old) = scene.roles.old() {
        draft.scale(old, counts.stable, scene.replicas());
    }
    older::without_deadline(draft, scene.roles.stable);
    match (scene.roles.new, abort::leaving(scene)) {
        (None, _) => create::make(scene, draft, counts.canary),
        (Some(new), Leaving::Counted) => {
            older::without_deadline(draft, Some(new));
            draft.scale(new, counts.canary, scene.replicas());
        }
        (Some(new), Leaving::After(delay)) => {
            let kept = abort::kept(scene, draft, new, delay);
            draft.scale(new, kept, scene.replicas());
        }
        (Some(new), Leaving::Never) => draft.scale(new, new.wanted, scene.replicas()),
    }
    older::canary(walk, draft);
}

/// Nothing is measured when nothing is decided.
fn unjudged(scene: &Scene<'_>) -> bool {
    scene.promoted()
        || scene.status.abort
        || scene.status.promote_full
        || !scene.has_stable()
        || scene.within_window()
}

fn analyse(walk: &Walk<'_>, draft: &mut Draft) {
    let scene = walk.scene;
    let status = &scene.status.canary;
    let place = walk.stored();
    if walk.changed() {
        return;
    }
    draft.next.canary.current_experiment = experiment::sync(walk, draft);
    if unjudged(scene) || scene.roles.new.is_none() {
        draft.next.canary.current_step_analysis_run_status = None;
        draft.next.canary.current_background_analysis_run_status = None;
        runs::tidy(scene, draft, &[]);
        return;
    }
    let unclear = scene.paused_for(PauseReason::InconclusiveAnalysisRun).is_some();
    let told = |stored| runs::named(scene, stored).map(runs::told);
    let stored = status.current_step_analysis_run_status.as_ref();
    let of_step =
        walk.step(place).and_then(|step| step.analysis.as_ref()).filter(|a| !a.templates.is_empty());
    let step = match of_step {
        Some(_) if unclear || !scene.status.pause_conditions.is_empty() => told(stored),
        Some(analysis) => Some(runs::ensure(scene, draft, Purpose::Step(place.index), analysis, stored)),
        None => None,
    };
    let stored = status.current_background_analysis_run_status.as_ref();
    let background = walk.canary.analysis.as_ref().filter(|analysis| {
        let start = analysis.starting_step.and_then(|step| usize::try_from(step).ok()).unwrap_or(0);
        !analysis.run.templates.is_empty() && (place.index >= start || place.index >= walk.canary.steps.len())
    });
    let background = match background {
        Some(_) if unclear => told(stored),
        Some(analysis) => Some(runs::ensure(scene, draft, Purpose::Background, &analysis.run, stored)),
        None => None,
    };
    runs::tell(draft, "Step", status.current_step_analysis_run_status.as_ref(), step.as_ref());
    runs::tell(
        draft,
        "Background",
        status.current_background_analysis_run_status.as_ref(),
        background.as_ref(),
    );
    runs::tidy(scene, draft, &[step.as_ref(), background.as_ref()]);
    draft.next.canary.current_step_analysis_run_status = step;
    draft.next.canary.current_background_analysis_run_status = background;
}

/// Why the update is bad, or that nobody can say; of runs and experiments that are over.
fn judged(walk: &Walk<'_>) -> (Option<String>, Option<PauseReason>) {
    let scene = walk.scene;
    if unjudged(scene) {
        return (None, None);
    }
    let status = &scene.status.canary;
    let place = walk.stored();
    let step = runs::named(scene, status.current_step_analysis_run_status.as_ref())
        .filter(|_| walk.step(place).is_some_and(|step| step.analysis.is_some()))
        .map(|run| runs::verdict(run, Purpose::Step(place.index)));
    let background = runs::named(scene, status.current_background_analysis_run_status.as_ref())
        .map(|run| runs::verdict(run, Purpose::Background));
    let mut unclear = None;
    for verdict in [step, background].into_iter().flatten() {
        match verdict {
            Verdict::Bad(why) => return (Some(why), None),
            Verdict::Unclear => unclear = Some(PauseReason::InconclusiveAnalysisRun),
            Verdict::Wait | Verdict::Good => {}
        }
    }
    if let Some(experiment) = experiment::current(walk) {
        match experiment.phase {
            RunPhase::Failed | RunPhase::Error => {
                let message = experiment.message.as_deref().map_or(String::new(), |m| format!(": {m}"));
                let (name, phase) = (&experiment.name, experiment.phase.as_str());
                return (Some(format!("Experiment {name} is {phase}{message}")), None);
            }
            RunPhase::Inconclusive => unclear = unclear.or(Some(PauseReason::InconclusiveExperiment)),
            _ => {}
        }
    }
    (None, unclear)
}

/// Moves the status on, from what can be seen.
fn advance(walk: &Walk<'_>, draft: &mut Draft) {
    let scene = walk.scene;
    let steps = walk.canary.steps.len();
    let place = walk.stored();
    draft.next.current_step_hash = Some(steps_hash(&walk.canary.steps));
    pause::retried(scene, draft);
    if steps_changed(walk, draft) {
        return;
    }
    let (bad, unclear) = judged(walk);
    if let Some(why) = bad {
        pause::abort(scene, draft, why);
    } else if super::progress::gives_up(scene) {
        let what = scene.roles.new.map_or(scene.name, |new| &new.name);
        pause::abort(scene, draft, format!("{what} made no progress within its deadline"));
    }
    if scene.status.promote_full || scene.within_window() && !scene.promoted() {
        pause::clear(draft);
        draft.next.abort = false;
        draft.next.aborted_at = None;
        draft.next.abort_reason = None;
        draft.next.current_step_index = index(steps, steps);
    }
    if let Some(why) = promotion(walk, draft) {
        promote(walk, draft, &why);
        return;
    }
    if draft.next.abort {
        let at = if scene.promoted() { steps } else { 0 };
        draft.next.current_step_index = index(at, steps);
        draft.next.pause_conditions.clear();
        draft.next.controller_pause = false;
        aborted(walk, draft);
        return;
    }
    if scene.promoted() {
        pause::clear(draft);
        draft.next.current_step_index = index(steps, steps);
        return;
    }
    if !scene.status.promote_full {
        if let Some(reason) = unclear {
            pause::unclear(scene, draft, reason);
        }
        go(walk, draft, place);
    }
    published(walk, draft);
}

/// The steps were changed while they were gone through: everything stays where it is until a person says go on.
fn steps_changed(walk: &Walk<'_>, draft: &mut Draft) -> bool {
    let scene = walk.scene;
    let waiting = scene.paused_for(PauseReason::StepsChanged).is_some();
    if !walk.changed() {
        draft.next.pause_conditions.retain(|pause| pause.reason != PauseReason::StepsChanged);
        if waiting {
            draft.next.controller_pause = !draft.next.pause_conditions.is_empty();
        }
        return false;
    }
    draft.next.current_step_hash.clone_from(&scene.status.current_step_hash);
    if scene.resumed() {
        draft.next.current_step_hash = Some(steps_hash(&walk.canary.steps));
        draft.next.current_step_index = index(0, walk.canary.steps.len());
        draft.next.controller_pause = false;
        draft.note("StepsAccepted", "Resume", "Goes on with the first of the new steps");
    } else if !waiting {
        pause::add(scene, draft, PauseReason::StepsChanged);
        draft.warn("StepsChanged", "Pause", "The steps were changed while they were gone through");
    }
    true
}

/// Why the new version becomes the stable one, if it does.
fn promotion(walk: &Walk<'_>, draft: &Draft) -> Option<String> {
    let scene = walk.scene;
    if !scene.has_stable() {
        return scene.roles.new.map(|_| "initial deployment".into());
    }
    let new = scene.roles.new?;
    if draft.next.abort {
        return None;
    }
    let replicas = scene.replicas();
    let threshold = walk.canary.replica_progress_threshold.as_ref();
    if new.available < replicas
        && !(threshold.is_some() && super::steps::reached(threshold, Some(new), replicas))
    {
        return None;
    }
    if scene.promoted() {
        return Some("the template is the stable one".into());
    }
    if scene.spec.paused || scene.halted() {
        return None;
    }
    if scene.status.promote_full {
        return Some("full promotion".into());
    }
    if scene.within_window() {
        return Some("rollback within the window".into());
    }
    let steps = walk.canary.steps.len();
    let place = walk.stored();
    // All traffic has to be seen on the new version before the old one loses its part.
    (place.index >= steps && draft.settled).then(|| format!("all {steps} steps are done"))
}

fn promote(walk: &Walk<'_>, draft: &mut Draft, why: &str) {
    let scene = walk.scene;
    let steps = walk.canary.steps.len();
    pause::clear(draft);
    draft.next.abort = false;
    draft.next.aborted_at = None;
    draft.next.abort_reason = None;
    draft.next.promote_full = false;
    draft.next.current_step_index = index(steps, steps);
    transitions::stable(scene, draft, why);
}

/// Goes on with the steps as far as what they ask for can be seen.
fn go(walk: &Walk<'_>, draft: &mut Draft, mut place: Place) {
    let scene = walk.scene;
    let steps = walk.canary.steps.len();
    let halted = scene.spec.paused || !draft.next.pause_conditions.is_empty() && pause::blocks(draft);
    while !halted && done(walk, draft, place) {
        if let Some(step) = walk.step(place) {
            let message = format!("Step {}/{steps} is done ({})", place.index + 1, words(step));
            draft.note("RolloutStepCompleted", "Step", message);
        }
        draft.next.pause_conditions.retain(|pause| pause.reason != PauseReason::CanaryPauseStep);
        draft.next.canary.current_step_analysis_run_status = None;
        draft.next.controller_pause = false;
        place.index += 1;
    }
    draft.next.current_step_index = index(place.index, steps);
    if halted {
        return;
    }
    if let Some(pause) = walk.step(place).and_then(|step| step.pause.as_ref()) {
        if !draft.next.pause_conditions.iter().any(|pause| pause.reason == PauseReason::CanaryPauseStep) {
            pause::add(scene, draft, PauseReason::CanaryPauseStep);
        }
        pause::wake(draft, PauseReason::CanaryPauseStep, pause.duration.as_ref().and_then(Span::length));
    } else if draft.next.pause_conditions.is_empty() {
        draft.next.controller_pause = false;
    }
}

/// Whether what a step asks for can be seen.
fn done(walk: &Walk<'_>, draft: &Draft, place: Place) -> bool {
    let scene = walk.scene;
    let Some(step) = walk.step(place) else { return false };
    let here = place == walk.stored();
    if let Some(pause) = &step.pause {
        return here && pause::over(scene, pause.duration.as_ref().and_then(Span::length));
    }
    if step.analysis.is_some() {
        let run = runs::named(scene, scene.status.canary.current_step_analysis_run_status.as_ref());
        return here && run.is_some_and(|run| run.phase == RunPhase::Successful);
    }
    if step.experiment.is_some() {
        let over = experiment::current(walk).is_some_and(|found| found.phase == RunPhase::Successful);
        return here && over;
    }
    let weights = traffic::seen(scene);
    let routes = !walk.routed() || if here { draft.settled } else { traffic::settled(walk, place) };
    if step.set_header_route.is_some() || step.set_mirror_route.is_some() {
        return routes && scene.roles.new.is_some_and(|new| new.available > 0);
    }
    walk.at_desired(place, weights) && (step.set_weight.is_none() || routes)
}

/// All traffic is back: told once.
fn aborted(walk: &Walk<'_>, draft: &mut Draft) {
    let scene = walk.scene;
    let back = if walk.routed() {
        draft.settled && traffic::seen(scene).is_none_or(|(canary, _)| canary == 0)
    } else {
        scene.roles.new.is_none_or(|new| new.available == 0)
    };
    if back && scene.status.abort && !scene.promoted() {
        transitions::rolled_back(scene, draft);
    }
}

/// The new version is reachable: told once.
fn published(walk: &Walk<'_>, draft: &mut Draft) {
    let scene = walk.scene;
    let reachable = if walk.routed() {
        traffic::seen(scene).is_some_and(|(canary, _)| canary > 0)
            && traffic::canary_hash(walk) == Some(&scene.hash)
    } else {
        scene.roles.new.is_some_and(|new| new.available > 0)
    };
    if reachable && scene.has_stable() && !scene.promoted() {
        transitions::record(scene, draft, TransitionKind::Published);
    }
}

/// An index for the status; none without steps.
pub(crate) fn index(at: usize, steps: usize) -> Option<i32> {
    (steps > 0).then(|| i32::try_from(at).unwrap_or(i32::MAX))
}
