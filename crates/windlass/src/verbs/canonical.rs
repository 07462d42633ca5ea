//! `windlass canonical`: objects as Windlass writes them.

use std::path::PathBuf;

use windlass_manifest::{
    canonical,
    identity::Identity,
    sanitize::{Sanitized, sanitize},
};

use crate::{cli, error::CommandError, input};

const EXAMPLES: &str = "\
Examples:
  windlass canonical -f deployment.yaml
  kubectl get service web -o yaml | windlass canonical -f - --sanitize > web.yaml";

/// Print objects in canonical YAML: equal objects give equal bytes
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// File with objects, YAML or JSON, `-` for standard input; may be repeated
    #[arg(short = 'f', long = "file", value_name = "FILE", required = true)]
    files: Vec<PathBuf>,

    /// Take away what nobody wrote: status, bookkeeping and what the cluster filled in
    #[arg(long)]
    sanitize: bool,
}

/// Prints the documents; what sanitizing leaves out is told on standard error.
pub(crate) fn run(args: &Args) -> Result<(), CommandError> {
    let manifests = input::read_all(&args.files)?;
    let mut values = Vec::new();
    for object in manifests.into_iter().flat_map(|file| file.objects) {
        if !args.sanitize {
            values.push(object.value);
            continue;
        }
        let name =
            Identity::of(&object.value).map_or_else(|_| object.position.to_string(), |id| id.to_string());
        match sanitize(object.value) {
            Sanitized::Keep(value) => values.push(value),
            Sanitized::Skip(reason) => cli::note(&format!("left out {name}: {reason}")),
        }
    }
    cli::print(&canonical::encode_all(&values))
}
