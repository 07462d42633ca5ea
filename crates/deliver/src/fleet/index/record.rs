//! What is kept of a live object.

use std::{fmt::Write as _, sync::Arc};

use serde_json::Value;
use windlass_manifest::{
    diff,
    digest::Digest,
    health::{Health, Status},
};

use crate::{
    fleet::{Fate, Live, RuleBook},
    tracking::{self, LABEL, MANAGER},
};

/// [`Live::owned`] of an object that our manager never applied: no object has this digest.
pub const NOT_APPLIED: Digest = [0; 32];

/// What an object that was just read says, before it is filed.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Fresh {
    /// `None` for a cluster-scoped object.
    pub(super) namespace: Option<String>,
    pub(super) name: String,
    pub(super) uid: Uid,
    pub(super) version: Version,
    pub(super) owned: Digest,
    pub(super) health: Health,
    pub(super) owner: Option<String>,
    pub(super) operation: Option<Box<str>>,
    pub(super) deleting: bool,
    pub(super) fate: Fate,
    /// Whether it carries the label that watches select.
    pub(super) labelled: bool,
}

impl Fresh {
    /// Reads an object; `None` when it has no name.
    pub(super) fn of(object: &Value, rules: &RuleBook) -> Option<Self> {
        let metadata = object.get("metadata")?;
        let text = |field: &str| metadata.get(field).and_then(Value::as_str).filter(|text| !text.is_empty());
        let mut health = rules.health(object);
        if health.status == Status::Healthy {
            // Nobody asks why.
            health.message = String::new();
        }
        Some(Self {
            namespace: text("namespace").map(str::to_owned),
            name: text("name")?.to_owned(),
            uid: Uid::new(text("uid").unwrap_or_default()),
            version: Version::new(text("resourceVersion").unwrap_or_default()),
            owned: diff::owned_digest(object, MANAGER).unwrap_or(NOT_APPLIED),
            health,
            owner: tracking::owner(object).map(str::to_owned),
            operation: metadata
                .get("annotations")
                .and_then(|all| all.get(tracking::OPERATION)?.as_str())
                .map(Into::into),
            deleting: text("deletionTimestamp").is_some(),
            fate: Fate::of(metadata),
            labelled: metadata.get("labels").is_some_and(|labels| labels.get(LABEL).is_some()),
        })
    }
}

impl Fresh {
    /// For everybody else.
    pub(super) fn into_live(self) -> Live {
        Live {
            uid: self.uid.text(),
            version: self.version.text(),
            owned: self.owned,
            health: self.health,
            owner: self.owner,
            operation: self.operation.map(Into::into),
            deleting: self.deleting,
            fate: self.fate,
        }
    }
}

/// What is kept of a live object: about 130 bytes, whatever its size.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Record {
    pub(super) uid: Uid,
    pub(super) version: Version,
    pub(super) owned: Digest,
    pub(super) message: Box<str>,
    /// The Application that it last said it belongs to.
    pub(super) owner: Option<Arc<str>>,
    /// The last list that named it, or during which we wrote it.
    pub(super) round: u32,
    pub(super) status: Status,
    /// The operation that it was made for, if it is a hook.
    pub(super) operation: Option<Box<str>>,
    pub(super) deleting: bool,
    pub(super) fate: Fate,
    /// It still says that it belongs to `owner`.
    pub(super) claimed: bool,
}

impl Record {
    /// For everybody else.
    pub(super) fn live(&self) -> Live {
        Live {
            uid: self.uid.text(),
            version: self.version.text(),
            owned: self.owned,
            health: Health { status: self.status, message: self.message.to_string() },
            owner: self.owner.as_ref().filter(|_| self.claimed).map(ToString::to_string),
            operation: self.operation.as_deref().map(str::to_owned),
            deleting: self.deleting,
            fate: self.fate,
        }
    }

    /// Whether an Application could decide otherwise after the object became this.
    pub(super) fn differs(&self, fresh: &Fresh) -> bool {
        self.uid != fresh.uid
            || self.owned != fresh.owned
            || self.status != fresh.health.status
            || *self.message != *fresh.health.message
            || self.deleting != fresh.deleting
            || self.fate != fresh.fate
            || self.operation != fresh.operation
            || self.owner.as_deref().filter(|_| self.claimed) != fresh.owner.as_deref()
    }
}

/// A UID. Those of the API server are kept in 16 bytes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Uid {
    Plain([u8; 16]),
    Odd(Box<str>),
}

impl Uid {
    pub(super) fn new(text: &str) -> Self {
        let plain = Self::plain(text).map(Self::Plain).filter(|uid| uid.text() == text);
        plain.unwrap_or_else(|| Self::Odd(text.into()))
    }

    fn plain(text: &str) -> Option<[u8; 16]> {
        let mut digits = text.chars().filter(|c| *c != '-').map(|c| c.to_digit(16));
        let mut bytes = [0; 16];
        for byte in &mut bytes {
            *byte = u8::try_from(digits.next()?? * 16 + digits.next()??).ok()?;
        }
        digits.next().is_none().then_some(bytes)
    }

    pub(super) fn text(&self) -> String {
        match self {
            Self::Odd(text) => text.to_string(),
            Self::Plain(bytes) => {
                let mut text = String::with_capacity(36);
                for (at, byte) in bytes.iter().enumerate() {
                    if matches!(at, 4 | 6 | 8 | 10) {
                        text.push('-');
                    }
                    // Writing to a String never fails.
                    let _ = write!(text, "{byte:02x}");
                }
                text
            }
        }
    }
}

/// A resourceVersion. Those that are numbers can be compared, as the API server allows since 1.35 and always did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Version {
    Number(u64),
    Odd(Box<str>),
}

impl Version {
    pub(super) fn new(text: &str) -> Self {
        match text.parse::<u64>() {
            Ok(number) if number.to_string() == text => Self::Number(number),
            _ => Self::Odd(text.into()),
        }
    }

    pub(super) fn text(&self) -> String {
        match self {
            Self::Number(number) => number.to_string(),
            Self::Odd(text) => text.to_string(),
        }
    }

    /// Whether this is newer than another. What cannot be compared is taken for newer unless it is the same: then
    /// whoever comes last is right.
    pub(super) fn is_newer(&self, than: &Self) -> bool {
        match (self, than) {
            (Self::Number(new), Self::Number(old)) => new > old,
            (new, old) => new != old,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::fleet::Prune;

    proptest! {
        #[test]
        fn a_uid_and_a_version_survive(text in "[0-9a-fA-F-]{0,40}|[0-9]{1,21}|.{0,12}") {
            prop_assert_eq!(Uid::new(&text).text(), text.clone());
            prop_assert_eq!(Version::new(&text).text(), text);
        }

        #[test]
        fn uids_of_the_server_are_kept_short(bytes in any::<[u8; 16]>()) {
            let uid = Uid::Plain(bytes);
            prop_assert_eq!(Uid::new(&uid.text()), uid);
        }
    }

    #[test]
    fn versions_are_compared_as_numbers() {
        let newer = |a: &str, b: &str| Version::new(a).is_newer(&Version::new(b));
        assert!(newer("10", "9") && !newer("9", "10") && !newer("9", "9"));
        assert!(newer("a", "b") && newer("b", "a") && !newer("a", "a"));
    }

    #[test]
    fn an_object_says_what_is_to_become_of_it() {
        let fate = |annotations: Value| {
            let object = json!({ "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": { "name": "a", "annotations": annotations } });
            let fate = Fresh::of(&object, &RuleBook::default()).unwrap().fate;
            (fate.prune, fate.delete)
        };
        let argo = |options: &str| fate(json!({ "argocd.argoproj.io/sync-options": options }));
        assert_eq!(fate(json!({ "windlass.dev/prune": "disabled" })), (Prune::No, Prune::No));
        assert_eq!(fate(json!({ "windlass.dev/prune": "confirm" })), (Prune::Confirm, Prune::Yes));
        assert_eq!(fate(json!({ "windlass.dev/prune": "what" })), (Prune::No, Prune::No));
        assert_eq!(fate(json!({ "helm.sh/resource-policy": "keep" })), (Prune::No, Prune::No));
        assert_eq!(argo("Validate=false, Prune=false"), (Prune::No, Prune::Yes));
        assert_eq!(argo("Prune=confirm,Delete=confirm"), (Prune::Confirm, Prune::Confirm));
        assert_eq!(argo("Delete=false"), (Prune::Yes, Prune::No));
        assert_eq!(argo("Prune=true"), (Prune::Yes, Prune::Yes));
        assert_eq!(fate(json!({ "windlass.dev/prune": "enabled" })), (Prune::Yes, Prune::Yes));
        assert_eq!(fate(json!(null)), (Prune::Yes, Prune::Yes));
    }

    #[test]
    fn a_record_is_small() {
        assert!(size_of::<Record>() <= 136, "{}", size_of::<Record>());
    }
}
