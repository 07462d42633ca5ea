//! What promote, abort, retry, pause and resume change, or why they make no sense now. Pure.

use kube::ResourceExt;
use serde_json::{Map, Value, json};
use windlass_api::rollout::{
    Rollout,
    status::{PauseReason, RunPhase},
};

use super::{
    control::Change,
    words::{is_behind, is_updating, phase, status, step_count, step_index, title},
};
use crate::error::CommandError;

/// How far a promotion goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Promotion {
    /// What it waits for now: a pause, else the step that goes on.
    #[default]
    Next,
    /// The step, whatever it is.
    Step,
    /// All steps; what comes after them is done.
    Steps,
    /// Everything, analyses and pauses as well.
    Full,
}

impl Promotion {
    /// The word in the record.
    pub(super) const fn verb(self) -> &'static str {
        match self {
            Self::Full => "promote-full",
            _ => "promote",
        }
    }
}

/// Goes on.
pub(super) fn promote(rollout: &Rollout, how: Promotion) -> Result<Change, CommandError> {
    let status = status(rollout);
    if status.abort {
        return Err(refused(rollout, "was aborted: there is nothing to promote")
            .hint(format!("Try the update again with: windlass rollout retry {}", rollout.name_any())));
    }
    let (steps, index) = (step_count(rollout), step_index(rollout));
    let waits = !status.pause_conditions.is_empty();
    let mut change = Change { paused: rollout.spec.paused.then_some(false), ..Change::default() };
    match how {
        Promotion::Step | Promotion::Steps if steps == 0 => {
            return Err(CommandError::usage(format!("Rollout {} has no steps to skip", title(rollout)))
                .hint("Leave the flag out."));
        }
        _ if !is_updating(&status) && !waits => {
            if change.paused.is_none() {
                return Err(settled(rollout, "there is nothing to promote"));
            }
            return Ok(Change { told: told(rollout, "resumed"), ..change });
        }
        Promotion::Full => {
            change.status.insert("promoteFull".to_owned(), true.into());
            change.told = told(rollout, "fully promoted");
        }
        Promotion::Steps => {
            change.status = at_step(steps);
            change.note = Some(format!("skipped all steps from {index}"));
            change.told = told(rollout, "promoted past all steps");
        }
        Promotion::Step => {
            change.status = at_step((index + 1).min(steps));
            change.note = Some(format!("skipped step {index}"));
            change.told = told(rollout, &format!("promoted past step {index}"));
        }
        // An analysis that nobody can tell counts as passed once a person says so.
        Promotion::Next if waits && steps > index && is_inconclusive(rollout) => {
            change.status = at_step(index + 1);
            change.note = Some(format!("passed step {index}"));
            change.told = told(rollout, &format!("promoted past step {index}"));
        }
        Promotion::Next if waits => {
            change.status.insert("pauseConditions".to_owned(), Value::Null);
            change.note = status.pause_conditions.first().map(|pause| pause.reason.as_str().to_owned());
            change.told = told(rollout, "promoted");
        }
        Promotion::Next if steps > index => {
            change.status = at_step(index + 1);
            change.note = Some(format!("skipped step {index}"));
            change.told = told(rollout, &format!("promoted past step {index}"));
        }
        Promotion::Next if change.paused.is_some() => change.told = told(rollout, "resumed"),
        Promotion::Next => {
            return Err(refused(rollout, "waits for nobody: the last pods of the update come up").hint(
                format!("Skip what is left with: windlass rollout promote {} --full", rollout.name_any()),
            ));
        }
    }
    Ok(change)
}

/// The status at a step that nothing was done of yet. Without the controller's mark of a pause: else the controller would
/// take the next pause for one that a person has ended.
fn at_step(index: usize) -> Map<String, Value> {
    let status = json!({ "currentStepIndex": index, "pauseConditions": null, "controllerPause": null });
    status.as_object().cloned().unwrap_or_default()
}

/// The analysis or experiment of the step did not say whether it is good or bad.
fn is_inconclusive(rollout: &Rollout) -> bool {
    let status = status(rollout);
    let reasons = [PauseReason::InconclusiveAnalysisRun, PauseReason::InconclusiveExperiment];
    let run = status.canary.current_step_analysis_run_status.as_ref();
    let paused = status.pause_conditions.iter().any(|pause| reasons.contains(&pause.reason));
    paused
        && (run.is_some_and(|run| run.status == RunPhase::Inconclusive)
            || status.canary.current_experiment.is_some())
}

/// Takes the update back.
pub(super) fn abort(rollout: &Rollout) -> Result<Change, CommandError> {
    let status = status(rollout);
    if status.abort {
        return Err(refused(rollout, "is aborted already"));
    }
    if !is_updating(&status) {
        return Err(settled(rollout, "there is no update to abort").hint(format!(
            "Go back to an earlier revision with: windlass rollout undo {}",
            rollout.name_any()
        )));
    }
    if status.stable_rs.is_none() {
        return Err(refused(rollout, "has no version yet that it could go back to"));
    }
    let status = json!({ "abort": true }).as_object().cloned().unwrap_or_default();
    Ok(Change { status, told: told(rollout, "aborted"), ..Change::default() })
}

/// Tries an aborted update again.
pub(super) fn retry(rollout: &Rollout) -> Result<Change, CommandError> {
    if !status(rollout).abort {
        return Err(refused(
            rollout,
            &format!("is {} and not aborted: there is nothing to retry", phase(rollout)),
        ));
    }
    let status = json!({ "abort": null }).as_object().cloned().unwrap_or_default();
    Ok(Change { status, told: told(rollout, "retried"), ..Change::default() })
}

/// Stops where it is.
pub(super) fn pause(rollout: &Rollout) -> Result<Change, CommandError> {
    if rollout.spec.paused {
        return Err(refused(rollout, "is paused already"));
    }
    Ok(Change { paused: Some(true), told: told(rollout, "paused"), ..Change::default() })
}

/// Goes on after `pause`.
pub(super) fn resume(rollout: &Rollout) -> Result<Change, CommandError> {
    if rollout.spec.paused {
        return Ok(Change { paused: Some(false), told: told(rollout, "resumed"), ..Change::default() });
    }
    let error = refused(rollout, "was not paused by anybody");
    Err(match status(rollout).pause_conditions.first() {
        Some(pause) => error.hint(format!(
            "It waits at {}. Go on with: windlass rollout promote {}",
            pause.reason.as_str(),
            rollout.name_any()
        )),
        None => error,
    })
}

fn told(rollout: &Rollout, what: &str) -> String {
    format!("rollout.windlass.dev/{}: {what}\n", rollout.name_any())
}

fn refused(rollout: &Rollout, what: &str) -> CommandError {
    CommandError::failure(format!("Rollout {} {what}", title(rollout)))
}

/// Nothing goes on. If the controller has not seen the newest spec, that may be only what it seems.
fn settled(rollout: &Rollout, what: &str) -> CommandError {
    let error = refused(rollout, &format!("is {}: {what}", phase(rollout)));
    if is_behind(rollout) {
        return error.hint("The controller has not seen the newest spec yet. Ask again in a moment.");
    }
    error
}

#[cfg(test)]
mod tests {
    use super::{super::fixtures, *};
    use crate::terminal::Paint;

    fn fields(change: &Change) -> Value {
        Value::Object(change.status.clone())
    }

    fn refusal(change: Result<Change, CommandError>) -> String {
        change.unwrap_err().render(Paint::plain())
    }

    #[test]
    fn promote_ends_a_pause_and_leaves_the_step_to_the_controller() {
        let change = promote(&fixtures::paused(), Promotion::Next).unwrap();
        assert_eq!(fields(&change), json!({ "pauseConditions": null }));
        assert_eq!((change.paused, change.note.as_deref()), (None, Some("CanaryPauseStep")));
        assert_eq!(change.told, "rollout.windlass.dev/web: promoted\n");
    }

    #[test]
    fn promote_skips_the_step_where_nothing_is_paused() {
        let change = promote(&fixtures::analysing(), Promotion::Next).unwrap();
        assert_eq!(
            fields(&change),
            json!({ "currentStepIndex": 3, "pauseConditions": null, "controllerPause": null })
        );
    }

    #[test]
    fn promote_passes_an_inconclusive_analysis() {
        let change = promote(&fixtures::inconclusive(), Promotion::Next).unwrap();
        assert_eq!(fields(&change)["currentStepIndex"], 3);
        // Beside the steps there is no step to pass: only the pause ends.
        let mut background = fixtures::inconclusive();
        background.status.as_mut().unwrap().canary.current_step_analysis_run_status = None;
        let change = promote(&background, Promotion::Next).unwrap();
        assert_eq!(fields(&change), json!({ "pauseConditions": null }));
    }

    #[test]
    fn promote_full_and_the_skips_say_how_far_they_go() {
        let rollout = fixtures::paused();
        assert_eq!(fields(&promote(&rollout, Promotion::Full).unwrap()), json!({ "promoteFull": true }));
        assert_eq!(fields(&promote(&rollout, Promotion::Step).unwrap())["currentStepIndex"], 2);
        assert_eq!(fields(&promote(&rollout, Promotion::Steps).unwrap())["currentStepIndex"], 4);
        let told = refusal(promote(&fixtures::blue_green(), Promotion::Step));
        assert!(told.contains("has no steps to skip"), "{told}");
        let change = promote(&fixtures::blue_green(), Promotion::Next).unwrap();
        assert_eq!(fields(&change), json!({ "pauseConditions": null }));
    }

    #[test]
    fn promote_also_ends_a_pause_of_the_spec() {
        let mut rollout = fixtures::paused();
        rollout.spec.paused = true;
        let change = promote(&rollout, Promotion::Next).unwrap();
        assert_eq!((change.paused, fields(&change)), (Some(false), json!({ "pauseConditions": null })));
        let mut done = fixtures::completed();
        done.spec.paused = true;
        let change = promote(&done, Promotion::Full).unwrap();
        assert_eq!((change.paused, change.status.is_empty()), (Some(false), true));
    }

    #[test]
    fn a_verb_that_makes_no_sense_is_refused_with_a_hint() {
        insta::assert_snapshot!(refusal(promote(&fixtures::completed(), Promotion::Next)), @"error: Rollout shop/web is Completed: there is nothing to promote");
        let mut behind = fixtures::completed();
        behind.metadata.generation = Some(9);
        let told = refusal(promote(&behind, Promotion::Full));
        assert!(told.contains("has not seen the newest spec"), "{told}");
        insta::assert_snapshot!(refusal(promote(&fixtures::aborted(), Promotion::Full)), @r"
        error: Rollout shop/web was aborted: there is nothing to promote
        hint: Try the update again with: windlass rollout retry web
        ");
        insta::assert_snapshot!(refusal(abort(&fixtures::completed())), @r"
        error: Rollout shop/web is Completed: there is no update to abort
        hint: Go back to an earlier revision with: windlass rollout undo web
        ");
        insta::assert_snapshot!(refusal(retry(&fixtures::paused())), @"error: Rollout shop/web is Paused and not aborted: there is nothing to retry");
        insta::assert_snapshot!(refusal(resume(&fixtures::paused())), @r"
        error: Rollout shop/web was not paused by anybody
        hint: It waits at CanaryPauseStep. Go on with: windlass rollout promote web
        ");
        assert!(refusal(abort(&fixtures::aborted())).contains("is aborted already"));
        let mut at_the_end = fixtures::analysing();
        at_the_end.status.as_mut().unwrap().current_step_index = Some(4);
        assert!(refusal(promote(&at_the_end, Promotion::Next)).contains("--full"));
    }

    #[test]
    fn abort_retry_pause_and_resume_change_one_field_each() {
        assert_eq!(fields(&abort(&fixtures::paused()).unwrap()), json!({ "abort": true }));
        assert_eq!(fields(&retry(&fixtures::aborted()).unwrap()), json!({ "abort": null }));
        let mut rollout = fixtures::paused();
        assert_eq!(pause(&rollout).unwrap().paused, Some(true));
        rollout.spec.paused = true;
        assert_eq!(resume(&rollout).unwrap().paused, Some(false));
        assert!(refusal(pause(&rollout)).contains("is paused already"));
    }
}
