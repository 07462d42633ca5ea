//! Asks a cluster what it would say to an object, while nothing has changed yet.

use std::collections::BTreeSet;

use kube::Client;
use windlass_cluster::{
    apply::{ApplyError, ApplyOptions, Endpoint, Retries, Tried, retrying},
    discover::Served,
};

use super::{Link, answers, options, refusal};
use crate::{
    gate::{Ruling, Verdict},
    object::Sealed,
    tracking::MANAGER,
    trouble::Trouble,
};

/// What a dry run told.
pub(super) struct Told {
    /// The object would be new; `None` when that was not told.
    pub(super) created: Option<bool>,
    /// `None` when it cannot be judged yet.
    pub(super) verdict: Option<Verdict>,
}

/// Asks on one cluster, as one user.
pub(super) struct Judges<'a> {
    pub(super) link: &'a Link,
    /// Acts as whoever applies later.
    pub(super) client: &'a Client,
    /// Namespaces that come with the same change.
    pub(super) brought: &'a BTreeSet<&'a str>,
}

impl Judges<'_> {
    /// Applies an object without storing it, by force and with strict validation, as [`super::carry_out`] would.
    ///
    /// Guarantees: a refusal of whatever kind is a verdict. An object that waits for a namespace or a kind of the same
    /// change has none yet. A cluster that does not answer is trouble, never a verdict.
    pub(super) async fn ask(&self, served: &Served, wanted: &Sealed) -> Result<Told, Trouble> {
        match self.try_out(served, wanted).await {
            Ok(tried) => Ok(Told {
                created: Some(tried.created),
                verdict: Some(self.verdict(wanted, passed(&tried.warnings))),
            }),
            Err(error) => self.refused(wanted, &error),
        }
    }

    async fn try_out(&self, served: &Served, wanted: &Sealed) -> Result<Tried, ApplyError> {
        let namespace = served.namespaced.then_some(wanted.id().namespace.as_str());
        let endpoint = Endpoint::new(self.client, &served.resource, namespace)?;
        let options = ApplyOptions::new(MANAGER).force();
        retrying(Retries::default(), || endpoint.try_out(wanted.object(), &options)).await
    }

    fn refused(&self, wanted: &Sealed, error: &ApplyError) -> Result<Told, Trouble> {
        let cluster = self.link.name();
        let told = |created, verdict| Ok(Told { created, verdict });
        match error {
            ApplyError::UnknownKind => {
                self.link.discovery().invalidate();
                return told(None, None);
            }
            ApplyError::Modified { .. } | ApplyError::Conflict { .. } => {
                return Err(answers::trouble(cluster, wanted.id(), error));
            }
            ApplyError::Transient { message, .. } => {
                let Some(webhook) = answers::failed_webhook(message) else {
                    return Err(answers::away(cluster, error));
                };
                let ruling = Ruling::Error(format!("The webhook could not be asked: {message}"));
                return told(None, Some(self.verdict(wanted, (webhook.to_owned(), ruling))));
            }
            _ if answers::is_away(error) => return Err(answers::away(cluster, error)),
            _ => {}
        }
        if answers::missing_namespace(error).is_some_and(|name| self.brought.contains(name)) {
            return told(Some(true), None);
        }
        if answers::is_immutable(error) && options::may_be_made_anew(wanted.object()) {
            return told(Some(false), Some(self.verdict(wanted, passed(&[]))));
        }
        let refusal = refusal::refusal(error);
        let ruling = match error {
            ApplyError::Other { .. } => Ruling::Error(refusal.message),
            _ => Ruling::Refused(refusal.message),
        };
        told(None, Some(self.verdict(wanted, (refusal.policy, ruling))))
    }

    fn verdict(&self, wanted: &Sealed, (policy, ruling): (String, Ruling)) -> Verdict {
        Verdict { object: wanted.id().clone(), cluster: Some(self.link.name().to_owned()), policy, ruling }
    }
}

/// Judge and ruling for what the API server would take.
fn passed(warnings: &[String]) -> (String, Ruling) {
    match warnings.first() {
        None => ("apiserver".to_owned(), Ruling::Pass),
        Some(first) => {
            let policy = refusal::warner(first).unwrap_or("warning").to_owned();
            (policy, Ruling::Warned(warnings.join("; ")))
        }
    }
}
