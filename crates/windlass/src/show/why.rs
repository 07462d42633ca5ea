//! Why an Application is not as it should be, on one page: from what stands in the way to what to do.

use std::{collections::BTreeMap, fmt::Write as _};

use jiff::Timestamp;
use kube::ResourceExt;
use windlass_api::{
    Application, ApplicationStatus, Cluster,
    application::{
        IN_CLUSTER,
        status::{self, ClusterLine, HealthWord, Quarantine, SyncWord},
        sync::{Window, WindowKind},
    },
    condition,
};

use super::{
    age,
    application::{health_word, is_ready, phase, sync_word},
    count, line, short,
};

/// Longest list on the page.
const MOST: usize = 5;

/// Namespace and name of an Application.
pub(crate) type AppName = (String, String);

/// What the page is made from. `None` stands for what is not there.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    /// Applications that are depended on, directly or not.
    pub(crate) apps: BTreeMap<AppName, Option<Application>>,
    /// Clusters that are delivered to.
    pub(crate) clusters: BTreeMap<String, Option<Cluster>>,
}

/// The page, and whether all is well.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) text: String,
    pub(crate) well: bool,
}

/// Namespaces and names of what an Application depends on.
pub(crate) fn depends_on(app: &Application) -> Vec<AppName> {
    let own = app.namespace().unwrap_or_default();
    let dependencies = app.spec.depends_on.iter();
    dependencies.map(|one| (one.namespace.clone().unwrap_or_else(|| own.clone()), one.name.clone())).collect()
}

/// Writes the page.
pub(crate) fn why(app: &Application, facts: &Facts, now: Timestamp) -> Answer {
    let none = ApplicationStatus::default();
    let status = app.status.as_ref().unwrap_or(&none);
    let name = format!("{}/{}", app.namespace().unwrap_or_default(), app.name_any());
    let mut text = format!(
        "{name}: {}, {}, {}\n",
        phase(app),
        sync_word(status.sync.status),
        health_word(status.health.status)
    );
    let mut reasons: Vec<Reason> = Vec::new();
    reasons.extend(unseen(app));
    reasons.extend(not_ready(status, now));
    reasons.extend(dependencies(app, facts));
    reasons.extend(held(app, status, now));
    reasons.extend(status.clusters.iter().filter_map(|cluster| cluster_trouble(cluster, facts)));
    reasons.extend(violations(status));
    reasons.extend(worst(status));
    let well = is_ready(app)
        && status.sync.status == SyncWord::Synced
        && status.health.status == HealthWord::Healthy
        && !app.spec.suspend;
    if well && reasons.is_empty() {
        text.push_str("Everything runs as committed.\n");
    }
    for Reason { head, details } in reasons {
        let _ = writeln!(text, "\n{}", line(&head));
        for detail in details {
            // Deeper levels of a chain bring their own spaces.
            let depth = detail.len() - detail.trim_start().len();
            let _ = writeln!(text, "  {:depth$}{}", "", line(&detail));
        }
    }
    Answer { text, well }
}

/// A sync window in words.
pub(crate) fn window(window: &Window) -> String {
    let kind = match window.kind {
        WindowKind::Allow => "changes only within",
        WindowKind::Deny => "no changes within",
    };
    let zone = window.time_zone.as_deref().unwrap_or("UTC");
    let manual = if window.manual_sync { ", unless somebody asks for a sync" } else { "" };
    format!("{kind} `{}` for {} ({zone}){manual}", window.schedule, window.duration)
}

struct Reason {
    head: String,
    details: Vec<String>,
}

impl Reason {
    fn new(head: impl Into<String>, details: Vec<String>) -> Self {
        Self { head: head.into(), details }
    }
}

/// The controller has not looked yet.
fn unseen(app: &Application) -> Option<Reason> {
    let status = app.status.as_ref();
    if status.is_none() {
        return Some(Reason::new(
            "The controller has not seen it yet.",
            vec!["Check that the controller runs and that its controller `application` is on.".to_owned()],
        ));
    }
    let observed = status.and_then(|status| status.observed_generation);
    (observed != app.metadata.generation).then(|| {
        Reason::new(
            "The controller has not seen its present spec yet; what follows is of an earlier one.",
            Vec::new(),
        )
    })
}

/// The condition that sums up, and those that led to it.
fn not_ready(status: &ApplicationStatus, now: Timestamp) -> Option<Reason> {
    let ready = condition::get(&status.conditions, condition::READY)?;
    if ready.status == condition::Truth::True.as_str() {
        return None;
    }
    let mut details = vec![line(&ready.message)];
    let others = [
        status::SOURCE_READY,
        status::RENDERED,
        status::ADMITTED,
        status::REVERTED,
        status::SYNCED,
        status::HEALTHY,
    ];
    for other in others.into_iter().filter_map(|kind| condition::get(&status.conditions, kind)) {
        let message = line(&other.message);
        if other.status == condition::Truth::False.as_str() && !details.contains(&message) {
            details.push(format!("{} ({}): {message}", other.type_, other.reason));
        }
    }
    let since = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(ready.last_transition_time.0);
    Some(Reason::new(format!("Not ready for {}: {}", age(Some(&since), now), ready.reason), details))
}

/// The Applications that it waits for, down to those at the root.
fn dependencies(app: &Application, facts: &Facts) -> Option<Reason> {
    let mut details = Vec::new();
    let mut path = vec![(app.namespace().unwrap_or_default(), app.name_any())];
    chain(app, facts, &mut path, &mut details);
    (!details.is_empty()).then(|| Reason::new("It waits for other Applications:", details))
}

fn chain(app: &Application, facts: &Facts, path: &mut Vec<AppName>, details: &mut Vec<String>) {
    let depth = 2 * (path.len() - 1);
    for (key, dependency) in depends_on(app).into_iter().zip(&app.spec.depends_on) {
        let title = format!("{}/{}", key.0, key.1);
        if path.contains(&key) {
            details.push(format!(
                "{:depth$}{title} waits for this one in turn: take one of them out of spec.dependsOn.",
                ""
            ));
            continue;
        }
        match facts.apps.get(&key) {
            None => {}
            Some(None) => details.push(format!("{:depth$}{title} does not exist.", "")),
            // Whether an expression holds is the controller's to say: it is shown beside what there is to see.
            Some(Some(other)) if is_ready(other) && dependency.ready.is_none() => {}
            Some(Some(other)) => {
                let expression = dependency.ready.as_deref().map(|text| format!(", until `{text}`"));
                let said = other.status.as_ref().and_then(|status| {
                    condition::get(&status.conditions, condition::READY)
                        .map(|ready| format!("{}: {}", ready.reason, line(&ready.message)))
                });
                details.push(format!(
                    "{:depth$}{title}{}: {}",
                    "",
                    expression.unwrap_or_default(),
                    said.unwrap_or_else(|| "nothing is known of it yet".to_owned())
                ));
                path.push(key);
                chain(other, facts, path, details);
                path.pop();
            }
        }
    }
}

/// What people decided: pauses, windows, pins, approvals, manual syncs.
fn held(app: &Application, status: &ApplicationStatus, now: Timestamp) -> Vec<Reason> {
    let mut held = Vec::new();
    let name = format!("{} -n {}", app.name_any(), app.namespace().unwrap_or_default());
    if app.spec.suspend {
        held.push(Reason::new(
            "It is suspended (spec.suspend).",
            vec!["Set spec.suspend to false to go on.".to_owned()],
        ));
    }
    if let Some(approval) = &status.approval {
        let mut details: Vec<String> = approval.objects.iter().take(MOST).cloned().collect();
        details.push(format!("See all and approve with: windlass approve {name}"));
        let head = format!("{} of {} deletions wait for an approval.", approval.deletions, approval.of);
        held.push(Reason::new(head, details));
    }
    if let Some(entry) = &status.quarantine {
        held.push(quarantine(entry, &name, now));
    }
    if let Some(pin) = &status.pin {
        let to = pin.to.as_deref().map_or("where the source was before", short);
        let by = pin.by.as_deref().unwrap_or("the controller");
        let mut details = Vec::new();
        details.extend(pin.reason.clone());
        details.push(format!(
            "It ends when the source moves past {}, or with: windlass undo {name} --off",
            short(&pin.excludes)
        ));
        held.push(Reason::new(
            format!("It is pinned to {to} by {by} since {}.", age(pin.at.as_ref(), now)),
            details,
        ));
    }
    if status.sync.status != SyncWord::Synced {
        if !app.spec.sync.windows.is_empty() {
            let windows = app.spec.sync.windows.iter().map(window).collect();
            held.push(Reason::new("Sync windows may hold it back:", windows));
        }
        if !app.spec.sync.automated {
            let ask = format!("Ask for a sync with: windlass sync {name}");
            held.push(Reason::new(
                "Changes are not applied by themselves (sync.automated is false).",
                vec![ask],
            ));
        }
    }
    if let Some(operation) = &status.operation {
        let step = operation.step.clone().unwrap_or_else(|| "begins".to_owned());
        let mut details = vec![step];
        details.extend(
            operation
                .failures
                .filter(|failures| *failures > 0)
                .map(|failures| format!("{failures} tries failed so far")),
        );
        let head = format!(
            "{} is being applied for {}.",
            short(&operation.revision),
            age(operation.started_at.as_ref(), now)
        );
        held.push(Reason::new(head, details));
    }
    held
}

/// A revision that failed, and what became of it.
fn quarantine(entry: &Quarantine, name: &str, now: Timestamp) -> Reason {
    let since = age(entry.since.as_ref(), now);
    let mut details = vec![format!("{} on {}: {}", entry.object, entry.cluster, line(&entry.reason))];
    if let Some(revert) = &entry.revert {
        details.push(format!("{} on {} takes it back.", short(&revert.commit), revert.branch));
    }
    let revision = short(&entry.revision);
    if let Some(lifted) = &entry.lifted {
        let head = format!("{revision} failed since {since}; {} let it pass.", lifted.by);
        return Reason::new(head, details);
    }
    details.push(format!("It ends when the source moves past it, or with: windlass approve {name}"));
    Reason::new(format!("{revision} is quarantined since {since}: it is not applied any more."), details)
}

fn cluster_trouble(cluster: &ClusterLine, facts: &Facts) -> Option<Reason> {
    let mut details = Vec::new();
    details.extend(cluster.message.clone());
    match facts.clusters.get(&cluster.name) {
        Some(Some(found)) => {
            let ready =
                found.status.as_ref().and_then(|status| condition::get(&status.conditions, condition::READY));
            if let Some(ready) = ready.filter(|ready| ready.status != condition::Truth::True.as_str()) {
                details.push(of_cluster(&cluster.name, &ready.reason, &line(&ready.message)));
            }
        }
        Some(None) if cluster.name != IN_CLUSTER => {
            details.push(format!("There is no Cluster {}.", cluster.name));
        }
        _ => {}
    }
    for difference in cluster.differences.iter().take(MOST) {
        details.push(match &difference.field {
            Some(field) => format!(
                "{} {field}: wanted {}, live {}{}",
                difference.object,
                difference.wanted.as_deref().unwrap_or("nothing"),
                difference.live.as_deref().unwrap_or("nothing"),
                difference
                    .manager
                    .as_deref()
                    .map(|manager| format!(", written by {manager}"))
                    .unwrap_or_default()
            ),
            None => format!("{}: missing or not wanted", difference.object),
        });
    }
    for contested in &cluster.contested {
        details.push(format!(
            "{} is contested: {} took it back {} times",
            contested.object, contested.manager, contested.rounds
        ));
    }
    let well = cluster.sync == SyncWord::Synced && cluster.health == HealthWord::Healthy;
    if well && details.is_empty() {
        return None;
    }
    let head = format!("On {}: {}, {}", cluster.name, sync_word(cluster.sync), health_word(cluster.health));
    Some(Reason::new(head, details))
}

/// What a Cluster says of itself. Most of its sentences name it already.
fn of_cluster(name: &str, reason: &str, message: &str) -> String {
    let named = message.strip_prefix("Cluster ").or_else(|| message.strip_prefix("cluster "));
    match named.and_then(|rest| rest.strip_prefix(name)) {
        Some(rest) if !rest.starts_with(|next: char| next.is_alphanumeric() || next == '-') => {
            format!("{message} ({reason})")
        }
        _ => format!("Cluster {name} ({reason}): {message}"),
    }
}

fn violations(status: &ApplicationStatus) -> Option<Reason> {
    let all = status
        .violation_count
        .map_or(status.violations.len(), |all| usize::try_from(all).unwrap_or(usize::MAX));
    if all == 0 {
        return None;
    }
    let mut details: Vec<String> = status
        .violations
        .iter()
        .take(MOST)
        .map(|one| {
            let place = one.cluster.as_deref().map(|cluster| format!(" on {cluster}")).unwrap_or_default();
            format!("{}{place}, {}: {}", one.object, one.policy, line(&one.message))
        })
        .collect();
    if all > details.len() {
        details.push(format!("and {} more", all - details.len()));
    }
    Some(Reason::new(format!("Policy found {}:", count(all, "violation")), details))
}

fn worst(status: &ApplicationStatus) -> Option<Reason> {
    let message = status.health.message.as_ref().filter(|_| status.health.status != HealthWord::Healthy)?;
    Some(Reason::new("The object that fares worst:", vec![message.clone()]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show::fixtures;

    fn facts() -> Facts {
        let mut facts = Facts::default();
        let key = |name: &str| ("shop".to_owned(), name.to_owned());
        facts.apps.insert(
            key("database"),
            Some(fixtures::depending("database", &["network", "fine"], "DependencyNotReady")),
        );
        facts
            .apps
            .insert(key("network"), Some(fixtures::depending("network", &["database"], "SourceNotReady")));
        facts.apps.insert(key("fine"), Some(fixtures::healthy("fine")));
        facts.apps.insert(("infra".to_owned(), "cache".to_owned()), None);
        facts.clusters.insert("east".to_owned(), Some(fixtures::cluster("east", true)));
        facts.clusters.insert("west".to_owned(), Some(fixtures::cluster("west", false)));
        facts
    }

    #[test]
    fn all_that_stands_in_the_way_is_told_down_to_its_root() {
        let answer = why(&fixtures::troubled(), &facts(), fixtures::now());
        assert!(!answer.well);
        insta::assert_snapshot!(answer.text);
    }

    #[test]
    fn what_is_well_is_told_in_one_line() {
        let answer = why(&fixtures::healthy("api"), &Facts::default(), fixtures::now());
        assert_eq!(answer.text, "shop/api: Healthy, Synced, Healthy\nEverything runs as committed.\n");
        assert!(answer.well);
    }

    #[test]
    fn a_cluster_that_went_away_is_told_even_if_all_was_well_when_it_was_last_seen() {
        let answer = why(&fixtures::healthy("api"), &facts(), fixtures::now());
        assert!(answer.text.contains("Cluster west (Unreachable)"), "{}", answer.text);
    }

    #[test]
    fn the_name_of_a_cluster_is_told_once() {
        let told = |message: &str| of_cluster("west", "Unreachable", message);
        assert_eq!(told("Cluster west does not answer."), "Cluster west does not answer. (Unreachable)");
        assert_eq!(told("cluster west does not answer"), "cluster west does not answer (Unreachable)");
        assert_eq!(told("It does not answer."), "Cluster west (Unreachable): It does not answer.");
        let other = "Cluster west-2 does not answer.";
        assert_eq!(told(other), format!("Cluster west (Unreachable): {other}"));
    }

    #[test]
    fn what_nobody_has_seen_says_so() {
        let mut app = fixtures::healthy("api");
        app.status = None;
        let answer = why(&app, &Facts::default(), fixtures::now());
        assert!(
            answer.text.contains("The controller has not seen it yet.") && !answer.well,
            "{}",
            answer.text
        );
        let mut app = fixtures::healthy("api");
        app.spec.suspend = true;
        let answer = why(&app, &Facts::default(), fixtures::now());
        assert!(answer.text.contains("It is suspended") && !answer.well, "{}", answer.text);
    }
}
