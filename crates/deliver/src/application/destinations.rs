//! The clusters that an Application is meant for, and those that it was.

use std::collections::BTreeMap;

use windlass_api::{ApplicationSpec, ApplicationStatus, application::Destination};

use super::{plan::inventory, selector};
use crate::{fleet::Member, trouble::Trouble};

/// A cluster that is meant, with what the spec says of it.
pub(super) struct Meant<'a> {
    pub(super) member: Member,
    pub(super) destination: Option<&'a Destination>,
    /// Whose namespace and bounds hold there: a cluster that gets nothing but infrastructure has those of the first
    /// destination.
    pub(super) bounds: Option<&'a Destination>,
    /// It gets the infrastructure.
    pub(super) infrastructure: bool,
    pub(super) leaving: bool,
}

impl Meant<'_> {
    /// One that is cleared and gets nothing.
    pub(super) fn leaving(member: &Member) -> Self {
        Self { member: member.clone(), destination: None, bounds: None, infrastructure: false, leaving: true }
    }

    /// Where objects go that name no namespace.
    pub(super) fn namespace(&self) -> String {
        self.bounds.and_then(|bounds| bounds.namespace.clone()).unwrap_or_else(|| "default".into())
    }
}

/// The clusters that are meant, each once, and those that were.
pub(super) fn meant<'a>(
    spec: &'a ApplicationSpec,
    status: &ApplicationStatus,
    members: &[Member],
) -> Result<Vec<Meant<'a>>, Trouble> {
    let mut all: BTreeMap<String, Meant<'a>> = BTreeMap::new();
    let own = spec.infrastructure.as_ref().and_then(|infrastructure| infrastructure.cluster.as_deref());
    for destination in &spec.destinations {
        let mut found: Vec<Member> = Vec::new();
        if let Some(name) = &destination.cluster {
            found.push(named(name, members));
        }
        if let Some(wanted) = &destination.selector {
            for member in members {
                if selector::matches(wanted, &member.labels)? {
                    found.push(member.clone());
                }
            }
        }
        for member in found {
            let infrastructure = spec.infrastructure.is_some() && own.is_none_or(|own| own == member.name);
            all.entry(member.name.clone()).or_insert(Meant {
                member,
                destination: Some(destination),
                bounds: Some(destination),
                infrastructure,
                leaving: false,
            });
        }
    }
    if let Some(own) = own {
        all.entry(own.to_owned()).or_insert_with(|| Meant {
            member: named(own, members),
            destination: None,
            bounds: spec.destinations.first(),
            infrastructure: true,
            leaving: false,
        });
    }
    for name in inventory::by_cluster(&status.inventory).into_keys() {
        if let Some(member) = members.iter().find(|member| member.name == name) {
            all.entry(name).or_insert_with(|| Meant::leaving(member));
        }
    }
    Ok(all.into_values().collect())
}

/// The member of this name; one with trouble if there is none.
fn named(name: &str, members: &[Member]) -> Member {
    members.iter().find(|member| member.name == name).cloned().unwrap_or_else(|| Member {
        name: name.to_owned(),
        labels: BTreeMap::new(),
        version: None,
        trouble: Some(Trouble::standing(
            "ClusterNotFound",
            format!("there is no Cluster {name}"),
            "Register it, or mend the name in spec.destinations: it gets the Application when it is there",
        )),
    })
}
