//! `windlass rollout`: looks at Rollouts and steers them.
//!
//! ```text
//!   read ─► decide (pure: does the verb make sense now?) ─► status.controls (who, what) + status ─► spec
//!    ▲                                                                   │ 409: it moved on
//!    └───────────────────────────────────────────────────────────────────┘
//! ```
//!
//! A verb is a write to the status or the spec, nothing more: the controller does the rest. Every write is bound to the
//! version that the decision was made on, and every verb that changes something is recorded with who asked for it.

mod control;
mod decide;
mod family;
mod get;
mod history;
mod lint;
mod list;
mod restart;
mod set_image;
mod simulate;
mod status;
mod steer;
mod undo;
mod words;

#[cfg(test)]
mod fixtures;

use crate::error::CommandError;

/// Look at Rollouts and steer them
#[derive(clap::Args, Debug)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand, Debug)]
enum Verb {
    Get(get::Args),
    List(list::Args),
    Status(status::Args),
    History(history::Args),
    Promote(steer::PromoteArgs),
    /// Take the update back: all traffic and all pods to the version that runs
    Abort(steer::Args),
    /// Try an update again that was aborted
    Retry(steer::Args),
    /// Stop where it is: nothing is scaled and no step is taken
    Pause(steer::Args),
    /// Go on after `pause`
    Resume(steer::Args),
    Undo(undo::Args),
    Restart(restart::Args),
    SetImage(set_image::Args),
    Lint(lint::Args),
    Simulate(Box<simulate::Args>),
}

/// Runs the verb.
pub(crate) fn run(args: &Args) -> Result<(), CommandError> {
    match &args.verb {
        Verb::Get(args) => get::run(args),
        Verb::List(args) => list::run(args),
        Verb::Status(args) => status::run(args),
        Verb::History(args) => history::run(args),
        Verb::Promote(args) => steer::promote(args),
        Verb::Abort(args) => steer::run(args, "abort", decide::abort),
        Verb::Retry(args) => steer::run(args, "retry", decide::retry),
        Verb::Pause(args) => steer::run(args, "pause", decide::pause),
        Verb::Resume(args) => steer::run(args, "resume", decide::resume),
        Verb::Undo(args) => undo::run(args),
        Verb::Restart(args) => restart::run(args),
        Verb::SetImage(args) => set_image::run(args),
        Verb::Lint(args) => lint::run(args),
        Verb::Simulate(args) => simulate::run(args),
    }
}
