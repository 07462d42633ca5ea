//! The clusters that Applications are delivered to.

mod answers;
mod carry_out;
mod connect;
mod dry_run;
mod ignore;
mod impersonate;
mod index;
mod link;
mod lru;
mod makings;
mod members;
mod memory;
mod mute;
mod options;
mod prepare;
mod refusal;
mod roster;
mod rulebook;
mod survey;
mod workman;

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use serde::Serialize;
use windlass_cluster::drive::Key;
use windlass_manifest::{diff::Difference, digest::Digest, health::Health};

use crate::{
    gate::Verdict,
    object::{ObjectId, Sealed},
    trouble::Trouble,
};

pub use answers::is_unreachable;
pub use carry_out::carry_out;
pub use connect::{Connector, Contact, HubConnector};
pub use impersonate::Refused;
pub use index::{Index, NOT_APPLIED};
pub use link::Link;
pub use members::NAME_LABEL;
pub use memory::{Memory, REFUSAL_HOLDS};
pub use options::{Fate, PRUNE, Prune};
pub use prepare::{Preparations, Prepare, Prepared, prepare};
pub use roster::Fleet;
pub use rulebook::RuleBook;
pub use survey::{Judge, Survey, Surveyed, secret_exists, survey};

/// Who has to look again.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wake {
    /// Every Application.
    All,
    /// This one.
    App(Key),
}

/// Called with who has to look again. Must be quick: it is called between two events.
pub type Wakes = Arc<dyn Fn(Wake) + Send + Sync>;

/// What the operator decided about clusters at start.
#[derive(Clone, Debug)]
pub struct FleetOptions {
    /// How objects are judged.
    pub rules: Arc<RuleBook>,
    /// How long what a cluster serves is remembered. What it does not serve is asked for again within seconds anyway.
    pub discovery_ttl: Duration,
    /// A connection is checked for new credentials whenever its `Cluster` changes, and after this time.
    pub recheck: Duration,
    /// How long it may take to prepare a connection.
    pub connect_within: Duration,
    /// How long a list or a watch of the index may take to begin.
    pub answer_within: Duration,
    /// How long a suspected cluster may take to answer.
    pub probe_within: Duration,
}

impl Default for FleetOptions {
    fn default() -> Self {
        Self {
            rules: Arc::default(),
            discovery_ttl: Duration::from_mins(5),
            recheck: Duration::from_secs(60),
            connect_within: Duration::from_secs(15),
            answer_within: Duration::from_secs(10),
            probe_within: Duration::from_secs(10),
        }
    }
}

/// One cluster, as a decision needs to know it.
#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    /// Name of its `Cluster`.
    pub name: String,
    /// Labels of its `Cluster`, and `windlass.dev/cluster` with the name.
    pub labels: BTreeMap<String, String>,
    /// Its Kubernetes version, if known.
    pub version: Option<String>,
    /// Why nothing can be delivered to it at the moment.
    pub trouble: Option<Trouble>,
}

/// What is known of a live object without keeping it.
#[derive(Clone, Debug, PartialEq)]
pub struct Live {
    /// Its UID.
    pub uid: String,
    /// Its resourceVersion.
    pub version: String,
    /// Digest of the fields that our manager owns.
    pub owned: Digest,
    /// How it fares.
    pub health: Health,
    /// `namespace/name` of the Application that it says it belongs to.
    pub owner: Option<String>,
    /// The operation that it was made for, if it is a hook: its annotation `windlass.dev/operation`.
    pub operation: Option<String>,
    /// It is being deleted.
    pub deleting: bool,
    /// What its own annotations say about its end.
    pub fate: Fate,
}

/// How a wanted object stands on a cluster.
#[derive(Clone, Debug, PartialEq)]
pub enum State {
    /// It is as wanted.
    Same,
    /// It is not there.
    Missing,
    /// It is there and differs.
    Differs(Vec<Difference>),
    /// It belongs to another Application, of this name.
    Foreign(String),
    /// Its kind is not served: a definition that comes with the same change may change that.
    UnknownKind,
    /// It cannot be told, and why.
    Unknown(Trouble),
}

/// A wanted object and how it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// What is wanted: where differences are ignored, with the live values there.
    pub wanted: Sealed,
    /// How it stands.
    pub state: State,
    /// The live object, if there is one.
    pub live: Option<Live>,
    /// What the dry run said, for what would change; `None` when none was made or it could not be made yet.
    pub verdict: Option<Verdict>,
}

/// An object of the inventory that is no longer wanted.
#[derive(Clone, Debug, PartialEq)]
pub struct Extra {
    /// Its name.
    pub id: ObjectId,
    /// The live object; `None` when it is gone.
    pub live: Option<Live>,
}

/// One thing to do on a cluster. Safe to repeat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum Work {
    /// Apply, taking fields from other managers.
    Apply(Sealed),
    /// Delete and create anew, because it cannot be changed in place. With the UID of what is deleted.
    Replace {
        /// What is wanted.
        wanted: Sealed,
        /// What is deleted first.
        uid: String,
    },
    /// Create or update without server-side apply's ownership (`Replace=true`).
    Put(Sealed),
    /// Delete this one, and no other that has its name.
    Delete {
        /// Its name.
        id: ObjectId,
        /// Its UID.
        uid: String,
    },
    /// Take our label and annotation off: from now on it is nobody's.
    Release {
        /// Its name.
        id: ObjectId,
        /// Its UID.
        uid: String,
    },
    /// Make a namespace unless it is there; it is not marked as ours.
    EnsureNamespace(String),
}

/// How a piece of work ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    /// The object.
    pub object: ObjectId,
    /// What stood in the way, if anything did.
    pub result: Result<(), Trouble>,
}

impl Work {
    /// The object that is worked on.
    pub fn object(&self) -> ObjectId {
        match self {
            Self::Apply(wanted) | Self::Replace { wanted, .. } | Self::Put(wanted) => wanted.id().clone(),
            Self::Delete { id, .. } | Self::Release { id, .. } => id.clone(),
            Self::EnsureNamespace(name) => ObjectId {
                group: String::new(),
                version: "v1".into(),
                kind: "Namespace".into(),
                namespace: String::new(),
                name: name.clone(),
            },
        }
    }
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = match self {
            Self::Apply(_) => "apply",
            Self::Replace { .. } => "replace",
            Self::Put(_) => "put",
            Self::Delete { .. } => "delete",
            Self::Release { .. } => "release",
            Self::EnsureNamespace(_) => "make",
        };
        write!(f, "{verb} {}", self.object().short())
    }
}
