//! Clusters as rows of a table.

use jiff::Timestamp;
use kube::ResourceExt;
use windlass_api::{Cluster, ClusterStatus, condition};

use super::{NONE, age, table::Table};

/// An empty table of Clusters.
pub(crate) fn table(wide: bool) -> Table {
    let mut headings = vec!["NAME", "READY", "REASON", "VERSION", "LATENCY", "PROBED", "AGE"];
    if wide {
        headings.push("SERVER");
    }
    Table::new(headings)
}

/// The row of one Cluster.
pub(crate) fn row(cluster: &Cluster, wide: bool, now: Timestamp) -> Vec<String> {
    let none = ClusterStatus::default();
    let status = cluster.status.as_ref().unwrap_or(&none);
    let ready = condition::get(&status.conditions, condition::READY);
    let text = |value: Option<String>| value.unwrap_or_else(|| NONE.to_owned());
    let mut row = vec![
        cluster.name_any(),
        ready.map_or_else(|| "Unknown".to_owned(), |ready| ready.status.clone()),
        text(ready.map(|ready| ready.reason.clone())),
        text(status.version.clone()),
        text(status.latency.map(|latency| latency.to_string())),
        age(status.last_probe.as_ref(), now),
        age(cluster.metadata.creation_timestamp.as_ref(), now),
    ];
    if wide {
        row.push(text(status.server.clone()));
    }
    row
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show::fixtures;

    #[test]
    fn clusters_are_shown_as_a_table() {
        let mut new = fixtures::cluster("new", true);
        new.status = None;
        let mut table = table(true);
        for cluster in [fixtures::cluster("east", true), new, fixtures::cluster("west", false)] {
            table.push(row(&cluster, true, fixtures::now()));
        }
        insta::assert_snapshot!(table.render(0), @r"
        NAME   READY     REASON        VERSION   LATENCY   PROBED      AGE   SERVER
        east   True      Reachable     v1.36.3   5ms       30s         10d   https://10.0.0.1:6443
        new    Unknown   <none>        <none>    <none>    <unknown>   10d   <none>
        west   False     Unreachable   v1.36.3   5ms       30s         10d   https://10.0.0.1:6443
        ");
    }
}
