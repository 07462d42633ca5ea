//! Secrets of Applications, kept for a while: a quiet Application asks the API server for nothing.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use tokio::time::Instant;

use crate::{render::sops::AgeKeys, trouble::Trouble};

/// A Secret that is missing is looked for more often than one that is there is read again.
const MISSING: Duration = Duration::from_secs(5);

/// How long the API server may take.
const LIMIT: Duration = Duration::from_secs(10);

/// What a Secret holds. Its content is not shown.
pub(super) struct Content {
    /// `namespace/name`.
    pub(super) name: String,
    /// Decoded.
    pub(super) data: BTreeMap<String, Vec<u8>>,
    keys: OnceLock<Result<Arc<AgeKeys>, Trouble>>,
}

impl Content {
    fn new(name: String, secret: Secret) -> Self {
        let data = secret.data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.0)).collect();
        Self { name, data, keys: OnceLock::new() }
    }

    /// The age keys in it, read once.
    pub(super) fn keys(&self) -> Result<Arc<AgeKeys>, Trouble> {
        self.keys.get_or_init(|| AgeKeys::from_secret(&self.name, &self.data).map(Arc::new)).clone()
    }
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret {}", self.name)
    }
}

type Name = (String, String);
type Loaded = Result<Arc<Content>, Trouble>;

/// One Secret: whoever loads it holds `loaded`, so that many who ask cause one request.
#[derive(Default)]
struct Slot {
    /// Grows when the Secret is said to have changed.
    changes: AtomicU64,
    loaded: tokio::sync::Mutex<Option<(u64, Instant, Loaded)>>,
}

/// All Secrets that were asked for lately.
pub(super) struct Secrets {
    hub: Client,
    ttl: Duration,
    slots: Mutex<BTreeMap<Name, Arc<Slot>>>,
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secrets").field("ttl", &self.ttl).finish_non_exhaustive()
    }
}

impl Secrets {
    pub(super) fn new(hub: Client, ttl: Duration) -> Self {
        Self { hub, ttl, slots: Mutex::default() }
    }

    /// The content of a Secret, no older than the time to live.
    pub(super) async fn get(&self, namespace: &str, name: &str) -> Loaded {
        let key = (namespace.to_owned(), name.to_owned());
        let slot = self.slots.lock().unwrap_or_else(PoisonError::into_inner).entry(key).or_default().clone();
        let mut loaded = slot.loaded.lock().await;
        let changes = slot.changes.load(Ordering::SeqCst);
        if let Some((seen, at, content)) = &*loaded
            && *seen == changes
            && at.elapsed() < if content.is_ok() { self.ttl } else { MISSING.min(self.ttl) }
        {
            return content.clone();
        }
        let content = self.load(namespace, name).await;
        // What may pass by itself is asked for again.
        let keep = content.as_ref().map_or_else(|trouble| trouble.waits_for_change, |_| true);
        *loaded = keep.then(|| (changes, Instant::now(), content.clone()));
        content
    }

    /// The Secret is read again when it is next needed.
    pub(super) fn changed(&self, namespace: &str, name: &str) {
        let key = (namespace.to_owned(), name.to_owned());
        if let Some(slot) = self.slots.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            slot.changes.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Lets go of what nobody asked for lately: no Secret stays in memory after its last use.
    pub(super) fn sweep(&self) {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner).retain(|_, slot| {
            let Ok(loaded) = slot.loaded.try_lock() else { return true };
            loaded.as_ref().is_some_and(|(_, at, _)| at.elapsed() < self.ttl) || Arc::strong_count(slot) > 1
        });
    }

    async fn load(&self, namespace: &str, name: &str) -> Loaded {
        let place = format!("{namespace}/{name}");
        let secrets = Api::<Secret>::namespaced(self.hub.clone(), namespace);
        match tokio::time::timeout(LIMIT, secrets.get_opt(name)).await {
            Ok(Ok(Some(secret))) => Ok(Arc::new(Content::new(place, secret))),
            Ok(Ok(None)) => Err(Trouble::standing(
                "SecretNotFound",
                format!("Secret {place} does not exist"),
                "create it, or name another one; the Application goes on when it appears",
            )),
            Ok(Err(kube::Error::Api(status))) if status.code == 403 => Err(Trouble::passing(
                "SecretForbidden",
                format!("the controller may not read Secret {place}"),
                "give its ServiceAccount the right to get Secrets in that namespace",
            )),
            Ok(Err(kube::Error::Api(status))) => Err(unanswered(&place, &status.message)),
            // Not its own words: an answer that cannot be read may be quoted in them.
            Ok(Err(_)) => Err(unanswered(&place, "the API server cannot be reached or answers oddly")),
            Err(_) => Err(unanswered(&place, "the API server did not answer in time")),
        }
    }
}

fn unanswered(place: &str, why: &str) -> Trouble {
    Trouble::passing("SecretUnreadable", format!("Secret {place} cannot be read: {why}"), "it is tried again")
}
