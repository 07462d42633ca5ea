//! From a live object to the one a person would have written.
//!
//! Fields are taken away by a list and never let in by one: a field that nobody here has heard of stays, so that nothing
//! of a new kind or a new Kubernetes version is lost. What goes: `status`, what the server notes about the object
//! (versions, times, uid, managers), what tools note for themselves, and values that the server picked. What somebody
//! wrote stays, also where it equals a default.
//!
//! Whether a value was picked by the server or written by somebody is asked of `managedFields`: the server does not
//! enter what it allocates (a `clusterIP`, a `nodePort`) for anybody. A live object without `managedFields` counts as
//! picked; a document that never was in a cluster has nothing picked in it.
//!
//! Decisions that could have gone the other way:
//!
//! | what | here | why |
//! |---|---|---|
//! | objects with a controller in `ownerReferences` | skipped | the Deployment counts, not its ReplicaSets |
//! | other `ownerReferences` | dropped | they hold uids; in another cluster the garbage collector would delete the object |
//! | Helm's annotations `meta.helm.sh/*` | dropped | bookkeeping: in another cluster there is no such release |
//! | Helm's release records | skipped | state of a tool, changes with every release |
//! | label `app.kubernetes.io/managed-by` | stays | charts and people set it, selectors use it |
//! | annotation `kubectl.kubernetes.io/restartedAt` of a template | stays | somebody asked for that restart |
//! | `caBundle` of webhooks, CRDs, API services | stays, unless an annotation says that it is injected | written by people as often as not |
//! | `rules` of an aggregated `ClusterRole` | dropped | the control plane computes them |
//! | `serviceAccount` beside `serviceAccountName` | dropped | the server's copy under the old name |
//! | `generateName` beside `name` | dropped | it has done its work |
//! | Events, Leases and other kinds that only report | skipped | they are no wish of anybody |

mod evidence;
mod kinds;
mod metadata;
mod pods;
mod skip;

use serde_json::{Map, Value};

use evidence::Evidence;
pub use skip::SkipReason;

/// What [`sanitize`] makes of an object.
#[derive(Debug, Clone, PartialEq)]
pub enum Sanitized {
    /// The object as a person would have written it.
    Keep(Value),
    /// Not an object that somebody wrote, and why.
    Skip(SkipReason),
}

impl Sanitized {
    /// The object, unless it is to be skipped.
    pub fn keep(self) -> Option<Value> {
        match self {
            Self::Keep(object) => Some(object),
            Self::Skip(_) => None,
        }
    }
}

/// Takes away what nobody wrote. What comes out goes through unchanged a second time. Anything that is not an object
/// with a kind comes out as it is.
pub fn sanitize(mut object: Value) -> Sanitized {
    if let Some(reason) = skip::reason(&object) {
        return Sanitized::Skip(reason);
    }
    if let Value::Object(fields) = &mut object {
        let evidence = Evidence::take(fields);
        if fields.contains_key("kind") {
            fields.remove("status");
            metadata::tidy(fields);
            kinds::tidy(fields, &evidence);
            drop_null_timestamps(fields);
        }
        if evidence.is_live() && skip::is_bare_default_account(fields) {
            return Sanitized::Skip(SkipReason::MadeByControlPlane);
        }
    }
    Sanitized::Keep(object)
}

/// `metadata.creationTimestamp: null` of templates, at any depth: an empty time as older servers write it.
fn drop_null_timestamps(fields: &mut Map<String, Value>) {
    let mut emptied = false;
    for (name, value) in fields.iter_mut() {
        match value {
            Value::Object(inner) => {
                if name == "metadata" && inner.get("creationTimestamp").is_some_and(Value::is_null) {
                    inner.remove("creationTimestamp");
                    emptied = inner.is_empty();
                }
                drop_null_timestamps(inner);
            }
            Value::Array(items) => {
                for item in items {
                    if let Value::Object(inner) = item {
                        drop_null_timestamps(inner);
                    }
                }
            }
            _ => {}
        }
    }
    if emptied {
        fields.remove("metadata");
    }
}

/// A map below a map.
fn map_at<'a>(fields: &'a mut Map<String, Value>, name: &str) -> Option<&'a mut Map<String, Value>> {
    fields.get_mut(name)?.as_object_mut()
}

/// A list below a map.
fn list_at<'a>(fields: &'a mut Map<String, Value>, name: &str) -> Option<&'a mut Vec<Value>> {
    fields.get_mut(name)?.as_array_mut()
}

/// Keeps the entries of a map that pass; the map itself goes when this has emptied it.
fn retain_entries(fields: &mut Map<String, Value>, name: &str, keep: impl Fn(&str) -> bool) {
    let Some(entries) = map_at(fields, name) else { return };
    if entries.keys().all(|key| keep(key)) {
        return;
    }
    entries.retain(|key, _| keep(key));
    if entries.is_empty() {
        fields.remove(name);
    }
}

/// Keeps the items of a list that pass; the list itself goes when this has emptied it.
fn retain_items(fields: &mut Map<String, Value>, name: &str, keep: impl Fn(&Value) -> bool) {
    let Some(items) = list_at(fields, name) else { return };
    if items.iter().all(&keep) {
        return;
    }
    items.retain(keep);
    if items.is_empty() {
        fields.remove(name);
    }
}

#[cfg(test)]
mod drawn;
#[cfg(test)]
mod tests;
