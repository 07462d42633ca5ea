//! What was pushed, in order.

/// What a commit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Good,
    /// Good, with another history than before.
    Forced,
    /// It cannot be rendered.
    Broken,
    /// It renders to nothing.
    Empty,
    /// Policy refuses one of its objects.
    Refused,
}

/// One commit.
#[derive(Clone, Debug)]
pub struct Entry {
    pub number: u64,
    pub commit: String,
    pub kind: Kind,
    pub names: Vec<String>,
}

/// All commits, oldest first.
#[derive(Clone, Debug, Default)]
pub struct Ledger(Vec<Entry>);

impl Ledger {
    /// The number of the next commit.
    pub fn next(&self) -> u64 {
        u64::try_from(self.0.len()).unwrap_or(u64::MAX) + 1
    }

    pub fn note(&mut self, commit: &str, kind: Kind, names: &[&str]) {
        let number = self.next();
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        self.0.push(Entry { number, commit: commit.to_owned(), kind, names });
    }

    pub fn last(&self) -> &Entry {
        self.0.last().unwrap()
    }

    /// One of all, by any number.
    pub fn some(&self, number: usize) -> &Entry {
        &self.0[number % self.0.len()]
    }

    pub fn number(&self, number: u64) -> Option<&Entry> {
        self.0.iter().find(|entry| entry.number == number)
    }

    pub fn commit(&self, commit: &str) -> Option<&Entry> {
        self.0.iter().find(|entry| entry.commit == commit)
    }
}
