//! `windlass describe`: one Application or Cluster with everything that is known of it.

use super::{
    get::Kind,
    hub::{HubArgs, now},
};
use crate::{cli, error::CommandError, show};

const EXAMPLES: &str = "\
Examples:
  windlass describe app web -n shop
  windlass describe cluster east";

/// Show one Application or Cluster with everything that is known of it
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// What to show
    kind: Kind,

    /// Its name
    name: String,

    #[command(flatten)]
    hub: HubArgs,
}

/// Shows it.
pub(crate) fn run(args: &Args) -> Result<(), CommandError> {
    args.hub.run(async |hub| {
        let text = match args.kind {
            Kind::Applications => {
                let app = hub.application(&args.name).await?;
                let events = hub.events(&app).await;
                show::describe::application(&app, &events, now())
            }
            Kind::Clusters => {
                let cluster = hub.cluster(&args.name).await?;
                let events = hub.events(&cluster).await;
                show::describe::cluster(&cluster, &events, now())
            }
        };
        cli::print(&text)
    })
}
