//! Clients that do as another client does, with something added: another identity, or less patience.
//!
//! An identity that cannot be told to the server must never mean no identity: a client for it refuses every request.

use std::time::Duration;

use futures::future::BoxFuture;
use http::{HeaderName, HeaderValue, Request, Response};
use kube::{Client, client::Body};
use tower::{BoxError, service_fn};
use windlass_cluster::connect::RequestTimeout;

const USER: HeaderName = HeaderName::from_static("impersonate-user");
/// Every header by which a request may act as somebody.
const ACTING: &str = "impersonate-";

/// Why a request is not even sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The user's name is empty or cannot be in a header.
    #[error("nothing is sent as a user whose name is empty or cannot be told to the API server")]
    NoUser,
    /// The client's credentials act as somebody else already.
    #[error(
        "the kubeconfig of the cluster acts as another user (`as`): take that out, so that requests can act as the \
         service account of an Application"
    )]
    Taken,
}

/// A client whose every request acts as `user`: exactly that user, with no other group, uid or extra than the API server
/// itself gives it.
pub(super) fn acting_as(client: Client, user: &str) -> Client {
    // A blank name would be trimmed away on the wire.
    let value = if user.trim().is_empty() { None } else { HeaderValue::from_str(user).ok() };
    match value {
        Some(value) => around(client, move |client, mut request| {
            let headers = request.headers_mut();
            let others: Vec<HeaderName> =
                headers.keys().filter(|name| name.as_str().starts_with(ACTING)).cloned().collect();
            for other in others {
                headers.remove(other);
            }
            headers.insert(USER, value.clone());
            Box::pin(async move { Ok(client.send(request).await?) })
        }),
        None => refusing(client, Refused::NoUser),
    }
}

/// A client that sends nothing.
pub(super) fn refusing(client: Client, why: Refused) -> Client {
    around(client, move |_, _| {
        let why = why.clone();
        Box::pin(async move { Err(BoxError::from(why)) })
    })
}

/// A client whose answers have to begin in time.
pub(super) fn within(client: Client, limit: Duration) -> Client {
    around(client, move |client, request| {
        Box::pin(async move {
            let answer = tokio::time::timeout(limit, client.send(request)).await;
            Ok(answer.map_err(|_| RequestTimeout(limit))??)
        })
    })
}

type Sending = BoxFuture<'static, Result<Response<Body>, BoxError>>;

fn around(client: Client, send: impl Fn(Client, Request<Body>) -> Sending + Send + 'static) -> Client {
    let namespace = client.default_namespace().to_owned();
    Client::new(service_fn(move |request: Request<Body>| send(client.clone(), request)), namespace)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use std::sync::{Arc, Mutex};

    use super::*;

    /// A client that notes the headers of its requests and answers nothing but `{}`.
    fn noting() -> (Client, Arc<Mutex<Vec<http::HeaderMap>>>) {
        let seen = Arc::<Mutex<Vec<http::HeaderMap>>>::default();
        let notes = Arc::clone(&seen);
        let client = Client::new(
            service_fn(move |request: Request<Body>| {
                notes.lock().unwrap().push(request.headers().clone());
                async { Ok::<_, BoxError>(Response::new(Body::from(b"{}".to_vec()))) }
            }),
            "default",
        );
        (client, seen)
    }

    fn get() -> Request<Vec<u8>> {
        Request::get("/version")
            .header("impersonate-group", "system:masters")
            .header("impersonate-user", "somebody-else")
            .body(Vec::new())
            .unwrap()
    }

    #[tokio::test]
    async fn a_request_acts_as_the_user_and_as_nobody_else() {
        let (client, seen) = noting();
        acting_as(client, "system:serviceaccount:shop:deployer").request_text(get()).await.unwrap();
        let seen = seen.lock().unwrap();
        let users: Vec<_> = seen[0].get_all("impersonate-user").iter().collect();
        assert_eq!(users, ["system:serviceaccount:shop:deployer"]);
        assert!(seen[0].get("impersonate-group").is_none());
    }

    #[tokio::test]
    async fn a_user_without_a_name_sends_nothing() {
        for user in ["", "  ", "a\nb"] {
            let (client, seen) = noting();
            let error = acting_as(client, user).request_text(get()).await.unwrap_err();
            assert!(seen.lock().unwrap().is_empty(), "{user:?}");
            let kube::Error::Service(error) = error else { panic!("{error}") };
            assert_eq!(error.downcast_ref::<Refused>(), Some(&Refused::NoUser), "{user:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_does_not_begin_is_given_up() {
        let silent = Client::new(
            service_fn(|_: Request<Body>| futures::future::pending::<Result<Response<Body>, BoxError>>()),
            "default",
        );
        let error = within(silent, Duration::from_secs(10)).request_text(get()).await.unwrap_err();
        let found = windlass_cluster::connect::transport(&error);
        assert_eq!(found, Some(windlass_cluster::connect::Transport::Timeout), "{error}");
    }
}
