//! From an [`Occurrence`] to the message that goes over the wire. Pure: the same occurrence gives the same bytes.

use cdevents_sdk::{
    CDEvent, Content, Id, Subject, UriReference,
    latest::{service_deployed, service_published, service_removed, service_rolledback, service_upgraded},
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{Happening, Occurrence, purl};

/// Where events come from, as the operator names it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// What the source of every event begins with, such as `https://windlass.example/east`. May be empty.
    pub source: String,
    /// Name of the environment; the Rollout's namespace if it is not given.
    pub environment: Option<String>,
}

/// An event as it is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The event's id.
    pub id: String,
    /// The attributes of a `CloudEvent`, as headers.
    pub headers: Vec<(&'static str, String)>,
    /// The `CDEvent`, as JSON.
    pub body: Vec<u8>,
}

/// An event cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The SDK does not take a value.
    #[error("{field} cannot be used in a CDEvent")]
    Field {
        /// Which one.
        field: &'static str,
        /// Why.
        source: cdevents_sdk::Error,
    },
    /// The event cannot be written as JSON.
    #[error("the CDEvent cannot be encoded")]
    Encode(#[from] serde_json::Error),
}

/// The id of an event: the same for every repetition.
///
/// `number` tells one transition from another of the same kind: a revision may be restored twice.
pub fn id(uid: &str, revision: i64, number: i64, happening: Happening) -> String {
    use std::fmt::Write as _;
    let digest = Sha256::digest(format!("{uid}\n{revision}\n{number}\n{}", happening.as_str()).as_bytes());
    digest.iter().take(16).fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Makes the message of an event.
pub fn build(occurrence: &Occurrence, origin: &Origin) -> Result<Message, BuildError> {
    let id = id(&occurrence.uid, occurrence.revision, occurrence.number, occurrence.happening);
    let source = format!(
        "{}/apis/windlass.dev/v1alpha1/namespaces/{}/rollouts/{}",
        origin.source.trim_end_matches('/'),
        occurrence.namespace,
        occurrence.name
    );
    let subject = format!("{}/{}", occurrence.namespace, occurrence.name);
    let uri = uri("source", &source)?;
    let content = content(occurrence, origin)?;
    let event =
        CDEvent::from(Subject::from(content).with_id(text("subject", &subject)?).with_source(uri.clone()))
            .with_id(text("id", &id)?)
            .with_source(uri)
            .with_custom_data(json!({ "revision": occurrence.revision, "image": occurrence.image }))
            .with_custom_data_content_type("application/json".to_owned());
    let kind = event.ty().to_owned();
    let time = occurrence.at.to_string();
    let mut value = serde_json::to_value(event)?;
    // The SDK stamps an event with the time at which it was made; what counts is when it happened.
    value["context"]["timestamp"] = Value::from(time.as_str());
    let headers = vec![
        ("content-type", "application/json".to_owned()),
        ("ce-specversion", "1.0".to_owned()),
        ("ce-id", id.clone()),
        ("ce-source", source),
        ("ce-type", kind),
        ("ce-subject", subject),
        ("ce-time", time),
    ];
    Ok(Message { id, headers, body: serde_json::to_vec(&value)? })
}

fn content(occurrence: &Occurrence, origin: &Origin) -> Result<Content, BuildError> {
    let environment = origin.environment.as_deref().unwrap_or(&occurrence.namespace);
    let environment = text("environment", environment)?;
    let artifact = || text("artifactId", &purl(occurrence.image.as_deref().unwrap_or(&occurrence.name)));
    Ok(match occurrence.happening {
        Happening::Deployed => {
            let environment = service_deployed::ContentEnvironment { id: environment, source: None };
            service_deployed::Content { artifact_id: artifact()?, environment }.into()
        }
        Happening::Upgraded => {
            let environment = service_upgraded::ContentEnvironment { id: environment, source: None };
            service_upgraded::Content { artifact_id: artifact()?, environment }.into()
        }
        Happening::RolledBack => {
            let environment = service_rolledback::ContentEnvironment { id: environment, source: None };
            service_rolledback::Content { artifact_id: artifact()?, environment }.into()
        }
        Happening::Published => {
            let environment = service_published::ContentEnvironment { id: environment, source: None };
            service_published::Content { environment: Some(environment) }.into()
        }
        Happening::Removed => {
            let environment = service_removed::ContentEnvironment { id: environment, source: None };
            service_removed::Content { environment: Some(environment) }.into()
        }
    })
}

fn text(field: &'static str, value: &str) -> Result<Id, BuildError> {
    Id::try_from(value).map_err(|source| BuildError::Field { field, source })
}

fn uri(field: &'static str, value: &str) -> Result<UriReference, BuildError> {
    UriReference::try_from(value).map_err(|source| BuildError::Field { field, source })
}
