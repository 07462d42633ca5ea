//! `windlass canonical`: objects as Windlass writes them.

use std::path::PathBuf;

use serde_json::Value;
use windlass_manifest::canonical;

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
    let mut manifests = input::read_all(&args.files)?;
    if args.sanitize {
        input::sanitize_all(&mut manifests);
    }
    let objects = manifests.into_iter().flat_map(|file| file.objects);
    let values: Vec<Value> = objects.map(|object| object.value).collect();
    cli::print(&canonical::encode_all(&values))
}
