//! The HTTP server that every part of the testbed stands behind.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;

use anyhow::Context;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::body::{self, Body, BoxError};
use super::{Active, Fault, Faults, RequestLog, ServerIdentity};

/// What a request is about, in the words of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Described {
    /// Repository, or empty.
    pub(crate) subject: String,
    /// Kind of request.
    pub(crate) kind: &'static str,
    /// What a redirect appends to its address.
    pub(crate) rest: String,
}

/// The message of [`Fault::RejectPush`], handed to the service as a request extension.
#[derive(Debug, Clone)]
pub(crate) struct PushRejection(pub(crate) String);

/// What stands behind the faults.
pub(crate) trait Service: Send + Sync + 'static {
    /// Says what the request is about; may look at the beginning of the body, but has to hand all of it back.
    fn describe(
        &self,
        request: Request<Body>,
    ) -> impl Future<Output = anyhow::Result<(Described, Request<Body>)>> + Send;

    /// Answers the request. An error closes the connection.
    fn answer(
        &self,
        described: &Described,
        request: Request<Body>,
    ) -> impl Future<Output = anyhow::Result<Response<Body>>> + Send;
}

/// A server on a free port of 127.0.0.1, on a thread of its own; ends when dropped.
#[derive(Debug)]
pub(crate) struct HttpServer {
    address: SocketAddr,
    tls: bool,
    faults: Faults,
    log: RequestLog,
    stop: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

impl HttpServer {
    /// Starts to serve; with TLS when there is an identity.
    pub(crate) fn start(
        name: &str,
        service: impl Service,
        identity: Option<&ServerIdentity>,
    ) -> anyhow::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("cannot listen on 127.0.0.1")?;
        let address = listener.local_addr().context("cannot read the address of a listener")?;
        listener.set_nonblocking(true).context("cannot make a listener non-blocking")?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("cannot start a runtime for a server")?;
        let (faults, log, stop) = (Faults::default(), RequestLog::default(), CancellationToken::new());
        let front = Arc::new(Front { service, faults: faults.clone(), log: log.clone() });
        let acceptor = identity.map(ServerIdentity::acceptor);
        let stopped = stop.clone();
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                // Dropping the runtime ends every connection, also those that hang.
                runtime.block_on(stopped.run_until_cancelled(accept(listener, acceptor, front)));
            })
            .context("cannot start a thread for a server")?;
        Ok(Self { address, tls: identity.is_some(), faults, log, stop, thread: Some(thread) })
    }

    /// `http://127.0.0.1:port` or `https://…`, without a slash at the end.
    pub(crate) fn url(&self) -> String {
        format!("{}://{}", if self.tls { "https" } else { "http" }, self.address)
    }

    /// Host and port.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The faults of this server.
    pub(crate) fn faults(&self) -> &Faults {
        &self.faults
    }

    /// The requests to this server.
    pub(crate) fn log(&self) -> &RequestLog {
        &self.log
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        self.stop.cancel();
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!(address = %self.address, "a server thread of the testbed panicked");
        }
    }
}

async fn accept<S: Service>(listener: TcpListener, acceptor: Option<TlsAcceptor>, front: Arc<Front<S>>) {
    let listener = match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!(%error, "cannot listen"),
    };
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            // Out of file descriptors, or gone before we came to it: neither is a reason to stop.
            Err(error) => {
                tracing::debug!(%error, "cannot accept a connection");
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
                continue;
            }
        };
        let (front, acceptor) = (front.clone(), acceptor.clone());
        tokio::spawn(async move {
            match acceptor {
                None => front.serve(stream).await,
                Some(acceptor) => match acceptor.accept(stream).await {
                    Ok(stream) => front.serve(stream).await,
                    Err(error) => tracing::debug!(%error, "TLS handshake failed"),
                },
            }
        });
    }
}

struct Front<S> {
    service: S,
    faults: Faults,
    log: RequestLog,
}

impl<S: Service> Front<S> {
    async fn serve(self: Arc<Self>, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
        let service = service_fn(|request: Request<Incoming>| {
            let front = self.clone();
            async move { front.respond(request.map(|body| body.map_err(BoxError::from).boxed_unsync())).await }
        });
        if let Err(error) = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await {
            tracing::debug!(%error, "connection ended");
        }
    }

    async fn respond(&self, request: Request<Body>) -> anyhow::Result<Response<Body>> {
        let (described, request) = self.service.describe(request).await?;
        let active = self.faults.take(&described);
        let (parts, body) = request.into_parts();
        let number = self.log.begin(&parts, &described, active.as_ref().map(|active| active.fault.name()));
        let request = Request::from_parts(parts, body);
        let response = match active {
            None => self.service.answer(&described, request).await,
            Some(active) => self.respond_with_fault(&described, request, &active).await,
        }?;
        self.log.answered(number, response.status().as_u16());
        Ok(response)
    }

    async fn respond_with_fault(
        &self,
        described: &Described,
        request: Request<Body>,
        active: &Active,
    ) -> anyhow::Result<Response<Body>> {
        let response = match &active.fault {
            Fault::Unauthorized => unauthorized(),
            Fault::Forbidden => text(StatusCode::FORBIDDEN, "forbidden"),
            Fault::ServerError => text(StatusCode::INTERNAL_SERVER_ERROR, "internal server error"),
            Fault::TooManyRequests { retry_after } => {
                let seconds = retry_after.as_secs() + u64::from(retry_after.subsec_nanos() > 0);
                let mut response = text(StatusCode::TOO_MANY_REQUESTS, "too many requests");
                response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
                response
            }
            Fault::Disconnect => anyhow::bail!("fault: connection closed without an answer"),
            Fault::Hang => {
                active.cleared().await;
                anyhow::bail!("fault: never answered");
            }
            Fault::Redirect(target) => {
                let location = format!("{}{}", target.trim_end_matches('/'), described.rest);
                let mut response = text(StatusCode::TEMPORARY_REDIRECT, "this has moved");
                let location = HeaderValue::from_str(&location).context("the redirect is no valid header")?;
                response.headers_mut().insert(header::LOCATION, location);
                response
            }
            Fault::Answer(answer) => {
                let mut response = Response::new(body::full(answer.body.clone()));
                *response.status_mut() =
                    StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
                let content_type = HeaderValue::from_str(&answer.content_type)
                    .context("the content type of the answer is no valid header")?;
                response.headers_mut().insert(header::CONTENT_TYPE, content_type);
                response
            }
            Fault::RejectPush(message) => {
                let mut request = request;
                request.extensions_mut().insert(PushRejection(message.clone()));
                return self.service.answer(described, request).await;
            }
            Fault::Slow { .. } | Fault::DropMidTransfer { .. } | Fault::Corrupt { .. } => {
                let request = request.map(|body| body::request_through(body, active));
                let response = self.service.answer(described, request).await?;
                return Ok(response.map(|body| body::response_through(body, active)));
            }
        };
        Ok(response)
    }
}

/// A short answer for people.
pub(crate) fn text(status: StatusCode, message: &str) -> Response<Body> {
    let mut response = Response::new(body::full(format!("{message}\n")));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

/// 401 that asks for a user name and a password.
pub(crate) fn unauthorized() -> Response<Body> {
    let mut response = text(StatusCode::UNAUTHORIZED, "credentials are missing or wrong");
    response
        .headers_mut()
        .insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Basic realm=\"testbed\""));
    response
}

/// Whether a request only reads.
pub(crate) fn is_read(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}
