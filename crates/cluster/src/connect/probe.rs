//! Whether a cluster answers, and if not, why.

use std::{fmt, time::Duration};

use http::{Request, StatusCode, header::CONTENT_TYPE};
use http_body_util::{BodyExt, Limited};
use k8s_openapi::{
    api::authentication::v1::SelfSubjectReview, apimachinery::pkg::version::Info as VersionInfo,
};
use kube::{Client, client::Body};
use serde::Serialize;
use tokio::time::Instant;

use super::{Transport, Unthrottled, transport};

/// Largest answer that a probe reads.
const MAX_ANSWER: usize = 256 * 1024;

/// What a cluster said about itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Probe {
    /// Version of the API server, such as `v1.36.3`.
    pub version: String,
    /// Platform of the API server, such as `linux/amd64`.
    pub platform: String,
    /// Time that `GET /version` took, with the connection when none was open.
    pub latency: Duration,
    /// Who we are there; `None` when the server is too old to say.
    pub user: Option<String>,
}

/// Why a cluster cannot be used. Holds nothing that the server answered, and no credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub enum ProbeError {
    /// The host name has no address.
    Unresolvable,
    /// Nothing listens there.
    ConnectionRefused,
    /// No route to the address.
    Unreachable,
    /// The connection was cut before an answer came.
    ConnectionLost,
    /// No answer in time.
    Timeout,
    /// The server's certificate is not signed by the kubeconfig's certificate authority.
    CertificateUntrusted,
    /// The server's certificate has ended, or has not begun.
    CertificateExpired,
    /// The server's certificate is for other names.
    CertificateNameMismatch,
    /// The server refused our client certificate.
    ClientCertificateRejected,
    /// The credentials are not accepted (401), or were ignored.
    Unauthorized,
    /// The user is known but may not even ask who it is (403).
    Forbidden,
    /// Something answers, but it is no Kubernetes API.
    NotKubernetes,
    /// The API server failed (5xx).
    ServerError {
        /// HTTP status.
        code: u16,
    },
    /// The API server asks for patience (429).
    TooManyRequests,
    /// Any other failure.
    Other,
}

impl ProbeError {
    /// A reason for a condition: one of a fixed set, in CamelCase.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Unresolvable => "Unresolvable",
            Self::ConnectionRefused => "ConnectionRefused",
            Self::Unreachable => "Unreachable",
            Self::ConnectionLost => "ConnectionLost",
            Self::Timeout => "Timeout",
            Self::CertificateUntrusted => "CertificateUntrusted",
            Self::CertificateExpired => "CertificateExpired",
            Self::CertificateNameMismatch => "CertificateNameMismatch",
            Self::ClientCertificateRejected => "ClientCertificateRejected",
            Self::Unauthorized => "Unauthorized",
            Self::Forbidden => "Forbidden",
            Self::NotKubernetes => "NotKubernetes",
            Self::ServerError { .. } => "ServerError",
            Self::TooManyRequests => "TooManyRequests",
            Self::Other => "ProbeFailed",
        }
    }

    /// What the owner of the cluster can do about it, as one sentence.
    pub fn remedy(&self) -> String {
        match self {
            Self::Unresolvable => "Check the host name in the kubeconfig's server, and the DNS of this cluster.",
            Self::ConnectionRefused => "Check the port in the kubeconfig's server, and that the API server runs.",
            Self::Unreachable | Self::Timeout => {
                "Check the address in the kubeconfig's server, firewalls and network policies between the clusters."
            }
            Self::ConnectionLost => "Check load balancers and proxies in front of the API server.",
            Self::CertificateUntrusted => {
                "Set certificate-authority-data to the certificate authority that signed the API server's certificate."
            }
            Self::CertificateExpired => "Renew the API server's certificate, and check the clocks.",
            Self::CertificateNameMismatch => {
                "Use a host name that the API server's certificate holds, or set tls-server-name to one."
            }
            Self::ClientCertificateRejected => {
                "Issue a client certificate that the API server's client certificate authority has signed."
            }
            Self::Unauthorized => "Renew the token or client certificate: it is expired, revoked or of another cluster.",
            Self::Forbidden => "Bind the user to a role in that cluster, and check its right to impersonate.",
            Self::NotKubernetes => "Check that the kubeconfig's server is the https address of a Kubernetes API server.",
            Self::ServerError { .. } => "Check the health of the API server; the probe is repeated.",
            Self::TooManyRequests => "Lower qps for this cluster; the probe is repeated.",
            Self::Other => "Check the API server with kubectl and the same kubeconfig.",
        }
        .to_owned()
    }
}

impl fmt::Display for ProbeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unresolvable => "the API server's host name does not resolve",
            Self::ConnectionRefused => "nothing listens at the API server's address",
            Self::Unreachable => "there is no route to the API server",
            Self::ConnectionLost => "the connection to the API server was cut",
            Self::Timeout => "the API server did not answer in time",
            Self::CertificateUntrusted => "the API server's certificate is not signed by a trusted authority",
            Self::CertificateExpired => "the API server's certificate is outside of its validity",
            Self::CertificateNameMismatch => "the API server's certificate is for another host name",
            Self::ClientCertificateRejected => "the API server refused the client certificate",
            Self::Unauthorized => "the API server does not accept the credentials",
            Self::Forbidden => "the API server forbids the user everything",
            Self::NotKubernetes => "what answers is not a Kubernetes API server",
            Self::ServerError { code } => return write!(f, "the API server failed with HTTP {code}"),
            Self::TooManyRequests => "the API server asks for fewer requests",
            Self::Other => "the API server cannot be used",
        })
    }
}

impl std::error::Error for ProbeError {}

/// Asks a cluster for its version, and then who we are there.
///
/// `/version` may be open to everybody, so only the second answer shows that the credentials work. Takes at most
/// `timeout` in total and does not wait for the client's rate limit.
pub async fn probe(client: &Client, timeout: Duration) -> Result<Probe, ProbeError> {
    tokio::time::timeout(timeout, ask(client)).await.unwrap_or(Err(ProbeError::Timeout))
}

async fn ask(client: &Client) -> Result<Probe, ProbeError> {
    let start = Instant::now();
    let (status, body) = send(client, Request::get("/version"), Vec::new()).await?;
    check(status)?;
    let latency = start.elapsed();
    let version: VersionInfo = serde_json::from_slice(&body).map_err(|_| ProbeError::NotKubernetes)?;
    if version.git_version.is_empty() {
        return Err(ProbeError::NotKubernetes);
    }
    let user = who_am_i(client).await?;
    Ok(Probe { version: tame(&version.git_version), platform: tame(&version.platform), latency, user })
}

async fn who_am_i(client: &Client) -> Result<Option<String>, ProbeError> {
    let review = serde_json::json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let request = Request::post("/apis/authentication.k8s.io/v1/selfsubjectreviews")
        .header(CONTENT_TYPE, "application/json");
    let (status, body) = send(client, request, review.to_string().into_bytes()).await?;
    if status == StatusCode::NOT_FOUND {
        // Before 1.28. Discovery is for authenticated users, which tells as much.
        let (status, body) = send(client, Request::get("/api"), Vec::new()).await?;
        check(status)?;
        let versions: serde_json::Value =
            serde_json::from_slice(&body).map_err(|_| ProbeError::NotKubernetes)?;
        return if versions["versions"].is_array() { Ok(None) } else { Err(ProbeError::NotKubernetes) };
    }
    check(status)?;
    let review: SelfSubjectReview = serde_json::from_slice(&body).map_err(|_| ProbeError::NotKubernetes)?;
    let user =
        review.status.and_then(|status| status.user_info).and_then(|info| info.username).unwrap_or_default();
    // Something on the way dropped our certificate or token.
    if user.is_empty() || user == "system:anonymous" {
        return Err(ProbeError::Unauthorized);
    }
    Ok(Some(tame(&user)))
}

async fn send(
    client: &Client,
    request: http::request::Builder,
    body: Vec<u8>,
) -> Result<(StatusCode, bytes::Bytes), ProbeError> {
    let request = request.extension(Unthrottled).body(Body::from(body)).map_err(|_| ProbeError::Other)?;
    let response = client.send(request).await.map_err(|error| of_transport(&error))?;
    let status = response.status();
    let body = Limited::new(response.into_body(), MAX_ANSWER).collect().await.map_err(|error| {
        if error.is::<http_body_util::LengthLimitError>() {
            return ProbeError::NotKubernetes;
        }
        of_transport(&*error)
    })?;
    Ok((status, body.to_bytes()))
}

fn of_transport(error: &(dyn std::error::Error + 'static)) -> ProbeError {
    match transport(error) {
        Some(Transport::Unresolvable) => ProbeError::Unresolvable,
        Some(Transport::ConnectionRefused) => ProbeError::ConnectionRefused,
        Some(Transport::Unreachable) => ProbeError::Unreachable,
        Some(Transport::ConnectionLost) => ProbeError::ConnectionLost,
        Some(Transport::Timeout) => ProbeError::Timeout,
        Some(Transport::CertificateUntrusted) => ProbeError::CertificateUntrusted,
        Some(Transport::CertificateExpired) => ProbeError::CertificateExpired,
        Some(Transport::CertificateNameMismatch) => ProbeError::CertificateNameMismatch,
        Some(Transport::ClientCertificateRejected) => ProbeError::ClientCertificateRejected,
        Some(Transport::NotTls) => ProbeError::NotKubernetes,
        None => ProbeError::Other,
    }
}

fn check(status: StatusCode) -> Result<(), ProbeError> {
    match status.as_u16() {
        200..=299 => Ok(()),
        401 => Err(ProbeError::Unauthorized),
        403 => Err(ProbeError::Forbidden),
        429 => Err(ProbeError::TooManyRequests),
        code @ 500..=599 => Err(ProbeError::ServerError { code }),
        // A redirect is never followed: it would carry the credentials elsewhere.
        _ => Err(ProbeError::NotKubernetes),
    }
}

/// A server's words are shown in a status: short, and without control characters.
fn tame(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(128).collect()
}
