//! What is going on, on standard error.
//!
//! Written past the capture of the test harness, so that a first `cargo test` does not look hung for ten minutes.

use std::collections::BTreeSet;
use std::io::{IsTerminal, Write};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A line, short enough for 80 columns, that shows how long something has been going on: in place on a terminal, else a line each half minute.
pub(super) struct Progress {
    what: String,
    start: Instant,
    last: Instant,
    terminal: bool,
}

const EVERY: Duration = Duration::from_secs(30);

impl Progress {
    pub(super) fn start(what: String) -> Self {
        let terminal = std::io::stderr().is_terminal();
        write(&if terminal { format!("\r\x1b[K{what}") } else { format!("{what}\n") });
        Self { what, start: Instant::now(), last: Instant::now(), terminal }
    }

    /// Call it often; it decides when to write.
    pub(super) fn tick(&mut self) {
        let every = if self.terminal { Duration::from_secs(1) } else { EVERY };
        if self.last.elapsed() >= every {
            self.last = Instant::now();
            let line = format!("{} … {}", self.what, elapsed(self.start.elapsed()));
            write(&if self.terminal { format!("\r\x1b[K{line}") } else { format!("{line}\n") });
        }
    }

    pub(super) fn end(self, outcome: &str) {
        let line = format!("{outcome} in {}", elapsed(self.start.elapsed()));
        write(&if self.terminal { format!("\r\x1b[K{line}\n") } else { format!("{line}\n") });
    }
}

/// Writes a line, the same one only once.
pub(super) fn note_once(line: &str) {
    static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    if SAID.lock().unwrap_or_else(PoisonError::into_inner).insert(line.to_owned()) {
        write(&format!("testbed: {line}\n"));
    }
}

fn elapsed(time: Duration) -> String {
    format!("{}:{:02}", time.as_secs() / 60, time.as_secs() % 60)
}

fn write(text: &str) {
    // A closed standard error must not end a build.
    drop(std::io::stderr().lock().write_all(text.as_bytes()));
}
