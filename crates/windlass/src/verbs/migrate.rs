//! `windlass migrate`: Applications of Argo CD and Flux as Applications of Windlass, Rollouts of Argo Rollouts as Rollouts.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use kube::Client;
use serde_json::Value;
use windlass_cluster::connect::{self, HubOptions, Limits};
use windlass_manifest::canonical;

use crate::{
    cli,
    error::CommandError,
    migrate::{self, Options, Tool},
};

const EXAMPLES: &str = "\
Examples:
  windlass migrate argocd -f apps/ -o windlass/
  windlass migrate argocd --context prod --into windlass > windlass.yaml
  kubectl get kustomizations,gitrepositories -A -o yaml | windlass migrate flux -f - --strict
  windlass migrate argo-rollouts -f rollouts/ > rollouts.yaml

What is produced goes to standard output, or into a folder. What could not be carried over, what to
do about it, and how to take over without restarting a pod goes to standard error.";

/// Turn what Argo CD or Flux delivers into Applications, and Rollouts of Argo Rollouts into Rollouts
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The tool to come from
    tool: From,

    /// File or folder with its objects, `-` for standard input; may be repeated [default: the cluster]
    #[arg(short = 'f', long = "file", value_name = "PATH")]
    files: Vec<PathBuf>,

    /// Kubeconfig of the cluster to read instead of files
    #[arg(long, value_name = "FILE", conflicts_with = "files")]
    kubeconfig: Option<PathBuf>,

    /// Context of the kubeconfig [default: its current context]
    #[arg(long, value_name = "NAME", conflicts_with = "files")]
    context: Option<String>,

    /// Read only this namespace of the cluster [default: all]
    #[arg(short, long, conflicts_with = "files")]
    namespace: Option<String>,

    /// Namespace of what is produced [default: where it was]
    #[arg(long, value_name = "NAMESPACE", value_parser = migrate::namespace)]
    into: Option<String>,

    /// Write one file for each object into this folder instead; those with Secrets can be read by you alone
    #[arg(short, long, value_name = "DIR")]
    output_dir: Option<PathBuf>,

    /// Fail, and produce nothing, when something cannot be carried over
    #[arg(long)]
    strict: bool,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug)]
enum From {
    /// Argo CD.
    #[value(
        name = "argocd",
        help = "Application, ApplicationSet, AppProject, Secrets of repositories and clusters"
    )]
    ArgoCd,
    /// Flux.
    #[value(help = "Kustomization, HelmRelease, GitRepository, Receiver")]
    Flux,
    /// Argo Rollouts.
    #[value(name = "argo-rollouts", help = "Rollout, AnalysisTemplate, ClusterAnalysisTemplate")]
    ArgoRollouts,
}

/// Reads, converts, tells, writes.
pub(crate) fn run(args: &Args) -> Result<(), CommandError> {
    let tool = match args.tool {
        From::ArgoCd => Tool::ArgoCd,
        From::Flux => Tool::Flux,
        From::ArgoRollouts => Tool::ArgoRollouts,
    };
    let given = if args.files.is_empty() { live(tool, args)? } else { migrate::files::read(&args.files)? };
    let converted = migrate::convert(tool, given, &Options { into: args.into.clone() });
    let report = converted.report.render(&converted.objects);
    let _ = io::stderr().write_all(report.as_bytes());
    let left = converted.report.leftovers().len();
    if args.strict && left > 0 {
        return Err(CommandError::failure(format!("{left} things could not be carried over"))
            .hint("Go through the report, or leave out --strict."));
    }
    match &args.output_dir {
        Some(folder) => converted.objects.iter().try_for_each(|object| write(folder, object)),
        None => cli::print(&canonical::encode_all(&converted.objects)),
    }
}

fn live(tool: Tool, args: &Args) -> Result<Vec<Value>, CommandError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| CommandError::failure("cannot start the runtime").because(error))?;
    runtime.block_on(async {
        let client = client(args).await?;
        migrate::live::read(tool, &client, args.namespace.as_deref()).await
    })
}

async fn client(args: &Args) -> Result<Client, CommandError> {
    let options = HubOptions {
        kubeconfig: args.kubeconfig.clone(),
        context: args.context.clone(),
        namespace: None,
        limits: Limits::default(),
        metrics: None,
    };
    connect::hub(&options).await.map_err(|error| {
        let remedy = error.remedy();
        CommandError::failure("cannot connect to the cluster")
            .because(error)
            .hint(remedy)
            .hint("Or name files with -f.")
    })
}

/// `<folder>/<namespace>/<kind>-<name>.yaml`. Names were checked: they cannot lead out of the folder.
fn write(folder: &Path, object: &Value) -> Result<(), CommandError> {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let kind = text("/kind").to_lowercase();
    let folder = folder.join(text("/metadata/namespace"));
    let path = folder.join(format!("{kind}-{}.yaml", text("/metadata/name")));
    let mode = if kind == "secret" { 0o600 } else { 0o644 };
    let written = fs::create_dir_all(&folder).and_then(|()| {
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(&path)?;
        file.write_all(canonical::encode(object).as_bytes())
    });
    written.map_err(|error| CommandError::failure(format!("cannot write {}", path.display())).because(error))
}
