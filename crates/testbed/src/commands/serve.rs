//! `testbed serve`: holds the control planes of `testbed up` until `testbed down`.

use std::io::BufRead;

use anyhow::{Context, bail};
use kube::config::{Kubeconfig, NamedContext};
use tokio::signal::unix::{SignalKind, signal};
use windlass_testbed::control_plane::{ControlPlane, User, kubeconfig_yaml};

use super::state::{Folder, State};

/// Arguments of `testbed serve`.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[arg(long)]
    clusters: usize,
    #[arg(long)]
    nodes: usize,
}

const USERS: [&str; 2] = ["dev-a", "dev-b"];

pub(crate) async fn run(args: &Args) -> anyhow::Result<()> {
    // Away from the terminal: closing it must not end the clusters.
    rustix::process::setsid().context("cannot start a session")?;
    let folder = Folder::open()?;
    let Some(_lock) = folder.lock()? else { bail!("control planes are already up") };
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hangup = signal(SignalKind::hangup())?;

    let pid = rustix::process::getpid().as_raw_nonzero().get();
    let mut state =
        State { pid, clusters: args.clusters, nodes: args.nodes, ready: false, log_dirs: Vec::new() };
    folder.write(&state)?;
    let outcome = tokio::select! {
        outcome = serve(args, &folder, &mut state) => outcome,
        _ = terminate.recv() => Ok(()),
        _ = interrupt.recv() => Ok(()),
        () = async { while hangup.recv().await.is_some() {} } => Ok(()),
    };
    folder.clear();
    outcome
}

async fn serve(args: &Args, folder: &Folder, state: &mut State) -> anyhow::Result<()> {
    let mut control_planes = Vec::new();
    for number in 1..=args.clusters {
        let builder = ControlPlane::builder().name(format!("windlass-{number}")).nodes(args.nodes);
        control_planes.push(builder.start().await?);
    }
    folder.write_kubeconfig(&kubeconfig_yaml(&merged(&control_planes)?)?)?;
    state.ready = true;
    state.log_dirs = control_planes.iter().map(|one| one.log_dir().to_owned()).collect();
    folder.write(state)?;
    confirmed().await?;
    std::future::pending().await
}

/// Waits for the word of `testbed up` that it got through.
async fn confirmed() -> anyhow::Result<()> {
    let line = tokio::task::spawn_blocking(|| std::io::stdin().lock().lines().next()).await?;
    match line {
        Some(Ok(_)) => Ok(()),
        _ => bail!("`testbed up` was interrupted"),
    }
}

fn merged(control_planes: &[ControlPlane]) -> anyhow::Result<Kubeconfig> {
    let mut all = Kubeconfig::default();
    for control_plane in control_planes {
        all = all.merge(control_plane.kubeconfig(&User::Admin)?)?;
    }
    for (index, control_plane) in control_planes.iter().enumerate() {
        for user in USERS {
            let one = control_plane.kubeconfig(&User::named(user))?;
            // In the first cluster a user can also be named without it.
            let alias = one.contexts.first().filter(|_| index == 0).cloned();
            all = all.merge(one)?;
            all.contexts.extend(alias.map(|context| NamedContext { name: user.to_owned(), ..context }));
        }
    }
    Ok(all)
}
