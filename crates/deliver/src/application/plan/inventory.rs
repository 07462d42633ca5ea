//! What was applied where, as the status stores it: clusters with the same objects share an entry.

use std::collections::{BTreeMap, BTreeSet};

use windlass_api::application::status::Inventory;

use crate::object::ObjectId;

/// What the inventory names, by cluster. An entry that cannot be read is passed over: nothing is deleted for it.
pub(crate) fn by_cluster(inventory: &[Inventory]) -> BTreeMap<String, BTreeSet<ObjectId>> {
    let mut all: BTreeMap<String, BTreeSet<ObjectId>> = BTreeMap::new();
    for entry in inventory {
        let ids: BTreeSet<ObjectId> = entry.objects.iter().filter_map(|text| text.parse().ok()).collect();
        for cluster in &entry.clusters {
            all.entry(cluster.clone()).or_default().extend(ids.iter().cloned());
        }
    }
    all
}

/// The other way; clusters without objects are left out. The result depends on the content alone.
pub(crate) fn grouped(all: &BTreeMap<String, BTreeSet<ObjectId>>) -> Vec<Inventory> {
    let mut groups: BTreeMap<&BTreeSet<ObjectId>, Vec<String>> = BTreeMap::new();
    for (cluster, ids) in all.iter().filter(|(_, ids)| !ids.is_empty()) {
        groups.entry(ids).or_default().push(cluster.clone());
    }
    let mut entries: Vec<Inventory> = groups
        .into_iter()
        .map(|(ids, clusters)| Inventory { clusters, objects: ids.iter().map(ToString::to_string).collect() })
        .collect();
    entries.sort_by(|a, b| a.clusters.cmp(&b.clusters));
    entries
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn clusters_with_the_same_objects_share_an_entry() {
        let ids = |names: &[&str]| -> BTreeSet<ObjectId> {
            names.iter().map(|name| format!("v1/ConfigMap/a/{name}").parse().unwrap()).collect()
        };
        let all: BTreeMap<String, BTreeSet<ObjectId>> = [
            ("east".into(), ids(&["x", "y"])),
            ("west".into(), ids(&["x", "y"])),
            ("edge".into(), ids(&["x"])),
            ("none".into(), ids(&[])),
        ]
        .into();
        let grouped = grouped(&all);
        assert_eq!(grouped.len(), 2);
        assert_eq!(grouped[0].clusters, ["east", "west"]);
        let mut back = by_cluster(&grouped);
        back.insert("none".into(), BTreeSet::new());
        assert_eq!(back, all);
    }
}
