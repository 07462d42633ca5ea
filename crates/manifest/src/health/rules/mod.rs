//! Rules as data: one YAML of CEL expressions a kind, for what popular operators mean by their status.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use serde_json::Value;

use super::object::{at, group, kind};
use super::{Health, builtin, generic};

mod compiled;
mod form;
mod program;
mod view;

use compiled::Compiled;
use form::File;

/// The files under `rules/`, as `(path, text)`.
mod embedded {
    include!(concat!(env!("OUT_DIR"), "/health_rules.rs"));
}

/// Why rules were not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RuleError {
    /// The text is no YAML, or not of the form of rules.
    #[error(
        "health rules {file}: {source_text}; write group, kinds, rules (when, status, message) and otherwise"
    )]
    Form {
        /// The file, or the number of the document.
        file: String,
        /// What the reader said.
        source_text: String,
    },
    /// An expression does not parse or names something that is not there.
    #[error("health rules {file}, rule {rule}: {source_text}")]
    Expression {
        /// The file, or the number of the document.
        file: String,
        /// The number of the rule, from 1; one more than there are means `otherwise`.
        rule: usize,
        /// What the parser said.
        source_text: String,
    },
}

impl RuleError {
    /// A short name for metrics and events.
    pub const fn category(&self) -> &'static str {
        match self {
            Self::Form { .. } => "form",
            Self::Expression { .. } => "expression",
        }
    }
}

/// The rules by which objects are judged: the built-in kinds, the embedded rules, and those of the user, which come first.
///
/// Made once and shared; judging takes `&self` and never fails.
#[derive(Debug, Clone)]
pub struct Rules {
    user: Index,
    embedded: Arc<Index>,
}

static BUILTIN: LazyLock<Rules> =
    LazyLock::new(|| Rules { user: Index::default(), embedded: Arc::new(embedded_index()) });

fn embedded_index() -> Index {
    let mut index = Index::default();
    for (name, text) in embedded::FILES {
        // A file that cannot be read is left out here and fails a test of the crate.
        if let Ok(files) = read(name, text) {
            for file in files {
                index.add(file);
            }
        }
    }
    index
}

impl Rules {
    /// What is built in. Made once; its expressions are parsed when the first object of their kind is judged.
    pub fn builtin() -> &'static Self {
        &BUILTIN
    }

    /// What is built in and, before it, the rules of `yaml`: any number of documents in the form of the files under
    /// `rules/`. All expressions are parsed here, so that a mistake is told to who wrote it.
    pub fn with(yaml: &str) -> Result<Self, RuleError> {
        let mut user = Index::default();
        for file in read("of the user", yaml)? {
            file.check()?;
            user.add(file);
        }
        Ok(Self { user, embedded: Arc::clone(&BUILTIN.embedded) })
    }

    /// Judges an object. Never fails: what cannot be judged is [`Unknown`](super::Status::Unknown).
    pub fn health(&self, object: &Value) -> Health {
        let kind = kind(object);
        if kind.is_empty() {
            return Health::new(super::Status::Unknown, "This is not a Kubernetes object: it has no kind");
        }
        let group = group(object);
        if let Some(rule) = self.user.find(group, kind) {
            return rule.judge(object).told();
        }
        if let Some(health) = builtin::health(group, kind, object) {
            return health.told();
        }
        let rule = self.embedded.find(group, kind).or_else(|| {
            // Composite resources and claims have groups of their own making and speak as Crossplane does.
            is_composite(object).then(|| self.embedded.find("any.crossplane.io", kind)).flatten()
        });
        match rule {
            Some(rule) => rule.judge(object).told(),
            None => generic::generic(object),
        }
    }

    /// Parses every expression of the embedded rules: what [`builtin`](Self::builtin) leaves for later.
    pub fn check_embedded() -> Result<usize, RuleError> {
        let mut count = 0;
        for (name, text) in embedded::FILES {
            for file in read(name, text)? {
                file.check()?;
                count += file.file.kinds.len();
            }
        }
        Ok(count)
    }
}

fn is_composite(object: &Value) -> bool {
    ["compositionRef", "compositionSelector", "compositionRevisionRef", "crossplane", "forProvider"]
        .iter()
        .any(|key| at(object, &["spec", key]).is_some_and(Value::is_object))
        && at(object, &["status", "conditions"]).is_some()
}

fn read(name: &str, text: &str) -> Result<Vec<Compiled>, RuleError> {
    let wrong = |source: String| RuleError::Form { file: name.to_owned(), source_text: source };
    let mut files = Vec::new();
    for (at, value) in super::yaml::documents(text).map_err(wrong)?.into_iter().enumerate() {
        let file: File = serde_json::from_value(value).map_err(|error| wrong(error.to_string()))?;
        if file.group.is_none() && file.groups.is_empty() {
            return Err(wrong("there is no group".to_owned()));
        }
        let name = if at == 0 { name.to_owned() } else { format!("{name} (document {})", at + 1) };
        files.push(Compiled::new(name, file));
    }
    Ok(files)
}

/// Rules by group and kind.
#[derive(Debug, Default, Clone)]
struct Index {
    exact: HashMap<String, HashMap<String, Arc<Compiled>>>,
    /// By the ending of the group, the longest first.
    endings: Vec<(String, HashMap<String, Arc<Compiled>>)>,
}

impl Index {
    fn add(&mut self, rule: Compiled) {
        let rule = Arc::new(rule);
        for group in rule.file.group.iter().chain(&rule.file.groups) {
            let kinds = match group.strip_prefix('_') {
                None => self.exact.entry(group.clone()).or_default(),
                Some(ending) => self.ending(ending),
            };
            for kind in &rule.file.kinds {
                kinds.insert(kind.clone(), Arc::clone(&rule));
            }
        }
    }

    fn ending(&mut self, ending: &str) -> &mut HashMap<String, Arc<Compiled>> {
        let at = self.endings.iter().position(|(known, _)| known == ending).unwrap_or_else(|| {
            let at = self.endings.partition_point(|(known, _)| known.len() > ending.len());
            self.endings.insert(at, (ending.to_owned(), HashMap::new()));
            at
        });
        &mut self.endings[at].1
    }

    fn find(&self, group: &str, kind: &str) -> Option<&Compiled> {
        fn of<'a>(kinds: &'a HashMap<String, Arc<Compiled>>, kind: &str) -> Option<&'a Compiled> {
            kinds.get(kind).or_else(|| kinds.get("*")).map(AsRef::as_ref)
        }
        self.exact.get(group).and_then(|kinds| of(kinds, kind)).or_else(|| {
            self.endings
                .iter()
                .filter(|(ending, _)| group.ends_with(ending))
                .find_map(|(_, kinds)| of(kinds, kind))
        })
    }
}
