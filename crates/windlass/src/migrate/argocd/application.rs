//! One Application.

use serde_json::Value;
use windlass_api::{
    ApplicationSpec,
    application::{Deletion, Destination, Policy, source::Source},
};

use super::{Context, source, sync};
use crate::migrate::{
    fields::Fields,
    names,
    objects::{Head, Marks, Produced},
    report::Report,
    shared,
};

/// Finalizer with which Argo CD deletes what it applied; `/background` and `/foreground` may follow.
const CASCADE: &str = "resources-finalizer.argocd.argoproj.io";

/// Converts it to one Application, or to several when it has several sources.
pub(super) fn convert(
    head: &Head,
    object: Value,
    context: &mut Context<'_>,
    produced: &mut Produced,
    report: &mut Report,
) {
    report.about(&head.title());
    if !head.usable(report) {
        return;
    }
    let mut fields = Fields::of("", object, report);
    for known in ["apiVersion", "kind", "operation"] {
        fields.pass(known);
    }
    let kind_of_source = source_types(&fields.value("status").unwrap_or_default());
    let (marks, cascade) = metadata(&mut fields, report);
    let mut spec = fields.part("spec", report).unwrap_or_else(|| Fields::of("spec", Value::Null, report));
    fields.finish(report);

    let namespace = context.options.into.clone().unwrap_or_else(|| head.namespace.clone());
    let target = Head { namespace, ..head.clone() };
    let project = spec.text("project", report).unwrap_or_else(|| "default".to_owned());
    let sources = source::read(&mut spec, &kind_of_source, report);
    let destination = destination(&mut spec, context, report);
    let (Some(sources), Some((mut destination, found))) = (sources, destination) else { return };
    let mut sync = sync::read(&mut spec, report);
    let deletion = if cascade && !sync.orphan { Deletion::Delete } else { Deletion::Orphan };
    spec.note("revisionHistoryLimit", "is not needed: the last 20 deployments are remembered", report);
    spec.left(
        "info",
        "is for people only and was not carried over",
        "Put it into annotations of the Application",
        report,
    );
    spec.finish(report);
    context.projects.bind(&project, &target, &found, &mut destination, &mut sync.policy, report);

    let split = sources.len() > 1;
    for (at, (label, mut source)) in sources.into_iter().enumerate() {
        let name = if split { split_name(&head.name, label.as_deref(), at) } else { head.name.clone() };
        source.secret_ref = context.repositories.secret_for(&source.repo_url, &target, produced, report);
        if source.helm.as_ref().is_some_and(|helm| helm.release_name.is_none()) && split {
            // Names of objects come from the release: it keeps the name that it had.
            if let Some(helm) = &mut source.helm {
                helm.release_name = shared::at_most(Some(head.name.clone()), 53, "metadata.name", report);
            }
        }
        let spec = spec_of(source, destination.clone(), sync.policy.clone(), deletion);
        produced.application(&Head { name, ..target.clone() }, &marks, &spec, report);
    }
    if split {
        report.note("spec.sources", "several sources became one Application each, with the same policy");
    }
}

fn split_name(name: &str, label: Option<&str>, at: usize) -> String {
    let tail = label.map_or_else(|| (at + 1).to_string(), names::sanitized);
    names::sanitized(&format!("{name}-{tail}"))
}

fn spec_of(
    source: Source,
    destination: Destination,
    sync: windlass_api::application::SyncPolicy,
    deletion: Deletion,
) -> ApplicationSpec {
    ApplicationSpec {
        source,
        destinations: vec![destination],
        sync,
        depends_on: Vec::new(),
        policy: Policy::default(),
        progressive: None,
        infrastructure: None,
        health: Vec::new(),
        deletion,
        suspend: false,
    }
}

/// Labels and annotations that stay, and whether deleting the Application deletes what it applied.
fn metadata(fields: &mut Fields, report: &mut Report) -> (Marks, bool) {
    let Some(mut metadata) = fields.part("metadata", report) else { return (Marks::default(), false) };
    let marks = shared::marks(&mut metadata, report, own_mark);
    let finalizers = metadata.texts("finalizers", report);
    let cascade = finalizers.iter().any(|name| name == CASCADE || name.starts_with(&format!("{CASCADE}/")));
    for name in finalizers.iter().filter(|name| !name.starts_with(CASCADE)) {
        report.left(
            "metadata.finalizers",
            format!("the finalizer {name} was not carried over"),
            "If it is for hooks after a deletion, run them by hand",
        );
    }
    // Everything else of metadata is bookkeeping of the API server.
    (marks, cascade)
}

fn own_mark(key: &str, value: &str, report: &mut Report) -> bool {
    match key {
        "argocd.argoproj.io/refresh"
        | "argocd.argoproj.io/hydrate"
        | "argocd.argoproj.io/tracking-id"
        | "argocd.argoproj.io/instance"
        | "argocd.argoproj.io/application-set-name" => false,
        "argocd.argoproj.io/manifest-generate-paths" => {
            report.note(
                "metadata.annotations",
                format!("{key} is not needed: what a render reads is found out, and nothing else wakes it"),
            );
            false
        }
        "argocd.argoproj.io/skip-reconcile" if value == "true" => {
            report.left(
                "metadata.annotations",
                format!("{key} was not carried over"),
                "Set spec.suspend to true if it still has to rest",
            );
            false
        }
        _ if key.starts_with("notifications.argoproj.io/") || key.starts_with("argocd-image-updater.") => {
            report.left(
                "metadata.annotations",
                format!("{key} is for an add-on of Argo CD and was not carried over"),
                "Set the same up with what follows Events and metrics of Windlass",
            );
            false
        }
        // Waves, hooks and options are understood as they are.
        _ => true,
    }
}

/// The types that Argo CD found the sources to have, if it has looked already.
fn source_types(status: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    match (status.get("sourceTypes").and_then(Value::as_array), status.get("sourceType").and_then(text)) {
        (Some(types), _) if !types.is_empty() => types.iter().filter_map(text).collect(),
        (_, Some(one)) => vec![one],
        _ => Vec::new(),
    }
}

/// Where it goes, and how Argo CD calls the cluster. None when that cannot be told.
fn destination(
    spec: &mut Fields,
    context: &Context<'_>,
    report: &mut Report,
) -> Option<(Destination, super::destination::Found)> {
    let Some(mut part) = spec.part("destination", report) else {
        report.refused("it has no destination", "Correct the object");
        return None;
    };
    let (server, name) = (part.text("server", report), part.text("name", report));
    let namespace = part.text("namespace", report).filter(|namespace| {
        let good = names::is_namespace(namespace);
        if !good {
            report.left("spec.destination.namespace", "can be no namespace", "Correct the object");
        }
        good
    });
    part.finish(report);
    let found = context.clusters.find(server, name, report)?;
    let destination =
        Destination { cluster: Some(found.cluster.clone()), namespace, ..Destination::default() };
    Some((destination, found))
}
