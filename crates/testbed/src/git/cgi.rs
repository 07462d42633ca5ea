//! `git http-backend` behind an HTTP request, as RFC 3875 (CGI) has it.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use http::request::Parts;
use http::{HeaderName, HeaderValue, Response, StatusCode, header};
use http_body_util::BodyDataStream;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin, ChildStdout};
use tokio::sync::oneshot;
use tokio_util::task::AbortOnDropHandle;

use crate::faults::body::{self, Body, BoxError};

/// More header than this is no answer of git.
const MAX_HEAD: usize = 64 * 1024;

/// What the program is told about the request.
pub(super) struct Call<'a> {
    /// The request without its body.
    pub(super) request: &'a Parts,
    /// Folder that holds the repositories.
    pub(super) root: &'a Path,
    /// Who is signed in.
    pub(super) user: Option<&'a str>,
    /// Makes the pre-receive hook refuse with this message.
    pub(super) rejection: Option<&'a str>,
}

/// Runs the program for one request. An error means that there is no answer to give.
///
/// The program ends with the response: when the client goes away it is killed.
pub(super) async fn call(mut command: Command, call: Call<'_>, body: Body) -> anyhow::Result<Response<Body>> {
    set_variables(&mut command, &call);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = tokio::process::Command::from(command)
        .kill_on_drop(true)
        .spawn()
        .context("cannot run git http-backend")?;
    let stdin = child.stdin.take().context("git http-backend has no standard input")?;
    let stdout = child.stdout.take().context("git http-backend has no standard output")?;
    let (mut broken, body_broke) = oneshot::channel();
    let feeding = AbortOnDropHandle::new(tokio::spawn(async move {
        match feed(stdin, body).await {
            // Kept open, so that who waits for this does so until the end.
            Ok(()) => broken.closed().await,
            // The stdin is kept until then: at its early end http-backend would not stop but spin.
            Err((error, _stdin)) => {
                drop(broken.send(error));
                std::future::pending::<()>().await;
            }
        }
    }));
    let mut running = Running { stdout, body_broke, child, _feeding: feeding };
    let (head, rest) = running.read_head().await?;
    let mut response = parse_head(&head)?;
    *response.body_mut() = running.stream(rest);
    Ok(response)
}

fn set_variables(command: &mut Command, call: &Call<'_>) {
    let headers = &call.request.headers;
    let mut set = |variable: &str, value: Option<&HeaderValue>| {
        if let Some(value) = value.and_then(|value| value.to_str().ok()) {
            command.env(variable, value);
        }
    };
    set("CONTENT_TYPE", headers.get(header::CONTENT_TYPE));
    set("CONTENT_LENGTH", headers.get(header::CONTENT_LENGTH));
    set("HTTP_CONTENT_ENCODING", headers.get(header::CONTENT_ENCODING));
    set("HTTP_GIT_PROTOCOL", headers.get("git-protocol"));
    set("GIT_PROTOCOL", headers.get("git-protocol"));
    command
        .env("GATEWAY_INTERFACE", "CGI/1.1")
        .env("SERVER_PROTOCOL", "HTTP/1.1")
        .env("REMOTE_ADDR", "127.0.0.1")
        .env("REQUEST_METHOD", call.request.method.as_str())
        .env("PATH_INFO", call.request.uri.path())
        .env("QUERY_STRING", call.request.uri.query().unwrap_or_default())
        .env("GIT_PROJECT_ROOT", call.root)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .envs(call.user.map(|user| ("REMOTE_USER", user)))
        .envs(call.rejection.map(|message| (super::repo::REJECTION_VARIABLE, message)));
}

/// Hands the body to the program; when it breaks off the pipe comes back with the error.
async fn feed(mut stdin: ChildStdin, body: Body) -> Result<(), (BoxError, ChildStdin)> {
    let mut body = BodyDataStream::new(body);
    while let Some(bytes) = body.next().await {
        let bytes = match bytes {
            Ok(bytes) => bytes,
            Err(error) => return Err((error, stdin)),
        };
        if stdin.write_all(&bytes).await.is_err() {
            // The program has enough (it may answer early); its answer says why.
            return Ok(());
        }
    }
    Ok(())
}

/// The program at work. Dropping it kills the program.
struct Running {
    stdout: ChildStdout,
    /// git sends its headers before it has read the request, so the request may break off at any time.
    body_broke: oneshot::Receiver<BoxError>,
    child: Child,
    _feeding: AbortOnDropHandle<()>,
}

impl Running {
    /// Reads some output; 0 at its end.
    async fn read(&mut self, buffer: &mut BytesMut) -> anyhow::Result<usize> {
        tokio::select! {
            read = self.stdout.read_buf(buffer) => read.context("cannot read from git http-backend"),
            Ok(error) = &mut self.body_broke => bail!("the request broke off: {error}"),
        }
    }

    /// Reads up to the empty line; returns the head and what was read beyond it.
    async fn read_head(&mut self) -> anyhow::Result<(Bytes, Bytes)> {
        let mut buffer = BytesMut::new();
        loop {
            if let Some((end, length)) = end_of_head(&buffer) {
                let mut rest = buffer.split_off(end);
                let rest = rest.split_off(length).freeze();
                return Ok((buffer.freeze(), rest));
            }
            if buffer.len() > MAX_HEAD {
                bail!("git http-backend sent no end of its headers");
            }
            if self.read(&mut buffer).await? == 0 {
                bail!("git http-backend ended without an answer");
            }
        }
    }

    /// The rest of the output as a body that owns the program.
    fn stream(self, first: Bytes) -> Body {
        body::streamed(futures::stream::try_unfold((first, self), |(first, mut running)| async move {
            if !first.is_empty() {
                return Ok(Some((first, (Bytes::new(), running))));
            }
            let mut buffer = BytesMut::with_capacity(32 * 1024);
            if running.read(&mut buffer).await? == 0 {
                running.child.wait().await.context("cannot wait for git http-backend")?;
                return Ok::<_, anyhow::Error>(None);
            }
            Ok(Some((buffer.freeze(), (Bytes::new(), running))))
        }))
    }
}

fn end_of_head(buffer: &[u8]) -> Option<(usize, usize)> {
    let place = |mark: &[u8]| buffer.windows(mark.len()).position(|window| window == mark);
    match (place(b"\r\n\r\n"), place(b"\n\n")) {
        (Some(long), Some(short)) if short < long => Some((short, 2)),
        (Some(long), _) => Some((long, 4)),
        (None, short) => short.map(|short| (short, 2)),
    }
}

fn parse_head(head: &[u8]) -> anyhow::Result<Response<Body>> {
    let head = std::str::from_utf8(head).context("git http-backend sent headers that are no text")?;
    let mut response = Response::new(body::full(Bytes::new()));
    for line in head.lines() {
        let (name, value) = line.split_once(':').context("git http-backend sent a header without a colon")?;
        let value = value.trim();
        if name.eq_ignore_ascii_case("status") {
            let code = value.split(' ').next().unwrap_or_default();
            *response.status_mut() =
                code.parse::<StatusCode>().context("git http-backend sent an odd status")?;
        } else {
            let name = name.parse::<HeaderName>().context("git http-backend sent an odd header")?;
            let value = HeaderValue::from_str(value).context("git http-backend sent an odd header")?;
            response.headers_mut().append(name, value);
        }
    }
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_end_at_an_empty_line() {
        assert_eq!(end_of_head(b"A: b\r\n\r\nrest"), Some((4, 4)));
        assert_eq!(end_of_head(b"A: b\n\nrest\r\n\r\n"), Some((4, 2)));
        assert_eq!(end_of_head(b"A: b\r\n"), None);
    }

    #[test]
    fn heads_become_status_and_headers() {
        let response = parse_head(b"Status: 404 Not Found\r\nContent-Type: text/plain").expect("valid");
        assert_eq!(response.status(), StatusCode::NOT_FOUND);
        assert_eq!(response.headers()[header::CONTENT_TYPE], "text/plain");
        assert_eq!(parse_head(b"").expect("valid").status(), StatusCode::OK);
        assert!(parse_head(b"no colon").is_err());
        assert!(parse_head(b"Status: what").is_err());
    }
}
