//! Which names the API server takes.

use super::Identity;

/// How long a DNS subdomain may be, and with it nearly every name.
const MOST_BYTES: usize = 253;
/// How long a DNS label may be.
const MOST_LABEL_BYTES: usize = 63;

/// What the API server asks of the names of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameRule {
    /// Lower case letters, digits, `-` and `.`; every part starts and ends with a letter or digit.
    Subdomain,
    /// Lower case letters, digits and `-`, at most 63 characters.
    Label,
    /// Anything that can stand in a URL between two slashes: RBAC names such as `system:node`.
    PathSegment,
}

/// Why the API server would refuse a name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// The name is empty.
    #[error("{field} is empty")]
    Empty {
        /// The field.
        field: &'static str,
    },
    /// The name is too long.
    #[error("{field} has {bytes} characters and may have {most}")]
    TooLong {
        /// The field.
        field: &'static str,
        /// Its length.
        bytes: usize,
        /// The longest allowed.
        most: usize,
    },
    /// The name holds a character that its rule does not allow, or at a place where it does not.
    #[error("{field} {name:?} is not allowed: {rule}")]
    Malformed {
        /// The field.
        field: &'static str,
        /// The name.
        name: String,
        /// What is allowed.
        rule: &'static str,
    },
}

impl NameError {
    /// A few words for metrics and conditions.
    pub fn category(&self) -> &'static str {
        match self {
            Self::Empty { .. } | Self::Malformed { .. } => "InvalidName",
            Self::TooLong { .. } => "NameTooLong",
        }
    }
}

impl NameRule {
    /// The rule for names of a kind. Custom resources follow [`NameRule::Subdomain`]. Groups that are known to be
    /// served by an API server of their own may allow more, so they get the widest rule: to refuse what the cluster
    /// takes would be worse than to let the cluster refuse it.
    pub fn of(group: &str, kind: &str) -> Self {
        match (group, kind) {
            ("", "Namespace" | "Service") => Self::Label,
            ("rbac.authorization.k8s.io", _) | ("certificates.k8s.io", "ClusterTrustBundle") => {
                Self::PathSegment
            }
            _ if group.ends_with(".openshift.io") || group.ends_with("metrics.k8s.io") => Self::PathSegment,
            _ => Self::Subdomain,
        }
    }

    /// Checks a name.
    pub fn check(self, field: &'static str, name: &str) -> Result<(), NameError> {
        let most = if self == Self::Label { MOST_LABEL_BYTES } else { MOST_BYTES };
        if name.is_empty() {
            return Err(NameError::Empty { field });
        }
        // RBAC names have no limit of their own; etcd's limit on keys is far above what anybody writes.
        if self != Self::PathSegment && name.len() > most {
            return Err(NameError::TooLong { field, bytes: name.len(), most });
        }
        let (good, rule) = match self {
            Self::Label => (is_label(name), "lower case letters, digits and `-`, no `-` at either end"),
            Self::Subdomain => (
                name.split('.').all(is_subdomain_part),
                "lower case letters, digits, `-` and `.`, and every part starts and ends with a letter or digit",
            ),
            Self::PathSegment => (is_path_segment(name), "anything but `.`, `..`, or text with `/` or `%`"),
        };
        if good { Ok(()) } else { Err(NameError::Malformed { field, name: name.to_owned(), rule }) }
    }
}

impl Identity {
    /// Checks name and namespace as the API server would.
    pub fn check_names(&self) -> Result<(), NameError> {
        if let Some(namespace) = &self.namespace {
            NameRule::Label.check("metadata.namespace", namespace)?;
        }
        NameRule::of(&self.group, &self.kind).check("metadata.name", &self.name)
    }
}

fn is_label(text: &str) -> bool {
    text.len() <= MOST_LABEL_BYTES && is_subdomain_part(text)
}

/// A part of a subdomain has no length limit of its own: the API server checks the whole only.
fn is_subdomain_part(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !text.is_empty() && text.bytes().all(inner) && !text.starts_with('-') && !text.ends_with('-')
}

fn is_path_segment(text: &str) -> bool {
    text != "." && text != ".." && !text.contains(['/', '%'])
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn names_are_judged_by_their_kind() {
        let good = [
            (NameRule::Subdomain, "a.b-c.d1"),
            (NameRule::Subdomain, &"a".repeat(253)),
            (NameRule::Label, &"a".repeat(63)),
            (NameRule::Label, "0-a"),
            (NameRule::PathSegment, "system:node:Ä b"),
        ];
        for (rule, name) in good {
            assert_eq!(rule.check("metadata.name", name), Ok(()), "{name}");
        }
        let bad = [
            (NameRule::Subdomain, "A"),
            (NameRule::Subdomain, "a..b"),
            (NameRule::Subdomain, "-a"),
            (NameRule::Subdomain, "a."),
            (NameRule::Subdomain, "a_b"),
            (NameRule::Subdomain, ""),
            (NameRule::Subdomain, &"a".repeat(254)),
            (NameRule::Label, "a.b"),
            (NameRule::Label, &"a".repeat(64)),
            (NameRule::PathSegment, ".."),
            (NameRule::PathSegment, "a/b"),
            (NameRule::PathSegment, "a%b"),
        ];
        for (rule, name) in bad {
            assert!(rule.check("metadata.name", name).is_err(), "{name}");
        }
        assert_eq!(NameRule::of("rbac.authorization.k8s.io", "ClusterRole"), NameRule::PathSegment);
        assert_eq!(NameRule::of("", "Namespace"), NameRule::Label);
        assert_eq!(NameRule::of("example.org", "Widget"), NameRule::Subdomain);
    }

    #[test]
    fn the_namespace_is_checked_too() {
        let identity = Identity {
            group: String::new(),
            version: "v1".into(),
            kind: "ConfigMap".into(),
            namespace: Some("a.b".into()),
            name: "a".into(),
        };
        let error = identity.check_names().unwrap_err();
        assert!(error.to_string().contains("metadata.namespace"), "{error}");
        assert_eq!(error.category(), "InvalidName");
    }
}
