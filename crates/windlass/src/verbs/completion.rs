//! `windlass completion`: completions for a shell.

use clap_complete::Shell;

use crate::{cli, error::CommandError};

const EXAMPLES: &str = "\
Examples:
  source <(windlass completion bash)
  windlass completion zsh > \"${fpath[1]}/_windlass\"
  windlass completion fish > ~/.config/fish/completions/windlass.fish";

/// Print the completions for a shell
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The shell
    shell: Shell,
}

/// Prints the script.
pub(crate) fn run(args: &Args) -> Result<(), CommandError> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut cli::command(None), "windlass", &mut script);
    cli::print(&String::from_utf8_lossy(&script))
}
