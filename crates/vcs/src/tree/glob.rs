//! Which paths of a folder are wanted.

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

/// A pattern that cannot be understood.
#[derive(Debug, thiserror::Error)]
#[error(
    "{pattern:?} is no pattern: `*` stands for a part of a name, `**` for any folders, `?` for a character, `{{a,b}}` for either"
)]
pub struct GlobError {
    /// The pattern.
    pub pattern: String,
    /// What is wrong with it.
    #[source]
    pub source: globset::Error,
}

/// Patterns for paths under a folder: what to take, and what to leave out of that.
///
/// A `*` stays within one name; `**/*.yaml` reaches into folders. A pattern that excludes a folder excludes everything
/// in it. Without an include pattern, everything is taken.
#[derive(Debug, Clone)]
pub struct Globs {
    include: GlobSet,
    exclude: GlobSet,
    /// How many folders deep an include pattern can match at most.
    depth: usize,
}

impl Default for Globs {
    fn default() -> Self {
        Self { include: every(), exclude: GlobSet::empty(), depth: usize::MAX }
    }
}

impl Globs {
    /// Patterns from text.
    pub fn new<S: AsRef<str>>(include: &[S], exclude: &[S]) -> Result<Self, GlobError> {
        let depth = include.iter().map(|pattern| depth(pattern.as_ref())).max().unwrap_or(usize::MAX);
        let include = if include.is_empty() { every() } else { build(include)? };
        Ok(Self { include, exclude: build(exclude)?, depth })
    }

    /// Whether a file is wanted. The path is relative to the folder that is read.
    pub(super) fn takes(&self, path: &str) -> bool {
        self.include.is_match(path) && !self.exclude.is_match(path)
    }

    /// Whether anything in a subfolder can be wanted.
    pub(super) fn enters(&self, folder: &str) -> bool {
        folder.split('/').count() <= self.depth && !self.exclude.is_match(folder)
    }
}

fn build<S: AsRef<str>>(patterns: &[S]) -> Result<GlobSet, GlobError> {
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        let pattern = pattern.as_ref();
        let error = |source| GlobError { pattern: pattern.to_owned(), source };
        let text = pattern.trim_start_matches("./").trim_end_matches('/');
        set.add(GlobBuilder::new(text).literal_separator(true).build().map_err(error)?);
    }
    let patterns = patterns.iter().map(AsRef::as_ref).collect::<Vec<_>>().join(" ");
    set.build().map_err(|source| GlobError { pattern: patterns, source })
}

fn every() -> GlobSet {
    build(&["**"]).unwrap_or_default()
}

/// How many folders deep a pattern can match.
fn depth(pattern: &str) -> usize {
    // A class may hold a slash and braces may hold anything: they are not worth counting.
    if pattern.contains("**") || pattern.contains(['{', '[']) {
        return usize::MAX;
    }
    pattern.trim_start_matches("./").trim_end_matches('/').matches('/').count()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stays_in_one_folder_and_two_reach_into_all() {
        let flat = Globs::new(&["*.yaml"], &[]).unwrap();
        assert!(flat.takes("a.yaml"));
        assert!(!flat.takes("b/a.yaml"));
        assert!(!flat.enters("b"));
        let deep = Globs::new(&["**/*.yaml"], &[]).unwrap();
        assert!(deep.takes("a.yaml"));
        assert!(deep.takes("b/c/a.yaml"));
        assert!(deep.enters("b/c"));
        let one = Globs::new(&["b/*.{yaml,json}", "c/*/x"], &["b/secret.yaml"]).unwrap();
        assert!(one.takes("b/a.json"));
        assert!(!one.takes("b/secret.yaml"));
        assert!(one.takes("c/d/x"));
    }

    #[test]
    fn an_excluded_folder_is_not_entered() {
        let globs = Globs::new(&[], &["vendor/", "**/test"]).unwrap();
        assert!(!globs.enters("vendor"));
        assert!(!globs.enters("a/b/test"));
        assert!(globs.enters("a/b"));
        assert!(globs.takes("anything"));
    }

    #[test]
    fn a_pattern_that_makes_no_sense_is_named() {
        assert_eq!(Globs::new(&["a["], &[]).unwrap_err().pattern, "a[");
    }
}
