//! Requests per second, per cluster.
//!
//! A token bucket kept as one instant: no thread, no timer while idle, tokio's time, so a paused clock drives it.
//! A request reserves its turn when it arrives; turns are first come, first served. A 429 with `Retry-After` holds
//! back everything that follows, since the API server counts all of our requests as one flow.

use std::{
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use futures::future::BoxFuture;
use http::{Request, Response, StatusCode, header::RETRY_AFTER};
use tokio::time::Instant;
use tower::{Layer, Service, ServiceExt};

/// Longest time that one answer can hold back the requests that follow.
pub const MAX_RETRY_AFTER: Duration = Duration::from_secs(30);

/// Put into a request's extensions to let it pass at once: a probe must not wait behind a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unthrottled;

/// When the next request may start. Pure but for the instants that it is given.
#[derive(Debug)]
pub(super) struct Bucket {
    interval: Duration,
    tolerance: Duration,
    next: Option<Instant>,
    paused_until: Option<Instant>,
}

impl Bucket {
    /// `None` when the rate is zero or negative: no limit, as in client-go.
    pub(super) fn new(qps: f32, burst: u32) -> Option<Self> {
        if !(qps.is_finite() && qps > 0.0) {
            return None;
        }
        let interval = Duration::try_from_secs_f32(1.0 / qps).ok()?;
        let tolerance = interval.saturating_mul(burst.max(1) - 1);
        Some(Self { interval, tolerance, next: None, paused_until: None })
    }

    /// Takes a turn and says how long to wait for it.
    pub(super) fn reserve(&mut self, now: Instant) -> Duration {
        let next = self.next.map_or(now, |next| next.max(now));
        self.next = Some(next + self.interval);
        let allowed = next.checked_sub(self.tolerance).unwrap_or(now);
        let paused = self.paused_until.unwrap_or(now);
        allowed.max(paused).saturating_duration_since(now)
    }

    /// Nothing starts before `now + delay`.
    pub(super) fn pause(&mut self, now: Instant, delay: Duration) {
        let until = now + delay.min(MAX_RETRY_AFTER);
        self.paused_until = Some(self.paused_until.map_or(until, |have| have.max(until)));
    }
}

/// Limits the requests of one client.
#[derive(Debug, Clone)]
pub(super) struct ThrottleLayer {
    bucket: Option<Arc<Mutex<Bucket>>>,
}

impl ThrottleLayer {
    pub(super) fn new(qps: f32, burst: u32) -> Self {
        Self { bucket: Bucket::new(qps, burst).map(|bucket| Arc::new(Mutex::new(bucket))) }
    }
}

impl<S> Layer<S> for ThrottleLayer {
    type Service = Throttle<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Throttle { inner, bucket: self.bucket.clone() }
    }
}

/// See [`ThrottleLayer`].
#[derive(Debug, Clone)]
pub(super) struct Throttle<S> {
    inner: S,
    bucket: Option<Arc<Mutex<Bucket>>>,
}

impl<S, A, B> Service<Request<A>> for Throttle<S>
where
    S: Service<Request<A>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send,
    A: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        // Room in the inner service is asked for when the turn has come: a queue that waits must not take it all.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<A>) -> Self::Future {
        let inner = self.inner.clone();
        let bucket = self.bucket.clone();
        let unthrottled = request.extensions().get::<Unthrottled>().is_some();
        Box::pin(async move {
            if let Some(bucket) = bucket.as_ref().filter(|_| !unthrottled) {
                let delay = bucket.lock().unwrap_or_else(PoisonError::into_inner).reserve(Instant::now());
                if !delay.is_zero() {
                    tokio::time::sleep(delay).await;
                }
            }
            let response = inner.oneshot(request).await?;
            if response.status() == StatusCode::TOO_MANY_REQUESTS
                && let Some(bucket) = &bucket
                && let Some(delay) = retry_after(response.headers())
            {
                bucket.lock().unwrap_or_else(PoisonError::into_inner).pause(Instant::now(), delay);
            }
            Ok(response)
        })
    }
}

/// `Retry-After` in seconds, at most [`MAX_RETRY_AFTER`].
pub fn retry_after(headers: &http::HeaderMap) -> Option<Duration> {
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse::<u64>().ok()?;
    Some(Duration::from_secs(seconds).min(MAX_RETRY_AFTER))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;
    use tower::{ServiceBuilder, service_fn};

    #[tokio::test(start_paused = true)]
    async fn a_burst_passes_and_the_rest_comes_at_the_rate() {
        let mut bucket = Bucket::new(10.0, 3).unwrap();
        let now = Instant::now();
        let waits: Vec<u128> = (0..6).map(|_| bucket.reserve(now).as_millis()).collect();
        assert_eq!(waits, [0, 0, 0, 100, 200, 300]);
        // After a rest the burst is whole again, and no larger.
        let later = now + Duration::from_mins(1);
        let waits: Vec<u128> = (0..5).map(|_| bucket.reserve(later).as_millis()).collect();
        assert_eq!(waits, [0, 0, 0, 100, 200]);
    }

    #[test]
    fn a_rate_of_zero_is_no_limit() {
        for qps in [0.0, -1.0, f32::NAN, f32::INFINITY] {
            assert!(Bucket::new(qps, 1).is_none(), "{qps}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_429_holds_back_what_follows_but_not_a_probe() {
        let service = ServiceBuilder::new().layer(ThrottleLayer::new(1000.0, 1000)).service(service_fn(
            |request: Request<()>| async move {
                let busy = request.uri().path() == "/busy";
                let builder = Response::builder().status(if busy { 429 } else { 200 });
                Ok::<_, Infallible>(builder.header(RETRY_AFTER, "7").body(()).unwrap())
            },
        ));
        let start = Instant::now();
        let get = |path: &str| Request::get(path).body(()).unwrap();
        service.clone().oneshot(get("/busy")).await.unwrap();
        let mut probe = get("/version");
        probe.extensions_mut().insert(Unthrottled);
        service.clone().oneshot(probe).await.unwrap();
        assert!(start.elapsed() < Duration::from_secs(1));
        service.clone().oneshot(get("/api")).await.unwrap();
        assert!(start.elapsed() >= Duration::from_secs(7), "{:?}", start.elapsed());
    }

    #[test]
    fn a_hostile_retry_after_is_bounded() {
        let headers = |value: &str| [(RETRY_AFTER, value.parse().unwrap())].into_iter().collect();
        assert_eq!(retry_after(&headers("99999999")), Some(MAX_RETRY_AFTER));
        assert_eq!(retry_after(&headers("2")), Some(Duration::from_secs(2)));
        assert_eq!(retry_after(&headers("Wed, 21 Oct 2026 07:28:00 GMT")), None);
    }
}
