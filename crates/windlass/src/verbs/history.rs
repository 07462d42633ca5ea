//! `windlass history`: what was deployed, and how the branch moved.

use serde_json::json;

use super::{
    Format,
    hub::{HubArgs, now, status},
};
use crate::{cli, error::CommandError, show};

const EXAMPLES: &str = "\
Examples:
  windlass history web -n shop
  windlass history web -o json";

/// Show what was deployed, and how the branch moved
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The Application
    name: String,

    /// Print in this format instead of tables
    #[arg(short, long, value_name = "FORMAT")]
    output: Option<Format>,

    #[command(flatten)]
    hub: HubArgs,
}

/// Shows it.
pub(crate) fn run(args: &Args) -> Result<(), CommandError> {
    args.hub.run(async |hub| {
        let status = status(&hub.application(&args.name).await?);
        cli::print(&match args.output {
            Some(Format::Json) => {
                let all =
                    json!({ "history": status.history, "movements": status.movements, "pin": status.pin });
                cli::to_json(&all)?
            }
            None => show::history::page(&status, now()),
        })
    })
}
