//! A request for a resource, taken apart.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::kinds::{Resource, Version};
use super::ownership::{Kind, Writer};
use super::state::{ObjectKey, State};
use super::status::{About, Failure};

/// A request for a resource.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) resource: Arc<Resource>,
    pub(crate) version: Version,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) subresource: String,
    pub(crate) query: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
    pub(crate) content_type: String,
    pub(crate) user_agent: String,
    pub(crate) user: Option<String>,
}

/// What to do about unknown fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    Ignore,
    Warn,
    Strict,
}

impl Call {
    pub(crate) fn parameter(&self, name: &str) -> &str {
        self.query.get(name).map(String::as_str).unwrap_or_default()
    }

    pub(crate) fn flag(&self, name: &str) -> bool {
        matches!(self.parameter(name), "true" | "1")
    }

    pub(crate) fn api_version(&self) -> String {
        self.resource.api_version(&self.version.name)
    }

    pub(crate) fn key(&self) -> ObjectKey {
        self.key_of(&self.name)
    }

    pub(crate) fn key_of(&self, name: &str) -> ObjectKey {
        ObjectKey {
            resource: self.resource.stored_as.clone(),
            namespace: if self.resource.namespaced { self.namespace.clone() } else { String::new() },
            name: name.to_owned(),
        }
    }

    /// For failures that name the resource.
    pub(crate) fn about(&self) -> About<'_> {
        About { group: &self.resource.key.group, kind: &self.resource.key.plural, name: &self.name }
    }

    /// For failures that name the kind.
    pub(crate) fn about_kind<'a>(&'a self, name: &'a str) -> About<'a> {
        About { group: &self.resource.key.group, kind: &self.resource.kind, name }
    }

    /// The field manager as the API server works it out.
    pub(crate) fn manager(&self) -> String {
        let given = self.parameter("fieldManager");
        if !given.is_empty() {
            return given.to_owned();
        }
        let prefix = self.user_agent.split('/').next().unwrap_or_default();
        let prefix: String = prefix.chars().filter(|letter| !letter.is_control()).take(128).collect();
        if prefix.is_empty() { "unknown".into() } else { prefix }
    }

    pub(crate) fn writer<'a>(&'a self, state: &State, manager: &'a str, api_version: &'a str) -> Writer<'a> {
        Writer { manager, api_version, subresource: &self.subresource, now: state.now() }
    }

    pub(crate) fn written(&self) -> Kind<'_> {
        Kind {
            schema: &self.version.schema,
            blank: &self.resource.blank,
            reset: self.resource.reset_fields(&self.version, &self.subresource),
        }
    }

    pub(crate) fn dry_run(&self) -> Result<bool, Failure> {
        match self.parameter("dryRun") {
            "" => Ok(false),
            "All" => Ok(true),
            other => Err(Failure::bad_request(format!("dryRun: Unsupported value: {other:?}"))),
        }
    }

    pub(crate) fn field_validation(&self) -> Result<FieldValidation, Failure> {
        match self.parameter("fieldValidation") {
            "" | "Warn" => Ok(FieldValidation::Warn),
            "Ignore" => Ok(FieldValidation::Ignore),
            "Strict" => Ok(FieldValidation::Strict),
            other => Err(Failure::bad_request(format!("fieldValidation: Unsupported value: {other:?}"))),
        }
    }

    pub(crate) fn json(&self) -> Result<Value, Failure> {
        serde_json::from_slice(&self.body).map_err(|error| {
            Failure::bad_request(format!("error decoding the body of the request as JSON: {error}"))
        })
    }
}

/// An answer: the code, the object and warnings.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) code: http::StatusCode,
    pub(crate) body: Value,
    pub(crate) warnings: Vec<String>,
}

impl Answer {
    pub(crate) fn ok(body: Value) -> Self {
        Self { code: http::StatusCode::OK, body, warnings: Vec::new() }
    }

    pub(crate) fn created(body: Value) -> Self {
        Self { code: http::StatusCode::CREATED, ..Self::ok(body) }
    }
}
