//! From templates and arguments to what a run measures.
//!
//! [`run_spec`] merges templates, those that they refer to among them, into the spec of a run. [`Args`] puts values in
//! the place of `{{args.name}}`. A value from a Secret is put in only when something is measured; until then, and in
//! everything that is shown, five stars stand for it.

mod fill;
mod merge;

pub use fill::{Args, MASK, WINDOW, fill, redact};
pub(crate) use merge::title;
pub use merge::{Library, Request, run_spec};

/// Why no run can be made, or no metric measured.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// A template that somebody names is not there.
    #[error("{0} does not exist: create it, or name another")]
    Missing(String),
    /// Templates refer to each other in a circle.
    #[error("analysis templates refer to each other in a circle: {0}; take one of the references away")]
    Circle(String),
    /// A template for all namespaces refers to one of a namespace.
    #[error(
        "{0} refers to the AnalysisTemplate {1}: it can only refer to cluster ones, with clusterScope: true"
    )]
    Scope(String, String),
    /// Two metrics have the same name.
    #[error("two metrics have the name {0}: give them different names, also across templates")]
    MetricTwice(String),
    /// An argument has two values.
    #[error(
        "the argument {0} has different values in two templates: give it one where the analysis is named"
    )]
    ArgumentTwice(String),
    /// An argument has no value.
    #[error("the argument {0} has no value: give it one where the analysis is named")]
    ArgumentMissing(String),
    /// There is something between double braces that nobody knows.
    #[error("{{{{{0}}}}} is not known: write {{{{args.name}}}} with an argument of that name")]
    Unknown(String),
    /// A metric is no metric any more once values are put in.
    #[error("metric {0} cannot be read with its arguments put in")]
    Unreadable(String),
}
