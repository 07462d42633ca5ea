//! Noticing a server that accepts a request and then says nothing.
//!
//! The time runs until the response's headers, and again between the pieces of its body. Watches and log streams
//! are long by nature: only their headers are timed.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use futures::future::BoxFuture;
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use thiserror::Error;
use tokio::time::{Instant, Sleep};
use tower::{BoxError, Layer, Service};

use crate::requests::is_stream;

/// The API server took a request and then went silent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the API server was silent for {0:?}")]
pub struct RequestTimeout(pub Duration);

/// Times out silent responses.
#[derive(Debug, Clone)]
pub(super) struct TimeoutLayer(pub(super) Duration);

impl<S> Layer<S> for TimeoutLayer {
    type Service = Timeout<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Timeout { inner, limit: self.0 }
    }
}

/// See [`TimeoutLayer`].
#[derive(Debug, Clone)]
pub(super) struct Timeout<S> {
    inner: S,
    limit: Duration,
}

impl<S, A, B> Service<Request<A>> for Timeout<S>
where
    S: Service<Request<A>, Response = Response<B>>,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
{
    type Response = Response<TimedBody<B>>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Request<A>) -> Self::Future {
        let limit = self.limit;
        let stream = is_stream(request.uri());
        let response = self.inner.call(request);
        Box::pin(async move {
            let response = tokio::time::timeout(limit, response)
                .await
                .map_err(|_| BoxError::from(RequestTimeout(limit)))?
                .map_err(Into::into)?;
            Ok(response.map(|inner| TimedBody { inner, idle: (!stream).then(|| Idle::new(limit)) }))
        })
    }
}

/// A body that fails when its next piece does not come.
pub(super) struct TimedBody<B> {
    inner: B,
    idle: Option<Idle>,
}

struct Idle {
    limit: Duration,
    deadline: Pin<Box<Sleep>>,
    waiting: bool,
}

impl Idle {
    fn new(limit: Duration) -> Self {
        Self { limit, deadline: Box::pin(tokio::time::sleep(limit)), waiting: false }
    }
}

impl<B> Body for TimedBody<B>
where
    B: Body + Unpin,
    B::Error: Into<BoxError>,
{
    type Data = B::Data;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, BoxError>>> {
        let this = &mut *self;
        if let Poll::Ready(frame) = Pin::new(&mut this.inner).poll_frame(cx) {
            if let Some(idle) = &mut this.idle {
                idle.waiting = false;
            }
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        let Some(idle) = &mut this.idle else { return Poll::Pending };
        if !idle.waiting {
            // The time counts from when somebody waits, not from when the reader was slow.
            idle.waiting = true;
            idle.deadline.as_mut().reset(Instant::now() + idle.limit);
        }
        idle.deadline.as_mut().poll(cx).map(|()| Some(Err(RequestTimeout(idle.limit).into())))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use futures::StreamExt;
    use http_body_util::{BodyExt, StreamBody};
    use tower::{ServiceBuilder, ServiceExt, service_fn};

    const LIMIT: Duration = Duration::from_secs(10);

    fn silent_after(pieces: usize) -> impl Body<Data = Bytes, Error = BoxError> + Unpin {
        let pieces = futures::stream::iter((0..pieces).map(|_| Ok(Frame::data(Bytes::from_static(b"x")))));
        StreamBody::new(Box::pin(pieces.chain(futures::stream::pending())))
    }

    async fn read(uri: &str) -> Result<Bytes, BoxError> {
        let service = ServiceBuilder::new().layer(TimeoutLayer(LIMIT)).service(service_fn(
            |request: Request<()>| async move {
                if request.uri().path() == "/hang" {
                    futures::future::pending::<()>().await;
                }
                Ok::<_, BoxError>(Response::new(silent_after(3)))
            },
        ));
        let response = service.oneshot(Request::get(uri).body(()).unwrap()).await?;
        Ok(response.into_body().collect().await?.to_bytes())
    }

    #[tokio::test(start_paused = true)]
    async fn silence_before_headers_or_inside_a_body_is_noticed() {
        for uri in ["/hang", "/body"] {
            let error = read(uri).await.unwrap_err();
            assert_eq!(error.downcast_ref::<RequestTimeout>(), Some(&RequestTimeout(LIMIT)), "{uri}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_may_be_silent_but_must_begin() {
        let watch = tokio::time::timeout(LIMIT * 100, read("/body?watch=true")).await;
        assert!(watch.is_err(), "a silent watch goes on");
        assert!(read("/hang?watch=true").await.is_err(), "a watch whose headers never come ends");
    }
}
