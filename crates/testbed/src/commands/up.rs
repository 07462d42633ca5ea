//! `testbed up`

use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use windlass_testbed::process::tail;
use windlass_testbed::tools::{self, Tool};

use super::state::{Folder, State};

/// Arguments of `testbed up`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// How many clusters.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=20))]
    clusters: u8,
    /// How many simulated nodes in each.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(0..=1000))]
    nodes: u16,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let folder = Folder::open()?;
    if folder.is_up()? {
        return already_up(&folder, args);
    }
    // In the foreground, where people see the progress.
    tools::ensure(&Tool::CONTROL_PLANE)?;
    folder.clear();
    let log = folder.log();
    let started = Instant::now();
    let mut child = spawn(args, &log)?;
    eprintln!("starting {} control plane(s) with {} node(s) each …", args.clusters, args.nodes);
    let state = wait(&mut child, &folder, &log)?;
    // Until it reads this line, the background process ends when we do: an interrupted `up` leaves nothing.
    child
        .stdin
        .take()
        .context("the background process has no standard input")?
        .write_all(b"stay\n")
        .context("the background process is gone")?;
    eprintln!("up after {} s", started.elapsed().as_secs());
    tell(&folder, &state)
}

fn spawn(args: &Args, log: &Path) -> anyhow::Result<Child> {
    let output = std::fs::File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
    Command::new(std::env::current_exe().context("cannot find this program")?)
        .args(["serve", "--clusters", &args.clusters.to_string(), "--nodes", &args.nodes.to_string()])
        .stdin(Stdio::piped())
        .stdout(output.try_clone()?)
        .stderr(output)
        .spawn()
        .context("cannot start the background process")
}

fn wait(child: &mut Child, folder: &Folder, log: &Path) -> anyhow::Result<State> {
    loop {
        if let Some(status) = child.try_wait()? {
            bail!(
                "the control planes did not start ({status}); {} ends with:\n{}",
                log.display(),
                tail(log, 20)
            );
        }
        match folder.read() {
            Some(state) if state.ready && u32::try_from(state.pid) == Ok(child.id()) => return Ok(state),
            _ => std::thread::sleep(Duration::from_millis(100)),
        }
    }
}

fn already_up(folder: &Folder, args: &Args) -> anyhow::Result<()> {
    let state = folder.read().filter(|state| state.ready);
    let Some(state) = state else {
        bail!("another `testbed up` is starting; wait for it or run `testbed down`")
    };
    eprintln!("already up: {} cluster(s) with {} node(s) each", state.clusters, state.nodes);
    if (state.clusters, state.nodes) != (args.clusters.into(), args.nodes.into()) {
        eprintln!("for another number run `testbed down` first");
    }
    tell(folder, &state)
}

/// Only the line to copy goes to standard output, so that `eval "$(testbed up)"` works too.
fn tell(folder: &Folder, state: &State) -> anyhow::Result<()> {
    let contexts = match state.clusters {
        1 => "windlass-1".to_owned(),
        n => format!("windlass-1 to windlass-{n}"),
    };
    eprintln!("contexts: {contexts}; as users without rights until you grant some: dev-a, dev-b");
    for dir in &state.log_dirs {
        eprintln!("logs: {}", dir.display());
    }
    let path = folder.kubeconfig();
    writeln!(std::io::stdout(), "export KUBECONFIG={}", quote(&path.to_string_lossy()))
        .context("cannot write to standard output")
}

fn quote(path: &str) -> String {
    if path.chars().all(|c| c.is_ascii_alphanumeric() || "/._-+@:".contains(c)) {
        path.to_owned()
    } else {
        format!("'{}'", path.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::quote;

    #[test]
    fn odd_paths_survive_the_shell() {
        assert_eq!(quote("/home/a/.cache/windlass/up/kubeconfig"), "/home/a/.cache/windlass/up/kubeconfig");
        assert_eq!(quote("/home/it's me/x"), r"'/home/it'\''s me/x'");
    }
}
