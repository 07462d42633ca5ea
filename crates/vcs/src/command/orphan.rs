//! Children that outlive the process that started them.
//!
//! A process that is killed cannot end its children. Each child therefore holds the lock of what it works on, and the
//! lock's file names both: whoever finds the lock taken by the child of a dead process ends that child.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::process::{Pid, Signal};

/// A process: its number and when it started, for numbers are used again.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Identity {
    id: u32,
    start: String,
}

impl Identity {
    /// The process with this number; `None` when there is none, or no `/proc` to tell.
    fn of(id: u32) -> Option<Self> {
        let text = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        // The name in brackets may hold anything; the 20th field after it is the start.
        let start = text.rsplit_once(')')?.1.split_whitespace().nth(19)?.to_owned();
        Some(Self { id, start })
    }

    fn is_alive(&self) -> bool {
        Self::of(self.id).as_ref() == Some(self)
    }

    fn parse(line: &str) -> Option<Self> {
        let (id, start) = line.split_once(' ')?;
        Some(Self { id: id.parse().ok()?, start: start.to_owned() })
    }
}

/// Writes into a locked file that this process holds it, and through which child.
pub(crate) fn record(file: &File, child: Option<u32>) -> io::Result<()> {
    let lines = [Some(std::process::id()), child].into_iter().flatten().filter_map(Identity::of);
    let mut text = lines.map(|Identity { id, start }| format!("{id} {start}")).collect::<Vec<_>>().join("\n");
    text.push('\n');
    file.set_len(0)?;
    file.write_all_at(text.as_bytes(), 0)
}

/// Ends the child that holds a lock for a process that is dead. Says whether there was one.
pub(crate) fn end_orphan(lock: &Path) -> io::Result<bool> {
    let mut text = String::new();
    File::open(lock)?.take(200).read_to_string(&mut text)?;
    let mut lines = text.lines().map(Identity::parse);
    let (Some(Some(owner)), Some(Some(child))) = (lines.next(), lines.next()) else { return Ok(false) };
    if owner.is_alive() || !child.is_alive() {
        return Ok(false);
    }
    let Some(group) = i32::try_from(child.id).ok().and_then(Pid::from_raw) else { return Ok(false) };
    match rustix::process::kill_process_group(group, Signal::KILL) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::SRCH) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;

    use super::*;

    #[test]
    fn only_the_child_of_a_dead_process_is_ended() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("lock");
        let file = File::create(&path).expect("creates");
        let mut child =
            std::process::Command::new("sleep").arg("60").process_group(0).spawn().expect("starts");
        record(&file, Some(child.id())).expect("writes");
        assert!(!end_orphan(&path).expect("reads"), "we are alive");
        // The same number with another start is another process.
        let text = std::fs::read_to_string(&path).expect("reads");
        let (_, second) = text.split_once('\n').expect("two lines");
        std::fs::write(&path, format!("{} 1\n{second}", std::process::id())).expect("writes");
        assert!(end_orphan(&path).expect("reads"), "its owner is gone");
        assert!(!child.wait().expect("ends").success());
        assert!(!end_orphan(&path).expect("reads"), "it is gone");
    }
}
