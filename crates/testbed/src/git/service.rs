//! Who may do what, and what a request is about.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use bytes::Bytes;
use futures::StreamExt;
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyDataStream;

use super::{Git, Kind, cgi};
use crate::faults::auth::{Caller, Users};
use crate::faults::body::{self, Body};
use crate::faults::{Described, PushRejection, Service, text, unauthorized};

/// The server behind the faults.
pub(super) struct GitService {
    /// Runs git.
    pub(super) git: Git,
    /// git's CGI program.
    pub(super) backend: PathBuf,
    /// Folder of the repositories.
    pub(super) repos: PathBuf,
    /// Users.
    pub(super) users: Users,
    /// Whether one may read without credentials.
    pub(super) anonymous_read: Arc<AtomicBool>,
}

impl Service for GitService {
    async fn describe(&self, request: Request<Body>) -> anyhow::Result<(Described, Request<Body>)> {
        let (described, kind) = describe(request.uri(), request.method());
        if kind != Kind::UploadPack {
            return Ok((described, request));
        }
        let (parts, body) = request.into_parts();
        let (begin, body) = peek(body).await?;
        let kind = if lists_refs(&parts, &begin) { Kind::ListRefs } else { Kind::UploadPack };
        Ok((Described { kind: kind.as_str(), ..described }, Request::from_parts(parts, body)))
    }

    async fn answer(&self, described: &Described, request: Request<Body>) -> anyhow::Result<Response<Body>> {
        let pushes = [Kind::PushRefs, Kind::ReceivePack].iter().any(|kind| kind.as_str() == described.kind);
        let user = match (self.users.caller(request.headers()), pushes) {
            (Caller::Refused, _) => return Ok(unauthorized()),
            (Caller::Anonymous, true) if !self.users.is_empty() => return Ok(unauthorized()),
            (Caller::Anonymous, false) if !self.anonymous_read.load(Ordering::Relaxed) => {
                return Ok(unauthorized());
            }
            (Caller::User { may_write: false, .. }, true) => {
                return Ok(text(StatusCode::FORBIDDEN, "this user may not push"));
            }
            (Caller::User { name, .. }, _) => Some(name),
            (Caller::Anonymous, _) => None,
        };
        let (parts, body) = request.into_parts();
        let rejection =
            parts.extensions.get::<PushRejection>().map(|PushRejection(message)| message.as_str());
        let mut command = Command::new(&self.backend);
        self.git.prepare(&mut command);
        let call = cgi::Call { request: &parts, root: &self.repos, user: user.as_deref(), rejection };
        cgi::call(command, call, body).await
    }
}

fn describe(uri: &http::Uri, method: &Method) -> (Described, Kind) {
    let path = uri.path();
    let (repo, rest) = match path.split_once(".git/") {
        Some((repo, _)) => (&path[1..repo.len()], &path[repo.len() + ".git".len()..]),
        None => ("", path),
    };
    let query = uri.query().unwrap_or_default();
    let asks_for = |service: &str| query.split('&').any(|pair| pair == format!("service={service}"));
    let kind = match (method, rest) {
        (&Method::GET, "/info/refs") if asks_for("git-receive-pack") => Kind::PushRefs,
        (&Method::GET, "/info/refs") => Kind::FetchRefs,
        (&Method::POST, "/git-upload-pack") => Kind::UploadPack,
        (&Method::POST, "/git-receive-pack") => Kind::ReceivePack,
        _ => Kind::Other,
    };
    let rest = if query.is_empty() { rest.to_owned() } else { format!("{rest}?{query}") };
    (Described { subject: repo.to_owned(), kind: kind.as_str(), rest }, kind)
}

/// A protocol 2 request for the list of refs begins with that command; it is short, so clients do not compress it.
fn lists_refs(request: &Parts, begin: &[u8]) -> bool {
    request.headers.contains_key("git-protocol")
        && begin.get(4..).is_some_and(|line| line.starts_with(b"command=ls-refs"))
}

/// Looks at the first piece of a body.
async fn peek(body: Body) -> anyhow::Result<(Bytes, Body)> {
    let mut stream = BodyDataStream::new(body);
    let first = match stream.next().await {
        Some(first) => first.map_err(anyhow::Error::from_boxed).context("cannot read a request")?,
        None => Bytes::new(),
    };
    let again = futures::stream::iter([Ok(first.clone())]).chain(stream);
    Ok((first, body::streamed(again)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(method: &Method, uri: &'static str) -> (String, &'static str, String) {
        let (described, _) = describe(&http::Uri::from_static(uri), method);
        (described.subject, described.kind, described.rest)
    }

    #[test]
    fn requests_are_told_apart() {
        let fetch = described(&Method::GET, "/team/app.git/info/refs?service=git-upload-pack");
        assert_eq!(
            fetch,
            ("team/app".into(), "info/refs upload-pack", "/info/refs?service=git-upload-pack".into())
        );
        assert_eq!(described(&Method::GET, "/a.git/info/refs").1, "info/refs upload-pack");
        assert_eq!(
            described(&Method::GET, "/a.git/info/refs?service=git-receive-pack").1,
            "info/refs receive-pack"
        );
        assert_eq!(
            described(&Method::POST, "/a.git/git-upload-pack"),
            ("a".into(), "upload-pack", "/git-upload-pack".into())
        );
        assert_eq!(described(&Method::POST, "/a.git/git-receive-pack").1, "receive-pack");
        assert_eq!(described(&Method::GET, "/a.git/git-receive-pack").1, "other");
        assert_eq!(described(&Method::GET, "/"), (String::new(), "other", "/".into()));
    }
}
