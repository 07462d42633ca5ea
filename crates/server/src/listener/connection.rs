//! One connection from handshake to close.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use futures::FutureExt;
use http::header::{CONNECTION, CONTENT_LENGTH};
use http::{HeaderValue, Request, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;
use tracing::{debug, error};

use super::Limits;
use super::guard::{Guarded, Progress};

/// The least that hyper takes as a buffer.
const SMALLEST_BUFFER: usize = 8 * 1024;

/// What all connections of a listener share.
pub(super) struct Connection {
    pub(super) name: &'static str,
    pub(super) tls: Option<TlsAcceptor>,
    pub(super) router: Router,
    pub(super) limits: Limits,
    /// Finish what is under way.
    pub(super) shutdown: CancellationToken,
    /// Drop everything.
    pub(super) cut: CancellationToken,
}

impl Connection {
    /// Serves one client to its end. What goes wrong here is the client's affair and only logged for debugging.
    pub(super) async fn serve(&self, stream: TcpStream, peer: SocketAddr) {
        let served = async {
            // Answers are written in one piece; waiting to fill packets only delays them.
            if let Err(error) = stream.set_nodelay(true) {
                debug!(listener = self.name, %peer, %error, "cannot set TCP_NODELAY");
            }
            let Some(acceptor) = &self.tls else {
                return self.speak_http(stream, peer).await;
            };
            match tokio::time::timeout(self.limits.handshake_timeout, acceptor.accept(stream)).await {
                Ok(Ok(stream)) => self.speak_http(stream, peer).await,
                Ok(Err(error)) => debug!(listener = self.name, %peer, %error, "TLS handshake failed"),
                Err(_) => debug!(listener = self.name, %peer, "TLS handshake took too long"),
            }
        };
        tokio::select! {
            () = self.cut.cancelled() => {}
            () = served => {}
        }
    }

    async fn speak_http(&self, stream: impl AsyncRead + AsyncWrite + Unpin + Send, peer: SocketAddr) {
        let progress = Arc::new(Progress::default());
        let io = TokioIo::new(Guarded::new(stream, Arc::clone(&progress), &self.limits));
        let service = service_fn(|request| {
            let progress = Arc::clone(&progress);
            async move { Ok::<_, Infallible>(self.answer(request, progress).await) }
        });
        let connection = hyper::server::conn::http1::Builder::new()
            // `Guarded` keeps the time: hyper's own timer cannot tell an idle connection from a slow one.
            .header_read_timeout(None)
            .max_header_size(self.limits.max_header_bytes)
            .max_buf_size(self.limits.max_header_bytes.max(SMALLEST_BUFFER))
            .serve_connection(io, service);
        let mut connection = std::pin::pin!(connection);
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = self.shutdown.cancelled() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = ended {
            debug!(listener = self.name, %peer, %error, "connection ended early");
        }
    }

    async fn answer(&self, request: Request<Incoming>, progress: Arc<Progress>) -> Response {
        let under_way = progress.begin();
        let response = match declared_length(&request) {
            Some(length) if length > self.limits.max_body_bytes as u64 => self.too_large(),
            _ => self.route(request).await,
        };
        // The request ends when its answer has been taken or given up, not when the handler returns: an answer
        // may be a stream that goes on for hours.
        response.map(|body| {
            Body::new(body.map_frame(move |frame| {
                let _held = &under_way;
                frame
            }))
        })
    }

    async fn route(&self, request: Request<Incoming>) -> Response {
        let path = request.uri().path().to_owned();
        let request = request.map(|body| Body::new(Limited::new(body, self.limits.max_body_bytes)));
        let handled = AssertUnwindSafe(self.router.clone().oneshot(request)).catch_unwind();
        match tokio::time::timeout(self.limits.request_timeout, handled).await {
            Ok(Ok(Ok(response))) => response,
            Ok(Ok(Err(never))) => match never {},
            Ok(Err(_)) => {
                error!(listener = self.name, path, "a handler panicked");
                closing(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "The request ran into a fault of the server.\n".into(),
                )
            }
            Err(_) => closing(
                StatusCode::SERVICE_UNAVAILABLE,
                format!("The request was not done within {} s.\n", self.limits.request_timeout.as_secs()),
            ),
        }
    }

    fn too_large(&self) -> Response {
        closing(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("The body is larger than the {} bytes allowed here.\n", self.limits.max_body_bytes),
        )
    }
}

fn declared_length(request: &Request<Incoming>) -> Option<u64> {
    request.headers().get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// An answer after which the rest of the request is not worth reading.
fn closing(status: StatusCode, sentence: String) -> Response {
    let mut response = (status, sentence).into_response();
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}
