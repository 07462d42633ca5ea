//! Flux: `Kustomization` and `HelmRelease` with the `GitRepository` that they come from; `Receiver`s.

mod clusters;
mod common;
mod health;
mod helm_release;
mod kustomization;
mod repository;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use self::{clusters::Clusters, repository::Repository};
use super::{
    Options,
    fields::Fields,
    names,
    objects::{Head, Produced},
    report::Report,
};

/// What `Kustomization`s and `HelmRelease`s refer to.
struct Context<'a> {
    options: &'a Options,
    repositories: BTreeMap<(String, String), Repository>,
    secrets: BTreeMap<(String, String), Value>,
    clusters: Clusters,
    /// Names of the Kustomizations: a `HelmRelease` of the same name has to be called otherwise.
    kustomizations: BTreeSet<(String, String)>,
    /// Who waits for whom: title, and namespace and name of the other Application.
    waits: Vec<(String, String, String)>,
}

impl Context<'_> {
    /// Name of the Application that a `HelmRelease` becomes.
    fn release_name(&self, namespace: &str, name: &str) -> String {
        if self.kustomizations.contains(&(namespace.to_owned(), name.to_owned())) {
            names::sanitized(&format!("{name}-helm"))
        } else {
            name.to_owned()
        }
    }
}

/// Converts all of them.
pub(super) fn convert(objects: Vec<Value>, options: &Options, report: &mut Report) -> Produced {
    let mut context = Context {
        options,
        repositories: BTreeMap::new(),
        secrets: BTreeMap::new(),
        clusters: Clusters::default(),
        kustomizations: BTreeSet::new(),
        waits: Vec::new(),
    };
    let (mut kustomizations, mut releases) = (Vec::new(), Vec::new());
    for object in objects {
        let head = Head::of(&object);
        let key = (head.namespace.clone(), head.name.clone());
        match (head.group.as_str(), head.kind.as_str()) {
            ("kustomize.toolkit.fluxcd.io", "Kustomization") => {
                context.kustomizations.insert(key);
                kustomizations.push((head, object));
            }
            ("helm.toolkit.fluxcd.io", "HelmRelease") => releases.push((head, object)),
            ("source.toolkit.fluxcd.io", "GitRepository") => {
                report.about(&head.title());
                if let Some(repository) = repository::read(&head, object, report) {
                    context.repositories.insert(key, repository);
                }
            }
            ("notification.toolkit.fluxcd.io", "Receiver") => receiver(&head, object, report),
            ("", "Secret") => {
                context.secrets.insert(key, object);
            }
            (group, _) if group.ends_with(".fluxcd.io") => other(&head, report),
            _ => report.passed_over(if head.kind.is_empty() { "object without a kind" } else { &head.kind }),
        }
    }
    let mut produced = Produced::default();
    for (head, object) in kustomizations {
        kustomization::convert(&head, object, &mut context, &mut produced, report);
    }
    for (head, object) in releases {
        helm_release::convert(&head, object, &mut context, &mut produced, report);
    }
    for (title, namespace, name) in &context.waits {
        if !produced.has_application(namespace, name) {
            report.about(title);
            report.left(
                "spec.dependsOn",
                format!("{name} was not given or not converted: the Application would wait for it forever"),
                "Convert it too, or take the entry out of spec.dependsOn",
            );
        }
    }
    for (_, repository) in context.repositories.iter().filter(|(_, repository)| !repository.used) {
        report.about(&repository.title);
        report.note("", "nothing that was given comes from it: it had no effect");
    }
    produced
}

/// A hook that asks Flux to look: Windlass has one address for each forge.
fn receiver(head: &Head, object: Value, report: &mut Report) {
    report.about(&head.title());
    let mut fields = Fields::of("", object, report);
    let Some(mut spec) = fields.part("spec", report) else { return };
    let kind = spec.text("type", report).unwrap_or_default();
    let provider = match kind.as_str() {
        "github" | "gitlab" | "bitbucket" | "generic" => Some(kind.as_str()),
        "generic-hmac" => Some("generic"),
        "gitea" | "forgejo" => Some("gitea"),
        _ => None,
    };
    match provider {
        Some(provider) => report.left(
            "spec.type",
            format!("the {kind} hook is replaced by /hooks/{provider} of the controller"),
            format!(
                "Point the hook of the forge at /hooks/{provider} and put its token under the key {provider} into the \
                 Secret of the controller's setting hooksSecret"
            ),
        ),
        None => report.left(
            "spec.type",
            format!("there is no hook of the type {kind}"),
            "Only pushes to Git wake Applications: use a hook of the forge, or the generic one",
        ),
    }
    for known in ["events", "resources", "secretRef", "interval", "suspend", "resourceFilter"] {
        spec.pass(known);
    }
    spec.finish(report);
}

fn other(head: &Head, report: &mut Report) {
    report.about(&head.title());
    let remedy = match head.kind.as_str() {
        "HelmRepository" | "HelmChart" => "Charts are read from Git: commit the charts that are used",
        "OCIRepository" | "Bucket" | "ExternalArtifact" => "Commit the manifests to Git",
        "Alert" | "Provider" => "Follow Events and metrics of Windlass instead",
        "ImageRepository" | "ImagePolicy" | "ImageUpdateAutomation" => {
            "Let something else commit new image tags: Windlass does not write them"
        }
        _ => "Look up what it does",
    };
    report.refused("this kind of object of Flux has no counterpart here", remedy);
}
