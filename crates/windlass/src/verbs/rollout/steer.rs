//! `windlass rollout promote|abort|retry|pause|resume`: verbs whose effect is a few fields.

use windlass_api::rollout::Rollout;

use super::{
    control::{Change, Request, carry_out},
    decide::{self, Promotion},
};
use crate::{cli, error::CommandError, verbs::hub::HubArgs};

const PROMOTE: &str = "\
Examples:
  windlass rollout promote web -n shop
  windlass rollout promote web --full

A pause ends. Where nothing is paused, the step that goes on (such as an analysis) is skipped. With --full all steps,
pauses and analyses that are left are skipped.";

/// Which Rollout.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// The Rollout
    name: String,

    #[command(flatten)]
    hub: HubArgs,
}

/// Go on: end a pause, or skip the step
#[derive(clap::Args, Debug)]
#[command(after_help = PROMOTE)]
pub(super) struct PromoteArgs {
    /// The Rollout
    name: String,

    /// Skip everything that is left: steps, pauses and analyses
    #[arg(long, conflicts_with_all = ["skip_current_step", "skip_all_steps"])]
    full: bool,

    /// Skip the step, whatever it is
    #[arg(long, short = 'c', conflicts_with = "skip_all_steps")]
    skip_current_step: bool,

    /// Skip all steps that are left
    #[arg(long, short = 'a')]
    skip_all_steps: bool,

    #[command(flatten)]
    hub: HubArgs,
}

/// Goes on.
pub(super) fn promote(args: &PromoteArgs) -> Result<(), CommandError> {
    let how = if args.full {
        Promotion::Full
    } else if args.skip_all_steps {
        Promotion::Steps
    } else if args.skip_current_step {
        Promotion::Step
    } else {
        Promotion::Next
    };
    steer(&args.hub, &args.name, how.verb(), move |rollout| decide::promote(rollout, how))
}

/// Asks for what the verb decides.
pub(super) fn run(
    args: &Args,
    verb: &str,
    decide: impl Fn(&Rollout) -> Result<Change, CommandError>,
) -> Result<(), CommandError> {
    steer(&args.hub, &args.name, verb, decide)
}

fn steer(
    hub: &HubArgs,
    name: &str,
    verb: &str,
    decide: impl Fn(&Rollout) -> Result<Change, CommandError>,
) -> Result<(), CommandError> {
    hub.run(async |hub| {
        let request = Request::of(&hub, verb).await;
        cli::print(&carry_out(&hub, name, &request, decide).await?)
    })
}
