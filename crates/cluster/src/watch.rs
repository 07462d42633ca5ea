//! Watches that never end: re-list, back-off, and a way out of a connection that went silent.
//!
//! Comes in: an `Api`, and what to select. Goes out: a stream of [`Event`]s without errors; a failure is reported
//! as an event and retried after a back-off. kube's watcher does the protocol (pages, resume, 410); here are the
//! bounds around it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
    time::Duration,
};

use futures::{
    Stream, StreamExt,
    stream::{self, BoxStream},
};
use kube::{
    Api, Resource,
    core::PartialObjectMeta,
    runtime::watcher::{self, watcher},
};
use serde::de::DeserializeOwned;

use crate::{backoff::Backoff, drive::key::Reference};

/// Which objects, and how patiently.
#[derive(Clone, Debug)]
pub struct Selection {
    /// Label selector, all objects if `None`.
    pub labels: Option<String>,
    /// Field selector, all objects if `None`.
    pub fields: Option<String>,
    /// Length of one watch call. A connection is given up when it was silent for longer than this.
    pub timeout: Duration,
    /// Objects per page of a list.
    pub page: u32,
}

impl Default for Selection {
    fn default() -> Self {
        Self { labels: None, fields: None, timeout: Duration::from_secs(240), page: 500 }
    }
}

impl Selection {
    /// Only objects with these labels.
    pub fn labels(selector: impl Into<String>) -> Self {
        Self { labels: Some(selector.into()), ..Self::default() }
    }

    fn config(&self) -> watcher::Config {
        let seconds = u32::try_from(self.timeout.as_secs()).unwrap_or(240).clamp(1, 290);
        watcher::Config {
            label_selector: self.labels.clone(),
            field_selector: self.fields.clone(),
            ..watcher::Config::default().timeout(seconds).page_size(self.page)
        }
    }
}

/// Category of [`Event::Broken`] when the kind is not served.
pub const ABSENT: &str = "absent";

/// Category of [`Event::Broken`] when the kind may not be listed or watched.
pub const FORBIDDEN: &str = "forbidden";

/// What a watch saw.
#[derive(Clone, Debug, PartialEq)]
pub enum Event<K> {
    /// A list begins. What it does not name is gone when it has ended.
    ListBegins,
    /// An object in the list.
    Listed(K),
    /// The list is whole: from here on the stream follows the changes.
    ListEnds,
    /// An object was made or changed.
    Changed(K),
    /// An object is gone.
    Gone(K),
    /// The watch broke and starts again after a back-off. The text has no content of objects.
    Broken {
        /// One of a few names, for metrics.
        category: &'static str,
        /// For the log.
        message: String,
    },
}

const BACKOFF: Backoff = Backoff { first: Duration::from_millis(400), longest: Duration::from_secs(20) };

/// Longest wait for one page of a list.
const LIST_PATIENCE: Duration = Duration::from_secs(60);

/// Watches objects: whole ones, or names, labels and versions only with `Api<PartialObjectMeta<K>>`.
pub fn objects<K>(
    api: Api<K>,
    selection: &Selection,
    name: &str,
) -> impl Stream<Item = Event<K>> + Send + use<K>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let config = selection.config();
    endless(selection.timeout, name, move || watcher(api.clone(), config.clone()).boxed())
}

/// Names the objects that really changed, were made or went: a re-list that brings nothing new is silent.
///
/// Only versions are kept.
pub fn references<K>(
    api: Api<PartialObjectMeta<K>>,
    selection: &Selection,
    name: &str,
) -> impl Stream<Item = Seen> + Send + use<K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + Send + 'static,
{
    let events = objects(api, selection, name);
    let mut versions: BTreeMap<(Option<String>, String), Option<String>> = BTreeMap::new();
    let mut listing: Option<BTreeSet<(Option<String>, String)>> = None;
    events.flat_map(move |event| {
        let mut out = Vec::new();
        let refer = |(namespace, name): &(Option<String>, String)| {
            Seen::Changed(Reference {
                group: K::group(&()),
                kind: K::kind(&()),
                namespace: namespace.clone(),
                name: name.clone(),
            })
        };
        let key = |object: &PartialObjectMeta<K>| {
            (object.metadata.namespace.clone(), object.metadata.name.clone().unwrap_or_default())
        };
        match event {
            Event::ListBegins => listing = Some(BTreeSet::new()),
            Event::Listed(object) | Event::Changed(object) => {
                let key = key(&object);
                if let Some(listing) = listing.as_mut() {
                    listing.insert(key.clone());
                }
                let version = object.metadata.resource_version;
                if versions.get(&key) != Some(&version) {
                    out.push(refer(&key));
                    versions.insert(key, version);
                }
            }
            Event::ListEnds => {
                let seen = listing.take().unwrap_or_default();
                versions.retain(|key, _| {
                    let kept = seen.contains(key);
                    if !kept {
                        out.push(refer(key));
                    }
                    kept
                });
                out.push(Seen::Whole);
            }
            Event::Gone(object) => {
                let key = key(&object);
                versions.remove(&key);
                out.push(refer(&key));
            }
            Event::Broken { category, message } => out.push(Seen::Broken { category, message }),
        }
        stream::iter(out)
    })
}

/// For a kind that may not be installed, or that nothing waits for: a first list that fails counts as one of nothing.
pub fn optional(
    seen: impl Stream<Item = Seen> + Send + 'static,
) -> impl Stream<Item = Seen> + Send + 'static {
    seen.flat_map(|seen| {
        let whole = matches!(seen, Seen::Broken { .. }).then_some(Seen::Whole);
        stream::iter([Some(seen), whole].into_iter().flatten())
    })
}

/// What [`references`] tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// This object changed, was made or went.
    Changed(Reference),
    /// Everything that exists has been named.
    Whole,
    /// As [`Event::Broken`].
    Broken {
        /// One of a few names, for metrics.
        category: &'static str,
        /// For the log.
        message: String,
    },
}

type Watching<K> = BoxStream<'static, watcher::Result<watcher::Event<K>>>;

struct Endless<K, F> {
    start: F,
    stream: Option<Watching<K>>,
    timeout: Duration,
    listing: bool,
    failures: u32,
    pause: Option<Duration>,
    name: String,
}

/// Runs watchers one after the other for ever.
fn endless<K, F>(timeout: Duration, name: &str, start: F) -> impl Stream<Item = Event<K>> + Send + use<K, F>
where
    K: Send + 'static,
    F: FnMut() -> Watching<K> + Send + 'static,
{
    let state = Endless {
        start,
        stream: None,
        timeout,
        listing: true,
        failures: 0,
        pause: None,
        name: name.to_owned(),
    };
    stream::unfold(state, |mut state| async move {
        let event = state.next().await;
        Some((event, state))
    })
}

impl<K, F: FnMut() -> Watching<K>> Endless<K, F> {
    async fn next(&mut self) -> Event<K> {
        if let Some(pause) = self.pause.take() {
            tokio::time::sleep(pause).await;
        }
        loop {
            let stream = self.stream.get_or_insert_with(&mut self.start);
            // The watcher itself gives a silent watch up after its time-out; a list has no such bound.
            let patience = if self.listing { LIST_PATIENCE } else { self.timeout.saturating_mul(2) };
            let Ok(item) = tokio::time::timeout(patience, stream.next()).await else {
                return self.broken(true, "silent", "no answer in time".to_owned());
            };
            match item {
                None => self.stream = None,
                Some(Err(error)) => {
                    let (category, message) = explain(&error);
                    return self.broken(false, category, message);
                }
                Some(Ok(event)) => return self.healthy(event),
            }
        }
    }

    fn healthy(&mut self, event: watcher::Event<K>) -> Event<K> {
        match event {
            watcher::Event::Init => {
                self.listing = true;
                Event::ListBegins
            }
            watcher::Event::InitApply(object) => Event::Listed(object),
            watcher::Event::InitDone => {
                (self.listing, self.failures) = (false, 0);
                Event::ListEnds
            }
            watcher::Event::Apply(object) => {
                self.failures = 0;
                Event::Changed(object)
            }
            watcher::Event::Delete(object) => {
                self.failures = 0;
                Event::Gone(object)
            }
        }
    }

    fn broken(&mut self, restart: bool, category: &'static str, message: String) -> Event<K> {
        if restart {
            (self.stream, self.listing) = (None, true);
        }
        self.failures = self.failures.saturating_add(1);
        self.pause = Some(BACKOFF.delay(self.failures, &self.name));
        Event::Broken { category, message }
    }
}

/// A category, and a text without content of objects: a decoding error quotes what it read, so it is not shown.
fn explain(error: &watcher::Error) -> (&'static str, String) {
    use watcher::Error as E;
    match error {
        E::InitialListFailed(kube::Error::SerdeError(_)) | E::WatchFailed(kube::Error::SerdeError(_)) => {
            ("decode", "an object could not be decoded".to_owned())
        }
        // What is not served, and what is not for us, does not come back by trying again.
        E::InitialListFailed(kube::Error::Api(status)) | E::WatchStartFailed(kube::Error::Api(status))
            if matches!(status.code, 403 | 404) =>
        {
            (if status.code == 404 { ABSENT } else { FORBIDDEN }, status.message.clone())
        }
        E::InitialListFailed(error) => ("list", error.to_string()),
        E::WatchStartFailed(error) => ("start", error.to_string()),
        E::WatchError(status) if status.code == 410 => ("expired", status.message.clone()),
        E::WatchError(status) => ("server", status.message.clone()),
        E::WatchFailed(error) => ("connection", error.to_string()),
        E::NoResourceVersion => ("protocol", "the list has no resource version".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    };

    fn scripted(
        scripts: Vec<Vec<watcher::Result<watcher::Event<u32>>>>,
        hang: bool,
    ) -> (Arc<AtomicU32>, impl Stream<Item = Event<u32>>) {
        let starts = Arc::new(AtomicU32::new(0));
        let counter = starts.clone();
        let mut scripts = scripts.into_iter();
        let stream = endless(Duration::from_secs(10), "test", move || {
            counter.fetch_add(1, Ordering::SeqCst);
            let script = stream::iter(scripts.next().unwrap_or_default());
            if hang { script.chain(stream::pending()).boxed() } else { script.boxed() }
        });
        (starts, stream)
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_list_and_a_silent_watch_are_given_up_and_listed_again() {
        let (starts, stream) = scripted(
            vec![
                vec![Ok(watcher::Event::Init)],
                vec![
                    Ok(watcher::Event::Init),
                    Ok(watcher::Event::InitApply(1)),
                    Ok(watcher::Event::InitDone),
                ],
                vec![Ok(watcher::Event::Init)],
            ],
            true,
        );
        let begin = tokio::time::Instant::now();
        let events: Vec<_> = stream.take(7).collect().await;
        assert!(matches!(events[0], Event::ListBegins));
        assert!(matches!(events[1], Event::Broken { category: "silent", .. }));
        assert_eq!(events[2..5], [Event::ListBegins, Event::Listed(1), Event::ListEnds]);
        assert!(matches!(events[5], Event::Broken { category: "silent", .. }));
        assert!(matches!(events[6], Event::ListBegins));
        assert_eq!(starts.load(Ordering::SeqCst), 3);
        assert!(begin.elapsed() < Duration::from_secs(90));
    }

    #[tokio::test(start_paused = true)]
    async fn failures_in_a_row_wait_longer_and_longer() {
        let fail = || Err(watcher::Error::NoResourceVersion);
        let (_, stream) = scripted(vec![(0..6).map(|_| fail()).collect()], true);
        let mut stream = Box::pin(stream);
        let mut waits = Vec::new();
        for _ in 0..6 {
            let before = tokio::time::Instant::now();
            assert!(matches!(stream.next().await, Some(Event::Broken { category: "protocol", .. })));
            waits.push(before.elapsed());
        }
        assert!(waits[1..].windows(2).all(|pair| pair[0] < pair[1]), "{waits:?}");
    }
}
