//! `windlass rollout restart`: makes all pods anew, a few at a time.

use jiff::Timestamp;
use kube::ResourceExt;
use windlass_api::duration::Duration;

use super::control::{Change, Request, edit, record, rollout, specs};
use crate::{
    cli,
    error::CommandError,
    verbs::hub::{HubArgs, now},
};

const EXAMPLES: &str = "\
Examples:
  windlass rollout restart web -n shop
  windlass rollout restart web --in 1h

Pods are evicted one by one or as maxUnavailable allows, and disruption budgets are respected. No update begins.";

/// Make all pods anew, a few at a time
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The Rollout
    name: String,

    /// Not now but after this time
    #[arg(long = "in", short = 'i', value_name = "DURATION", default_value = "0s")]
    after: Duration,

    #[command(flatten)]
    hub: HubArgs,
}

/// Asks for it.
pub(super) fn run(args: &Args) -> Result<(), CommandError> {
    args.hub.run(async |hub| {
        let at = moment(now(), args.after)?;
        let request = Request::of(&hub, "restart").await;
        let read = loop {
            let read = rollout(&hub, &args.name).await?;
            let change = Change { note: Some(at.to_string()), ..Change::default() };
            if record(&hub, &read, &request, &change).await? {
                break read;
            }
        };
        edit(&specs(&hub), &args.name, read.uid().as_deref(), |value| {
            value["spec"]["restartAt"] = at.to_string().into();
            Ok(())
        })
        .await?;
        let when =
            if args.after.0.is_zero() { "now".to_owned() } else { format!("in {} ({at})", args.after) };
        cli::print(&format!("rollout.windlass.dev/{}: restarts {when}\n", args.name))
    })
}

fn moment(now: Timestamp, after: Duration) -> Result<Timestamp, CommandError> {
    now.checked_add(after.0).map_err(|error| CommandError::usage("--in is too long").because(error))
}

#[cfg(test)]
mod tests {
    use super::{super::fixtures, *};

    #[test]
    fn a_restart_is_at_a_time() {
        let at = moment(fixtures::now(), "1h".parse().unwrap()).unwrap();
        assert_eq!(at.to_string(), "2026-03-01T13:00:00Z");
    }
}
