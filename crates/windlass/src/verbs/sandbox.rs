//! `windlass sandbox`: the door of the cell in which kustomize and helm run. Called by the controller, not by people.

use std::{error::Error as _, ffi::OsString};

use windlass_deliver::sandbox;

use crate::error::CommandError;

/// Run a program in a sandbox (used by windlass itself)
#[derive(clap::Args, Debug)]
#[command(hide = true, disable_help_flag = true)]
pub(crate) struct Args {
    /// What the sandbox allows, `--`, the program and its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    args: Vec<OsString>,
}

/// Becomes the program, or says why not.
pub(crate) fn run(args: Args) -> Result<(), CommandError> {
    match sandbox::door(args.args) {
        Ok(never) => match never {},
        Err(error) => {
            let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
            Err(CommandError::failure(format!("{} {error}{cause}", sandbox::SAYS)))
        }
    }
}
