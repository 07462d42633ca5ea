//! A small controller to try the harness on: `ConfigMap`s with `role: source` are copied to `<name>-copy`.
//!
//! Written straight on `kube::Api`, right in one form and wrong in many: each bug is a known class.

use std::time::Duration;

use anyhow::Context;
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::{
    coordination::v1::{Lease, LeaseSpec},
    core::v1::{ConfigMap, Event, ObjectReference, Secret},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::{
    Api, Resource, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions, WatchParams},
};
use serde_json::json;
use windlass_testbed::sim::Instance;

pub const MANAGER: &str = "toy";
const FINALIZER: &str = "example.com/toy";
const LEASE: Duration = Duration::from_secs(15);

/// What is wrong with a toy; nothing by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    None,
    /// Deletes copies without saying which UID is meant.
    MissingPrecondition,
    /// Lets the finalizer go without deleting the copy.
    ForgetsCleanup,
    /// Adds its finalizer only after the copy, so that a crash in between leaves the copy behind.
    FinalizerTooLate,
    /// Writes a time at every resync.
    WritesEveryResync,
    /// Deletes copies that have no source in a list of any version.
    ActsOnStaleCache,
    /// Puts the token into an Event.
    LeaksInEvent,
    /// Puts the token into the log.
    LeaksInLog,
    /// Does not elect a leader.
    TwoWriters,
    /// Elects a leader and never looks at the lease again.
    NeverChecksLease,
    /// Gives up for ever on an error.
    GivesUp,
    /// Panics on an error of the API.
    Panics,
    /// Trusts its watch to bring everything and never lists again or times out.
    TrustsWatch,
    /// One bad object stops the round for all others.
    PoisonStopsAll,
    /// Names its copies at random, and so makes a new one when it does not know of the last.
    ForgetsWhatItMade,
    /// Writes into a namespace that is not its own.
    WritesElsewhere,
}

pub struct Toy {
    pub instance: Instance,
    pub bug: Bug,
    pub elect: bool,
}

impl Toy {
    fn maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.instance.client.clone(), "default")
    }

    pub async fn run(self) {
        let mut token = String::new();
        let mut seen: Option<String> = None;
        while !self.instance.shutdown.is_cancelled() {
            match self.round(&mut token).await {
                Ok(version) => seen = Some(version),
                Err(error) if self.bug == Bug::Panics => panic!("{error:#}"),
                Err(_) if self.bug == Bug::GivesUp => std::future::pending().await,
                Err(error) => {
                    tracing::warn!(error = format!("{error:#}"), "round failed");
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    continue;
                }
            }
            let patience = if self.bug == Bug::TrustsWatch {
                Duration::from_secs(1 << 30)
            } else {
                Duration::from_mins(1)
            };
            let wait = if self.elect { Duration::from_secs(3) } else { patience };
            let version = seen.clone().unwrap_or_default();
            let _change = tokio::time::timeout(wait, self.next_change(&version)).await;
        }
    }

    /// Waits for one event, or for the end of the watch.
    async fn next_change(&self, version: &str) -> anyhow::Result<()> {
        let params = WatchParams::default().labels("role=source").timeout(290);
        let mut events = self.maps().watch(&params, version).await?.boxed();
        let _event = events.try_next().await?;
        Ok(())
    }

    async fn round(&self, token: &mut String) -> anyhow::Result<String> {
        if self.elect && self.bug != Bug::TwoWriters && !self.lead().await? {
            return self.version().await;
        }
        if token.is_empty() {
            let secrets: Api<Secret> = Api::namespaced(self.instance.client.clone(), "default");
            let secret = secrets.get("credentials").await.context("reading the credentials")?;
            let data = secret.data.unwrap_or_default().remove("token").context("no token")?;
            *token = String::from_utf8(data.0)?;
            if self.bug == Bug::LeaksInLog {
                tracing::debug!(header = format!("Bearer {token}"), "signed in");
            }
        }
        let params = ListParams::default().labels("role=source");
        let params = if self.bug == Bug::ActsOnStaleCache { params.match_any() } else { params };
        let sources = self.maps().list(&params).await.context("listing sources")?;
        let mut failed = None;
        for source in &sources {
            if let Err(error) = self.reconcile(source, token).await {
                failed = Some(error.context(source.name_any()));
                if self.bug == Bug::PoisonStopsAll {
                    break;
                }
            }
        }
        self.sweep(&sources.items).await?;
        if let Some(error) = failed.filter(|error| !format!("{error:#}").contains("poison")) {
            return Err(error);
        }
        Ok(sources.metadata.resource_version.unwrap_or_default())
    }

    async fn version(&self) -> anyhow::Result<String> {
        let list = self.maps().list(&ListParams::default().limit(1)).await?;
        Ok(list.metadata.resource_version.unwrap_or_default())
    }

    async fn reconcile(&self, source: &ConfigMap, token: &str) -> anyhow::Result<()> {
        let data = source.data.clone().unwrap_or_default();
        if data.contains_key("poison") {
            anyhow::bail!("poison");
        }
        let finalizers = source.finalizers();
        let ours = finalizers.iter().any(|finalizer| finalizer == FINALIZER);
        if source.meta().deletion_timestamp.is_some() {
            if ours {
                if self.bug != Bug::ForgetsCleanup {
                    self.remove_copy(&format!("{}-copy", source.name_any())).await?;
                }
                self.set_finalizers(source, finalizers.iter().filter(|other| *other != FINALIZER)).await?;
            }
            return Ok(());
        }
        if !ours && self.bug != Bug::FinalizerTooLate {
            self.set_finalizers(source, finalizers.iter().chain([&FINALIZER.to_owned()])).await?;
        }
        self.copy(source, token).await?;
        if !ours && self.bug == Bug::FinalizerTooLate {
            self.set_finalizers(source, finalizers.iter().chain([&FINALIZER.to_owned()])).await?;
        }
        Ok(())
    }

    async fn copy(&self, source: &ConfigMap, token: &str) -> anyhow::Result<()> {
        let name = match self.bug {
            Bug::ForgetsWhatItMade => format!("{}-copy-{}", source.name_any(), self.instance.incarnation),
            _ => format!("{}-copy", source.name_any()),
        };
        let present = self.maps().get_opt(&name).await.context("reading the copy")?;
        let same = present.is_some_and(|copy| copy.data == source.data);
        if same && self.bug != Bug::WritesEveryResync {
            return Ok(());
        }
        self.fence().await?;
        let mut copy = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": name, "labels": { "role": "copy", "of": source.name_any() } },
            "data": source.data,
        });
        if self.bug == Bug::WritesEveryResync {
            copy["metadata"]["annotations"]["checked"] = json!(self.instance.clock.now().to_string());
        }
        let params = PatchParams::apply(MANAGER).force();
        self.maps().patch(&name, &params, &Patch::Apply(&copy)).await.context("applying the copy")?;
        if self.bug == Bug::WritesElsewhere {
            let elsewhere: Api<ConfigMap> = Api::namespaced(self.instance.client.clone(), "kube-public");
            elsewhere.patch(&name, &params, &Patch::Apply(&copy)).await.context("applying elsewhere")?;
        }
        if !same {
            self.tell(source, token).await?;
        }
        Ok(())
    }

    async fn tell(&self, source: &ConfigMap, token: &str) -> anyhow::Result<()> {
        let events: Api<Event> = Api::namespaced(self.instance.client.clone(), "default");
        let message =
            if self.bug == Bug::LeaksInEvent { format!("copied with {token}") } else { "copied".to_owned() };
        let event = Event {
            metadata: kube::api::ObjectMeta { generate_name: Some("toy-".to_owned()), ..Default::default() },
            involved_object: ObjectReference { name: Some(source.name_any()), ..source.object_ref(&()) },
            message: Some(message),
            ..Event::default()
        };
        let params = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
        events.create(&params, &event).await.context("telling")?;
        Ok(())
    }

    /// Removes copies whose source is gone.
    async fn sweep(&self, sources: &[ConfigMap]) -> anyhow::Result<()> {
        let copies =
            self.maps().list(&ListParams::default().labels("role=copy")).await.context("listing copies")?;
        for copy in copies {
            let of = copy.labels().get("of").cloned().unwrap_or_default();
            if sources.iter().any(|source| source.name_any() == of) {
                continue;
            }
            // Listed after the sources: one made in between has a copy only if we made it, so ask again.
            let gone = self.bug == Bug::ActsOnStaleCache || self.maps().get_opt(&of).await?.is_none();
            if gone && self.bug != Bug::ForgetsCleanup && self.bug != Bug::FinalizerTooLate {
                self.remove_copy(&copy.name_any()).await?;
            }
        }
        Ok(())
    }

    async fn remove_copy(&self, name: &str) -> anyhow::Result<()> {
        let Some(copy) = self.maps().get_opt(name).await.context("reading the copy to delete")? else {
            return Ok(());
        };
        if copy.labels().get("role").is_none_or(|role| role != "copy")
            || copy.meta().deletion_timestamp.is_some()
        {
            return Ok(());
        }
        self.fence().await?;
        let mut params = DeleteParams::default();
        if self.bug != Bug::MissingPrecondition {
            params.preconditions = Some(Preconditions { uid: copy.uid(), resource_version: None });
        }
        match self.maps().delete(name, &params).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            other => other.map(drop).context("deleting the copy"),
        }
    }

    async fn set_finalizers(
        &self,
        source: &ConfigMap,
        list: impl Iterator<Item = &String>,
    ) -> anyhow::Result<()> {
        self.fence().await?;
        let list: Vec<&String> = list.collect();
        let meta =
            json!({ "finalizers": list, "resourceVersion": source.resource_version(), "uid": source.uid() });
        let patch = Patch::Merge(json!({ "metadata": meta }));
        let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
        match self.maps().patch(&source.name_any(), &params, &patch).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            other => other.map(drop).context("setting finalizers"),
        }
    }

    /// Fails unless the lease is still ours, asked of the API just before a write.
    async fn fence(&self) -> anyhow::Result<()> {
        if !self.elect || matches!(self.bug, Bug::TwoWriters | Bug::NeverChecksLease) {
            return Ok(());
        }
        anyhow::ensure!(self.lead().await?, "no longer the leader");
        Ok(())
    }

    /// Takes or renews the lease by compare and swap; whether it is ours. The API's refusal of an old version is
    /// what keeps two from having it.
    async fn lead(&self) -> anyhow::Result<bool> {
        let leases: Api<Lease> = Api::namespaced(self.instance.client.clone(), "default");
        let now = self.instance.clock.now();
        let me = format!("{}-{}", self.instance.name, self.instance.incarnation);
        let spec = |transitions| LeaseSpec {
            holder_identity: Some(me.clone()),
            renew_time: Some(MicroTime(now)),
            lease_duration_seconds: Some(15),
            lease_transitions: Some(transitions),
            ..LeaseSpec::default()
        };
        let params = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
        let Some(mut lease) = leases.get_opt("toy").await.context("reading the lease")? else {
            let mut lease = Lease { spec: Some(spec(0)), ..Lease::default() };
            lease.metadata.name = Some("toy".to_owned());
            return Ok(leases.create(&params, &lease).await.is_ok());
        };
        let held = lease.spec.take().unwrap_or_default();
        let age = held.renew_time.map(|time| now.duration_since(time.0));
        let mine = held.holder_identity.as_deref() == Some(&me);
        let fresh = age.is_some_and(|age| age.unsigned_abs() < LEASE / 3);
        let expired = age.is_none_or(|age| age.unsigned_abs() > LEASE);
        if mine && fresh {
            return Ok(true);
        }
        if !mine && !expired {
            return Ok(false);
        }
        lease.spec = Some(spec(held.lease_transitions.unwrap_or_default() + i32::from(!mine)));
        Ok(leases.replace("toy", &params, &lease).await.is_ok())
    }
}
