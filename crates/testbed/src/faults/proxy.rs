//! Hands requests on to a real server.

use std::net::SocketAddr;

use http::header::{self, HeaderName};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use http_body_util::BodyExt;

use super::auth::{Caller, Users};
use super::body::{Body, BoxError};
use super::client;
use super::server::{Described, PushRejection, Service, is_read, text, unauthorized};

/// Headers that are about one connection and not about the request.
const HOP_BY_HOP: [HeaderName; 7] = [
    header::CONNECTION,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// A reverse proxy for one server on this machine.
pub(crate) struct Forward {
    /// Where the real server listens.
    pub(crate) upstream: SocketAddr,
    /// What a path is about: subject and kind.
    pub(crate) classify: fn(&http::request::Parts) -> (String, &'static str),
    /// Who may come in; everybody when there is no user.
    pub(crate) users: Users,
    /// Whether clients speak TLS to this proxy, which the real server needs to know for the addresses it hands out.
    pub(crate) tls: bool,
}

impl Service for Forward {
    async fn describe(&self, request: Request<Body>) -> anyhow::Result<(Described, Request<Body>)> {
        let (parts, body) = request.into_parts();
        let (subject, kind) = (self.classify)(&parts);
        let rest = parts.uri.path_and_query().map(ToString::to_string).unwrap_or_default();
        Ok((Described { subject, kind, rest }, Request::from_parts(parts, body)))
    }

    async fn answer(&self, _: &Described, mut request: Request<Body>) -> anyhow::Result<Response<Body>> {
        if !self.users.is_empty() {
            match self.users.caller(request.headers()) {
                Caller::User { may_write: true, .. } => {}
                Caller::User { .. } if is_read(request.method()) => {}
                Caller::User { .. } => return Ok(text(StatusCode::FORBIDDEN, "this user may only read")),
                Caller::Anonymous | Caller::Refused => return Ok(unauthorized()),
            }
            // The credentials are ours, the real server knows no users.
            request.headers_mut().remove(header::AUTHORIZATION);
        }
        if let Some(PushRejection(message)) = request.extensions().get::<PushRejection>()
            && !is_read(request.method())
        {
            return Ok(text(StatusCode::FORBIDDEN, message));
        }
        remove_hop_by_hop(request.headers_mut());
        let protocol = HeaderValue::from_static(if self.tls { "https" } else { "http" });
        request.headers_mut().insert(HeaderName::from_static("x-forwarded-proto"), protocol);
        let mut response = match client::send(self.upstream, request).await {
            Ok(response) => response,
            Err(client::SendError::Connect(error)) => {
                return Ok(text(StatusCode::BAD_GATEWAY, &format!("the real server is not there: {error}")));
            }
            Err(error) => return Err(error.into()),
        };
        remove_hop_by_hop(response.headers_mut());
        Ok(response.map(|body| body.map_err(BoxError::from).boxed_unsync()))
    }
}

fn remove_hop_by_hop(headers: &mut HeaderMap) {
    for name in &HOP_BY_HOP {
        headers.remove(name);
    }
    headers.remove("keep-alive");
}
