//! The certificates that webhooks are served with.
//!
//! Either Windlass makes its own ([`Keeper`]), or it takes those that cert-manager or anyone else puts into a
//! folder ([`Files`]). Both end in a [`ServingCertificate`], which a listener asks at every handshake, so that
//! new certificates come into use without a restart and without a dropped connection.
//!
//! ```text
//!            ┌────────── Secret (ca.crt, ca.key, tls.crt, tls.key, …) ◄───────── compare-and-swap ─┐
//!            ▼                                                                                     │
//!   Material ──► observe ──► ObservedCertificates ──► plan(now) ──► CertificatePlan ──► carry_out ─┘
//!       │
//!       ├──► caBundle of our webhooks in the webhook configurations   (publish)
//!       └──► ServingCertificate ──► listener
//! ```
//!
//! # Rotation without a failed request
//! The API server learns of a new CA through a watch, and other replicas of a new certificate through theirs:
//! for a while some have the old and some the new. So nothing is replaced in one step:
//!
//! 1. **stage**: the next CA is made and added to the bundle; the serving certificate stays.
//! 2. **promote**: when the bundle has been published for long enough, the next CA issues the serving
//!    certificate; the old CA stays in the bundle.
//! 3. **retire**: when every replica has had the time to load the new serving certificate, the old CA leaves.
//!
//! # Who writes
//! Any replica may, leader or not: a standby needs certificates before it can lead, and each serves webhooks
//! all the time. Writes to the Secret carry the `resourceVersion` that was read, so of several replicas one
//! wins, and the others read again and use what the winner wrote.
//!
//! # Forcing a new CA
//! Deleting the Secret makes the next check start anew. Requests may fail (and follow the `failurePolicy`)
//! for the moment that it takes all sides to notice.

mod facts;
mod files;
mod issue;
mod keeper;
mod material;
mod plan;
mod publish;
mod serving;
mod store;

pub use facts::{
    AuthorityFacts, KeyFacts, ObservedCertificates, Piece, ServingFacts, SignedBy, bundle, observe,
};
pub use files::{FileError, Files};
pub use issue::{IssueError, carry_out};
pub use keeper::{CertificateError, Checked, Keeper, KeeperConfig};
pub use material::{Material, PrivateKey};
pub use plan::{Because, CertificateAction, CertificatePlan, plan};
pub use publish::{Endpoint, PublishError, WebhookConfiguration, WebhookConfigurationKind};
pub use serving::{ServingCertificate, ServingError};
pub use store::StoreError;

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

/// What the certificates should be like.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CertificateSpec {
    /// DNS names and IP addresses that clients call the listener by.
    pub names: BTreeSet<String>,
    /// Life of a CA; it is rotated after two thirds of it.
    pub ca_validity: SignedDuration,
    /// Life of a serving certificate; it is rotated after two thirds of it.
    pub serving_validity: SignedDuration,
    /// How long old and new stay trusted side by side: longer than any replica takes to look again, and well
    /// below a third of the CA's life, which is all the time a rotation has.
    pub overlap: SignedDuration,
    /// How long a bundle has to be published before the API server is sure to use it.
    pub settle: SignedDuration,
    /// How far before now validity begins, for clients whose clocks are behind.
    pub backdate: SignedDuration,
}

impl CertificateSpec {
    /// A year for the CA, 90 days for the serving certificate.
    pub fn new(names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            names: names.into_iter().map(Into::into).collect(),
            ca_validity: SignedDuration::from_hours(365 * 24),
            serving_validity: SignedDuration::from_hours(90 * 24),
            overlap: SignedDuration::from_hours(1),
            settle: SignedDuration::from_mins(1),
            backdate: SignedDuration::from_mins(5),
        }
    }

    /// For a Service, by all the names that it has inside a cluster.
    pub fn for_service(service: &str, namespace: &str) -> Self {
        Self::new([
            service.to_owned(),
            format!("{service}.{namespace}"),
            format!("{service}.{namespace}.svc"),
            format!("{service}.{namespace}.svc.cluster.local"),
        ])
    }
}

/// `time + duration`, at the end of time when it would be after that.
fn after(time: Timestamp, duration: SignedDuration) -> Timestamp {
    time.checked_add(duration).unwrap_or(if duration.is_negative() { Timestamp::MIN } else { Timestamp::MAX })
}
