//! A namespace for one test.

use std::fmt::Write;
use std::ops::Deref;

use anyhow::Context;
use k8s_openapi::api::core::v1::{self, Event, Pod};
use kube::api::{DeleteParams, ListParams, ObjectMeta, PostParams};
use kube::{Api, Client, Config};
use rand::RngExt;

/// A namespace with a name of its own. Dropping it asks for its deletion without waiting for the end; when the test
/// panics, what was in it is printed first.
#[derive(Debug)]
pub struct Namespace {
    name: String,
    config: Config,
}

impl Namespace {
    pub(super) async fn create(client: &Client, config: Config, prefix: &str) -> anyhow::Result<Self> {
        let name = format!("{prefix}-{:08x}", rand::rng().random::<u32>());
        let object = v1::Namespace {
            metadata: ObjectMeta { name: Some(name.clone()), ..ObjectMeta::default() },
            ..v1::Namespace::default()
        };
        Api::all(client.clone())
            .create(&PostParams::default(), &object)
            .await
            .with_context(|| format!("cannot create namespace {name}"))?;
        Ok(Self { name, config })
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Deref for Namespace {
    type Target = str;

    fn deref(&self) -> &str {
        &self.name
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let (name, config, failed) = (self.name.clone(), self.config.clone(), std::thread::panicking());
        // Drop cannot await, and the runtime of the test may be about to end: a thread with a runtime of its own.
        let report = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
            runtime.block_on(async {
                let client = Client::try_from(config).ok()?;
                let limit = std::time::Duration::from_secs(5);
                tokio::time::timeout(limit, farewell(client, &name, failed)).await.ok()
            })
        })
        .join();
        if let Ok(Some(report)) = report
            && !report.is_empty()
        {
            eprintln!("{report}");
        }
    }
}

async fn farewell(client: Client, name: &str, failed: bool) -> String {
    let report = if failed { describe(&client, name).await } else { String::new() };
    let namespaces: Api<v1::Namespace> = Api::all(client);
    // The whole control plane is about to go, or the test has stopped it: nothing is lost when this fails.
    drop(namespaces.delete(name, &DeleteParams::background()).await);
    report
}

async fn describe(client: &Client, name: &str) -> String {
    let mut text = format!("namespace {name} when the test failed:");
    let pods: Api<Pod> = Api::namespaced(client.clone(), name);
    for pod in pods.list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default() {
        let phase = pod.status.and_then(|status| status.phase).unwrap_or_default();
        let _ = write!(text, "\n  pod {}: {phase}", pod.metadata.name.unwrap_or_default());
    }
    let events: Api<Event> = Api::namespaced(client.clone(), name);
    let mut events = events.list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default();
    events.sort_by(|a, b| a.last_timestamp.cmp(&b.last_timestamp));
    for event in events.iter().rev().take(30).rev() {
        let object = &event.involved_object;
        let _ = write!(
            text,
            "\n  event {} {}/{}: {}",
            event.reason.as_deref().unwrap_or_default(),
            object.kind.as_deref().unwrap_or_default(),
            object.name.as_deref().unwrap_or_default(),
            event.message.as_deref().unwrap_or_default()
        );
    }
    text
}
