//! The kinds of the Gateway API.

use serde_json::Value;

use super::condition;
use crate::health::conditions::{self, Condition, Truth, is_stale};
use crate::health::object::{generation, kind, list, text};
use crate::health::{Health, Status};

fn waiting(object: &Value) -> Health {
    Health::new(Status::Progressing, format!("Waiting for the status of the {}", kind(object)))
}

fn well(object: &Value) -> Health {
    Health::new(Status::Healthy, format!("{} is healthy", kind(object)))
}

fn message_of(condition: &Condition<'_>) -> String {
    if condition.message.is_empty() {
        format!("{} is False", condition.kind)
    } else {
        condition.message.to_owned()
    }
}

/// What the conditions of a gateway, a listener, a parent or an ancestor say; nothing when all is well.
fn fault(conditions: &[Condition<'_>]) -> Option<(Status, String)> {
    let of = |kind: &str, truth: Truth| conditions.iter().find(|one| one.kind == kind && one.truth == truth);
    for kind in ["Accepted", "ResolvedRefs"] {
        if let Some(found) = of(kind, Truth::False) {
            let status = if found.reason == "Pending" { Status::Progressing } else { Status::Degraded };
            return Some((status, message_of(found)));
        }
    }
    if let Some(found) = of("Conflicted", Truth::True) {
        return Some((Status::Degraded, message_of(found)));
    }
    for kind in ["Programmed", "Accepted", "ResolvedRefs", "Ready"] {
        let unknown = of(kind, Truth::Unknown);
        let missing = of(kind, Truth::False);
        if let Some(found) = missing.or(unknown) {
            let broken =
                ["Invalid", "NoResources", "AddressNotAssigned", "AddressNotUsable"].contains(&found.reason);
            let status = if broken { Status::Degraded } else { Status::Progressing };
            return Some((status, message_of(found)));
        }
    }
    None
}

pub(super) fn gateway(object: &Value) -> Health {
    let generation = generation(object);
    let all = conditions::read(object.get("status").and_then(|status| status.get("conditions")));
    if all.is_empty() || all.iter().any(|one| is_stale(one, generation)) {
        return waiting(object);
    }
    if let Some((status, message)) = fault(&all) {
        return Health::new(status, message);
    }
    for listener in list(object, &["status", "listeners"]) {
        let all = conditions::read(listener.get("conditions"));
        if all.iter().any(|one| is_stale(one, generation)) {
            return waiting(object);
        }
        if let Some((status, message)) = fault(&all) {
            return Health::new(status, format!("Listener: {message}"));
        }
    }
    if all.iter().any(|one| one.truth == Truth::True && ["Accepted", "Programmed"].contains(&one.kind)) {
        well(object)
    } else {
        waiting(object)
    }
}

pub(super) fn class(object: &Value) -> Health {
    match condition(object, "Accepted") {
        Some(accepted) if !is_stale(&accepted, generation(object)) => {
            let status = match accepted.truth {
                Truth::True => Status::Healthy,
                Truth::False => Status::Degraded,
                Truth::Unknown | Truth::Other => Status::Progressing,
            };
            Health::new(status, accepted.message.to_owned())
        }
        _ => waiting(object),
    }
}

/// A route is well when every parent that read its newest form accepts it. Parents that are no longer named in it keep
/// their old word for ever, so that stale ones are left aside as long as one parent is up to date.
pub(super) fn route(object: &Value) -> Health {
    let generation = generation(object);
    let mut judged = false;
    let mut worst: Option<(Status, String)> = None;
    for parent in list(object, &["status", "parents"]) {
        let all = conditions::read(parent.get("conditions"));
        let fresh: Vec<_> = all.into_iter().filter(|one| !is_stale(one, generation)).collect();
        if fresh.is_empty() {
            continue;
        }
        judged = true;
        let name = text(parent, &["parentRef", "name"]);
        if let Some((status, message)) = fault(&fresh)
            && worst.as_ref().is_none_or(|(old, _)| old.gravity() < status.gravity())
        {
            worst = Some((status, format!("Parent {name}: {message}")));
        }
    }
    match worst {
        Some((status, message)) => Health::new(status, message),
        None if judged => well(object),
        None => waiting(object),
    }
}

pub(super) fn policy(object: &Value) -> Health {
    let generation = generation(object);
    let ancestors = list(object, &["status", "ancestors"]);
    for ancestor in ancestors {
        let name = text(ancestor, &["ancestorRef", "name"]);
        let all = conditions::read(ancestor.get("conditions"));
        if all.is_empty() {
            return waiting(object);
        }
        if all.iter().any(|one| is_stale(one, generation)) {
            let message = format!("Waiting for ancestor {name} to read the newest {}", kind(object));
            return Health::new(Status::Progressing, message);
        }
        if let Some((status, message)) = fault(&all) {
            return Health::new(status, format!("Ancestor {name}: {message}"));
        }
    }
    if ancestors.is_empty() { waiting(object) } else { well(object) }
}
