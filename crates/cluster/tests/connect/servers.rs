//! Servers that are no good API servers, each in its own way.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use rcgen::{CertificateParams, Issuer, KeyPair};
use rustls::{
    RootCertStore, ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::WebPkiClientVerifier,
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};
use tokio_rustls::TlsAcceptor;

/// A certificate authority made for one test.
pub struct Authority {
    params: CertificateParams,
    key: KeyPair,
    pub pem: String,
}

/// A certificate and its key, PEM.
pub struct Identity {
    pub certificate: String,
    pub key: String,
}

impl Authority {
    pub fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem();
        Self { params, key, pem }
    }

    /// Signs a certificate for these names, valid until a year.
    pub fn sign(&self, names: &[&str], until: i32) -> Identity {
        let key = KeyPair::generate().unwrap();
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(until, 1, 1);
        let issuer = Issuer::from_params(&self.params, &self.key);
        let certificate = params.signed_by(&key, &issuer).unwrap().pem();
        Identity { certificate, key: key.serialize_pem() }
    }
}

/// What a server does with a connection.
#[derive(Clone)]
pub enum Manner {
    /// Accepts and says nothing.
    Silent,
    /// Accepts and hangs up.
    Cut,
    /// Answers HTTP without TLS.
    PlainHttp,
    /// Finishes the handshake, takes the request and says nothing.
    SilentAfterTls,
    /// Answers over TLS; the request's head goes in, the whole response comes out.
    Answers(Arc<dyn Fn(&str) -> String + Send + Sync>),
}

/// A server that ends with its value.
pub struct Server {
    pub port: u16,
    connections: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    /// Listens on a free port of 127.0.0.1. With `clients`, asks for a certificate of that authority.
    pub async fn start(identity: &Identity, clients: Option<&Authority>, manner: Manner) -> Self {
        let acceptor = TlsAcceptor::from(Arc::new(tls(identity, clients)));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let connections = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&connections);
        let task = tokio::spawn(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else { continue };
                count.fetch_add(1, Ordering::SeqCst);
                let (acceptor, manner) = (acceptor.clone(), manner.clone());
                tokio::spawn(async move {
                    match manner {
                        Manner::Silent => tokio::time::sleep(Duration::from_mins(10)).await,
                        Manner::Cut => drop(stream),
                        Manner::PlainHttp => answer_anything(stream).await,
                        Manner::SilentAfterTls => {
                            if let Ok(mut stream) = acceptor.accept(stream).await {
                                read_head(&mut stream).await;
                                tokio::time::sleep(Duration::from_mins(10)).await;
                            }
                        }
                        Manner::Answers(answer) => match acceptor.accept(stream).into_fallible().await {
                            Ok(stream) => serve(stream, &*answer).await,
                            // The alert is lost when the socket closes on bytes that nobody read.
                            Err((_, mut stream)) => drop(stream.read_to_end(&mut Vec::new()).await),
                        },
                    }
                });
            }
        });
        Self { port, connections, task }
    }

    /// Connections so far.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

fn tls(identity: &Identity, clients: Option<&Authority>) -> ServerConfig {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .unwrap();
    let builder = match clients {
        Some(authority) => {
            let mut roots = RootCertStore::empty();
            roots.add(CertificateDer::from_pem_slice(authority.pem.as_bytes()).unwrap()).unwrap();
            let verifier =
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
            builder.with_client_cert_verifier(verifier)
        }
        None => builder.with_no_client_auth(),
    };
    let chain = vec![CertificateDer::from_pem_slice(identity.certificate.as_bytes()).unwrap()];
    builder.with_single_cert(chain, PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).unwrap()).unwrap()
}

/// An HTTP server does not wait for more when it reads a handshake instead of a request.
async fn answer_anything(mut stream: TcpStream) {
    let mut some = [0; 16];
    if stream.read_exact(&mut some).await.is_ok() {
        let bad = response("400 Bad Request", "text/plain", "connection: close\r\n", "bad request");
        drop(stream.write_all(bad.as_bytes()).await);
        drop(stream.shutdown().await);
        drop(stream.read_to_end(&mut Vec::new()).await);
    }
}

async fn serve(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    answer: &(dyn Fn(&str) -> String + Send + Sync),
) {
    while let Some(head) = read_head(&mut stream).await {
        if stream.write_all(answer(&head).as_bytes()).await.is_err() || stream.flush().await.is_err() {
            return;
        }
    }
}

/// Reads a request and drops its body.
async fn read_head(stream: &mut (impl AsyncRead + Unpin)) -> Option<String> {
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"\r\n\r\n") {
        bytes.push(stream.read_u8().await.ok()?);
    }
    let head = String::from_utf8_lossy(&bytes).into_owned();
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    let mut body = vec![0; length.unwrap_or(0)];
    stream.read_exact(&mut body).await.ok()?;
    Some(head)
}

/// A whole HTTP response.
pub fn response(status: &str, kind: &str, more: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\ncontent-type: {kind}\r\n{more}content-length: {}\r\n\r\n{body}", body.len())
}

/// A page such as a wrong port shows.
pub fn page(text: &str) -> String {
    response("200 OK", "text/html", "", &format!("<html><body>{text}</body></html>"))
}

/// A JSON answer.
pub fn json_answer(status: &str, body: &Value) -> String {
    response(status, "application/json", "", &body.to_string())
}

/// What `/version` of a real API server looks like.
pub fn version() -> Value {
    json!({"major": "1", "minor": "36", "gitVersion": "v1.36.3", "gitCommit": "c", "gitTreeState": "clean",
        "buildDate": "2026-01-01T00:00:00Z", "goVersion": "go1.26", "compiler": "gc", "platform": "linux/amd64"})
}

/// A kubeconfig for one server and one user.
pub fn kubeconfig(server: &str, authority: &str, user: &Value) -> Vec<u8> {
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "main",
        "contexts": [{"name": "main", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {
            "server": server, "certificate-authority-data": STANDARD.encode(authority)}}],
        "users": [{"name": "u", "user": user}],
    })
    .to_string()
    .into_bytes()
}

/// A user with a client certificate.
pub fn certified(identity: &Identity) -> Value {
    json!({"client-certificate-data": STANDARD.encode(&identity.certificate),
        "client-key-data": STANDARD.encode(&identity.key)})
}
