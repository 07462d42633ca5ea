//! `testbed hold`: something to kill.

use std::io::Write;

use anyhow::Context;
use windlass_testbed::control_plane::{Component, ControlPlane};
use windlass_testbed::process::{ScratchDir, Spec};

/// Arguments of `testbed hold`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Hold a whole control plane with a node instead of one small program.
    #[arg(long)]
    control_plane: bool,
}

pub(crate) async fn run(args: &Args) -> anyhow::Result<()> {
    if args.control_plane {
        let control_plane = ControlPlane::builder().nodes(1).start().await?;
        let all = [
            Component::Etcd,
            Component::Apiserver,
            Component::ControllerManager,
            Component::Scheduler,
            Component::Kwok,
        ];
        for component in all {
            say(&format!("pid {}", control_plane.pid(component).context("a component does not run")?))?;
        }
        say(&format!("dir {}", control_plane.log_dir().display()))?;
        say("ready")?;
        std::future::pending::<()>().await;
    } else {
        let dir = ScratchDir::new("hold")?;
        let child =
            Spec::new("sh", dir.path().join("log")).args(["-c", "sleep 1000 & sleep 1001"]).spawn()?;
        say(&format!("pid {}", child.pid()))?;
        say(&format!("dir {}", dir.path().display()))?;
        say("ready")?;
        std::future::pending::<()>().await;
    }
    Ok(())
}

fn say(line: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).context("cannot write to standard output")
}
