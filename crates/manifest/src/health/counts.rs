//! Counts in a status: how many are wanted, ready, updated, available.

use serde_json::{Map, Value};

use super::conditions::worsen;
use super::object::{int, whole};
use super::{Health, Status};

/// Something that is counted, by its field and by the end of the fields that count parts of it.
struct Counted {
    plain: &'static str,
    capital: &'static str,
    desired: &'static str,
    updated: &'static str,
}

const fn counted(
    plain: &'static str,
    capital: &'static str,
    desired: &'static str,
    updated: &'static str,
) -> Counted {
    Counted { plain, capital, desired, updated }
}

const COUNTED: &[Counted] = &[
    counted("replicas", "Replicas", "desiredReplicas", "updatedReplicas"),
    counted("members", "Members", "desiredMembers", "updatedMembers"),
    counted("instances", "Instances", "desiredInstances", "updatedInstances"),
    counted("nodes", "Nodes", "desiredNodes", "updatedNodes"),
    counted("pods", "Pods", "desiredPods", "updatedPods"),
];

/// What the counts of a whole object say.
pub(super) fn whole_object(object: &Value, status: &Map<String, Value>, worst: &mut Option<Health>) {
    compare(
        status,
        |counted| int(object, &["spec", counted.plain]).or_else(|| wanted(status, counted)),
        worst,
    );
    for counted in COUNTED {
        let count = |name: &str| status.get(name).and_then(whole);
        if let (Some(all), Some(updated)) = (count(counted.plain), count(counted.updated))
            && all > updated
        {
            let old = all.saturating_sub(updated);
            worsen(worst, Status::Progressing, || {
                format!("{old} old {} are still there", counted.plain).into()
            });
        }
    }
    daemons(status, worst);
    bare(status, worst);
}

/// `ready: 2/3`, or `ready: 2` beside how many there should be.
fn bare(status: &Map<String, Value>, worst: &mut Option<Health>) {
    let Some(value) = status.get("ready") else { return };
    let wanted =
        || ["desired", "size", "total", "expected"].iter().find_map(|name| status.get(*name)?.as_i64());
    let Some((have, all)) = value.as_str().and_then(ratio).or_else(|| value.as_i64().zip(wanted())) else {
        return;
    };
    if all == 0 {
        // None of none is how a status looks before anybody counted.
        return;
    }
    let told = if have < all { Status::Progressing } else { Status::Healthy };
    worsen(worst, told, || format!("ready is {have} of {all}").into());
}

/// What the counts of a part of a status say.
pub(super) fn part(inner: &Map<String, Value>, worst: &mut Option<Health>) {
    compare(inner, |counted| wanted(inner, counted), worst);
}

fn wanted(status: &Map<String, Value>, counted: &Counted) -> Option<i64> {
    status.get(counted.desired).or_else(|| status.get(counted.plain)).and_then(whole)
}

fn compare(
    status: &Map<String, Value>,
    wanted: impl Fn(&Counted) -> Option<i64>,
    worst: &mut Option<Health>,
) {
    for (key, value) in status {
        let Some((counted, state)) = COUNTED
            .iter()
            .find_map(|counted| key.strip_suffix(counted.capital).map(|state| (counted, state)))
        else {
            continue;
        };
        let plain = counted.plain;
        match state {
            "ready" | "available" | "healthy" | "updated" | "updatedReady" | "updatedAvailable"
            | "status" => {
                let pair = value.as_str().and_then(ratio);
                let single = || if state == "status" { None } else { whole(value).zip(wanted(counted)) };
                let Some((have, all)) = pair.or_else(single) else { continue };
                let told = if have < all { Status::Progressing } else { Status::Healthy };
                worsen(worst, told, || format!("{key} is {have} of {all}").into());
            }
            "unavailable" => {
                if let Some(missing) = whole(value).filter(|missing| *missing > 0) {
                    worsen(worst, Status::Progressing, || {
                        format!("{missing} {plain} are unavailable").into()
                    });
                }
            }
            _ => {}
        }
    }
}

/// The counts of kinds that run one pod a node.
fn daemons(status: &Map<String, Value>, worst: &mut Option<Health>) {
    let count = |name: &str| status.get(name).and_then(whole);
    let Some(wanted) = count("desiredNumberScheduled") else { return };
    let missing = count("numberUnavailable").unwrap_or(0);
    for name in ["numberReady", "numberAvailable", "updatedNumberScheduled"] {
        let Some(have) = count(name) else { continue };
        let busy = have < wanted || missing > 0 || wanted == 0;
        let told = if busy { Status::Progressing } else { Status::Healthy };
        worsen(worst, told, || format!("{name} is {have} of {wanted}").into());
    }
}

/// `2/3` as two of three.
pub(super) fn ratio(text: &str) -> Option<(i64, i64)> {
    let (have, wanted) = text.split_once('/')?;
    Some((have.trim().parse().ok()?, wanted.trim().parse().ok()?))
}
