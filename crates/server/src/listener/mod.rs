//! Accepting connections, with and without TLS.
//!
//! Every wait on a client has an end ([`Limits`]), every buffer a size and the number of connections a cap, so
//! that a client that sends slowly, reads slowly, sends too much or comes too often costs a known amount and
//! is then let go. A handler that panics or never answers costs its own request only.

mod connection;
mod guard;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use rustls::ServerConfig;
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, info, warn};

use crate::certificates::ServingCertificate;
use connection::Connection;

/// How long to wait before accepting again when the machine refuses a connection, as when it has run out of
/// file descriptors: trying at once would only spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A listener that could not be set up.
#[derive(Debug, Error)]
pub enum ListenError {
    /// The address is taken, not ours, or needs privileges.
    #[error("cannot listen on {address} for {name}; choose another address if it is in use")]
    Bind {
        /// What the listener is for.
        name: &'static str,
        /// The address asked for.
        address: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
    /// No common ground between the TLS library and its cryptography.
    #[error("cannot set up TLS for {name}")]
    Tls {
        /// What the listener is for.
        name: &'static str,
        /// What rustls said.
        source: rustls::Error,
    },
}

/// What a client may cost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Connections at the same time; more wait in the system's queue.
    pub max_connections: usize,
    /// From connection to the end of the TLS handshake.
    pub handshake_timeout: Duration,
    /// A connection on which no request is under way.
    pub idle_timeout: Duration,
    /// From the first byte of a request to the end of its headers.
    pub header_timeout: Duration,
    /// From the end of the headers to the answer, with the time it takes the body to arrive.
    pub request_timeout: Duration,
    /// How long the client may refuse to take any more of the answer.
    pub write_timeout: Duration,
    /// Size of all headers of a request.
    pub max_header_bytes: usize,
    /// Size of the body of a request.
    pub max_body_bytes: usize,
    /// How long requests under way may still run after shutdown has begun.
    pub grace: Duration,
}

impl Limits {
    /// For probes and metrics: small requests, quick answers.
    pub fn probes() -> Self {
        Self {
            max_connections: 256,
            handshake_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_mins(1),
            header_timeout: Duration::from_secs(10),
            request_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(30),
            max_header_bytes: 16 * 1024,
            max_body_bytes: 64 * 1024,
            grace: Duration::from_secs(5),
        }
    }

    /// For hooks that Git servers call, perhaps over the internet: small bodies, little patience.
    ///
    /// Git servers themselves give up after 10 s or sooner.
    pub fn hooks(max_body_bytes: usize) -> Self {
        Self {
            max_connections: 512,
            idle_timeout: Duration::from_secs(30),
            header_timeout: Duration::from_secs(5),
            request_timeout: Duration::from_secs(10),
            write_timeout: Duration::from_secs(10),
            max_body_bytes,
            ..Self::probes()
        }
    }

    /// For webhooks that kube-apiserver calls.
    ///
    /// An API object may be 3 MiB in a request, and an `AdmissionReview` can carry it twice (the object and the
    /// old object). The API server waits for at most 30 s. It gives idle connections up after 90 s by itself:
    /// waiting longer than that here means that this side never closes a connection on which a request is
    /// just being sent, which the API server would not send again.
    pub fn webhooks() -> Self {
        Self {
            max_connections: 1024,
            idle_timeout: Duration::from_mins(3),
            max_body_bytes: 7 * 1024 * 1024,
            ..Self::probes()
        }
    }
}

/// A bound listener that is about to serve.
#[derive(Debug)]
pub struct Server {
    name: &'static str,
    listener: TcpListener,
    address: SocketAddr,
    limits: Limits,
    router: Router,
    fallback: Option<Router>,
    tls: Option<TlsAcceptorDebug>,
}

/// `TlsAcceptor` has no `Debug`, and what it holds is better not shown.
#[derive(Clone)]
struct TlsAcceptorDebug(TlsAcceptor);

impl std::fmt::Debug for TlsAcceptorDebug {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TlsAcceptor")
    }
}

impl Server {
    /// Binds the address; `name` tells listeners apart in logs.
    ///
    /// # Errors
    /// When the address cannot be listened on.
    pub async fn bind(name: &'static str, address: SocketAddr, limits: Limits) -> Result<Self, ListenError> {
        let failed = |source| ListenError::Bind { name, address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self { name, listener, address, limits, router: Router::new(), fallback: None, tls: None })
    }

    /// Serves TLS with whatever the certificate holds at the time of each handshake.
    ///
    /// # Errors
    /// When TLS cannot be set up.
    pub fn with_tls(mut self, certificate: Arc<ServingCertificate>) -> Result<Self, ListenError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|source| ListenError::Tls { name: self.name, source })?
            .with_no_client_auth()
            .with_cert_resolver(certificate);
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        self.tls = Some(TlsAcceptorDebug(TlsAcceptor::from(Arc::new(config))));
        Ok(self)
    }

    /// Adds routes; may be called again and again.
    #[must_use]
    pub fn merge(mut self, routes: Router) -> Self {
        self.router = self.router.merge(routes);
        self
    }

    /// What answers when no route does, whatever the routes themselves have as a fallback.
    #[must_use]
    pub fn with_fallback(mut self, fallback: Router) -> Self {
        self.fallback = Some(fallback);
        self
    }

    /// The address that is really listened on, with the port that the system chose.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Serves until the token is cancelled, then takes no more connections, lets what is under way finish for
    /// the grace period of the limits, and cuts the rest off.
    pub async fn run(self, shutdown: CancellationToken) {
        info!(listener = self.name, address = %self.address, tls = self.tls.is_some(), "listening");
        let cut = CancellationToken::new();
        let connections = TaskTracker::new();
        let slots = Arc::new(Semaphore::new(self.limits.max_connections));
        let grace = self.limits.grace;
        let router = match self.fallback {
            Some(fallback) => self.router.fallback_service(fallback),
            None => self.router,
        };
        let shared = Arc::new(Connection {
            name: self.name,
            tls: self.tls.map(|tls| tls.0),
            // The size is limited where the body comes in, for every route and extractor alike.
            router: router.layer(DefaultBodyLimit::disable()),
            limits: self.limits,
            shutdown: shutdown.clone(),
            cut: cut.clone(),
        });
        loop {
            let slot = tokio::select! {
                biased;
                () = shutdown.cancelled() => break,
                slot = Arc::clone(&slots).acquire_owned() => slot,
            };
            let accepted = tokio::select! {
                biased;
                () = shutdown.cancelled() => break,
                accepted = self.listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, peer)) => {
                    let shared = Arc::clone(&shared);
                    connections.spawn(async move {
                        shared.serve(stream, peer).await;
                        drop(slot);
                    });
                }
                Err(error) => {
                    warn!(listener = self.name, %error, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
        drop(self.listener);
        connections.close();
        if tokio::time::timeout(grace, connections.wait()).await.is_err() {
            warn!(
                listener = self.name,
                left = connections.len(),
                "cutting off what outlasted the grace period"
            );
            cut.cancel();
            connections.wait().await;
        }
        debug!(listener = self.name, "listener has ended");
    }
}
