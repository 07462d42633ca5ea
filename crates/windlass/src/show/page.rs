//! Pages of fields and sections, as `kubectl describe` prints them.

use std::fmt::Write as _;

use super::{NONE, line, table::Table};

/// A page that grows from top to bottom.
#[derive(Debug, Default)]
pub(crate) struct Page {
    text: String,
    /// Fields that wait to be aligned with each other.
    fields: Vec<(String, String)>,
    indent: usize,
}

impl Page {
    /// An empty page.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// A field. Fields that follow each other are aligned.
    pub(crate) fn field(&mut self, name: &str, value: impl AsRef<str>) {
        self.fields.push((format!("{name}:"), line(value.as_ref())));
    }

    /// A field, if it is there.
    pub(crate) fn maybe(&mut self, name: &str, value: Option<impl AsRef<str>>) {
        if let Some(value) = value {
            self.field(name, value);
        }
    }

    /// A section with what is written into it.
    pub(crate) fn section(&mut self, name: &str, write: impl FnOnce(&mut Self)) {
        self.flush();
        let _ = writeln!(self.text, "{:indent$}{name}:", "", indent = self.indent);
        self.indent += 2;
        let before = self.text.len();
        write(self);
        self.flush();
        if self.text.len() == before {
            let _ = writeln!(self.text, "{:indent$}{NONE}", "", indent = self.indent);
        }
        self.indent -= 2;
    }

    /// A table.
    pub(crate) fn table(&mut self, table: &Table) {
        self.flush();
        if !table.is_empty() {
            self.text.push_str(&table.render(self.indent));
        }
    }

    /// A line of its own.
    pub(crate) fn line(&mut self, text: impl AsRef<str>) {
        self.flush();
        let _ = writeln!(self.text, "{:indent$}{}", "", line(text.as_ref()), indent = self.indent);
    }

    /// The whole page.
    pub(crate) fn finish(mut self) -> String {
        self.flush();
        self.text
    }

    fn flush(&mut self) {
        let width = self.fields.iter().map(|(name, _)| name.chars().count()).max().unwrap_or_default();
        for (name, value) in std::mem::take(&mut self.fields) {
            let text = format!("{:indent$}{name:<width$}  {value}", "", indent = self.indent);
            let _ = writeln!(self.text, "{}", text.trim_end());
        }
    }
}
