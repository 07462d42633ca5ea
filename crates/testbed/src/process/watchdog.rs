//! One small shell per test process that outlives it and cleans up.
//!
//! `Drop` does not run when a process is killed, when a static holds the value, or on Ctrl-C. So every child group and
//! every scratch folder is also announced on a pipe whose other end the watchdog reads. The kernel closes our end however
//! we end; the watchdog then kills the groups that are left and removes the folders.

use std::io::{PipeWriter, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};

use anyhow::Context;

/// Reads `+ group`, `- group`, `dir path` and `keep path` lines until the end of the pipe.
const SCRIPT: &str = r#"
trap '' INT TERM HUP QUIT
nl='
'
groups=$nl
dirs=$nl
without() {
  case $1 in
    *"$nl$2$nl"*) printf '%s' "${1%%"$nl$2$nl"*}$nl${1#*"$nl$2$nl"}"; printf . ;;
    *) printf '%s.' "$1" ;;
  esac
}
while IFS=' ' read -r verb what; do
  case $verb in
    +) groups=$groups$what$nl ;;
    -) groups=$(without "$groups" "$what"); groups=${groups%.} ;;
    dir) dirs=$dirs$what$nl ;;
    keep) dirs=$(without "$dirs" "$what"); dirs=${dirs%.} ;;
  esac
done
for group in $groups; do kill -s KILL -- "-$group" 2>/dev/null; done
for attempt in 1 2 3 4 5 6 7 8 9 10; do
  left=
  IFS=$nl
  for dir in $dirs; do rm -rf -- "$dir" 2>/dev/null; [ ! -e "$dir" ] || left=1; done
  [ -n "$left" ] || break
  sleep 0.2
done
"#;

static WATCHDOG: OnceLock<Mutex<Option<PipeWriter>>> = OnceLock::new();

fn with_pipe<T>(act: impl FnOnce(&mut PipeWriter) -> std::io::Result<T>) -> anyhow::Result<T> {
    let mut slot = WATCHDOG.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
    let pipe = match &mut *slot {
        Some(pipe) => pipe,
        empty => empty.insert(start().context("cannot start the shell that cleans up after this process")?),
    };
    act(pipe).context("the shell that cleans up after this process is gone")
}

fn start() -> anyhow::Result<PipeWriter> {
    let (reader, writer) = std::io::pipe()?;
    let mut watchdog = Command::new("sh")
        .args(["-c", SCRIPT, "windlass-testbed-watchdog"])
        .stdin(reader)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .current_dir("/")
        // Its own group: Ctrl-C on the terminal must not reach it before its work is done.
        .process_group(0)
        .spawn()?;
    // It only ends after us, so this thread sleeps for our whole life; it is there to leave no zombie in odd cases.
    std::thread::Builder::new().name("watchdog".into()).spawn(move || watchdog.wait())?;
    Ok(writer)
}

fn say(verb: &str, what: &str) -> anyhow::Result<()> {
    anyhow::ensure!(!what.contains('\n'), "{what:?} has a line break, which the clean-up shell cannot take");
    // One write below PIPE_BUF, so lines of children and ours never mix.
    with_pipe(|pipe| pipe.write_all(format!("{verb} {what}\n").as_bytes()))
}

/// A handle for a child's standard output, on which it announces its own process group before it runs anything.
pub(super) fn announce_pipe() -> anyhow::Result<Stdio> {
    with_pipe(|pipe| pipe.try_clone()).map(Stdio::from)
}

/// The group has ended and its number may be used by others.
pub(super) fn forget_group(group: u32) -> anyhow::Result<()> {
    say("-", &group.to_string())
}

/// Remove this folder when the process ends.
pub(super) fn watch_dir(path: &Path) -> anyhow::Result<()> {
    let path = path.to_str().context("the path of a scratch folder is not UTF-8")?;
    say("dir", path)
}

/// Leave this folder in place.
pub(super) fn keep_dir(path: &Path) -> anyhow::Result<()> {
    say("keep", &path.to_string_lossy())
}
