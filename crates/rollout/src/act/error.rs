//! What can go wrong on the way.

use windlass_api::analysis::merge::MergeError;
use windlass_cluster::{drive::Failure, templates::Unread};

/// Why nothing could be read or done.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server refused or did not answer.
    #[error("the API server did not {what}")]
    Api {
        /// What it should do.
        what: String,
        /// The cause.
        source: Box<kube::Error>,
    },
    /// An object moved on since it was read.
    #[error("{0} was changed in the meantime")]
    Stale(String),
    /// A name is in use.
    #[error("{0} is there already and is not ours")]
    Taken(String),
    /// An `AnalysisRun` cannot be made from its templates.
    #[error("AnalysisRun {name} cannot be made")]
    Template {
        /// The run.
        name: String,
        /// Why.
        source: MergeError,
    },
    /// Something that is ours to make is no valid object.
    #[error("{what} cannot be made")]
    Shape {
        /// What.
        what: String,
        /// Why.
        source: serde_json::Error,
    },
    /// A route cannot say what is wanted.
    #[error("{0}")]
    Route(String),
}

impl From<Unread> for Error {
    fn from(unread: Unread) -> Self {
        Self::Api { what: format!("give {}", unread.what), source: unread.source }
    }
}

impl Error {
    pub(crate) fn api(what: impl Into<String>, source: kube::Error) -> Self {
        Self::Api { what: what.into(), source: Box::new(source) }
    }

    /// What is told to people; `None` for what passes by itself.
    pub fn told(&self) -> Option<String> {
        let mut text = match self {
            Self::Stale(_) => return None,
            other => other.to_string(),
        };
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            text.push_str(": ");
            text.push_str(&error.to_string());
            cause = error.source();
        }
        Some(text)
    }
}

impl Failure for Error {
    fn category(&self) -> &'static str {
        match self {
            Self::Api { .. } => "api",
            Self::Stale(_) => "stale",
            Self::Taken(_) => "taken",
            Self::Template { .. } => "template",
            Self::Shape { .. } => "shape",
            Self::Route(_) => "route",
        }
    }
}
