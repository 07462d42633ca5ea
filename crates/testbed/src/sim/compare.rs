//! Comparing a run with the fault-free one: the end state, and how often each object was created and deleted.

use std::{
    collections::BTreeMap,
    fmt::{self, Write as _},
    sync::Arc,
    time::Duration,
};

use serde_json::Value;

use super::{
    fault::{Fault, Match},
    faults::Faults,
    run::{Run, run},
    world::World,
    writes::Write,
};

/// What a run leaves behind.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// Every object at the end, by cluster and `apiVersion/Kind/namespace/name`.
    pub objects: BTreeMap<On, Value>,
    /// How often instances created each object, by cluster and `kind/namespace/name`.
    pub creates: BTreeMap<On, u64>,
    /// How often instances deleted each object, by cluster and `kind/namespace/name`.
    pub deletes: BTreeMap<On, u64>,
}

/// An object's name on a cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct On {
    /// The cluster; empty for the hub.
    pub cluster: String,
    /// The object.
    pub object: String,
}

impl fmt::Display for On {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.cluster.is_empty() {
            f.write_str(&self.object)
        } else {
            write!(f, "{} on {}", self.object, self.cluster)
        }
    }
}

impl Summary {
    pub(crate) fn of(world: &World) -> Self {
        let mut summary = Self::default();
        for (cluster, api) in world.hub.all_apis() {
            for object in api.objects() {
                let key = On { cluster: cluster.clone(), object: identity(&object) };
                summary.objects.insert(key, object);
            }
        }
        for write in world.instance_writes() {
            let on = |object: String| On { cluster: write.call.cluster.clone(), object };
            let key = write.call.object();
            if write.created() {
                // A generated name differs from run to run; its prefix does not.
                let prefix = write.call.body.pointer("/metadata/generateName").and_then(Value::as_str);
                let key = prefix.map_or(key, |prefix| format!("{}/{prefix}*", write.call.kind()));
                *summary.creates.entry(on(key)).or_default() += 1;
            } else if write.deleted() {
                *summary.deletes.entry(on(key)).or_default() += 1;
            }
        }
        summary
    }
}

fn identity(object: &Value) -> String {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    format!(
        "{}/{}/{}/{}",
        text("/apiVersion"),
        text("/kind"),
        text("/metadata/namespace"),
        text("/metadata/name")
    )
}

type ObjectRule = Arc<dyn Fn(&str, &mut Value) -> bool + Send + Sync>;
type CountRule = Arc<dyn Fn(&str, &str) -> bool + Send + Sync>;

/// What counts as the same end.
#[derive(Clone)]
pub struct Compare {
    object: ObjectRule,
    counted: CountRule,
}

impl Default for Compare {
    /// Events and the hub's Leases are left out, and of every object what no two runs share: UIDs, versions, generations,
    /// times, managed fields.
    fn default() -> Self {
        Self {
            object: Arc::new(|_, _| true),
            counted: Arc::new(|_, key| !key.starts_with("events") && !key.starts_with("leases")),
        }
    }
}

impl Compare {
    /// Further normalization of an object; false leaves the object out.
    #[must_use]
    pub fn objects(self, rule: impl Fn(&mut Value) -> bool + Send + Sync + 'static) -> Self {
        self.objects_on(move |_, object| rule(object))
    }

    /// As [`Compare::objects`], with the name of the cluster first.
    #[must_use]
    pub fn objects_on(mut self, rule: impl Fn(&str, &mut Value) -> bool + Send + Sync + 'static) -> Self {
        self.object = Arc::new(rule);
        self
    }

    /// Which creates and deletes are compared, by `kind/namespace/name`.
    #[must_use]
    pub fn counts(self, rule: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        self.counts_on(move |_, key| rule(key))
    }

    /// As [`Compare::counts`], with the name of the cluster first.
    #[must_use]
    pub fn counts_on(mut self, rule: impl Fn(&str, &str) -> bool + Send + Sync + 'static) -> Self {
        self.counted = Arc::new(rule);
        self
    }

    /// The differences between two ends, one a line; empty when there are none.
    pub fn differences(&self, expected: &Summary, found: &Summary) -> String {
        let mut out = String::new();
        let (want, have) = (self.normal(expected), self.normal(found));
        for key in want.keys().chain(have.keys().filter(|key| !want.contains_key(*key))) {
            match (want.get(key), have.get(key)) {
                (Some(_), None) => line(&mut out, format_args!("{key}: missing at the end")),
                (None, Some(_)) => line(&mut out, format_args!("{key}: left over at the end")),
                (Some(want), Some(have)) if want != have => {
                    line(
                        &mut out,
                        format_args!(
                            "{key}: ends otherwise\n    without faults: {want}\n    with faults:    {have}"
                        ),
                    );
                }
                _ => {}
            }
        }
        self.counts_differ(&mut out, "created", &expected.creates, &found.creates);
        self.counts_differ(&mut out, "deleted", &expected.deletes, &found.deletes);
        out
    }

    fn counts_differ(
        &self,
        out: &mut String,
        what: &str,
        want: &BTreeMap<On, u64>,
        have: &BTreeMap<On, u64>,
    ) {
        for key in want.keys().chain(have.keys().filter(|key| !want.contains_key(*key))) {
            let count = |map: &BTreeMap<On, u64>| map.get(key).copied().unwrap_or_default();
            if (self.counted)(&key.cluster, &key.object) && count(want) != count(have) {
                line(
                    out,
                    format_args!("{key}: {what} {} times, without faults {}", count(have), count(want)),
                );
            }
        }
    }

    fn normal(&self, summary: &Summary) -> BTreeMap<On, Value> {
        let mut out = BTreeMap::new();
        for (key, object) in &summary.objects {
            let kind = object["kind"].as_str().unwrap_or_default();
            if kind == "Event" || (kind == "Lease" && key.cluster.is_empty()) {
                continue;
            }
            let mut object = object.clone();
            strip(&mut object);
            if (self.object)(&key.cluster, &mut object) {
                out.insert(key.clone(), object);
            }
        }
        out
    }
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a String does not fail.
    let _ok = writeln!(out, "  {text}");
}

/// Fields that no two runs share.
const VOLATILE: [&str; 15] = [
    "uid",
    "resourceVersion",
    "generation",
    "observedGeneration",
    "creationTimestamp",
    "deletionTimestamp",
    "managedFields",
    "lastTransitionTime",
    "lastUpdateTime",
    "lastProbeTime",
    "lastHeartbeatTime",
    "firstTimestamp",
    "lastTimestamp",
    "eventTime",
    "sim.windlass.dev/touched",
];

fn strip(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|key, _| !VOLATILE.contains(&key.as_str()));
            map.values_mut().for_each(strip);
            map.retain(|key, value| {
                key != "annotations" || value.as_object().is_none_or(|map| !map.is_empty())
            });
            map.sort_keys();
        }
        Value::Array(items) => items.iter_mut().for_each(strip),
        _ => {}
    }
}

/// Runs a scenario under the plan and once without any fault, same seed, and compares their ends.
///
/// The scenario has to end when the world has come to rest (see
/// [`eventually_stable`](super::invariants::eventually_stable)); both runs act on the same user's deeds.
pub fn compare_with_fault_free<F, Fut>(seed: u64, plan: &Faults, compare: &Compare, scenario: F) -> Run
where
    F: Fn(World) -> Fut,
    Fut: Future<Output = anyhow::Result<()>>,
{
    let mut reference = run(seed, &Faults { pace: plan.pace.clone(), ..Faults::none() }, &scenario);
    if let Err(why) = &reference.result {
        reference.result = Err(format!("without any fault: {why}"));
        return reference;
    }
    let mut faulty = run(seed, plan, &scenario);
    if faulty.result.is_ok() {
        let differences = compare.differences(&reference.summary, &faulty.summary);
        if !differences.is_empty() {
            faulty.result = Err(format!("the end differs from the fault-free run's:\n{differences}"));
        }
    }
    faulty
}

/// Kills an instance after each of its writes in turn, and just before each: one run for every k, until a run has
/// no k-th write. Each run's end is compared with the fault-free one's. Gives the first run that fails, else the
/// last one. Events and the renewals of Leases are spared: they decide nothing, and there are hundreds of them.
pub fn every_crash<F, Fut>(seed: u64, instance: &str, compare: &Compare, scenario: F) -> Run
where
    F: Fn(World) -> Fut,
    Fut: Future<Output = anyhow::Result<()>>,
{
    let reference = run(seed, &Faults::none(), &scenario);
    if reference.result.is_err() {
        return reference;
    }
    let mut k = 1;
    loop {
        let mut strikes = 0;
        for fault in [Fault::crash_after_write(k), Fault::crash_before_write(k)] {
            let fault = fault.on(Match::writes().but("leases").but("events").instance(instance));
            let what = fault.name;
            let mut crashed = run(seed, &Faults::none().with(fault), &scenario);
            let differences = compare.differences(&reference.summary, &crashed.summary);
            if crashed.result.is_ok() && !differences.is_empty() {
                crashed.result = Err(format!("the end differs from the fault-free run's:\n{differences}"));
            }
            if let Err(why) = &crashed.result {
                crashed.result = Err(format!("{what} {k}: {why}"));
                return crashed;
            }
            strikes += crashed.strikes.values().sum::<u64>();
        }
        if strikes == 0 {
            return reference;
        }
        k += 1;
    }
}

/// The time of the last write that is not allowed for, if any.
pub(crate) fn last_write(writes: &[Write], allow: impl Fn(&Write) -> bool) -> Option<Duration> {
    writes.iter().rev().find(|write| !allow(write)).map(|write| write.at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn on(object: String) -> On {
        On { cluster: "east".to_owned(), object }
    }

    fn summary(data: &str, creates: u64) -> Summary {
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": { "a": data },
            "metadata": { "namespace": "x", "name": "m", "uid": data, "resourceVersion": data },
        });
        Summary {
            objects: [(on(identity(&object)), object)].into(),
            creates: [(on("configmaps/x/m".to_owned()), creates)].into(),
            deletes: BTreeMap::new(),
        }
    }

    #[test]
    fn names_every_difference() {
        let compare = Compare::default();
        assert_eq!(compare.differences(&summary("1", 1), &summary("1", 1)), "");
        let text = compare.differences(&summary("1", 1), &summary("2", 3));
        assert!(text.contains("v1/ConfigMap/x/m on east: ends otherwise"), "{text}");
        assert!(text.contains("created 3 times, without faults 1"), "{text}");
        assert!(compare.differences(&summary("1", 1), &Summary::default()).contains("missing at the end"));
        assert!(compare.differences(&Summary::default(), &summary("1", 1)).contains("left over"));
        let blind = Compare::default().objects(|_| false).counts(|_| false);
        assert_eq!(blind.differences(&summary("1", 1), &summary("2", 3)), "");
    }
}
