//! A small HTTP client for tests and for the testbed's own requests to servers on this machine.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::body::BoxError;

/// Why a request failed.
#[derive(Debug)]
pub(super) enum SendError {
    /// Nobody listens.
    Connect(std::io::Error),
    /// The connection broke.
    Http(hyper::Error),
}

impl std::fmt::Display for SendError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Connect(_) => "cannot connect",
            Self::Http(_) => "the connection broke",
        })
    }
}

impl std::error::Error for SendError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Connect(error) => Some(error),
            Self::Http(error) => Some(error),
        }
    }
}

/// Sends one request on a connection of its own.
pub(super) async fn send<B>(address: SocketAddr, request: Request<B>) -> Result<Response<Incoming>, SendError>
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let stream = TcpStream::connect(address).await.map_err(SendError::Connect)?;
    send_on(stream, request).await.map_err(SendError::Http)
}

async fn send_on<B>(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    mut request: Request<B>,
) -> Result<Response<Incoming>, hyper::Error>
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    // Only the path goes on the wire; who is asked stands in `Host`.
    if let Some(path) = request.uri().path_and_query().cloned() {
        *request.uri_mut() = Uri::from(path);
    }
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "connection ended");
        }
    });
    sender.send_request(request).await
}

/// A client that trusts at most one certificate authority.
#[derive(Debug, Clone)]
pub struct HttpClient {
    roots: Option<Arc<ClientConfig>>,
    deadline: Duration,
}

/// An answer with its whole body.
#[derive(Debug, Clone)]
pub struct Received {
    /// HTTP status.
    pub status: StatusCode,
    /// Headers.
    pub headers: HeaderMap,
    /// Body.
    pub body: Bytes,
}

impl Received {
    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

impl Default for HttpClient {
    fn default() -> Self {
        Self { roots: None, deadline: Duration::from_secs(30) }
    }
}

impl HttpClient {
    /// A client for `http` addresses.
    pub fn new() -> Self {
        Self::default()
    }

    /// Also trusts servers with a certificate of this authority.
    pub fn trusting(ca_pem: &str) -> anyhow::Result<Self> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(ca_pem.as_bytes()) {
            roots
                .add(certificate.context("cannot read a certificate")?)
                .context("cannot trust a certificate")?;
        }
        let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .context("cannot set up TLS")?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self { roots: Some(Arc::new(config)), ..Self::default() })
    }

    /// Gives up after this long (30 s unless told otherwise).
    #[must_use]
    pub fn deadline(self, deadline: Duration) -> Self {
        Self { deadline, ..self }
    }

    /// Gets a page.
    pub async fn get(&self, url: &str) -> anyhow::Result<Received> {
        let request =
            Request::get(url).body(Bytes::new()).with_context(|| format!("{url} is no valid address"))?;
        self.send(request).await
    }

    /// Sends a request and waits for the whole answer. Redirects are not followed.
    pub async fn send(&self, request: Request<Bytes>) -> anyhow::Result<Received> {
        let what = format!("{} {}", request.method(), request.uri());
        match tokio::time::timeout(self.deadline, self.exchange(request)).await {
            Ok(result) => result.context(what),
            Err(_) => anyhow::bail!("{what}: no answer within {:?}", self.deadline),
        }
    }

    async fn exchange(&self, request: Request<Bytes>) -> anyhow::Result<Received> {
        let authority = request.uri().authority().context("the address has no host")?.clone();
        let tls = request.uri().scheme_str() == Some("https");
        let port = authority.port_u16().unwrap_or(if tls { 443 } else { 80 });
        let mut request = request.map(Full::new);
        let host = HeaderValue::from_str(authority.as_str()).context("the host is no valid header")?;
        request.headers_mut().entry(header::HOST).or_insert(host);
        let stream = TcpStream::connect((authority.host(), port)).await.context("cannot connect")?;
        let response = if tls {
            let config = self.roots.clone().context("no certificate authority was given to trust")?;
            let name =
                ServerName::try_from(authority.host().to_owned()).context("the host is no valid name")?;
            let stream =
                TlsConnector::from(config).connect(name, stream).await.context("TLS handshake failed")?;
            send_on(stream, request).await
        } else {
            send_on(stream, request).await
        };
        let (head, body) = response.context("no answer")?.into_parts();
        let body = body.collect().await.context("the answer broke off")?.to_bytes();
        Ok(Received { status: head.status, headers: head.headers, body })
    }
}
