//! A small https listener that answers by a function and remembers what it was asked.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustls_pki_types::pem::PemObject;
use serde_json::Value;
use tokio_rustls::TlsAcceptor;
use windlass_testbed::pki::{Ca, LOOPBACK};

type Seen = Arc<Mutex<Vec<Value>>>;

pub struct Listener {
    pub url: String,
    pub ca_pem: String,
    seen: Seen,
    task: tokio::task::JoinHandle<()>,
}

impl Listener {
    pub async fn start(answer: fn(&Value) -> Value) -> Self {
        let ca = Ca::new("listener").unwrap();
        let server = ca.server("listener", &LOOPBACK).unwrap();
        let certs =
            vec![rustls_pki_types::CertificateDer::from_pem_slice(server.cert_pem.as_bytes()).unwrap()];
        let key = rustls_pki_types::PrivateKeyDer::from_pem_slice(server.key_pem.as_bytes()).unwrap();
        let config =
            rustls::ServerConfig::builder_with_provider(rustls::crypto::ring::default_provider().into())
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_no_client_auth()
                .with_single_cert(certs, key)
                .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://127.0.0.1:{}/", listener.local_addr().unwrap().port());
        let seen = Seen::default();
        let task = tokio::spawn(accept(listener, acceptor, seen.clone(), answer));
        Self { url, ca_pem: ca.pem(), seen, task }
    }

    pub fn seen(&self) -> Vec<Value> {
        self.seen.lock().unwrap().clone()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(
    listener: tokio::net::TcpListener,
    tls: TlsAcceptor,
    seen: Seen,
    answer: fn(&Value) -> Value,
) {
    while let Ok((stream, _)) = listener.accept().await {
        let (tls, seen) = (tls.clone(), seen.clone());
        tokio::spawn(async move {
            let Ok(stream) = tls.accept(stream).await else { return };
            let service = service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
                let seen = seen.clone();
                async move {
                    let body = request.into_body().collect().await?.to_bytes();
                    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
                    let reply = answer(&body).to_string();
                    seen.lock().unwrap().push(body);
                    let response = hyper::Response::builder()
                        .header("content-type", "application/json")
                        .body(Full::new(Bytes::from(reply)));
                    Ok::<_, hyper::Error>(response.unwrap())
                }
            });
            drop(
                hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service)
                    .await,
            );
        });
    }
}
