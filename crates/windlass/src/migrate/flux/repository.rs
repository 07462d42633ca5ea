//! `GitRepository`: address, revision, credentials.

use serde_json::Value;
use windlass_api::{
    application::{LocalSecret, source::Source},
    duration::Duration,
};

use super::Context;
use crate::migrate::{
    fields::Fields,
    names,
    objects::{Head, Produced, secret_data},
    report::Report,
    shared,
};

/// The branch that Flux follows when none is named.
const DEFAULT_BRANCH: &str = "master";

/// What is read of it.
#[derive(Clone, Debug)]
pub(super) struct Repository {
    /// `GitRepository flux-system/fleet`
    pub(super) title: String,
    /// How often it is asked.
    pub(super) interval: Option<Duration>,
    /// It rests, and so does what comes from it.
    pub(super) suspend: bool,
    /// Something that is converted comes from it.
    pub(super) used: bool,
    url: String,
    revision: String,
    secret: Option<String>,
}

/// Reads it. None when it says no address.
pub(super) fn read(head: &Head, object: Value, report: &mut Report) -> Option<Repository> {
    let mut fields = Fields::of("", object, report);
    let mut spec = fields.part("spec", report)?;
    let Some(url) = spec.text("url", report) else {
        report.refused("it has no url", "Correct the object");
        return None;
    };
    let revision = revision(spec.part("ref", report), report);
    let mut secret = spec.part("secretRef", report);
    let repository = Repository {
        title: head.title(),
        interval: spec.duration("interval", report),
        suspend: spec.flag("suspend", report).unwrap_or(false),
        used: false,
        url,
        revision,
        secret: secret.as_mut().and_then(|part| part.text("name", report)),
    };
    if spec.text("provider", report).is_some_and(|provider| provider != "generic") {
        report.left(
            "spec.provider",
            "credentials of this provider are not fetched",
            "Put a token (username and password, or bearerToken) or an ssh key into the Secret",
        );
    }
    rest(&mut spec, report);
    spec.finish(report);
    Some(repository)
}

fn rest(spec: &mut Fields, report: &mut Report) {
    for (field, what, remedy) in [
        (
            "ignore",
            "files that are left out were not carried over",
            "Set source.directory.exclude, or a path that holds only what is wanted",
        ),
        (
            "include",
            "other repositories are not laid into this one",
            "Commit the files, or make Applications of their own",
        ),
        (
            "proxySecretRef",
            "the proxy was not carried over",
            "Add proxy (and noProxy) to the Secret of the repository",
        ),
        ("verify", "signatures of commits are not checked", "Let the forge take only signed commits"),
        (
            "recurseSubmodules",
            "submodules are not fetched",
            "Commit the files, or make an Application for the other repository",
        ),
        ("serviceAccountName", "was not carried over", "Put credentials into the Secret of the repository"),
    ] {
        spec.left(field, what, remedy, report);
    }
    spec.note("sparseCheckout", "is not needed: only what is rendered is read", report);
    for known in ["timeout", "gitImplementation", "accessFrom"] {
        spec.pass(known);
    }
}

/// What Flux follows: a name counts before a commit, that before versions, tag and branch.
fn revision(part: Option<Fields>, report: &mut Report) -> String {
    let Some(mut part) = part else { return DEFAULT_BRANCH.to_owned() };
    let branch = part.text("branch", report);
    let semver = part.text("semver", report);
    if let Some(range) = &semver {
        report.left(
            part.at("semver"),
            format!("the range of versions {range} cannot be followed"),
            "Name a branch or a tag in source.revision",
        );
    }
    let chosen = [part.text("name", report), part.text("commit", report), part.text("tag", report), branch];
    part.finish(report);
    let chosen = chosen.into_iter().flatten().next();
    shared::at_most(chosen, 255, "spec.ref", report).unwrap_or_else(|| DEFAULT_BRANCH.to_owned())
}

impl Context<'_> {
    /// The source that `sourceRef` of the object that is spoken of names. None when it is none of Git, or not given.
    pub(super) fn source(
        &mut self,
        mut reference: Fields,
        from: &Head,
        target: &Head,
        produced: &mut Produced,
        report: &mut Report,
    ) -> Option<(Source, Repository)> {
        let kind = reference.text("kind", report).unwrap_or_default();
        let name = reference.text("name", report).unwrap_or_default();
        let namespace = reference.text("namespace", report).unwrap_or_else(|| from.namespace.clone());
        reference.pass("apiVersion");
        reference.finish(report);
        if kind != "GitRepository" {
            report.refused(
                format!("it comes from the {kind} {name}"),
                "Only Git is a source here: commit the manifests or the chart",
            );
            return None;
        }
        let Some(repository) = self.repositories.get_mut(&(namespace.clone(), name.clone())) else {
            report.refused(
                format!("the GitRepository {namespace}/{name} was not given"),
                "Give the GitRepository as well",
            );
            return None;
        };
        repository.used = true;
        let repository = repository.clone();
        let subject = report.subject().to_owned();
        report.about(&repository.title);
        report.converted();
        report.about(&subject);
        let secret = repository.secret.as_deref();
        let secret_ref = secret.and_then(|name| self.secret(&namespace, name, target, produced, report));
        let source = Source {
            repo_url: repository.url.clone(),
            secret_ref,
            revision: Some(repository.revision.clone()),
            path: None,
            directory: None,
            kustomize: None,
            helm: None,
            decryption: None,
        };
        Some((source, repository))
    }

    /// A Secret in the namespace of the Application: the one that is there, or a copy.
    pub(super) fn secret(
        &self,
        namespace: &str,
        name: &str,
        target: &Head,
        produced: &mut Produced,
        report: &mut Report,
    ) -> Option<LocalSecret> {
        if !names::is_name(name) {
            report.left("secretRef", "names no Secret", "Correct the object");
            return None;
        }
        if namespace != target.namespace {
            match self.secrets.get(&(namespace.to_owned(), name.to_owned())) {
                Some(object) => {
                    let name = produced.secret(&target.namespace, name, secret_data(object));
                    return Some(LocalSecret { name });
                }
                None => report.left(
                    "secretRef",
                    format!("the Secret {namespace}/{name} is not in the namespace of the Application"),
                    format!("Copy it to the namespace {}, or give it as well", target.namespace),
                ),
            }
        }
        Some(LocalSecret { name: name.to_owned() })
    }
}
