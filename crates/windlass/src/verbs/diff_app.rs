//! `windlass diff app`: what a revision would do on all clusters, without doing it.

use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    time::Duration,
};

use kube::ResourceExt;
use tokio_util::sync::CancellationToken;
use windlass_api::{Application, Cluster};
use windlass_cluster::{clock::Clock, drive::Key};
use windlass_deliver::{
    application::{ApplicationController, ApplicationMetrics, Settings},
    compare::{self, CompareError, Comparison},
    fleet::{Connector, Contact, Fleet, FleetOptions},
    origin::{self, OriginMetrics, Repos},
    render::{Renderer, RendererOptions},
    trouble::Trouble,
};
use windlass_vcs::{mirror::MirrorOptions, remote::UrlPolicy, repositories::Repositories};

use super::{
    hub::{Hub, HubArgs},
    tree,
};
use crate::{cli, error::CommandError, show::comparison};

const EXAMPLES: &str = "\
Examples:
  windlass diff app web -n shop                       # the revision that it follows
  windlass diff app web --revision feature-x
  windlass diff app web --path . -o markdown          # this checkout, for a comment on a pull request

Everything is read with your own rights, from a repository fetched here: no controller is asked, and nothing is written but
dry runs. Clusters are reached by the kubeconfigs of their Secrets, which you need the right to read.";

/// How it is printed.
#[derive(clap::ValueEnum, Clone, Copy, Debug, Default)]
pub(crate) enum Output {
    /// Lines for people.
    #[default]
    Text,
    /// One JSON document.
    Json,
    /// For a comment on a pull request.
    Markdown,
}

/// What a revision of an Application would create, change and delete on every cluster, and what would be refused
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The Application
    name: String,

    /// Branch, tag, commit or Jujutsu change id [default: what the Application follows]
    #[arg(long, value_name = "REVISION", conflicts_with = "path")]
    revision: Option<String>,

    /// Root of a checkout to take instead of the repository; changes need not be committed
    #[arg(long, value_name = "DIR")]
    path: Option<PathBuf>,

    /// Print in this format
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    output: Output,

    /// End with 1 when anything would happen
    #[arg(long)]
    exit_code: bool,

    /// Folder for the mirror of the repository, so that the next call is quicker [default: one that is removed]
    #[arg(long, value_name = "DIR", env = "WINDLASS_WORK_DIR")]
    work_dir: Option<PathBuf>,

    /// The helm program, by path or by a name on PATH
    #[arg(long, env = "WINDLASS_HELM", value_name = "PROGRAM", default_value = "helm")]
    helm: PathBuf,

    /// The kustomize program, by path or by a name on PATH
    #[arg(long, env = "WINDLASS_KUSTOMIZE", value_name = "PROGRAM", default_value = "kustomize")]
    kustomize: PathBuf,

    /// Longest wait for the repository, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    timeout: u64,

    /// Namespace that the controller runs in: where kubeconfigs are whose Cluster names no namespace
    #[arg(long, value_name = "NAMESPACE", default_value = tree::CONTROLLER_NAMESPACE)]
    controller_namespace: String,

    /// Account that the controller applies Applications as which name none: its --default-service-account
    #[arg(long, value_name = "NAME", env = "WINDLASS_DEFAULT_SERVICE_ACCOUNT")]
    default_service_account: Option<String>,

    #[command(flatten)]
    hub: HubArgs,
}

/// Prints it.
pub(crate) fn run(args: &Args) -> Result<(), CommandError> {
    let scratch = tempfile::tempdir()
        .map_err(|error| CommandError::failure("cannot make a folder for what is rendered").because(error))?;
    args.hub.run(async |hub| {
        let mut app = compare::hypothetical(hub.application(&args.name).await?, args.revision.as_deref());
        if let Some(folder) = &args.path {
            checkout(&mut app, folder, scratch.path())?;
        }
        let found = Box::pin(gather(args, &hub, app, scratch.path())).await?;
        cli::print(&match args.output {
            Output::Text => comparison::text(&found),
            Output::Json => cli::to_json(&found)?,
            Output::Markdown => comparison::markdown(&found),
        })?;
        if args.exit_code && !found.is_empty() { Err(CommandError::told()) } else { Ok(()) }
    })
}

/// The controller's own pipeline, for one look.
async fn gather(
    args: &Args,
    hub: &Hub,
    app: Application,
    scratch: &Path,
) -> Result<Comparison, CommandError> {
    let repos = repos(args, hub, scratch)?;
    let connector =
        UserConnector { hub: hub.clone(), controller_namespace: args.controller_namespace.clone() };
    let fleet =
        Arc::new(Fleet::new(hub.client.clone(), connector, Arc::new(|_| {}), FleetOptions::default()));
    let controller = ApplicationController::new(
        hub.client.clone(),
        Arc::new(repos.clone()),
        Arc::clone(&fleet),
        Settings {
            cross_namespace_dependencies: true,
            default_service_account: args.default_service_account.clone(),
        },
        Clock::system(),
        ApplicationMetrics::default(),
    );
    let stop = CancellationToken::new();
    let _ended = stop.clone().drop_guard();
    let (keeper, until) = (repos, stop.clone());
    tokio::spawn(async move { keeper.run(until).await });
    tokio::spawn(async move { fleet.run(stop).await });
    let (name, patience) = (app.name_any(), Duration::from_secs(args.timeout));
    compare::compare(&controller, app, patience).await.map_err(|error| {
        let failure = CommandError::failure(format!("Application {name} cannot be compared"));
        match error {
            CompareError::Trouble(trouble) => {
                let hint = trouble.remedy.clone();
                let failure = failure.because(trouble.what);
                if hint.is_empty() { failure } else { failure.hint(hint) }
            }
            CompareError::Observe(error) => failure.because(error).hint(
                "Everything is read with your own rights: you need to list Clusters and read their Secrets.",
            ),
        }
    })
}

fn repos(args: &Args, hub: &Hub, scratch: &Path) -> Result<Repos<Renderer>, CommandError> {
    let folder = args.work_dir.as_deref().unwrap_or(scratch);
    let unusable = || {
        CommandError::failure(format!("the folder {} cannot be used", folder.display()))
            .hint("Name one that you may write and that no controller uses: --work-dir.")
    };
    let (repositories, _) = Repositories::open(&folder.join("repositories"), MirrorOptions::default())
        .map_err(|error| unusable().because(error))?;
    let door = std::env::current_exe()
        .map_err(|error| CommandError::failure("the program does not know where it is").because(error))?;
    let options = RendererOptions {
        kustomize: Some(args.kustomize.clone()),
        helm: Some(args.helm.clone()),
        ..RendererOptions::new(scratch.join("render"), vec![door.into(), "sandbox".into()])
    };
    let renderer = Renderer::new(options).map_err(|trouble| unusable().because(trouble.message()))?;
    // Addresses of this machine's own files are for the folder that the user named, nothing else.
    let settings =
        origin::Settings { urls: UrlPolicy { file: args.path.is_some() }, ..origin::Settings::default() };
    let wake: origin::Wake = Arc::new(|_: Key| {});
    Ok(Repos::new(
        hub.client.clone(),
        Arc::new(repositories),
        renderer,
        wake,
        settings,
        OriginMetrics::default(),
    ))
}

/// Makes the Application follow a commit of what is in a folder. The folder's own repository is not touched.
fn checkout(app: &mut Application, folder: &Path, scratch: &Path) -> Result<(), CommandError> {
    let folder = folder.canonicalize().map_err(|error| {
        CommandError::failure(format!("cannot read the folder {}", folder.display()))
            .because(error)
            .hint("Name the root of a checkout: --path DIR")
    })?;
    let repository = scratch.join("checkout");
    let git = |args: &[&str]| {
        let mut command = Command::new("git");
        command.current_dir(&folder).env("GIT_DIR", &repository).env("GIT_WORK_TREE", &folder).args(args);
        for role in ["AUTHOR", "COMMITTER"] {
            command.env(format!("GIT_{role}_NAME"), "windlass");
            command.env(format!("GIT_{role}_EMAIL"), "windlass@localhost");
        }
        let failed = || CommandError::failure(format!("git {} failed on {}", args[0], folder.display()));
        let output =
            command.output().map_err(|error| failed().because(error).hint("git has to be on PATH."))?;
        if output.status.success() {
            return Ok(());
        }
        Err(failed().because(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
    };
    git(&["init", "--quiet", "--initial-branch=main"])?;
    git(&["add", "--all", "."])?;
    git(&[
        "-c",
        "commit.gpgsign=false",
        "commit",
        "--quiet",
        "--allow-empty",
        "--no-verify",
        "-m",
        "checkout",
    ])?;
    let source = &mut app.spec.source;
    source.repo_url = format!("file://{}", repository.display());
    source.secret_ref = None;
    source.revision = Some("main".to_owned());
    Ok(())
}

/// Clusters, with the rights of whoever asks.
struct UserConnector {
    hub: Hub,
    controller_namespace: String,
}

impl Connector for UserConnector {
    async fn connect(&self, cluster: &Cluster) -> Result<Contact, Trouble> {
        let name = cluster.name_any();
        let found = tree::connect(&self.hub, &name, &self.controller_namespace).await;
        found.map(Contact::fixed).map_err(|why| {
            Trouble::standing(
                "NotConnected",
                format!("cluster {name} cannot be reached from here: {why}"),
                "You need the right to read the Secret of its kubeconfig, and a way to its API server",
            )
        })
    }

    async fn own(&self) -> Result<Contact, Trouble> {
        Ok(Contact::fixed(self.hub.client.clone()))
    }
}
