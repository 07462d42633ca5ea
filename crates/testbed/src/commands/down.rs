//! `testbed down`

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};

use super::state::Folder;

/// How long the background process may take to end its programs before it is killed.
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) fn run() -> anyhow::Result<()> {
    let folder = Folder::open()?;
    if !folder.is_up()? {
        eprintln!("nothing is up");
        return Ok(());
    }
    let state = folder.read().context("something is starting or ending; try again in a moment")?;
    let pid = Pid::from_raw(state.pid).context("the state names no process")?;
    end(&folder, pid, Signal::TERM)?;
    if !wait(&folder)? {
        // Its watchdog ends the programs and removes the data.
        end(&folder, pid, Signal::KILL)?;
        if !wait(&folder)? {
            bail!("process {} does not end", state.pid);
        }
    }
    folder.clear();
    eprintln!("down");
    Ok(())
}

fn end(folder: &Folder, pid: Pid, signal: Signal) -> anyhow::Result<()> {
    // As long as the lock is held, the process id belongs to the holder.
    if folder.is_up()? {
        kill_process(pid, signal)
            .with_context(|| format!("cannot send {signal:?} to the background process"))?;
    }
    Ok(())
}

fn wait(folder: &Folder) -> anyhow::Result<bool> {
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        if !folder.is_up()? {
            return Ok(true);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(false)
}
