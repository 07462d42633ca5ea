//! What `Kustomization` and `HelmRelease` have in common.

use windlass_api::{
    ApplicationSpec,
    application::{Deletion, Dependency, Destination, Policy, SyncPolicy, source::Source, sync::Drift},
};

use super::Context;
use crate::migrate::{
    fields::Fields,
    names,
    objects::{Head, Marks},
    report::Report,
    shared,
};

/// Labels and annotations that stay. Those that Flux writes by itself go without a word.
pub(super) fn metadata(fields: &mut Fields, report: &mut Report) -> Marks {
    let Some(mut metadata) = fields.part("metadata", report) else { return Marks::default() };
    shared::marks(&mut metadata, report, |key, value, report| {
        let reconcile = key.ends_with("toolkit.fluxcd.io/reconcile") && value == "disabled";
        if reconcile {
            report.left(
                "metadata.annotations",
                format!("{key} was not carried over"),
                "Set spec.suspend to true if it still has to rest",
            );
        }
        !key.contains("fluxcd.io/")
    })
}

/// Where it goes in the hub, and whether it can be an Application at all.
pub(super) fn target(head: &Head, context: &Context<'_>, report: &mut Report) -> Option<Head> {
    report.about(&head.title());
    if !head.usable(report) {
        return None;
    }
    let namespace = context.options.into.clone().unwrap_or_else(|| head.namespace.clone());
    Some(Head { namespace, ..head.clone() })
}

/// Others that have to be ready first.
pub(super) fn depends_on(
    spec: &mut Fields,
    from: &Head,
    context: &mut Context<'_>,
    report: &mut Report,
) -> Vec<Dependency> {
    let mut found = Vec::new();
    for mut part in spec.parts("dependsOn", report) {
        let name = part.text("name", report).filter(|name| names::is_name(name));
        let given = part.text("namespace", report).unwrap_or_else(|| from.namespace.clone());
        part.left(
            "readyExpr",
            "is about objects of Flux and was not carried over",
            "Write it anew in dependsOn[].ready, over app (the other Application)",
            report,
        );
        let path = part.at("name");
        part.finish(report);
        let Some(name) = name else {
            report.left(path, "names nothing", "Correct the object");
            continue;
        };
        // Into one namespace: then there is no other.
        let apart = given != from.namespace && context.options.into.is_none();
        let namespace = Some(given.clone()).filter(|namespace| apart && names::is_namespace(namespace));
        if namespace.is_some() {
            report.note(
                path,
                "is in another namespace: the controller has to allow that (allowCrossNamespaceDependencies)",
            );
        }
        // Each kind waits for its own kind.
        let name = if from.kind == "HelmRelease" { context.release_name(&given, &name) } else { name };
        let place = context.options.into.clone().unwrap_or(given);
        context.waits.push((from.title(), place, name.clone()));
        found.push(Dependency { name, namespace, ready: None });
    }
    found
}

/// The account that objects are applied as.
pub(super) fn account(spec: &mut Fields, report: &mut Report) -> Option<String> {
    let name = spec.text("serviceAccountName", report)?;
    if names::is_name(&name) {
        return Some(name);
    }
    report.left("spec.serviceAccountName", "can be no name", "Correct the object");
    None
}

/// A namespace, if it can be one.
pub(super) fn namespace(spec: &mut Fields, key: &str, report: &mut Report) -> Option<String> {
    let name = spec.text(key, report)?;
    if names::is_namespace(&name) {
        return Some(name);
    }
    report.left(spec.at(key), "can be no namespace", "Correct the object");
    None
}

/// Everything that Flux applies by itself and takes back.
pub(super) fn sync() -> SyncPolicy {
    SyncPolicy { automated: true, prune: false, drift: Drift::Revert, ..SyncPolicy::default() }
}

/// The spec around what was read.
pub(super) fn spec_of(
    source: Source,
    cluster: String,
    namespace: Option<String>,
    sync: SyncPolicy,
) -> ApplicationSpec {
    ApplicationSpec {
        source,
        destinations: vec![Destination { cluster: Some(cluster), namespace, ..Destination::default() }],
        sync,
        depends_on: Vec::new(),
        policy: Policy::default(),
        progressive: None,
        infrastructure: None,
        health: Vec::new(),
        deletion: Deletion::Delete,
        suspend: false,
    }
}
