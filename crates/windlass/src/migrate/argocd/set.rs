//! `ApplicationSet`: lists are expanded, other generators are told with what replaces them.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::GROUP;
use crate::migrate::{
    fields::{Fields, scalar},
    objects::Head,
    report::Report,
};

/// The Applications that the set would make, as far as that can be told without asking anybody.
pub(super) fn expand(head: &Head, object: Value, report: &mut Report) -> Vec<(Head, Value)> {
    report.about(&head.title());
    let mut fields = Fields::of("", object, report);
    let Some(mut spec) = fields.part("spec", report) else {
        report.refused("it has no spec", "Correct the object");
        return Vec::new();
    };
    let template = spec.value("template").unwrap_or_default();
    let elements = elements(&mut spec, report);
    let preserve = rest(&mut spec, report);
    spec.finish(report);
    let mut applications = Vec::new();
    for (at, element) in elements.into_iter().enumerate() {
        match fill(&template, &element) {
            Ok(filled) => applications.push(application(head, filled, preserve)),
            Err(unknown) => report.left(
                "spec.template",
                format!("element {} does not fill in {{{{{unknown}}}}}", at + 1),
                "Only {{name}} and {{.name}} are filled in: write the Application of this element by hand",
            ),
        }
    }
    if !applications.is_empty() {
        report.converted();
        report.note(
            "spec.generators",
            format!(
                "the list became {} Applications; a new element is a new file from now on",
                applications.len()
            ),
        );
    }
    applications
}

/// Everything of a set but its generators and its template. Says whether what was applied stays.
fn rest(spec: &mut Fields, report: &mut Report) -> bool {
    let mut preserve = false;
    if let Some(mut policy) = spec.part("syncPolicy", report) {
        preserve = policy.flag("preserveResourcesOnDeletion", report).unwrap_or(false);
        policy.left("applicationsSync", "Applications are files now", "Nothing", report);
        policy.finish(report);
    }
    spec.left(
        "strategy",
        "the order over clusters was not carried over",
        "Make one Application with several destinations, and set spec.progressive with waves of clusters",
        report,
    );
    spec.left(
        "templatePatch",
        "was not carried over",
        "Write what it changes into the produced Applications",
        report,
    );
    spec.left("ignoreApplicationDifferences", "Applications are files now", "Nothing", report);
    spec.left("preservedFields", "Applications are files now", "Nothing", report);
    for flag in ["goTemplate", "goTemplateOptions", "applyNestedSelectors"] {
        spec.pass(flag);
    }
    preserve
}

/// The parameters of every element of every list.
fn elements(spec: &mut Fields, report: &mut Report) -> Vec<BTreeMap<String, String>> {
    let mut elements = Vec::new();
    for mut generator in spec.parts("generators", report) {
        if let Some(mut list) = generator.part("list", report) {
            for element in list.list("elements", report) {
                let mut parameters = BTreeMap::new();
                flatten("", &element, &mut parameters);
                elements.push(parameters);
            }
            list.left("elementsYaml", "was not read", "Write its elements as elements", report);
            list.left("template", "overrides the template and was not carried over", OVERRIDE, report);
            list.finish(report);
        }
        for (name, remedy) in [
            ("clusters", "Write one Application whose destinations[].selector selects the Clusters by label"),
            (
                "git",
                "Write one Application for each folder; an Application whose folder holds Applications applies them",
            ),
            (
                "matrix",
                "Write one Application for each folder, with destinations[].selector for the clusters",
            ),
            ("merge", "Write the Applications by hand"),
            ("scmProvider", "Write one Application for each repository"),
            ("pullRequest", "Use what Windlass has for environments of open changes"),
            ("clusterDecisionResource", "Use destinations[].selector over labels of the Clusters"),
            ("plugin", "Write the Applications by hand"),
        ] {
            generator.left(name, "this generator is not expanded", remedy, report);
        }
        generator.left(
            "selector",
            "was not carried over",
            "Leave out the produced Applications that it drops",
            report,
        );
        generator.finish(report);
    }
    elements
}

const OVERRIDE: &str = "Write what it overrides into the produced Applications";

/// `{a: {b: 1}}` is filled in as `a.b`.
fn flatten(path: &str, value: &Value, into: &mut BTreeMap<String, String>) {
    if let Value::Object(map) = value {
        for (key, value) in map {
            let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            flatten(&path, value, into);
        }
    } else if let Some(text) = scalar(value) {
        into.insert(path.to_owned(), text);
    }
}

/// The template with every `{{…}}` replaced. The error is the first that cannot be.
fn fill(value: &Value, parameters: &BTreeMap<String, String>) -> Result<Value, String> {
    Ok(match value {
        Value::String(text) => Value::String(fill_text(text, parameters)?),
        Value::Array(items) => {
            Value::Array(items.iter().map(|item| fill(item, parameters)).collect::<Result<_, _>>()?)
        }
        Value::Object(map) => {
            let mut filled = Map::new();
            for (key, value) in map {
                filled.insert(fill_text(key, parameters)?, fill(value, parameters)?);
            }
            Value::Object(filled)
        }
        other => other.clone(),
    })
}

fn fill_text(text: &str, parameters: &BTreeMap<String, String>) -> Result<String, String> {
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("{{") {
        filled.push_str(before);
        let Some((inner, tail)) = after.split_once("}}") else {
            return Err(after.chars().take(40).collect());
        };
        let name = inner.trim();
        let name = name.strip_prefix('.').unwrap_or(name);
        filled
            .push_str(parameters.get(name).ok_or_else(|| inner.trim().chars().take(40).collect::<String>())?);
        rest = tail;
    }
    filled.push_str(rest);
    Ok(filled)
}

/// A whole Application from a filled-in template.
fn application(set: &Head, mut filled: Value, preserve: bool) -> (Head, Value) {
    let mut metadata = match filled.get_mut("metadata").map(Value::take) {
        Some(Value::Object(map)) => map,
        _ => Map::new(),
    };
    if !metadata.contains_key("namespace") {
        metadata.insert("namespace".to_owned(), set.namespace.clone().into());
    }
    // The controller of sets adds it by itself.
    if !preserve && !metadata.contains_key("finalizers") {
        metadata.insert("finalizers".to_owned(), json!(["resources-finalizer.argocd.argoproj.io"]));
    }
    let spec = filled.get_mut("spec").map(Value::take).unwrap_or_default();
    let object = json!({
        "apiVersion": format!("{GROUP}/v1alpha1"),
        "kind": "Application",
        "metadata": metadata,
        "spec": spec,
    });
    (Head::of(&object), object)
}
