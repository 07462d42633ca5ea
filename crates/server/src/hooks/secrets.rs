//! What Git servers prove themselves with.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Secret;
use kube::runtime::watcher::watch_object;
use kube::{Api, Client};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::Provider;

/// How often the Secret is read even if the watch says nothing: without the right to watch this still does the work.
const INTERVAL: Duration = Duration::from_secs(30);

/// One secret of a Git server. Printing it shows nothing.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Shared(Vec<u8>);

impl Shared {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Shared(…)")
    }
}

type ByProvider = BTreeMap<Provider, Arc<[Shared]>>;

/// The secrets of all providers. Cheap to clone: all clones see the same ones.
#[derive(Clone, Debug, Default)]
pub struct Secrets(Arc<RwLock<Arc<ByProvider>>>);

impl Secrets {
    /// None: every hook is refused.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the place of what was there. Keys are the providers' names; a value holds one secret per line, so that a
    /// new one can be brought in before the old one goes.
    pub fn set<'a>(&self, data: impl IntoIterator<Item = (&'a str, &'a [u8])>) {
        let mut secrets = ByProvider::new();
        for (key, value) in data {
            let Some(provider) = Provider::named(key) else { continue };
            let lines: Vec<Shared> = value
                .split(|byte| *byte == b'\n')
                .map(<[u8]>::trim_ascii)
                .filter(|line| !line.is_empty())
                .map(|line| Shared(line.to_vec()))
                .collect();
            if !lines.is_empty() {
                secrets.insert(provider, lines.into());
            }
        }
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(secrets);
    }

    /// The secrets that a provider may use; none when its key is missing.
    pub(super) fn of(&self, provider: Provider) -> Option<Arc<[Shared]>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(&provider).cloned()
    }

    /// The providers that have a secret.
    pub fn providers(&self) -> Vec<Provider> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).keys().copied().collect()
    }

    /// Follows a Kubernetes Secret until told to end. A Secret that cannot be read leaves the last known ones in place;
    /// one that is gone takes them away.
    pub async fn follow(self, client: Client, namespace: String, name: String, stop: CancellationToken) {
        let api: Api<Secret> = Api::namespaced(client, &namespace);
        let mut touched = Box::pin(watch_object(api.clone(), &name));
        let mut watching = true;
        let mut last: Option<Vec<Provider>> = None;
        loop {
            match api.get_opt(&name).await {
                Ok(secret) => {
                    self.read(secret.as_ref());
                    let now = self.providers();
                    if last.as_ref() != Some(&now) {
                        info!(namespace, name, providers = ?now, found = secret.is_some(), "secrets of hooks");
                        last = Some(now);
                    }
                }
                Err(error) => warn!(namespace, name, %error, "cannot read the Secret for hooks"),
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                event = touched.next(), if watching => match event {
                    Some(Ok(_)) => {}
                    Some(Err(_)) => {
                        debug!(namespace, name, "the watch on the Secret for hooks failed");
                        // The watcher begins anew by itself; not at once.
                        tokio::select! {
                            biased;
                            () = stop.cancelled() => return,
                            () = tokio::time::sleep(INTERVAL / 10) => {}
                        }
                    }
                    None => watching = false,
                },
                () = tokio::time::sleep(INTERVAL) => {}
            }
        }
    }

    fn read(&self, secret: Option<&Secret>) {
        let data = secret.and_then(|secret| secret.data.as_ref());
        self.set(data.into_iter().flatten().map(|(key, value)| (key.as_str(), value.0.as_slice())));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_holds_one_secret_per_line_and_is_never_printed() {
        let secrets = Secrets::new();
        secrets.set([("github", b"  old \n\nnew\r\n".as_slice()), ("gitlab", b"\n \n"), ("other", b"x")]);
        let found = secrets.of(Provider::Github).unwrap();
        assert_eq!(found.iter().map(Shared::bytes).collect::<Vec<_>>(), [b"old".as_slice(), b"new"]);
        assert_eq!(secrets.providers(), [Provider::Github], "an empty value is none");
        assert!(!format!("{secrets:?}").contains("old"));
        secrets.set([]);
        assert!(secrets.of(Provider::Github).is_none(), "what is gone counts no more");
    }
}
