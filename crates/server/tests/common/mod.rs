//! A small client, and certificates without a cluster.
#![allow(dead_code, reason = "every test file uses another part of it")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_util::sync::CancellationToken;
use windlass_server::certificates::{
    CertificateAction, CertificateSpec, Material, ServingCertificate, bundle, carry_out, observe,
};
use windlass_server::listener::Server;

/// Long enough for any busy machine.
pub const PATIENCE: Duration = Duration::from_mins(1);

pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: String,
}

/// A server that ends with the test.
pub struct Running {
    pub address: SocketAddr,
    pub shutdown: CancellationToken,
    pub task: tokio::task::JoinHandle<()>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

pub fn start(server: Server) -> Running {
    let shutdown = CancellationToken::new();
    let address = server.local_addr();
    Running { address, task: tokio::spawn(server.run(shutdown.clone())), shutdown }
}

pub fn loopback() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

pub async fn send(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<Full<Bytes>>,
) -> anyhow::Result<Answer> {
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let connection = tokio::spawn(connection);
    let response = sender.send_request(request).await?;
    let (parts, body) = response.into_parts();
    let body = body.collect().await?.to_bytes();
    connection.abort();
    Ok(Answer { status: parts.status, headers: parts.headers, body: String::from_utf8(body.to_vec())? })
}

pub fn request(method: &str, path: &str, body: impl Into<Bytes>) -> Request<Full<Bytes>> {
    Request::builder()
        .method(method)
        .uri(path)
        .header("host", "localhost")
        .header("content-type", "application/json")
        .body(Full::new(body.into()))
        .unwrap()
}

pub async fn get(address: SocketAddr, path: &str) -> anyhow::Result<Answer> {
    send(TcpStream::connect(address).await?, request("GET", path, "")).await
}

/// A client that trusts a bundle and nothing else.
#[derive(Clone)]
pub struct TlsClient(TlsConnector);

impl TlsClient {
    pub fn trusting(bundle: &[u8]) -> Self {
        let mut roots = RootCertStore::empty();
        for ca in CertificateDer::pem_slice_iter(bundle) {
            roots.add(ca.unwrap()).unwrap();
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        // Every connection looks at the certificate.
        config.resumption = rustls::client::Resumption::disabled();
        Self(TlsConnector::from(Arc::new(config)))
    }

    pub async fn connect(
        &self,
        address: SocketAddr,
    ) -> anyhow::Result<tokio_rustls::client::TlsStream<TcpStream>> {
        let stream = TcpStream::connect(address).await.context("connect")?;
        self.0.connect(ServerName::IpAddress(address.ip().into()), stream).await.context("handshake")
    }

    pub async fn post(
        &self,
        address: SocketAddr,
        path: &str,
        body: impl Into<Bytes>,
    ) -> anyhow::Result<Answer> {
        send(self.connect(address).await?, request("POST", path, body)).await
    }
}

/// Certificates for 127.0.0.1.
pub struct Certificates {
    pub spec: CertificateSpec,
    pub material: Material,
}

impl Certificates {
    pub fn new() -> Self {
        let mut certificates =
            Self { spec: CertificateSpec::new(["127.0.0.1"]), material: Material::default() };
        certificates.step(CertificateAction::Create);
        certificates
    }

    pub fn step(&mut self, action: CertificateAction) {
        self.material = carry_out(action, &self.material, &self.spec, Timestamp::now()).unwrap();
    }

    pub fn bundle(&self) -> Vec<u8> {
        bundle(&observe(&self.material, &self.spec, None), &self.material, Timestamp::now())
    }

    pub fn load(&self, serving: &ServingCertificate) -> bool {
        let key = self.material.serving_key.as_ref().unwrap();
        serving.set(self.material.serving.as_ref().unwrap(), key.reveal()).unwrap()
    }

    pub fn serving(&self) -> Arc<ServingCertificate> {
        let serving = ServingCertificate::new();
        assert!(self.load(&serving));
        serving
    }
}

/// A request as kube-apiserver sends it.
pub fn review(uid: &str, name: &str) -> String {
    serde_json::json!({
        "kind": "AdmissionReview",
        "apiVersion": "admission.k8s.io/v1",
        "request": {
            "uid": uid,
            "kind": {"group": "", "version": "v1", "kind": "ConfigMap"},
            "resource": {"group": "", "version": "v1", "resource": "configmaps"},
            "name": name,
            "namespace": "default",
            "operation": "CREATE",
            "userInfo": {"username": "dev-a", "groups": ["system:authenticated"]},
            "object": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}},
            "oldObject": null,
            "dryRun": false,
        },
    })
    .to_string()
}
