//! One Application or Cluster, with everything that is known of it.

use jiff::Timestamp;
use k8s_openapi::{
    api::events::v1::Event,
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
};
use kube::ResourceExt;
use windlass_api::{
    Application, ApplicationStatus, Cluster,
    application::{Destination, Source, status::ClusterLine, sync::SyncPolicy},
};

use super::{
    NONE, age,
    application::{health_word, phase, sync_word},
    count, cut, history, line,
    page::Page,
    short,
    table::Table,
};

/// Deployments that are shown here; `windlass history` shows all.
const DEPLOYMENTS: usize = 5;

/// The page of an Application.
pub(crate) fn application(app: &Application, events: &[Event], now: Timestamp) -> String {
    let none = ApplicationStatus::default();
    let status = app.status.as_ref().unwrap_or(&none);
    let mut page = Page::new();
    page.field("Name", app.name_any());
    page.field("Namespace", app.namespace().unwrap_or_default());
    page.field("Age", age(app.metadata.creation_timestamp.as_ref(), now));
    page.field("Phase", phase(app));
    if status.observed_generation != app.metadata.generation {
        page.field("Note", "The status speaks of an earlier spec: the controller has not seen this one yet.");
    }
    page.section("Source", |page| source(page, &app.spec.source));
    page.section("Destinations", |page| app.spec.destinations.iter().for_each(|one| destination(page, one)));
    page.section("Sync", |page| sync(page, &app.spec.sync, status));
    page.section("Health", |page| {
        page.field("Status", health_word(status.health.status));
        page.maybe("Message", status.health.message.as_ref());
    });
    asks(&mut page, status, now);
    page.section("Conditions", |page| page.table(&conditions(&status.conditions, now)));
    page.section("Clusters", |page| page.table(&clusters(&status.clusters, now)));
    page.section("Differences", |page| page.table(&differences(&status.clusters)));
    if status.clusters.iter().any(|cluster| !cluster.contested.is_empty()) {
        page.section("Contested", |page| page.table(&contested(&status.clusters)));
    }
    page.section("Violations", |page| violations(page, status));
    page.field("Inventory", inventory(status));
    page.section("History", |page| page.table(&history::deployments(status, DEPLOYMENTS, now)));
    page.section("Events", |page| page.table(&event_table(events, now)));
    page.finish()
}

/// The page of a Cluster.
pub(crate) fn cluster(cluster: &Cluster, events: &[Event], now: Timestamp) -> String {
    let status = cluster.status.clone().unwrap_or_default();
    let mut page = Page::new();
    page.field("Name", cluster.name_any());
    let labels: Vec<String> = cluster.labels().iter().map(|(key, value)| format!("{key}={value}")).collect();
    page.field("Labels", if labels.is_empty() { NONE.to_owned() } else { labels.join(", ") });
    page.field("Age", age(cluster.metadata.creation_timestamp.as_ref(), now));
    if cluster.spec.suspend {
        page.field("Suspended", "yes");
    }
    page.section("Connection", |page| {
        match &cluster.spec.kubeconfig {
            Some(kubeconfig) => {
                let secret = &kubeconfig.secret_ref;
                let namespace =
                    secret.namespace.as_deref().map(|name| format!("{name}/")).unwrap_or_default();
                page.field("Kubeconfig", format!("Secret {namespace}{}", secret.name));
                page.maybe("Key", secret.key.as_ref());
                page.maybe("Context", kubeconfig.context.as_ref());
            }
            None => page.field("Kubeconfig", "none: the cluster that the controller runs in"),
        }
        page.maybe("Server", status.server.as_ref());
        page.maybe("Version", status.version.as_ref());
        page.maybe("Latency", status.latency.map(|latency| latency.to_string()));
        page.field("Probed", age(status.last_probe.as_ref(), now));
    });
    page.section("Conditions", |page| page.table(&conditions(&status.conditions, now)));
    page.section("Events", |page| page.table(&event_table(events, now)));
    page.finish()
}

fn source(page: &mut Page, source: &Source) {
    page.field("Repository", &source.repo_url);
    page.field("Revision", source.revision.as_deref().unwrap_or("the default branch"));
    page.field("Path", source.path.as_deref().filter(|path| !path.is_empty()).unwrap_or("/"));
    let kind = match (&source.directory, &source.kustomize, &source.helm) {
        (Some(_), ..) => "plain files",
        (_, Some(_), _) => "kustomize",
        (.., Some(_)) => "helm",
        _ => "what the folder holds",
    };
    page.field("Kind", kind);
    page.maybe("Credentials", source.secret_ref.as_ref().map(|secret| format!("Secret {}", secret.name)));
    page.maybe(
        "Decryption",
        source
            .decryption
            .as_ref()
            .map(|decryption| format!("SOPS, keys in Secret {}", decryption.secret_ref.name)),
    );
}

fn destination(page: &mut Page, destination: &Destination) {
    let clusters = match (&destination.cluster, &destination.selector) {
        (Some(cluster), _) => format!("cluster {cluster}"),
        (None, Some(selector)) => {
            let labels = selector.match_labels.iter().flatten().map(|(key, value)| format!("{key}={value}"));
            let more = selector.match_expressions.iter().flatten().map(|rule| {
                let values = rule.values.iter().flatten().cloned().collect::<Vec<_>>().join(",");
                format!("{} {} {values}", rule.key, rule.operator).trim().to_owned()
            });
            let parts: Vec<String> = labels.chain(more).collect();
            if parts.is_empty() {
                "all clusters".to_owned()
            } else {
                format!("clusters with {}", parts.join(", "))
            }
        }
        (None, None) => NONE.to_owned(),
    };
    let namespace = destination.namespace.as_deref().map(|name| format!(", namespace {name}"));
    page.line(format!("{clusters}{}", namespace.unwrap_or_default()));
}

fn sync(page: &mut Page, policy: &SyncPolicy, status: &ApplicationStatus) {
    page.field("Status", sync_word(status.sync.status));
    page.maybe("Revision", status.sync.revision.as_ref());
    page.maybe("Change", status.sync.change_id.as_ref());
    let yes = |value| if value { "yes" } else { "no" };
    page.field("Automated", yes(policy.automated));
    page.field("Prune", yes(policy.prune));
    page.field("Drift", format!("{:?}", policy.drift));
    page.maybe(
        "Applied as",
        policy.service_account_name.as_ref().map(|name| format!("ServiceAccount {name}")),
    );
    for window in &policy.windows {
        page.field("Window", super::why::window(window));
    }
}

/// What is going on, and what waits for people.
fn asks(page: &mut Page, status: &ApplicationStatus, now: Timestamp) {
    if let Some(operation) = &status.operation {
        page.section("Operation", |page| {
            page.field("Revision", &operation.revision);
            page.maybe("Step", operation.step.as_ref());
            page.field("Since", age(operation.started_at.as_ref(), now));
            page.maybe("By", operation.by.as_ref());
            page.maybe("Failures", operation.failures.map(|failures| failures.to_string()));
        });
    }
    if let Some(entry) = &status.quarantine {
        page.section("Quarantine", |page| {
            page.field("Revision", &entry.revision);
            page.field("Failed", format!("{} on {}", entry.object, entry.cluster));
            page.field("Reason", line(&entry.reason));
            page.field("Since", age(entry.since.as_ref(), now));
            page.maybe("Lifted by", entry.lifted.as_ref().map(|lifted| lifted.by.clone()));
            let revert = entry.revert.as_ref();
            page.maybe("Reverted by", revert.map(|revert| format!("{} on {}", revert.commit, revert.branch)));
        });
    }
    if let Some(pin) = &status.pin {
        page.section("Pin", |page| {
            page.maybe("Kept at", pin.to.as_ref());
            page.field("Excludes", &pin.excludes);
            page.field("By", pin.by.as_deref().unwrap_or("the controller"));
            page.field("Since", age(pin.at.as_ref(), now));
            page.maybe("Reason", pin.reason.as_ref());
        });
    }
    if let Some(approval) = &status.approval {
        page.section("Approval", |page| {
            page.line(format!("{} of {} objects would be deleted:", approval.deletions, approval.of));
            approval.objects.iter().for_each(|object| page.line(format!("- {object}")));
        });
    }
}

fn conditions(conditions: &[Condition], now: Timestamp) -> Table {
    let mut table = Table::new(["TYPE", "STATUS", "REASON", "SINCE", "MESSAGE"]);
    for condition in conditions {
        let since = Time(condition.last_transition_time.0);
        table.push(vec![
            condition.type_.clone(),
            condition.status.clone(),
            condition.reason.clone(),
            age(Some(&since), now),
            line(&condition.message),
        ]);
    }
    table
}

fn clusters(clusters: &[ClusterLine], now: Timestamp) -> Table {
    let mut table =
        Table::new(["NAME", "SYNC", "HEALTH", "REVISION", "WAVE", "OBJECTS", "SYNCED", "MESSAGE"]);
    let number = |value: Option<u32>| value.map_or_else(|| "-".to_owned(), |value| value.to_string());
    for cluster in clusters {
        table.push(vec![
            cluster.name.clone(),
            sync_word(cluster.sync).to_owned(),
            health_word(cluster.health).to_owned(),
            cluster.revision.as_deref().map_or(NONE, short).to_owned(),
            number(cluster.wave),
            number(cluster.objects),
            age(cluster.synced_at.as_ref(), now),
            line(cluster.message.as_deref().unwrap_or_default()),
        ]);
    }
    table
}

fn differences(clusters: &[ClusterLine]) -> Table {
    let mut table = Table::new(["CLUSTER", "OBJECT", "FIELD", "WANTED", "LIVE", "WRITTEN BY"]);
    let text =
        |value: &Option<String>| value.as_deref().map_or_else(|| "-".to_owned(), |value| cut(value, 40));
    for cluster in clusters {
        for difference in &cluster.differences {
            table.push(vec![
                cluster.name.clone(),
                difference.object.clone(),
                difference.field.clone().unwrap_or_else(|| "the whole object".to_owned()),
                text(&difference.wanted),
                text(&difference.live),
                text(&difference.manager),
            ]);
        }
    }
    table
}

fn contested(clusters: &[ClusterLine]) -> Table {
    let mut table = Table::new(["CLUSTER", "OBJECT", "MANAGER", "ROUNDS"]);
    for cluster in clusters {
        for contested in &cluster.contested {
            table.push(vec![
                cluster.name.clone(),
                contested.object.clone(),
                contested.manager.clone(),
                contested.rounds.to_string(),
            ]);
        }
    }
    table
}

fn violations(page: &mut Page, status: &ApplicationStatus) {
    let mut table = Table::new(["CLUSTER", "OBJECT", "POLICY", "MESSAGE"]);
    for violation in &status.violations {
        table.push(vec![
            violation.cluster.clone().unwrap_or_else(|| "-".to_owned()),
            violation.object.clone(),
            violation.policy.clone(),
            line(&violation.message),
        ]);
    }
    page.table(&table);
    let all = status.violation_count.map_or(0, |count| usize::try_from(count).unwrap_or(usize::MAX));
    if all > status.violations.len() {
        page.line(format!("and {} more", all - status.violations.len()));
    }
}

fn inventory(status: &ApplicationStatus) -> String {
    let objects: usize =
        status.inventory.iter().map(|entry| entry.objects.len() * entry.clusters.len()).sum();
    let clusters: usize = status.inventory.iter().map(|entry| entry.clusters.len()).sum();
    format!("{} on {}", count(objects, "object"), count(clusters, "cluster"))
}

/// Events, the newest last.
fn event_table(events: &[Event], now: Timestamp) -> Table {
    let mut seen: Vec<(Timestamp, &Event)> = events.iter().map(|event| (last_seen(event), event)).collect();
    seen.sort_by_key(|(at, _)| *at);
    let mut table = Table::new(["LAST SEEN", "TYPE", "REASON", "MESSAGE"]);
    for (at, event) in seen {
        let times = event.series.as_ref().map(|series| format!(" (x{})", series.count)).unwrap_or_default();
        table.push(vec![
            format!("{}{times}", age(Some(&Time(at)), now)),
            event.type_.clone().unwrap_or_default(),
            event.reason.clone().unwrap_or_default(),
            line(event.note.as_deref().unwrap_or_default()),
        ]);
    }
    table
}

fn last_seen(event: &Event) -> Timestamp {
    let series = event.series.as_ref().map(|series| series.last_observed_time.0);
    let old = event.deprecated_last_timestamp.as_ref().map(|time| time.0);
    let made = event.metadata.creation_timestamp.as_ref().map(|time| time.0);
    let at = series.or_else(|| event.event_time.as_ref().map(|time| time.0)).or(old).or(made);
    at.unwrap_or(Timestamp::UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::show::fixtures;

    fn events() -> Vec<Event> {
        serde_json::from_value(json!([
            {
                "metadata": { "name": "b" }, "type": "Warning", "reason": "Unreachable", "note": "west does not answer",
                "eventTime": "2026-03-01T11:00:00.000000Z",
                "series": { "count": 4, "lastObservedTime": "2026-03-01T11:59:00.000000Z" },
            },
            { "metadata": { "name": "a" }, "type": "Normal", "reason": "Synced", "note": "east has aa11", "eventTime": "2026-03-01T11:10:00.000000Z" },
        ]))
        .unwrap()
    }

    #[test]
    fn an_application_with_troubles_is_described_whole() {
        insta::assert_snapshot!(application(&fixtures::troubled(), &events(), fixtures::now()));
    }

    #[test]
    fn an_application_without_a_status_says_that_nobody_has_seen_it() {
        let mut app = fixtures::healthy("new");
        app.status = None;
        let page = application(&app, &[], fixtures::now());
        assert!(page.contains("has not seen this one yet"), "{page}");
        assert!(page.contains("Conditions:\n  <none>\n"), "{page}");
        assert!(page.contains("Inventory:  0 objects on 0 clusters\n"), "{page}");
    }

    #[test]
    fn a_cluster_is_described_whole() {
        insta::assert_snapshot!(cluster(&fixtures::cluster("west", false), &events(), fixtures::now()));
    }
}
