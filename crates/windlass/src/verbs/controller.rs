//! `windlass controller`: runs the controllers until told to end.

use std::path::PathBuf;

use crate::{
    cli,
    config::{self, Layer},
    controller,
    error::CommandError,
    logs,
};

const EXAMPLES: &str = "\
Examples:
  windlass controller
  windlass controller --kubeconfig ~/.kube/config --context kind-hub --leader-elect=false
  windlass controller --controllers='*,-cluster' --log-level=info,windlass_cluster=debug
  windlass controller --config windlass.yaml --print-config

Every setting can be given as a flag, as WINDLASS_* in the environment, or in the config file under its name in
camelCase (leaseRenew: 2s); the first of these that has it counts.

The first SIGTERM or SIGINT hands the work over to another replica and ends; the second ends at once.";

/// Run the controllers
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// YAML file with settings
    #[arg(long, env = "WINDLASS_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,

    /// Print the settings in effect in the form of the config file, and end
    #[arg(long)]
    print_config: bool,

    #[command(flatten)]
    settings: Layer,
}

/// Runs them.
pub(crate) fn run(args: Args) -> Result<(), CommandError> {
    let settings = config::load(args.settings, args.config.as_deref())?;
    if args.print_config {
        let text = serde_saphyr::to_string(&settings)
            .map_err(|error| CommandError::failure("cannot write the settings as YAML").because(error))?;
        return cli::print(&format!("{}\n", text.trim_end()));
    }
    logs::start(settings.log_format, &settings.log_level)?;
    controller::run(settings)
}
