//! `windlass crds`: the `CustomResourceDefinition`s, as the types in this binary define them.

use std::{
    fs,
    path::{Path, PathBuf},
};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use crate::{cli, error::CommandError};

const EXAMPLES: &str = "\
Examples:
  windlass crds | kubectl apply --server-side -f -
  windlass crds --output-dir crds/";

/// Print the custom resource definitions as YAML
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Write one file per kind, <group>_<plural>.yaml, into this folder instead
    #[arg(long, value_name = "DIR")]
    output_dir: Option<PathBuf>,
}

/// Prints or writes them.
pub(crate) fn run(args: &Args) -> Result<(), CommandError> {
    let crds = windlass_api::crds::all();
    if let Some(dir) = &args.output_dir {
        return crds.iter().try_for_each(|crd| write(dir, crd));
    }
    let documents: Vec<String> = crds.iter().map(yaml).collect::<Result<_, _>>()?;
    cli::print(&documents.join("---\n"))
}

fn write(dir: &Path, crd: &CustomResourceDefinition) -> Result<(), CommandError> {
    let path = dir.join(file_name(crd));
    let text = yaml(crd)?;
    fs::create_dir_all(dir)
        .and_then(|()| fs::write(&path, text))
        .map_err(|error| CommandError::failure(format!("cannot write {}", path.display())).because(error))
}

/// As controller-gen names its files, so that people find them.
fn file_name(crd: &CustomResourceDefinition) -> String {
    format!("{}_{}.yaml", crd.spec.group, crd.spec.names.plural)
}

fn yaml(crd: &CustomResourceDefinition) -> Result<String, CommandError> {
    serde_saphyr::to_string(crd).map(|text| format!("{}\n", text.trim_end())).map_err(|error| {
        CommandError::failure("cannot write a CustomResourceDefinition as YAML").because(error)
    })
}
