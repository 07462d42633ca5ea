//! Helm, as Argo CD sets it.

use serde_json::{Map, Value};
use windlass_api::application::source::{Helm, HelmParameter};
use windlass_manifest::parse::{self, Limits};

use super::source::References;
use crate::migrate::{fields::Fields, report::Report, shared};

/// The fields that Windlass has too; the rest is told.
pub(super) fn read(
    mut part: Fields,
    repo: &str,
    revision: Option<&str>,
    references: &References,
    report: &mut Report,
) -> Helm {
    let mut value_files = Vec::new();
    for file in part.texts("valueFiles", report) {
        value_files.extend(value_file(&file, repo, revision, references, report));
    }
    let release = part.text("releaseName", report);
    let helm = Helm {
        release_name: shared::at_most(release, 53, &part.at("releaseName"), report),
        value_files,
        ignore_missing_value_files: part.flag("ignoreMissingValueFiles", report).unwrap_or(false),
        values: values(&mut part, report),
        parameters: part
            .parts("parameters", report)
            .into_iter()
            .filter_map(|p| parameter(p, report))
            .collect(),
        skip_crds: part.flag("skipCrds", report).unwrap_or(false),
        kube_version: part.text("kubeVersion", report),
        api_versions: part.texts("apiVersions", report),
    };
    part.left(
        "fileParameters",
        "values from files were not carried over",
        "Put the content of the files into a value file",
        report,
    );
    part.left(
        "passCredentials",
        "no chart is fetched, so no credentials are passed",
        "Commit the charts that this one depends on (helm dependency build)",
        report,
    );
    part.left(
        "namespace",
        "the release is told the destination's namespace",
        "Set destinations[].namespace to it if the chart asks for it",
        report,
    );
    part.left(
        "skipSchemaValidation",
        "values are checked against the chart's schema",
        "Correct the values or the schema",
        report,
    );
    part.note("skipTests", "is not needed: tests of a chart are never run", report);
    if part.text("version", report).is_some_and(|version| version != "v3") {
        report.left(
            part.at("version"),
            "charts are rendered by the controller's Helm",
            "Check that the chart renders with it (helm template)",
        );
    }
    part.finish(report);
    helm
}

/// `$ref/path` points into another source: it can be followed only within the same repository and revision.
fn value_file(
    file: &str,
    repo: &str,
    revision: Option<&str>,
    references: &References,
    report: &mut Report,
) -> Option<String> {
    const FIELD: &str = "spec.source.helm.valueFiles";
    if file.starts_with("http://") || file.starts_with("https://") || file.contains("://") {
        report.left(FIELD, format!("{file} is not in the repository"), "Commit the file to the repository");
        return None;
    }
    let Some((reference, path)) = file.strip_prefix('$').and_then(|rest| rest.split_once('/')) else {
        return Some(file.to_owned());
    };
    match references.get(reference) {
        Some((other, at)) if other == repo && at.as_deref() == revision => Some(format!("/{path}")),
        _ => {
            report.left(
                FIELD,
                format!("{file} is in another repository or at another revision"),
                "Commit the value file to the repository of the chart, or put the values into source.helm.values",
            );
            None
        }
    }
}

/// `valuesObject` wins over `values`, which is YAML in a text.
fn values(part: &mut Fields, report: &mut Report) -> Option<Map<String, Value>> {
    let object = part.map("valuesObject", report);
    let field = part.at("values");
    match (object, part.text("values", report)) {
        (Some(object), _) if !object.is_empty() => Some(object),
        (_, Some(text)) => values_of(&text, &field, report),
        _ => None,
    }
}

fn values_of(text: &str, field: &str, report: &mut Report) -> Option<Map<String, Value>> {
    let documents = parse::parse(text, &Limits::default()).unwrap_or_default();
    match documents.into_iter().next().map(|document| document.value) {
        Some(Value::Object(map)) => Some(map),
        Some(Value::Null) => None,
        _ => {
            report.left(
                field,
                "is no YAML mapping and was not read",
                "Put the values into source.helm.values",
            );
            None
        }
    }
}

fn parameter(mut part: Fields, report: &mut Report) -> Option<HelmParameter> {
    let name = part.text("name", report)?;
    let parameter = HelmParameter {
        name,
        value: part.text("value", report).unwrap_or_default(),
        force_string: part.flag("forceString", report).unwrap_or(false),
    };
    part.finish(report);
    Some(parameter)
}
