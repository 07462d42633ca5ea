//! Failures, as the `Status` objects that clients get.

use std::collections::BTreeMap;

use http::StatusCode;
use serde_json::{Map, Value, json};

use super::schema::Cause;

/// A refused request.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) code: StatusCode,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
    /// `None` leaves the field out, an empty map does not.
    details: Option<Map<String, Value>>,
    causes: Vec<Cause>,
    /// Warnings that go with the answer.
    pub(crate) warnings: Vec<String>,
    /// Extra list metadata, used by expired continue tokens.
    metadata: Map<String, Value>,
}

/// What a failure is about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct About<'a> {
    pub(crate) group: &'a str,
    /// The plural, or for invalid objects the kind.
    pub(crate) kind: &'a str,
    pub(crate) name: &'a str,
}

impl About<'_> {
    fn qualified(&self) -> String {
        if self.group.is_empty() { self.kind.to_owned() } else { format!("{}.{}", self.kind, self.group) }
    }

    fn details(&self) -> Map<String, Value> {
        [("name", self.name), ("group", self.group), ("kind", self.kind)]
            .into_iter()
            .filter(|(_, text)| !text.is_empty())
            .map(|(key, text)| (key.to_owned(), Value::from(text)))
            .collect()
    }
}

impl Failure {
    fn new(code: StatusCode, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            details: None,
            causes: Vec::new(),
            metadata: Map::new(),
            warnings: Vec::new(),
        }
    }

    fn about(mut self, about: About<'_>) -> Self {
        self.details = Some(about.details());
        self
    }

    /// The same failure with warnings.
    pub(crate) fn warning(mut self, warnings: &[String]) -> Self {
        self.warnings.extend(warnings.iter().cloned());
        self
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequest", message)
    }

    /// An error that the server did not foresee: 500 without a reason.
    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "", message)
    }

    pub(crate) fn not_found(about: About<'_>) -> Self {
        Self::new(
            StatusCode::NOT_FOUND,
            "NotFound",
            format!("{} \"{}\" not found", about.qualified(), about.name),
        )
        .about(about)
    }

    /// A failure that is about nothing in particular.
    fn general(mut self) -> Self {
        self.details = Some(Map::new());
        self
    }

    /// No such path.
    pub(crate) fn no_route() -> Self {
        Self::new(StatusCode::NOT_FOUND, "NotFound", "the server could not find the requested resource")
            .general()
    }

    pub(crate) fn method_not_allowed() -> Self {
        Self::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        )
        .general()
    }

    /// A kind of patch that is known, but not for this kind of object.
    pub(crate) fn unsupported_patch(accepted: &str) -> Self {
        let mut failure = Self::unsupported_media_type(accepted);
        failure.details = None;
        failure
    }

    pub(crate) fn unsupported_media_type(accepted: &str) -> Self {
        Self::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "UnsupportedMediaType",
            format!(
                "the body of the request was in an unknown format - accepted media types include: {accepted}"
            ),
        )
        .general()
    }

    pub(crate) fn already_exists(about: About<'_>) -> Self {
        Self::new(
            StatusCode::CONFLICT,
            "AlreadyExists",
            format!("{} \"{}\" already exists", about.qualified(), about.name),
        )
        .about(about)
    }

    pub(crate) fn conflict(about: About<'_>, why: &str) -> Self {
        Self::new(
            StatusCode::CONFLICT,
            "Conflict",
            format!("Operation cannot be fulfilled on {} \"{}\": {why}", about.qualified(), about.name),
        )
        .about(about)
    }

    /// Somebody else's write came first.
    pub(crate) fn stale(about: About<'_>) -> Self {
        Self::conflict(
            about,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    /// Server-side apply met fields of other managers: pairs of manager and path.
    pub(crate) fn apply_conflict(conflicts: &[(String, String)]) -> Self {
        let message = if let [(manager, path)] = conflicts {
            format!("Apply failed with 1 conflict: conflict with {manager}: {path}")
        } else {
            let mut by_manager: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
            for (manager, path) in conflicts {
                by_manager.entry(manager).or_default().push(path);
            }
            let lines: Vec<String> = by_manager
                .into_iter()
                .map(|(manager, paths)| format!("conflicts with {manager}:\n- {}", paths.join("\n- ")))
                .collect();
            format!("Apply failed with {} conflicts: {}", conflicts.len(), lines.join("\n"))
        };
        let mut failure = Self::new(StatusCode::CONFLICT, "Conflict", message);
        failure.causes = conflicts
            .iter()
            .map(|(manager, path)| {
                Cause::new("FieldManagerConflict", path, format!("conflict with {manager}"))
            })
            .collect();
        failure
    }

    /// `about.kind` is the kind here, not the plural.
    pub(crate) fn invalid(about: About<'_>, causes: Vec<Cause>) -> Self {
        let mut lines: Vec<String> =
            causes.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect();
        lines.dedup();
        let why = if lines.len() == 1 { lines.concat() } else { format!("[{}]", lines.join(", ")) };
        let message = format!("{} \"{}\" is invalid: {why}", about.qualified(), about.name);
        let mut failure = Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message).about(about);
        failure.causes = causes;
        failure
    }

    /// A patch that cannot be carried out on this object.
    pub(crate) fn unprocessable(_why: &str) -> Self {
        Self::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "Invalid",
            "the server rejected our request due to an error in our request",
        )
        .general()
    }

    pub(crate) fn forbidden(about: About<'_>, why: &str) -> Self {
        Self::new(
            StatusCode::FORBIDDEN,
            "Forbidden",
            format!("{} \"{}\" is forbidden: {why}", about.qualified(), about.name),
        )
        .about(about)
    }

    /// A `ValidatingAdmissionPolicy`, bound under its own name, says no.
    pub(crate) fn denied(about: About<'_>, policy: &str, why: &str, forbids: bool) -> Self {
        let message =
            format!("ValidatingAdmissionPolicy '{policy}' with binding '{policy}' denied request: {why}");
        let mut failure = Self::forbidden(about, &message);
        failure.causes = vec![Cause::new("", "", message)];
        if !forbids {
            failure.code = StatusCode::UNPROCESSABLE_ENTITY;
            failure.reason = "Invalid";
        }
        failure
    }

    /// A create in a namespace that is going away.
    pub(crate) fn namespace_terminating(about: About<'_>, namespace: &str) -> Self {
        let why =
            format!("unable to create new content in namespace {namespace} because it is being terminated");
        let mut failure = Self::forbidden(about, &why);
        failure.causes = vec![Cause::new(
            "NamespaceTerminating",
            "metadata.namespace",
            format!("namespace {namespace} is being terminated"),
        )];
        failure
    }

    /// History that is no longer kept.
    pub(crate) fn expired(message: impl Into<String>) -> Self {
        Self::new(StatusCode::GONE, "Expired", message)
    }

    /// As [`expired`](Self::expired), with a token that goes on from the same place without consistency.
    pub(crate) fn expired_continue(token: String) -> Self {
        let mut failure = Self::expired(
            "The provided continue parameter is too old to display a consistent list result. You can start a new \
             list without the continue parameter, or use the continue token in this response to retrieve the \
             remainder of the results. Continuing with the provided token results in an inconsistent list - \
             objects that were created, modified, or deleted between the time the first chunk was returned and \
             now may show up in the list.",
        );
        failure.metadata.insert("continue".into(), token.into());
        failure
    }

    /// A resourceVersion that the server has not reached.
    pub(crate) fn too_large_version(wanted: u64, current: u64) -> Self {
        let mut failure = Self::new(
            StatusCode::GATEWAY_TIMEOUT,
            "Timeout",
            format!("Too large resource version: {wanted}, current: {current}"),
        );
        failure.causes = vec![Cause::new("ResourceVersionTooLarge", "", "Too large resource version")];
        failure.details = Some(Map::from_iter([("retryAfterSeconds".to_owned(), Value::from(1))]));
        failure
    }

    /// The `Status` object.
    pub(crate) fn to_json(&self) -> Value {
        let mut status = Map::new();
        status.insert("kind".into(), "Status".into());
        status.insert("apiVersion".into(), "v1".into());
        status.insert("metadata".into(), Value::Object(self.metadata.clone()));
        status.insert("status".into(), "Failure".into());
        status.insert("message".into(), self.message.clone().into());
        if !self.reason.is_empty() {
            status.insert("reason".into(), self.reason.into());
        }
        if self.details.is_some() || !self.causes.is_empty() {
            let mut details = self.details.clone().unwrap_or_default();
            if !self.causes.is_empty() {
                details.insert("causes".into(), self.causes.iter().map(cause_json).collect());
            }
            status.insert("details".into(), Value::Object(details));
        }
        status.insert("code".into(), self.code.as_u16().into());
        Value::Object(status)
    }
}

fn cause_json(cause: &Cause) -> Value {
    let mut out = Map::new();
    if !cause.reason.is_empty() {
        out.insert("reason".into(), cause.reason.into());
    }
    out.insert("message".into(), cause.message.clone().into());
    if !cause.field.is_empty() {
        out.insert("field".into(), cause.field.clone().into());
    }
    Value::Object(out)
}

/// The answer to a delete that removed the object at once.
pub(crate) fn deleted(about: About<'_>, uid: &str) -> Value {
    let mut details = about.details();
    details.insert("uid".into(), uid.into());
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
}
