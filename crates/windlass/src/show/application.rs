//! Applications as rows of a table.

use jiff::Timestamp;
use kube::ResourceExt;
use windlass_api::{
    Application, ApplicationStatus,
    application::status::{HealthWord, Phase, SyncWord},
    condition,
};

use super::{NONE, age, cut, table::Table};

/// The longest message in a table.
const MESSAGE: usize = 100;

/// An empty table of Applications.
pub(crate) fn table(wide: bool, namespaces: bool) -> Table {
    let mut headings = Vec::new();
    if namespaces {
        headings.push("NAMESPACE");
    }
    headings.extend(["NAME", "PHASE", "SYNC", "HEALTH", "REVISION", "CLUSTERS", "AGE"]);
    if wide {
        headings.extend(["SOURCE", "MESSAGE"]);
    }
    Table::new(headings)
}

/// The row of one Application.
pub(crate) fn row(app: &Application, wide: bool, namespaces: bool, now: Timestamp) -> Vec<String> {
    let none = ApplicationStatus::default();
    let status = app.status.as_ref().unwrap_or(&none);
    let mut row = Vec::new();
    if namespaces {
        row.push(app.namespace().unwrap_or_default());
    }
    let revision = status.sync.short_revision.as_deref().unwrap_or(NONE);
    let pinned = if status.pin.is_some() { " (pinned)" } else { "" };
    row.extend([
        app.name_any(),
        phase(app).to_owned(),
        sync_word(status.sync.status).to_owned(),
        health_word(status.health.status).to_owned(),
        format!("{revision}{pinned}"),
        status.cluster_summary.clone().unwrap_or_else(|| NONE.to_owned()),
        age(app.metadata.creation_timestamp.as_ref(), now),
    ]);
    if wide {
        let ready = condition::get(&status.conditions, condition::READY);
        let source = &app.spec.source;
        let path = source.path.as_deref().filter(|path| !path.is_empty()).map(|path| format!(" {path}"));
        row.push(format!("{}{}", source.repo_url, path.unwrap_or_default()));
        row.push(ready.map(|ready| cut(&ready.message, MESSAGE)).unwrap_or_default());
    }
    row
}

/// The phase in a word; what is suspended says so.
pub(crate) fn phase(app: &Application) -> &'static str {
    if app.spec.suspend {
        return "Suspended";
    }
    match app.status.as_ref().and_then(|status| status.phase) {
        Some(Phase::Pending) | None => "Pending",
        Some(Phase::Syncing) => "Syncing",
        Some(Phase::Healthy) => "Healthy",
        Some(Phase::Degraded) => "Degraded",
        Some(Phase::Failed) => "Failed",
    }
}

/// The word as status has it.
pub(crate) const fn sync_word(word: SyncWord) -> &'static str {
    match word {
        SyncWord::Synced => "Synced",
        SyncWord::OutOfSync => "OutOfSync",
        SyncWord::Unknown => "Unknown",
    }
}

/// The word as status has it.
pub(crate) const fn health_word(word: HealthWord) -> &'static str {
    match word {
        HealthWord::Healthy => "Healthy",
        HealthWord::Progressing => "Progressing",
        HealthWord::Degraded => "Degraded",
        HealthWord::Suspended => "Suspended",
        HealthWord::Missing => "Missing",
        HealthWord::Unknown => "Unknown",
    }
}

/// Whether the Application is as its spec says, by what was observed of the present generation.
pub(crate) fn is_ready(app: &Application) -> bool {
    let Some(status) = &app.status else { return false };
    status.observed_generation == app.metadata.generation
        && condition::get(&status.conditions, condition::READY).is_some_and(|ready| {
            ready.status == condition::Truth::True.as_str()
                && (ready.observed_generation.is_none()
                    || ready.observed_generation == app.metadata.generation)
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show::fixtures;

    fn shown(wide: bool, namespaces: bool) -> String {
        let mut suspended = fixtures::depending("later", &[], "Suspended");
        suspended.spec.suspend = true;
        let mut new = fixtures::healthy("new");
        new.status = None;
        let mut table = table(wide, namespaces);
        for app in [fixtures::healthy("api"), suspended, new, fixtures::troubled()] {
            table.push(row(&app, wide, namespaces, fixtures::now()));
        }
        table.render(0)
    }

    #[test]
    fn applications_are_shown_as_a_table() {
        insta::assert_snapshot!(shown(false, true), @r"
        NAMESPACE   NAME    PHASE       SYNC        HEALTH     REVISION                   CLUSTERS   AGE
        shop        api     Healthy     Synced      Healthy    main@aa11000000            2/2        2d
        shop        later   Suspended   Unknown     Unknown    <none>                     <none>     2d
        shop        new     Pending     Unknown     Unknown    <none>                     <none>     2d
        shop        web     Degraded    OutOfSync   Degraded   main@aa11000000 (pinned)   0/2        2d
        ");
        let wide = shown(true, false);
        assert!(
            wide.contains("https://git.example/shop.git deploy   Waits for Application shop/database."),
            "{wide}"
        );
    }

    #[test]
    fn ready_counts_only_for_the_present_generation() {
        let mut app = fixtures::healthy("api");
        assert!(is_ready(&app));
        app.metadata.generation = Some(3);
        assert!(!is_ready(&app));
        assert!(!is_ready(&fixtures::troubled()));
    }
}
