//! One piece of work on one object.

use std::{sync::Arc, time::Duration};

use kube::Client;
use serde_json::{Value, json};
use tokio::time::Instant;
use windlass_cluster::{
    apply::{ApplyError, ApplyOptions, Deleted, Endpoint, Retries, retrying},
    discover::{Lookup, Served},
    drive::Key,
};

use super::{
    Link, Work, answers,
    survey::{gvk, is_of},
};
use crate::{
    object::{ObjectId, Sealed},
    tracking::{self, MANAGER},
    trouble::Trouble,
};

/// Tries when an object changes under our hands.
const TRIES: usize = 5;
/// How long a deleted object may take to go before it is made anew.
const GONE_WITHIN: Duration = Duration::from_secs(30);
/// How often it is looked whether it is gone.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Why a piece of work was not done.
pub(super) struct Failure {
    pub(super) trouble: Trouble,
    /// The cluster is away: there is no use in going on with other work.
    pub(super) away: bool,
}

impl From<Trouble> for Failure {
    fn from(trouble: Trouble) -> Self {
        Self { trouble, away: false }
    }
}

/// What is wrong with one try.
enum Wrong {
    Answer(ApplyError),
    Trouble(Trouble),
    /// It changed since it was read: read it again.
    Stale(ApplyError),
}

impl From<ApplyError> for Wrong {
    fn from(error: ApplyError) -> Self {
        match error {
            ApplyError::Modified { .. } => Self::Stale(error),
            other => Self::Answer(other),
        }
    }
}

impl From<Trouble> for Wrong {
    fn from(trouble: Trouble) -> Self {
        Self::Trouble(trouble)
    }
}

/// Reads as the controller, writes as a user.
pub(super) struct Workman<'a> {
    link: &'a Link,
    app: &'a Key,
    reader: Client,
    writer: Client,
}

impl<'a> Workman<'a> {
    pub(super) fn new(link: &'a Link, app: &'a Key, as_user: Option<&str>) -> Self {
        Self { link, app, reader: link.client(), writer: link.acting_as(as_user) }
    }

    pub(super) async fn work(&self, work: &Work) -> Result<(), Failure> {
        let id = work.object();
        let mut tries = 0;
        let mut asked_again = false;
        loop {
            tries += 1;
            let error = match self.attempt(work, &id).await {
                Ok(()) => return Ok(()),
                Err(Wrong::Trouble(trouble)) => return Err(trouble.into()),
                Err(Wrong::Stale(_)) if tries < TRIES => continue,
                // Its definition may have been applied a moment ago.
                Err(Wrong::Answer(ApplyError::UnknownKind)) if !asked_again => {
                    asked_again = true;
                    self.link.discovery().invalidate();
                    continue;
                }
                Err(Wrong::Answer(error) | Wrong::Stale(error)) => error,
            };
            let trouble = answers::trouble(self.link.name(), &id, &error);
            return Err(Failure { trouble, away: answers::is_away(&error) });
        }
    }

    async fn attempt(&self, work: &Work, id: &ObjectId) -> Result<(), Wrong> {
        match work {
            Work::Apply(wanted) => self.apply(wanted).await,
            Work::Replace { wanted, uid } => self.replace(wanted, uid).await,
            Work::Put(wanted) => self.put(wanted).await,
            Work::Delete { id, uid } => self.delete(id, uid).await,
            Work::Release { id, uid } => self.release(id, uid).await,
            Work::EnsureNamespace(name) => self.ensure_namespace(id, name).await,
        }
    }

    async fn apply(&self, wanted: &Sealed) -> Result<(), Wrong> {
        let id = wanted.id();
        let served = self.served(id).await?;
        if let Some(live) = self.link.index().get(&id.key()) {
            self.check_owner(id, live.owner.as_deref())?;
            match self.apply_onto(&served, wanted, &live.version).await {
                // The index is behind: look at the object itself.
                Err(Wrong::Stale(_)) => {}
                other => return other,
            }
        }
        let _word = self.link.makings().word(&id.key()).await;
        // The index knows only what carries our label: look whether somebody else has it.
        let Some(found) = self.metadata(&served, id).await? else { return self.make(&served, wanted).await };
        self.check_owner(id, tracking::owner(&found))?;
        self.apply_onto(&served, wanted, text(&found, "resourceVersion")).await
    }

    /// Makes what is not there, and takes nothing from anybody: there is no version to name, and somebody may be quicker.
    ///
    /// Without force the API server refuses to touch another manager's fields, such as the mark of another owner. Only
    /// an Application of another process of ours that makes the same object in the same moment is not told apart; the
    /// later one then has it, and the other says whose it is.
    async fn make(&self, served: &Served, wanted: &Sealed) -> Result<(), Wrong> {
        let options = ApplyOptions::new(MANAGER).live_version(Some(String::new()));
        let endpoint = endpoint(&self.writer, served, wanted.id())?;
        match retrying(Retries::default(), || endpoint.apply(wanted.object(), &options)).await {
            Ok(made) => {
                self.link.index().saw(&made.object);
                Ok(())
            }
            Err(error @ ApplyError::Conflict { .. }) => Err(Wrong::Stale(error)),
            Err(error) => Err(error.into()),
        }
    }

    /// Applies onto the state whose owner was checked, and onto no other: somebody may take the object in between.
    async fn apply_onto(&self, served: &Served, wanted: &Sealed, version: &str) -> Result<(), Wrong> {
        let id = wanted.id();
        let mut object = wanted.object().clone();
        object["metadata"]["resourceVersion"] = version.into();
        let options = ApplyOptions::new(MANAGER).force().live_version(Some(version.to_owned()));
        let endpoint = endpoint(&self.writer, served, id)?;
        match retrying(Retries::default(), || endpoint.apply(&object, &options)).await {
            Ok(applied) => {
                self.link.index().saw(&applied.object);
                Ok(())
            }
            // This is how the API server says that the object of that version is gone.
            Err(error @ ApplyError::Transient { code: 500, .. }) => Err(Wrong::Stale(error)),
            Err(error) => Err(error.into()),
        }
    }

    /// Deletes what cannot be changed, waits until it is gone, and makes it anew.
    async fn replace(&self, wanted: &Sealed, uid: &str) -> Result<(), Wrong> {
        let id = wanted.id();
        self.delete(id, uid).await?;
        let served = self.served(id).await?;
        let deadline = Instant::now() + GONE_WITHIN;
        while self.metadata(&served, id).await?.is_some_and(|found| text(&found, "uid") == uid) {
            if Instant::now() >= deadline {
                return Err(Wrong::Trouble(Trouble::passing(
                    "StillThere",
                    format!(
                        "{} was deleted to be made anew and is still there after {GONE_WITHIN:?}",
                        id.short()
                    ),
                    "Look at its finalizers and at who should remove them.",
                )));
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        self.link.index().gone(&id.key(), uid);
        self.apply(wanted).await
    }

    async fn put(&self, wanted: &Sealed) -> Result<(), Wrong> {
        let id = wanted.id();
        let served = self.served(id).await?;
        let endpoint = endpoint(&self.writer, &served, id)?;
        let object = match self.metadata(&served, id).await? {
            None => retrying(Retries::default(), || endpoint.create(wanted.object(), MANAGER)).await?,
            Some(found) => {
                self.check_owner(id, tracking::owner(&found))?;
                let mut object = wanted.object().clone();
                object["metadata"]["uid"] = text(&found, "uid").into();
                object["metadata"]["resourceVersion"] = text(&found, "resourceVersion").into();
                retrying(Retries::default(), || endpoint.replace(&object, MANAGER)).await?
            }
        };
        self.link.index().saw(&object);
        Ok(())
    }

    async fn delete(&self, id: &ObjectId, uid: &str) -> Result<(), Wrong> {
        let Some((served, found)) = self.standing(id, uid).await? else { return Ok(()) };
        if !is_of(&found, self.app) {
            return Err(Wrong::Trouble(self.not_ours(id, &found)));
        }
        if !text(&found, "deletionTimestamp").is_empty() {
            return Ok(());
        }
        // With the version too: whoever takes it over in this very moment keeps it.
        let version = text(&found, "resourceVersion");
        let endpoint = endpoint(&self.writer, &served, id)?;
        match retrying(Retries::default(), || endpoint.delete(&id.name, uid, Some(version))).await? {
            Deleted::Requested => {}
            Deleted::AlreadyGone => self.link.index().gone(&id.key(), uid),
        }
        Ok(())
    }

    async fn release(&self, id: &ObjectId, uid: &str) -> Result<(), Wrong> {
        let Some((served, found)) = self.standing(id, uid).await? else { return Ok(()) };
        let owner = tracking::owner(&found);
        let labelled = found["metadata"]["labels"].get(tracking::LABEL).is_some();
        // Another's marks are not ours to remove.
        if owner.is_some() && !is_of(&found, self.app) || (owner.is_none() && !labelled) {
            return Ok(());
        }
        let patch = json!({"metadata": {
            "uid": uid,
            "resourceVersion": text(&found, "resourceVersion"),
            "labels": {tracking::LABEL: null},
            "annotations": {tracking::OWNER: null},
        }});
        let endpoint = endpoint(&self.writer, &served, id)?;
        match retrying(Retries::default(), || endpoint.merge(&id.name, &patch, MANAGER)).await {
            Ok(object) => {
                self.link.index().saw(&object);
                Ok(())
            }
            Err(error) if error.is_not_found() => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    async fn ensure_namespace(&self, id: &ObjectId, name: &str) -> Result<(), Wrong> {
        let served = self.served(id).await?;
        if self.metadata(&served, id).await?.is_some() {
            return Ok(());
        }
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        let endpoint = endpoint(&self.writer, &served, id)?;
        retrying(Retries::default(), || endpoint.create(&namespace, MANAGER)).await?;
        Ok(())
    }

    /// The object with this UID, fresh from the API server; `None` when it is gone, or another has its name.
    async fn standing(&self, id: &ObjectId, uid: &str) -> Result<Option<(Arc<Served>, Value)>, Wrong> {
        let found = match self.lookup(id, true).await? {
            Some(served) => self.metadata(&served, id).await?.map(|found| (served, found)),
            None => None,
        };
        let found = found.filter(|(_, found)| text(found, "uid") == uid);
        if found.is_none() {
            self.link.index().gone(&id.key(), uid);
        }
        Ok(found)
    }

    async fn metadata(&self, served: &Served, id: &ObjectId) -> Result<Option<Value>, Wrong> {
        let endpoint = endpoint(&self.reader, served, id)?;
        Ok(retrying(Retries::default(), || endpoint.get_metadata(&id.name)).await?)
    }

    async fn served(&self, id: &ObjectId) -> Result<Arc<Served>, Wrong> {
        self.lookup(id, false).await?.ok_or(Wrong::Answer(ApplyError::UnknownKind))
    }

    /// `None` when the cluster is sure that it does not serve the kind.
    async fn lookup(&self, id: &ObjectId, any_version: bool) -> Result<Option<Arc<Served>>, Wrong> {
        let undiscovered = |error| answers::undiscovered(self.link.name(), &error);
        let exact = self.link.discovery().lookup(&gvk(id)).await.map_err(undiscovered)?;
        let found = match exact {
            Lookup::Absent if any_version => {
                self.link.discovery().preferred(&id.group, &id.kind).await.map_err(undiscovered)?
            }
            other => other,
        };
        match found {
            Lookup::Found(served) => Ok(Some(served)),
            Lookup::Absent => Ok(None),
            Lookup::Unknown(reason) => Err(answers::uncertain(self.link.name(), id, &reason).into()),
        }
    }

    fn check_owner(&self, id: &ObjectId, owner: Option<&str>) -> Result<(), Trouble> {
        match owner {
            Some(owner) if owner != self.app.to_string() => Err(answers::foreign(id, owner)),
            _ => Ok(()),
        }
    }

    fn not_ours(&self, id: &ObjectId, found: &Value) -> Trouble {
        match tracking::owner(found) {
            Some(owner) => answers::foreign(id, owner),
            None => Trouble::standing(
                "NotOurs",
                format!("{} no longer says that it belongs to the Application {}", id.short(), self.app),
                format!("Delete it by hand, or annotate it with {}: {} again.", tracking::OWNER, self.app),
            ),
        }
    }
}

fn endpoint(client: &Client, served: &Served, id: &ObjectId) -> Result<Endpoint, ApplyError> {
    Endpoint::new(client, &served.resource, served.namespaced.then_some(id.namespace.as_str()))
}

fn text<'v>(object: &'v Value, field: &str) -> &'v str {
    object["metadata"][field].as_str().unwrap_or_default()
}
