//! `windlass rollout status`: how a Rollout fares, as words and as an exit code.

use futures::StreamExt;
use kube::runtime::WatchStreamExt;
use windlass_api::{
    duration::Duration,
    rollout::{
        Rollout,
        status::{PauseReason, Phase},
    },
};

use super::{
    control,
    words::{is_behind, phase, status, step_index, steps, title, waits_for},
};
use crate::{
    cli,
    error::CommandError,
    verbs::hub::{Hub, HubArgs, now},
};

const EXAMPLES: &str = "\
Examples:
  windlass rollout status web -n shop
  windlass rollout status web --watch --timeout 10m

Exit codes:
  0  Completed: what is wanted runs
  1  Failed: aborted, stuck or cannot be carried out; or the status could not be read
  3  an update goes on (with --watch: still, when the time was up)
  4  it waits for a person: promote, resume or abort

With --watch it is looked at until it is Completed or Failed, or until the time is up.";

/// Say how a Rollout fares, also by the exit code
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The Rollout
    name: String,

    /// Wait until it is Completed or Failed
    #[arg(long, short)]
    watch: bool,

    /// Longest wait [default: without end]
    #[arg(long, short, value_name = "DURATION", requires = "watch")]
    timeout: Option<Duration>,

    #[command(flatten)]
    hub: HubArgs,
}

/// How a Rollout fares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Completed,
    Failed,
    GoesOn,
    WaitsForSomebody,
}

/// Says it.
pub(super) fn run(args: &Args) -> Result<(), CommandError> {
    args.hub.run(async |hub| {
        let rollout = control::rollout(&hub, &args.name).await?;
        if !args.watch {
            cli::print(&line_about(&rollout))?;
            return end(state(&rollout), &rollout, false);
        }
        follow(&hub, rollout, args.timeout).await
    })
}

async fn follow(hub: &Hub, mut rollout: Rollout, longest: Option<Duration>) -> Result<(), CommandError> {
    let mut said = String::new();
    let name = rollout.metadata.name.clone().unwrap_or_default();
    let watched = async {
        let mut changes =
            Box::pin(kube::runtime::watcher::watch_object(control::rollouts(hub), &name).default_backoff());
        loop {
            let line = line_about(&rollout);
            if line != said {
                cli::print(&line)?;
                said = line;
            }
            if matches!(state(&rollout), State::Completed | State::Failed) {
                return end(state(&rollout), &rollout, false);
            }
            match changes.next().await {
                Some(Ok(Some(next))) => rollout = next,
                Some(Ok(None)) => {
                    return Err(CommandError::failure(format!("Rollout {} was deleted", title(&rollout))));
                }
                Some(Err(error)) => cli::note(&format!("the watch was interrupted and begins anew: {error}")),
                None => return Err(CommandError::failure("the watch ended by itself")),
            }
        }
    };
    let Some(longest) = longest else { return watched.await };
    if let Ok(ended) = tokio::time::timeout(longest.0, watched).await {
        return ended;
    }
    let rollout = control::rollout(hub, &name).await?;
    end(state(&rollout), &rollout, true)
}

fn state(rollout: &Rollout) -> State {
    // The status of an earlier spec says nothing about this one.
    if is_behind(rollout) {
        return State::GoesOn;
    }
    match status(rollout).phase {
        Some(Phase::Failed) => State::Failed,
        Some(Phase::Completed) if !rollout.spec.paused => State::Completed,
        _ if waits_for_somebody(rollout) => State::WaitsForSomebody,
        Some(Phase::Completed) => State::Completed,
        _ => State::GoesOn,
    }
}

/// Without a person it never goes on.
fn waits_for_somebody(rollout: &Rollout) -> bool {
    if rollout.spec.paused {
        return true;
    }
    status(rollout).pause_conditions.iter().any(|pause| match pause.reason {
        PauseReason::CanaryPauseStep => {
            let step = steps(rollout).get(step_index(rollout)).and_then(|step| step.pause.as_ref());
            step.is_none_or(|pause| pause.duration.is_none())
        }
        PauseReason::BlueGreenPause => {
            let blue_green = rollout.spec.strategy.blue_green.as_ref();
            blue_green.is_none_or(|it| it.auto_promotion_seconds.unwrap_or(0) == 0)
        }
        _ => true,
    })
}

fn line_about(rollout: &Rollout) -> String {
    // Without ages: a line is said again only when it says something new.
    match waits_for(rollout, now()).filter(|_| state(rollout) != State::Completed) {
        Some(waits) => format!("{}: {}\n", phase(rollout), without_age(&waits)),
        None => format!("{}\n", phase(rollout)),
    }
}

fn without_age(text: &str) -> String {
    let Some((before, after)) = text.split_once(", since ") else { return text.to_owned() };
    let rest = after.split_once(':').map(|(_, rest)| format!(":{rest}")).unwrap_or_default();
    format!("{before}{rest}")
}

fn end(state: State, rollout: &Rollout, late: bool) -> Result<(), CommandError> {
    let what = |end: &str| format!("Rollout {} {end}", title(rollout));
    match (state, late) {
        (State::Completed, _) => Ok(()),
        (State::Failed, _) => Err(CommandError::told()),
        (State::GoesOn, true) => Err(CommandError::unfinished(what("is not done within the time"))),
        (State::GoesOn, false) => Err(CommandError::unfinished(String::new())),
        (State::WaitsForSomebody, true) => Err(CommandError::waiting(what("waits for somebody"))),
        (State::WaitsForSomebody, false) => Err(CommandError::waiting(String::new())),
    }
}

#[cfg(test)]
mod tests {
    use super::{super::fixtures, *};

    #[test]
    fn the_exit_code_tells_done_failed_going_on_and_waiting() {
        let cases: [(fn() -> Rollout, State); 6] = [
            (fixtures::completed, State::Completed),
            (fixtures::aborted, State::Failed),
            (fixtures::analysing, State::GoesOn),
            (fixtures::paused, State::WaitsForSomebody),
            (fixtures::inconclusive, State::WaitsForSomebody),
            (fixtures::blue_green, State::WaitsForSomebody),
        ];
        for (rollout, wanted) in cases {
            let rollout = rollout();
            assert_eq!(state(&rollout), wanted, "{}", line_about(&rollout));
        }
        let mut behind = fixtures::completed();
        behind.metadata.generation = Some(3);
        assert_eq!(state(&behind), State::GoesOn, "the status is of an earlier spec");
        let mut timed = fixtures::paused();
        let steps = &mut timed.spec.strategy.canary.as_mut().unwrap().steps;
        steps[1].pause.as_mut().unwrap().duration = serde_json::from_str("\"5m\"").unwrap();
        assert_eq!(state(&timed), State::GoesOn, "a pause with a length ends by itself");
        timed.spec.paused = true;
        assert_eq!(state(&timed), State::WaitsForSomebody);
    }

    #[test]
    fn a_line_says_what_is_waited_for() {
        assert_eq!(
            line_about(&fixtures::paused()),
            "Paused: A pause until it is promoted: windlass rollout promote web\n"
        );
        assert_eq!(line_about(&fixtures::completed()), "Completed\n");
        assert_eq!(line_about(&fixtures::aborted()), "Failed: Metric errors failed\n");
    }
}
