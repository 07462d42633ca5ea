//! What an API server's refusal means.

use std::{collections::BTreeSet, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD};
use http::{HeaderMap, StatusCode};
use kube::core::{Status, response::StatusCause};
use serde::Serialize;
use serde_json::Value;
use thiserror::Error;

use crate::connect::{MAX_RETRY_AFTER, Transport, retry_after, transport};

/// Longest message that is kept of an answer.
const MAX_MESSAGE: usize = 2048;

/// A field that another manager owns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FieldConflict {
    /// Path of the field, such as `.spec.replicas`.
    pub field: String,
    /// Who owns it; empty when the API server did not say.
    pub manager: String,
}

/// A field that is not acceptable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FieldError {
    /// Path of the field, such as `spec.replicas`.
    pub field: String,
    /// What is wrong with it.
    pub message: String,
}

/// Why an object could not be written or deleted.
///
/// Messages come from the API server. Values of a Secret that was being written are replaced in them.
#[derive(Debug, Error)]
pub enum ApplyError {
    /// Other managers own fields with other values.
    #[error("conflict: {}", list(fields.iter().map(|f| format!("{} is owned by {:?}", f.field, f.manager))))]
    Conflict {
        /// Each field with its owner.
        fields: Vec<FieldConflict>,
    },
    /// The object changed since it was read.
    #[error("the object changed meanwhile: {message}")]
    Modified {
        /// In the API server's words.
        message: String,
    },
    /// The object breaks a rule of its schema or its validation.
    #[error("invalid: {message}")]
    Invalid {
        /// In the API server's words.
        message: String,
        /// Field by field, as far as told.
        causes: Vec<FieldError>,
    },
    /// The object has a field that its schema lacks.
    #[error("unknown field {}: {message}", if field.is_empty() { "of the object" } else { field })]
    UnknownField {
        /// Path of the field; empty when not told.
        field: String,
        /// In the API server's words.
        message: String,
    },
    /// The cluster does not serve the kind.
    #[error("the cluster does not serve this kind")]
    UnknownKind,
    /// The object, or the namespace that it should be in, does not exist.
    #[error("not found: {message}")]
    NotFound {
        /// In the API server's words.
        message: String,
    },
    /// The credentials are not accepted.
    #[error("the API server does not accept the credentials")]
    Unauthorized,
    /// The user may not do this.
    #[error("forbidden: {message}")]
    Forbidden {
        /// In the API server's words.
        message: String,
    },
    /// An admission webhook or policy said no.
    #[error("denied by admission: {message}")]
    Denied {
        /// In its own words.
        message: String,
    },
    /// A quota is used up.
    #[error("quota exceeded: {message}")]
    Quota {
        /// In the API server's words.
        message: String,
    },
    /// The namespace is being deleted.
    #[error("the namespace is terminating")]
    Terminating,
    /// The object is larger than the API server stores.
    #[error("the object is too large: {message}")]
    TooLarge {
        /// In the API server's words.
        message: String,
    },
    /// The API server cannot do it at the moment.
    #[error("the API server cannot do it now (HTTP {code}): {message}")]
    Transient {
        /// HTTP status.
        code: u16,
        /// In the API server's words.
        message: String,
        /// When to ask again, if told.
        retry_after: Option<Duration>,
    },
    /// No answer.
    #[error("no answer from the API server")]
    Unreachable {
        /// What kind of failure, if known.
        transport: Option<Transport>,
        /// What failed.
        #[source]
        source: kube::Error,
    },
    /// Any other answer.
    #[error("the API server answered HTTP {code}: {message}")]
    Other {
        /// HTTP status; 0 for an answer that cannot be read.
        code: u16,
        /// In the API server's words.
        message: String,
    },
}

impl ApplyError {
    /// One of a few names, for metrics, events and conditions.
    pub fn category(&self) -> &'static str {
        match self {
            Self::Conflict { .. } => "Conflict",
            Self::Modified { .. } => "Modified",
            Self::Invalid { .. } => "Invalid",
            Self::UnknownField { .. } => "UnknownField",
            Self::UnknownKind => "UnknownKind",
            Self::NotFound { .. } => "NotFound",
            Self::Unauthorized => "Unauthorized",
            Self::Forbidden { .. } => "Forbidden",
            Self::Denied { .. } => "Denied",
            Self::Quota { .. } => "Quota",
            Self::Terminating => "Terminating",
            Self::TooLarge { .. } => "TooLarge",
            Self::Transient { .. } => "Transient",
            Self::Unreachable { .. } => "Unreachable",
            Self::Other { .. } => "Other",
        }
    }

    /// Whether the same request may succeed later without anybody changing the object.
    ///
    /// False means: wait for a change of the object, of the cluster's rules or of rights, at a slow pace.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Modified { .. }
            | Self::UnknownKind
            | Self::NotFound { .. }
            | Self::Quota { .. }
            | Self::Terminating
            | Self::Transient { .. }
            | Self::Unreachable { .. } => true,
            Self::Conflict { .. }
            | Self::Invalid { .. }
            | Self::UnknownField { .. }
            | Self::Unauthorized
            | Self::Forbidden { .. }
            | Self::Denied { .. }
            | Self::TooLarge { .. }
            | Self::Other { .. } => false,
        }
    }

    /// Whether the same request may succeed within seconds.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Transient { .. } | Self::Unreachable { .. })
    }

    /// When to ask again, if the API server said so. At most [`MAX_RETRY_AFTER`].
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Transient { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// Whether the object, its namespace or its kind does not exist.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound { .. } | Self::UnknownKind)
    }

    pub(super) fn unreadable() -> Self {
        Self::Other { code: 0, message: "the answer cannot be read".to_owned() }
    }

    pub(super) fn unreachable(source: kube::Error) -> Self {
        Self::Unreachable { transport: transport(&source), source }
    }

    /// Sorts an answer that is no success.
    pub(super) fn from_answer(code: StatusCode, headers: &HeaderMap, body: &[u8], hidden: &Hidden) -> Self {
        let mut status: Status = serde_json::from_slice(body).unwrap_or_else(|_| {
            // A proxy, or a path that nobody serves.
            Status::failure(String::from_utf8_lossy(body).trim(), "")
        });
        status.code = code.as_u16();
        status.message = hidden.clean(&status.message);
        let (kind, causes, told) = match status.details.take() {
            Some(details) => (details.kind, details.causes, u64::from(details.retry_after_seconds)),
            None => (String::new(), Vec::new(), 0),
        };
        let causes = causes
            .into_iter()
            .map(|cause| StatusCause { message: hidden.clean(&cause.message), ..cause })
            .collect();
        let told = (told > 0).then(|| Duration::from_secs(told).min(MAX_RETRY_AFTER));
        from_status(&status, &kind, causes, retry_after(headers).or(told))
    }
}

fn from_status(
    status: &Status,
    kind: &str,
    causes: Vec<StatusCause>,
    retry_after: Option<Duration>,
) -> ApplyError {
    let message = status.message.clone();
    if is_denial(&message) {
        return ApplyError::Denied { message };
    }
    if let Some(field) = unknown_field(&message) {
        return ApplyError::UnknownField { field, message };
    }
    match status.code {
        400 | 415 | 422 => ApplyError::Invalid { message, causes: field_errors(causes) },
        401 => ApplyError::Unauthorized,
        403 if causes.iter().any(|cause| cause.reason == "NamespaceTerminating") => ApplyError::Terminating,
        403 if message.contains("exceeded quota:") => ApplyError::Quota { message },
        403 => ApplyError::Forbidden { message },
        // A path that nobody serves names no kind.
        404 if kind.is_empty() => ApplyError::UnknownKind,
        404 => ApplyError::NotFound { message },
        409 => conflict(message, causes),
        413 => ApplyError::TooLarge { message },
        // The schema of the object, not the server, is what fails.
        500 if message.contains("failed to create typed patch object") => {
            ApplyError::Invalid { message, causes: field_errors(causes) }
        }
        500 if message.contains("request is too large") => ApplyError::TooLarge { message },
        code @ (408 | 429 | 500..=599) => ApplyError::Transient { code, message, retry_after },
        code => ApplyError::Other { code, message },
    }
}

fn conflict(message: String, causes: Vec<StatusCause>) -> ApplyError {
    let fields: Vec<FieldConflict> = causes
        .into_iter()
        .filter(|cause| cause.reason == "FieldManagerConflict")
        .map(|cause| FieldConflict {
            manager: quoted(&cause.message).unwrap_or_default(),
            field: cause.field,
        })
        .collect();
    if fields.is_empty() { ApplyError::Modified { message } } else { ApplyError::Conflict { fields } }
}

fn field_errors(causes: Vec<StatusCause>) -> Vec<FieldError> {
    causes.into_iter().map(|cause| FieldError { field: cause.field, message: cause.message }).collect()
}

/// Webhooks may deny with any code; the API server's own words around the denial are what is common to them.
fn is_denial(message: &str) -> bool {
    let webhook = message.starts_with("admission webhook ") && message.contains(" denied the request");
    let policy = message.contains("ValidatingAdmissionPolicy '") && message.contains(" denied request");
    webhook || policy
}

/// Server-side apply answers 500, strict validation 400; both are about a field that the schema lacks.
fn unknown_field(message: &str) -> Option<String> {
    if let Some((before, _)) = message.split_once(": field not declared in schema") {
        return Some(before.rsplit([' ', '\n']).next().unwrap_or_default().to_owned());
    }
    let (_, rest) = message.split_once("unknown field ")?;
    quoted(rest)
}

/// The first text in double quotes.
fn quoted(text: &str) -> Option<String> {
    let (_, rest) = text.split_once('"')?;
    let (name, _) = rest.split_once('"')?;
    Some(name.to_owned())
}

fn list(items: impl Iterator<Item = String>) -> String {
    items.collect::<Vec<_>>().join(", ")
}

/// Values that must not appear in a message: those of the Secret that is being written.
#[derive(Debug, Default)]
pub(super) struct Hidden(Vec<String>);

impl Hidden {
    pub(super) fn of(object: &Value) -> Self {
        if object["kind"] != "Secret" {
            return Self::default();
        }
        let mut values = BTreeSet::new();
        for part in ["data", "stringData"] {
            collect(&object[part], &mut values);
        }
        let mut values: Vec<String> = values.into_iter().collect();
        // A value may hold another one: the longest goes first.
        values.sort_by_key(|value| std::cmp::Reverse(value.len()));
        Self(values)
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn clean(&self, message: &str) -> String {
        let cleaned = self
            .0
            .iter()
            .fold(message.to_owned(), |message, value| message.replace(value.as_str(), "(hidden)"));
        shorten(cleaned)
    }
}

fn collect(value: &Value, into: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => fields.values().for_each(|value| collect(value, into)),
        Value::Array(items) => items.iter().for_each(|value| collect(value, into)),
        Value::Null => {}
        scalar => {
            let text = scalar.as_str().map_or_else(|| scalar.to_string(), str::to_owned);
            if let Some(plain) = STANDARD.decode(&text).ok().and_then(|bytes| String::from_utf8(bytes).ok()) {
                insert(plain, into);
            }
            insert(text, into);
        }
    }
}

/// Shorter texts are no secrets, and replacing them would garble every message.
fn insert(text: String, into: &mut BTreeSet<String>) {
    if text.len() >= 3 {
        // An API server quotes what it shows.
        let quoted = format!("{text:?}");
        into.insert(quoted[1..quoted.len() - 1].to_owned());
        into.insert(text);
    }
}

fn shorten(mut message: String) -> String {
    if message.len() > MAX_MESSAGE {
        let end = message.floor_char_boundary(MAX_MESSAGE);
        message.truncate(end);
        message.push('…');
    }
    message
}
