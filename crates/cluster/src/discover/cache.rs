//! Discovery, remembered for a while.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use kube::{Client, api::GroupVersionKind};
use tokio::{sync::Mutex, time::Instant};

use super::{DiscoverError, Discovered, Lookup, discover};

/// A kind that was not found is asked for again after this time, however long the rest is remembered.
const ASK_AGAIN: Duration = Duration::from_secs(5);

/// Remembers what a cluster serves. Concurrent callers share one request.
///
/// Call [`DiscoveryCache::invalidate`] when a `CustomResourceDefinition` or `APIService` changes; the time limit covers
/// what was missed.
pub struct DiscoveryCache {
    client: Client,
    ttl: Duration,
    generation: AtomicU64,
    state: Mutex<Option<Known>>,
}

struct Known {
    discovered: Arc<Discovered>,
    at: Instant,
    generation: u64,
}

impl DiscoveryCache {
    /// Remembers for `ttl`.
    pub fn new(client: Client, ttl: Duration) -> Self {
        Self { client, ttl, generation: AtomicU64::new(0), state: Mutex::new(None) }
    }

    /// What the cluster serves, at most `ttl` old.
    pub async fn get(&self) -> Result<Arc<Discovered>, DiscoverError> {
        self.at_most(self.ttl).await
    }

    /// Looks for a kind. One that was not found is asked for again, so that a new kind is seen within seconds.
    pub async fn lookup(&self, gvk: &GroupVersionKind) -> Result<Lookup, DiscoverError> {
        self.find(|discovered| discovered.lookup(gvk)).await
    }

    /// Looks for a kind in the version that the cluster prefers; like [`DiscoveryCache::lookup`] otherwise.
    pub async fn preferred(&self, group: &str, kind: &str) -> Result<Lookup, DiscoverError> {
        self.find(|discovered| discovered.preferred(group, kind)).await
    }

    /// Forgets what is known. A request under way does not count as new.
    pub fn invalidate(&self) {
        self.generation.fetch_add(1, Ordering::SeqCst);
    }

    async fn find(&self, look: impl Fn(&Discovered) -> Lookup) -> Result<Lookup, DiscoverError> {
        match look(&*self.get().await?) {
            Lookup::Found(served) => Ok(Lookup::Found(served)),
            Lookup::Absent | Lookup::Unknown(_) => Ok(look(&*self.at_most(ASK_AGAIN.min(self.ttl)).await?)),
        }
    }

    async fn at_most(&self, age: Duration) -> Result<Arc<Discovered>, DiscoverError> {
        let mut state = self.state.lock().await;
        let generation = self.generation.load(Ordering::SeqCst);
        if let Some(known) = state.as_ref()
            && known.generation == generation
            && known.at.elapsed() < age
        {
            return Ok(Arc::clone(&known.discovered));
        }
        let at = Instant::now();
        let discovered = Arc::new(discover(&self.client).await?);
        *state = Some(Known { discovered: Arc::clone(&discovered), at, generation });
        Ok(discovered)
    }
}
