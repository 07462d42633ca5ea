//! What was left behind, field by field, and what to do.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use serde_json::Value;

/// One thing that the user has to know. Holds names and fields, never values of Secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// `Application argocd/shop`.
    pub(crate) object: String,
    /// `spec.source.plugin`; empty for the whole object.
    pub(crate) field: String,
    /// What is the matter.
    pub(crate) what: String,
    /// What to do; empty when nothing has to be done.
    pub(crate) remedy: String,
}

/// What was left behind, field by field, and what to do.
#[derive(Debug, Default)]
pub(crate) struct Report {
    object: String,
    left: Vec<Entry>,
    notes: Vec<Entry>,
    converted: BTreeSet<String>,
    passed: BTreeMap<String, usize>,
    /// How to take over, in order.
    pub(super) steps: Vec<String>,
}

impl Report {
    /// What is told from now on is about this object.
    pub(super) fn about(&mut self, object: &str) {
        object.clone_into(&mut self.object);
    }

    /// The object that is spoken of.
    pub(super) fn subject(&self) -> &str {
        &self.object
    }

    /// Something was not carried over.
    pub(super) fn left(
        &mut self,
        field: impl Into<String>,
        what: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        let entry = self.entry(field.into(), what.into(), remedy.into());
        if !self.left.contains(&entry) {
            self.left.push(entry);
        }
    }

    /// The whole object was not converted.
    pub(super) fn refused(&mut self, what: impl Into<String>, remedy: impl Into<String>) {
        self.left(String::new(), format!("not converted: {}", what.into()), remedy);
    }

    /// Something needs no counterpart, or is done in another way.
    pub(super) fn note(&mut self, field: impl Into<String>, what: impl Into<String>) {
        let entry = self.entry(field.into(), what.into(), String::new());
        if !self.notes.contains(&entry) {
            self.notes.push(entry);
        }
    }

    /// The object that is spoken of was converted.
    pub(super) fn converted(&mut self) {
        self.converted.insert(self.object.clone());
    }

    /// An object that has nothing to do with the tool.
    pub(super) fn passed_over(&mut self, kind: &str) {
        *self.passed.entry(kind.to_owned()).or_default() += 1;
    }

    /// What was not carried over.
    pub(crate) fn leftovers(&self) -> &[Entry] {
        &self.left
    }

    /// The objects of the tool that were converted: `Application argocd/shop`.
    pub(super) fn sources(&self) -> impl Iterator<Item = &str> {
        self.converted.iter().map(String::as_str)
    }

    /// For people.
    pub(crate) fn render(&self, produced: &[Value]) -> String {
        let mut text = self.summary(produced);
        if self.left.is_empty() {
            text.push_str("\nEverything was carried over.\n");
        } else {
            let _ = writeln!(text, "\nNot carried over ({}):", self.left.len());
            section(&mut text, &self.left);
        }
        if !self.notes.is_empty() {
            text.push_str("\nGood to know:\n");
            section(&mut text, &self.notes);
        }
        if !self.steps.is_empty() {
            let _ = writeln!(text, "\nTaking over without {}:", self.without());
            for (at, step) in self.steps.iter().enumerate() {
                let _ = writeln!(text, "  {}. {step}", at + 1);
            }
        }
        text
    }

    /// What taking over does not need: a Rollout's pods belong to it and cannot be handed over.
    fn without(&self) -> &'static str {
        let rollouts = self.converted.iter().any(|title| title.starts_with("Rollout "));
        if rollouts { "a gap in service" } else { "restarting a pod" }
    }

    fn summary(&self, produced: &[Value]) -> String {
        let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
        for object in produced {
            *kinds.entry(object["kind"].as_str().unwrap_or_default()).or_default() += 1;
        }
        let count = |(kind, count): (&str, usize)| format!("{count} {kind}");
        let made: Vec<String> = kinds.into_iter().map(count).collect();
        let made = if made.is_empty() { "nothing".to_owned() } else { made.join(", ") };
        let mut text = format!("Converted {} objects to {made}.\n", self.converted.len());
        if !self.passed.is_empty() {
            let passed: Vec<String> =
                self.passed.iter().map(|(kind, number)| count((kind.as_str(), *number))).collect();
            let _ = writeln!(text, "Passed over what is not for this tool: {}.", passed.join(", "));
        }
        text
    }

    fn entry(&self, field: String, what: String, remedy: String) -> Entry {
        Entry { object: self.object.clone(), field, what, remedy }
    }
}

/// Entries that say the same of several objects are told once.
fn section(text: &mut String, entries: &[Entry]) {
    let mut groups: Vec<(&Entry, Vec<&str>)> = Vec::new();
    for entry in entries {
        let same = |(first, _): &&mut (&Entry, Vec<&str>)| {
            first.field == entry.field && first.what == entry.what && first.remedy == entry.remedy
        };
        match groups.iter_mut().find(same) {
            Some((_, objects)) => objects.push(&entry.object),
            None => groups.push((entry, vec![&entry.object])),
        }
    }
    let mut last = String::new();
    for (entry, objects) in groups {
        let title = objects.join(", ");
        if title != last {
            let _ = writeln!(text, "  {title}");
        }
        last = title;
        let field = if entry.field.is_empty() { String::new() } else { format!("{}: ", entry.field) };
        let _ = writeln!(text, "    {field}{}.", entry.what.trim_end_matches('.'));
        if !entry.remedy.is_empty() {
            let _ = writeln!(text, "      → {}.", entry.remedy.trim_end_matches('.'));
        }
    }
}
