//! `HelmRelease` with a chart in Git → Application.

use serde_json::Value;
use windlass_api::application::{
    SyncPolicy,
    source::Helm,
    sync::{Drift, IgnoreDifference, Retry},
};

use super::{Context, common, health};
use crate::migrate::{
    fields::Fields,
    names,
    objects::{Head, Produced},
    report::Report,
    shared,
};

/// Converts it.
pub(super) fn convert(
    head: &Head,
    object: Value,
    context: &mut Context<'_>,
    produced: &mut Produced,
    report: &mut Report,
) {
    let Some(mut target) = common::target(head, context, report) else { return };
    let mut fields = Fields::of("", object, report);
    let marks = common::metadata(&mut fields, report);
    let Some(mut spec) = fields.part("spec", report) else {
        report.refused("it has no spec", "Correct the object");
        return;
    };
    let Some((mut chart, reference)) = chart(&mut spec, report) else { return };
    let Some(cluster) = context.clusters.find(&mut spec, head, produced, report) else { return };
    let Some((mut source, repository)) = context.source(reference, head, &target, produced, report) else {
        return;
    };
    source.path = names::folder(chart.text("chart", report));
    let namespace = common::namespace(&mut spec, "targetNamespace", report);
    let mut helm = helm(&mut spec, &mut chart, head, namespace.as_deref(), report);
    chart.finish(report);

    let mut sync = common::sync();
    sync.prune = true;
    sync.interval = repository.interval;
    sync.health_timeout = spec.duration("timeout", report);
    sync.service_account_name = common::account(&mut spec, report);
    drift(&mut spec, &mut sync, report);
    actions(&mut spec, &mut sync, &mut helm, report);
    source.helm = Some(helm);
    let namespace = namespace.or_else(|| Some(head.namespace.clone()).filter(|name| !name.is_empty()));
    let mut app = common::spec_of(source, cluster, namespace, sync);
    app.depends_on = common::depends_on(&mut spec, head, context, report);
    app.health = health::rules(&mut spec, report);
    app.suspend = spec.flag("suspend", report).unwrap_or(false) || repository.suspend;
    rest(spec, report);
    target.name = context.release_name(&head.namespace, &head.name);
    if target.name != head.name {
        report.note(
            "metadata.name",
            format!("a Kustomization has the same name: the Application is called {}", target.name),
        );
    }
    produced.application(&target, &marks, &app, report);
}

/// The chart's own part, and where it comes from.
fn chart(spec: &mut Fields, report: &mut Report) -> Option<(Fields, Fields)> {
    if spec.has("chartRef") {
        report.refused(
            "its chart is named by chartRef, which is none in Git",
            "Charts are read from Git: commit the chart and point source.path at its folder",
        );
        return None;
    }
    let mut outer = spec.part("chart", report);
    let inner = outer.as_mut().and_then(|chart| chart.part("spec", report));
    let reference = inner.and_then(|mut inner| {
        let reference = inner.part("sourceRef", report)?;
        Some((inner, reference))
    });
    if reference.is_none() {
        report.refused("it names no chart", "Correct the object");
    }
    reference
}

fn helm(
    spec: &mut Fields,
    chart: &mut Fields,
    head: &Head,
    namespace: Option<&str>,
    report: &mut Report,
) -> Helm {
    // Flux tells them from the root of the repository.
    let mut files: Vec<String> = chart.texts("valuesFiles", report);
    files.extend(chart.text("valuesFile", report));
    if !files.is_empty() {
        report.note(
            chart.at("valuesFiles"),
            "lie over the chart's own values.yaml here; in Flux they take its place",
        );
    }
    for (field, what) in [
        ("version", "is not needed: the chart is taken as it is committed"),
        ("reconcileStrategy", "is not needed: a change of the chart's files is enough"),
    ] {
        chart.note(field, what, report);
    }
    chart.left(
        "verify",
        "signatures of charts are not checked",
        "Let the forge take only signed commits",
        report,
    );
    chart.pass("interval");
    let default =
        namespace.map_or_else(|| head.name.clone(), |namespace| format!("{namespace}-{}", head.name));
    let release = spec.text("releaseName", report).or(Some(default));
    spec.left(
        "valuesFrom",
        "values from ConfigMaps and Secrets were not carried over",
        "Commit the values; encrypt secret ones with SOPS in a value file",
        report,
    );
    Helm {
        release_name: shared::at_most(release, 53, "spec.releaseName", report),
        value_files: files.iter().map(|file| format!("/{}", file.trim_start_matches("./"))).collect(),
        ignore_missing_value_files: chart.flag("ignoreMissingValuesFiles", report).unwrap_or(false),
        values: spec.map("values", report).filter(|values| !values.is_empty()),
        ..Helm::default()
    }
}

/// Flux leaves drift of a release alone unless it is told otherwise.
fn drift(spec: &mut Fields, sync: &mut SyncPolicy, report: &mut Report) {
    sync.drift = Drift::Report;
    let Some(mut part) = spec.part("driftDetection", report) else { return };
    if part.text("mode", report).as_deref() == Some("enabled") {
        sync.drift = Drift::Revert;
    }
    for mut ignore in part.parts("ignore", report) {
        let paths = ignore.texts("paths", report);
        let mut entry = IgnoreDifference {
            group: Some("*".to_owned()),
            kind: "*".to_owned(),
            json_pointers: paths,
            ..IgnoreDifference::default()
        };
        if let Some(mut target) = ignore.part("target", report) {
            entry.kind = target.text("kind", report).unwrap_or(entry.kind);
            entry.group = target.text("group", report).or(entry.group);
            entry.name = target.text("name", report);
            entry.namespace = target.text("namespace", report);
            target.pass("version");
            for selector in ["labelSelector", "annotationSelector"] {
                target.left(
                    selector,
                    "objects cannot be chosen by it",
                    "Name the objects in sync.ignoreDifferences",
                    report,
                );
            }
            target.finish(report);
        }
        ignore.finish(report);
        if !entry.json_pointers.is_empty() {
            sync.ignore_differences.push(entry);
        }
    }
    part.finish(report);
}

/// What Helm is told for its actions: rendered charts are applied, no release is kept.
fn actions(spec: &mut Fields, sync: &mut SyncPolicy, helm: &mut Helm, report: &mut Report) {
    for action in ["install", "upgrade"] {
        let Some(mut part) = spec.part(action, report) else { continue };
        if action == "install" {
            sync.create_namespace = part.flag("createNamespace", report).unwrap_or(false);
        }
        if part.text("crds", report).as_deref() == Some("Skip") && action == "install" {
            helm.skip_crds = true;
        }
        if let Some(mut remediation) = part.part("remediation", report) {
            let retries = remediation.number("retries", report);
            if let Some(limit) = retries.and_then(|retries| u32::try_from(retries).ok()) {
                sync.retry = Some(Retry { limit: Some(limit.min(1000)), ..Retry::default() });
            }
            remediation.left(
                "strategy",
                "a failed revision is not rolled back by itself",
                "Use windlass undo, or spec.progressive with onFailure: Rollback",
                report,
            );
            remediation.left(
                "remediateLastFailure",
                "a failed revision is not rolled back by itself",
                "Use windlass undo, or spec.progressive with onFailure: Rollback",
                report,
            );
            remediation.pass("ignoreTestFailures");
            remediation.finish(report);
        }
        for flag in
            ["force", "disableHooks", "disableSchemaValidation", "disableOpenAPIValidation", "strategy"]
        {
            part.left(
                flag,
                "is for Helm's own installation, which is not used: charts are rendered and applied",
                "Check with windlass diff that the chart gives what you want",
                report,
            );
        }
        for known in [
            "timeout",
            "replace",
            "disableWait",
            "disableWaitForJobs",
            "cleanupOnFail",
            "preserveValues",
            "disableTakeOwnership",
            "serverSideApply",
        ] {
            part.pass(known);
        }
        part.finish(report);
    }
    for action in ["rollback", "uninstall"] {
        spec.note(action, "is not needed: charts are rendered and applied, no release is kept", report);
    }
    spec.left(
        "test",
        "tests of the chart are not run after an upgrade",
        "Make a Job with the annotation windlass.dev/hook: PostSync of them",
        report,
    );
}

fn rest(mut spec: Fields, report: &mut Report) {
    spec.left(
        "postRenderers",
        "patches on what the chart renders were not carried over",
        "Make values of the chart of them, or a kustomization over the rendered chart",
        report,
    );
    spec.left(
        "commonMetadata",
        "labels and annotations on every object were not carried over",
        "Set them by values of the chart",
        report,
    );
    for field in ["storageNamespace", "maxHistory", "persistentClient", "waitStrategy"] {
        spec.note(field, "is not needed: charts are rendered and applied, no release is kept", report);
    }
    // Drift is seen by event, news by the interval of the repository.
    spec.pass("interval");
    spec.finish(report);
}
