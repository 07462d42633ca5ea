//! A stream that gives up on a client that makes no progress.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

use super::Limits;

/// How many requests the connection is busy with: none, one, or with pipelining briefly two.
#[derive(Debug, Default)]
pub(super) struct Progress(AtomicUsize);

impl Progress {
    /// A request has arrived; it is under way until the value is dropped.
    pub(super) fn begin(self: Arc<Self>) -> UnderWay {
        self.0.fetch_add(1, Ordering::AcqRel);
        UnderWay(self)
    }

    fn busy(&self) -> bool {
        self.0.load(Ordering::Acquire) > 0
    }
}

/// A request under way.
pub(super) struct UnderWay(Arc<Progress>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A point in time to wake at.
struct Deadline {
    at: Option<Instant>,
    sleep: Pin<Box<Sleep>>,
}

impl Deadline {
    fn new() -> Self {
        Self { at: None, sleep: Box::pin(tokio::time::sleep(Duration::ZERO)) }
    }

    fn clear(&mut self) {
        self.at = None;
    }

    /// Sets the deadline unless it is already running, and tells whether it has passed.
    fn poll(&mut self, after: Duration, cx: &mut Context<'_>) -> Poll<()> {
        if self.at.is_none() {
            let at = Instant::now() + after;
            self.at = Some(at);
            self.sleep.as_mut().reset(at);
        }
        self.sleep.as_mut().poll(cx)
    }
}

/// What the reading side waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waiting {
    /// The first byte of a request.
    Request,
    /// The rest of its headers.
    Headers,
    /// Nothing that is timed here: the request's own limit counts.
    Busy,
}

/// Times out reads between and at the beginning of requests, and writes that do not move.
pub(super) struct Guarded<S> {
    stream: S,
    progress: Arc<Progress>,
    idle_timeout: Duration,
    header_timeout: Duration,
    write_timeout: Duration,
    waiting: Waiting,
    read: Deadline,
    write: Deadline,
}

impl<S> Guarded<S> {
    pub(super) fn new(stream: S, progress: Arc<Progress>, limits: &Limits) -> Self {
        Self {
            stream,
            progress,
            idle_timeout: limits.idle_timeout,
            header_timeout: limits.header_timeout,
            write_timeout: limits.write_timeout,
            waiting: Waiting::Request,
            read: Deadline::new(),
            write: Deadline::new(),
        }
    }

    fn turn(&mut self, waiting: Waiting) {
        if self.waiting != waiting {
            self.waiting = waiting;
            self.read.clear();
        }
    }

    fn poll_read_deadline(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        if self.progress.busy() {
            self.turn(Waiting::Busy);
            return Poll::Pending;
        }
        if self.waiting == Waiting::Busy {
            self.turn(Waiting::Request);
        }
        let after = if self.waiting == Waiting::Headers { self.header_timeout } else { self.idle_timeout };
        ready!(self.read.poll(after, cx));
        Poll::Ready(timed_out("the client sent nothing more"))
    }

    fn guard_write<T>(&mut self, cx: &mut Context<'_>, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.write.clear();
            return polled;
        }
        ready!(self.write.poll(self.write_timeout, cx));
        Poll::Ready(Err(timed_out("the client took nothing more")))
    }
}

fn timed_out(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, what)
}

impl<S: AsyncRead + Unpin> AsyncRead for Guarded<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buf.filled().len();
        match Pin::new(&mut this.stream).poll_read(cx, buf) {
            Poll::Ready(done) => {
                if buf.filled().len() > before {
                    let next = if this.progress.busy() { Waiting::Busy } else { Waiting::Headers };
                    this.turn(next);
                }
                Poll::Ready(done)
            }
            Poll::Pending => this.poll_read_deadline(cx).map(Err),
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Guarded<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.stream).poll_write(cx, buf);
        this.guard_write(cx, polled)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.stream).poll_flush(cx);
        this.guard_write(cx, polled)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.stream).poll_shutdown(cx);
        this.guard_write(cx, polled)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.stream).poll_write_vectored(cx, bufs);
        this.guard_write(cx, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
