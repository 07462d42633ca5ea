//! What the route remembers of us, in its annotation: so that our rules and backends are known again by any process.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use windlass_api::rollout::traffic::{HeaderMatch, RouteMatch};

use super::MANAGED;
use crate::observed::{HeaderRule, MirrorRule, TrafficWish};

/// One rule of ours in the route.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Ours {
    /// Name in `managedRoutes`.
    pub(super) name: String,
    /// Name of the rule in the route.
    pub(super) rule: String,
    /// Digest of the rule without its name and weights.
    pub(super) digest: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Header {
    name: String,
    matches: Vec<HeaderMatch>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cookie: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Mirror {
    name: String,
    matches: Vec<RouteMatch>,
    percentage: i32,
}

/// The annotation's content.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Memory {
    /// Our rules, in their order.
    pub(super) rules: Vec<Ours>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    headers: Vec<Header>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    mirrors: Vec<Mirror>,
    /// Services of an experiment that we put beside the pair.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) backends: Vec<String>,
}

impl Memory {
    /// What the annotation says. A text that is not ours counts as none.
    pub(super) fn of(route: &Value) -> Self {
        let text = route["metadata"]["annotations"][MANAGED].as_str();
        text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    }

    pub(super) fn new(rules: Vec<Ours>, wish: &TrafficWish) -> Self {
        let header = |rule: &HeaderRule| Header {
            name: rule.name.clone(),
            matches: rule.matches.clone(),
            cookie: rule.sticky_cookie.clone(),
        };
        let mirror = |rule: &MirrorRule| Mirror {
            name: rule.name.clone(),
            matches: rule.matches.clone(),
            percentage: rule.percentage,
        };
        Self {
            rules,
            headers: wish.headers.iter().map(header).collect(),
            mirrors: wish.mirrors.iter().map(mirror).collect(),
            backends: wish.additional.keys().cloned().collect(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The rules as they were wished for.
    pub(super) fn wished(&self) -> TrafficWish {
        let header = |rule: &Header| HeaderRule {
            name: rule.name.clone(),
            matches: rule.matches.clone(),
            sticky_cookie: rule.cookie.clone(),
        };
        let mirror = |rule: &Mirror| MirrorRule {
            name: rule.name.clone(),
            matches: rule.matches.clone(),
            percentage: rule.percentage,
        };
        TrafficWish {
            headers: self.headers.iter().map(header).collect(),
            mirrors: self.mirrors.iter().map(mirror).collect(),
            ..TrafficWish::default()
        }
    }

    /// Names in the order that our rules have.
    pub(super) fn order(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for ours in &self.rules {
            if !names.contains(&ours.name) {
                names.push(ours.name.clone());
            }
        }
        names
    }

    /// Whether a rule is one of ours: by its name, or by its digest where the schema has dropped the name.
    pub(super) fn knows(&self, rule: &Value) -> bool {
        if self.rules.is_empty() {
            return false;
        }
        if let Some(name) = rule["name"].as_str() {
            return self.rules.iter().any(|ours| ours.rule == name);
        }
        let digest = digest(rule);
        self.rules.iter().any(|ours| ours.digest == digest)
    }
}

/// Digest of a rule without its name and without weights, whatever the order of its fields.
pub(super) fn digest(rule: &Value) -> String {
    use std::fmt::Write as _;
    let mut text = String::new();
    spell(rule, true, &mut text);
    let hash = Sha256::digest(text.as_bytes());
    hash.iter().take(8).fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn spell(value: &Value, top: bool, out: &mut String) {
    match value {
        Value::Object(map) => {
            let mut fields: Vec<_> =
                map.iter().filter(|(name, _)| *name != "weight" && !(top && *name == "name")).collect();
            fields.sort_by_key(|(name, _)| name.as_str());
            out.push('{');
            for (name, value) in fields {
                out.push_str(name);
                out.push(':');
                spell(value, false, out);
                out.push(',');
            }
            out.push('}');
        }
        Value::Array(list) => {
            out.push('[');
            for value in list {
                spell(value, false, out);
                out.push(',');
            }
            out.push(']');
        }
        leaf => out.push_str(&leaf.to_string()),
    }
}
