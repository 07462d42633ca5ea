//! The service under an instance's kube client.

use std::{
    future::pending,
    sync::Arc,
    task::{Context, Poll},
};

use futures::future::BoxFuture;
use http::{Request, Response};
use http_body_util::BodyExt;
use kube::client::Body;
use tokio::sync::oneshot;
use tower::{BoxError, Service};

use super::{
    call::Call,
    hub::{Answer, AnyBody, Hub, Sent, Submission},
    life::Life,
};

/// Every request of one life of an instance goes through its gate and waits there for its turn.
#[derive(Clone)]
pub(crate) struct Gate {
    pub(crate) hub: Arc<Hub>,
    pub(crate) life: Arc<Life>,
    /// Where it leads; empty for the hub.
    pub(crate) cluster: Arc<str>,
}

impl Gate {
    async fn pass(self, request: Request<Body>) -> Answer {
        let (parts, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let Life { name, incarnation, .. } = &*self.life;
        let who = (name.as_str(), *incarnation);
        let call = Call::read(who, &self.cluster, &parts.method, &parts.uri, &parts.headers, &body);
        let (reply, answer) = oneshot::channel();
        if !self.life.is_dead() {
            let life = Arc::clone(&self.life);
            let since = self.hub.clock.tick();
            let sent = Sent {
                life,
                call,
                parts,
                body,
                reply,
                subject: String::new(),
                since,
                delayed: false,
                made_in_pause: false,
            };
            self.hub.submit(Submission::Request(Box::new(sent)));
        }
        match answer.await {
            Ok(answer) => answer,
            // The process is gone: whoever asked no longer exists, so nothing may come back.
            Err(_) => pending().await,
        }
    }
}

impl Service<Request<Body>> for Gate {
    type Response = Response<AnyBody>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Answer>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.clone().pass(request))
    }
}
