//! What happened in a run, in order, and its hash: the same seed has to give the same hash.

use std::{
    fmt::{self, Write as _},
    time::Duration,
};

use sha2::{Digest, Sha256};

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Virtual time since the world began.
    pub at: Duration,
    /// Who: an instance with its incarnation (`a#1`), or a part of the world.
    pub who: String,
    /// What, on one line.
    pub what: String,
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>10.3}s {:<10} {}", self.at.as_secs_f64(), self.who, self.what)
    }
}

/// The trace of one run.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    entries: Vec<Entry>,
}

impl Trace {
    pub(crate) fn push(&mut self, at: Duration, who: &str, what: String) {
        self.entries.push(Entry { at, who: who.to_owned(), what });
    }

    /// Everything that happened.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The last `n` entries, one a line.
    pub fn tail(&self, n: usize) -> String {
        let from = self.entries.len().saturating_sub(n);
        let mut out = String::new();
        if from > 0 {
            // Writing to a String does not fail.
            let _ok = writeln!(out, "  … {from} earlier");
        }
        for entry in &self.entries[from..] {
            let _ok = writeln!(out, "  {entry}");
        }
        out
    }

    /// SHA-256 over every entry with its virtual time.
    pub fn hash(&self) -> String {
        let mut hash = Sha256::new();
        for entry in &self.entries {
            hash.update(entry.at.as_nanos().to_le_bytes());
            hash.update(entry.who.as_bytes());
            hash.update([0]);
            hash.update(entry.what.as_bytes());
            hash.update([0]);
        }
        hex(&hash.finalize())
    }

    /// The first entry at which two traces part, as text: where to look when a run is not deterministic.
    pub fn first_difference(&self, other: &Self) -> Option<String> {
        let show =
            |entry: Option<&Entry>| entry.map_or_else(|| "(end of the trace)".to_owned(), Entry::to_string);
        let longest = self.entries.len().max(other.entries.len());
        (0..longest)
            .map(|n| (n, self.entries.get(n), other.entries.get(n)))
            .find(|(_, a, b)| a != b)
            .map(|(n, a, b)| format!("entry {n}:\n  first run:  {}\n  second run: {}", show(a), show(b)))
    }
}

/// The first eight bytes of a digest, enough to tell two bodies apart in a trace.
pub(crate) fn short_digest(bytes: &[u8]) -> String {
    if bytes.is_empty() {
        return "-".to_owned();
    }
    hex(&Sha256::digest(bytes)[..8])
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut out, byte| {
        // Writing to a String does not fail.
        let _ok = write!(out, "{byte:02x}");
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash_sees_time_and_order() {
        let mut a = Trace::default();
        a.push(Duration::from_millis(1), "a", "GET /x".to_owned());
        let mut b = a.clone();
        assert_eq!(a.hash(), b.hash());
        assert_eq!(a.first_difference(&b), None);
        b.push(Duration::from_millis(2), "a", "200".to_owned());
        assert_ne!(a.hash(), b.hash());
        assert!(a.first_difference(&b).unwrap().contains("end of the trace"));
    }
}
