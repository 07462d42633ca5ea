//! Where values come from.

use std::collections::BTreeMap;

use kube::KubeSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::judge::{Compare, SloBurnRate};

/// Where a value comes from: exactly one of these.
///
/// Addresses are the tenant's choice: the controller asks whatever `http://` or `https://` address stands here. Who
/// must not reach internal servers through it is kept from them by a network policy for the controller.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Provider {
    /// A query to Prometheus, or to what speaks its HTTP API.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prometheus: Option<Prometheus>,

    /// An HTTP request; the answer is JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub web: Option<Web>,

    /// A Job: its end is the verdict.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<Job>,

    /// How fast the error budget of an objective is used up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slo_burn_rate: Option<SloBurnRate>,

    /// The canary beside the baseline, by a statistical test.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compare: Option<Compare>,

    /// Providers that are not known here. They are kept, so that they can be refused by their name.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

/// How a server that speaks the HTTP API of Prometheus is reached.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Server {
    /// Its address, such as `http://prometheus.monitoring:9090`. Default: the controller's setting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096))]
    pub address: Option<String>,

    /// Seconds that it may take to answer. Default: 30.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 600))]
    pub timeout: Option<i64>,

    /// Its certificate is not checked.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub insecure: bool,

    /// Headers of the request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub headers: Vec<Header>,

    /// How to log in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authentication: Option<Authentication>,
}

/// A query to Prometheus.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Prometheus {
    /// Who is asked.
    #[serde(flatten)]
    pub server: Server,

    /// What is asked, in `PromQL`. `result` is a number for a scalar and a list of numbers otherwise.
    #[schemars(length(min = 1, max = 16384))]
    pub query: String,

    /// Asks for values over a time instead of those of now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range_query: Option<RangeQuery>,
}

/// The time that a range query goes over.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct RangeQuery {
    /// Its start: `now() - duration("1h")`, `now()` or a time such as `2030-01-01T00:00:00Z`.
    #[schemars(length(max = 1024))]
    pub start: String,
    /// Its end, in the same words.
    #[schemars(length(max = 1024))]
    pub end: String,
    /// The distance of two values, such as `15s`.
    #[schemars(length(max = 256))]
    pub step: String,
}

/// A header of a request.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Header {
    /// Its name.
    #[schemars(length(min = 1, max = 256))]
    pub key: String,
    /// Its value. A secret one is `{{args.token}}` with an argument from a Secret.
    #[serde(default)]
    #[schemars(length(max = 16384))]
    pub value: String,
}

/// How to log in.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Authentication {
    /// With a token that is asked for first, by client credentials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oauth2: Option<OAuth2>,

    /// Ways to log in that are not known here. They are kept, so that they can be refused by their name.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

/// OAuth 2.0 client credentials.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct OAuth2 {
    /// Where the token is asked for.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 4096))]
    pub token_url: String,
    /// Identity of the client.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 4096))]
    pub client_id: String,
    /// Its secret; best `{{args.secret}}` with an argument from a Secret.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 16384))]
    pub client_secret: String,
    /// What the token is for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub scopes: Vec<String>,
}

/// An HTTP request.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Web {
    /// `GET`, `POST` or `PUT`. Default: `GET`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub method: Option<String>,

    /// Its address.
    #[schemars(length(min = 1, max = 8192))]
    pub url: String,

    /// Headers of the request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub headers: Vec<Header>,

    /// What is sent, as text. Only with `POST` and `PUT`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 65536))]
    pub body: Option<String>,

    /// What is sent, as JSON. Only with `POST` and `PUT`, and not beside `body`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::free::object")]
    pub json_body: Option<Value>,

    /// Seconds that the answer may take. Default: 10.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 600))]
    pub timeout_seconds: Option<i64>,

    /// Which part of the answer is `result`, such as `{$.data.rate}`. Default: all of it, `{$}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096))]
    pub json_path: Option<String>,

    /// The server's certificate is not checked.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub insecure: bool,

    /// How to log in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authentication: Option<Authentication>,
}

/// A Job that is run for a measurement. Complete is success, failed is failure.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Job {
    /// Labels and annotations of the Job. Its name is made up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<JobMetadata>,

    /// As in a Job of `batch/v1`.
    #[schemars(schema_with = "crate::free::object")]
    pub spec: Value,
}

/// Labels and annotations of a Job.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct JobMetadata {
    /// Labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}
