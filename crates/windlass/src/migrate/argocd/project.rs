//! Projects: windows, and the limits that they set to their Applications.

use std::collections::BTreeMap;

use serde_json::Value;
use windlass_api::application::{
    Destination, SyncPolicy,
    sync::{Window, WindowKind},
};

use super::destination::Found;
use crate::migrate::{fields::Fields, names, objects::Head, report::Report};

/// Most namespaces that a destination can name.
const MAX_NAMESPACES: usize = 64;

/// A window, and the Applications that it is for.
#[derive(Debug)]
struct Bound {
    window: Window,
    applications: Vec<String>,
    namespaces: Vec<String>,
    clusters: Vec<String>,
    every: bool,
}

/// A destination that a project allows.
#[derive(Debug)]
struct Allowed {
    server: Option<String>,
    name: Option<String>,
    namespace: String,
}

/// An account that a project wants to be used.
#[derive(Debug)]
struct Account {
    server: String,
    namespace: String,
    name: String,
}

/// What a project says to its Applications.
#[derive(Debug, Default)]
struct Project {
    title: String,
    windows: Vec<Bound>,
    allowed: Vec<Allowed>,
    accounts: Vec<Account>,
    cluster_scoped: bool,
    used: bool,
}

/// All projects, by name.
#[derive(Debug, Default)]
pub(super) struct Projects {
    known: BTreeMap<String, Project>,
}

impl Projects {
    /// Reads them. What cannot be said by an Application is told once, of the project.
    pub(super) fn read(objects: Vec<(Head, Value)>, report: &mut Report) -> Self {
        let mut known = BTreeMap::new();
        for (head, object) in objects {
            report.about(&head.title());
            let mut fields = Fields::of("", object, report);
            if let Some(spec) = fields.part("spec", report) {
                known.insert(head.name.clone(), project(head.title(), spec, report));
                report.converted();
            }
        }
        Self { known }
    }

    /// Lays what the project says over an Application.
    pub(super) fn bind(
        &mut self,
        name: &str,
        head: &Head,
        found: &Found,
        destination: &mut Destination,
        policy: &mut SyncPolicy,
        report: &mut Report,
    ) {
        let Some(project) = self.known.get_mut(name) else {
            // The default project allows everything, as Argo CD installs it.
            if name != "default" {
                report.left(
                    "spec.project",
                    format!("the project {name} was not given: its windows and limits are missing"),
                    "Give the AppProject as well",
                );
            }
            return;
        };
        project.used = true;
        let namespace = destination.namespace.clone().unwrap_or_default();
        let windows = project.windows.iter().filter(|bound| bound.fits(&head.name, &namespace, found));
        policy.windows = windows.map(|bound| bound.window.clone()).collect();
        project.limit(found, destination, report);
        let account = project.accounts.iter().find(|account| account.fits(&namespace, found));
        if let Some(account) = account {
            account.set(head, policy, report);
        }
    }

    /// A project without an Application had no effect.
    pub(super) fn tell_unused(&self, report: &mut Report) {
        for project in self.known.values().filter(|project| !project.used) {
            let says = !project.windows.is_empty() || !project.allowed.is_empty();
            if says {
                report.about(&project.title);
                report.note("", "none of the given Applications is in it: it had no effect");
            }
        }
    }
}

impl Bound {
    fn fits(&self, application: &str, namespace: &str, found: &Found) -> bool {
        let any = |patterns: &[String], text: &str| patterns.iter().any(|p| names::matches(p, text));
        let cluster = [&found.server, &found.name].into_iter().flatten();
        let mut cluster = cluster.map(|text| any(&self.clusters, text));
        let checks = [
            (!self.applications.is_empty()).then(|| any(&self.applications, application)),
            (!self.namespaces.is_empty()).then(|| any(&self.namespaces, namespace)),
            (!self.clusters.is_empty()).then(|| cluster.any(|fits| fits)),
        ];
        let mut asked = checks.into_iter().flatten();
        if self.every { asked.all(|fits| fits) } else { asked.any(|fits| fits) }
    }
}

impl Account {
    fn fits(&self, namespace: &str, found: &Found) -> bool {
        names::matches(&self.namespace, namespace)
            && found.server.as_deref().is_none_or(|server| names::matches(&self.server, server))
    }

    /// `name`, or `namespace:name`: ours is always in the namespace of the Application.
    fn set(&self, head: &Head, policy: &mut SyncPolicy, report: &mut Report) {
        let name = self.name.rsplit(':').next().unwrap_or_default();
        if !names::is_name(name) {
            report.left("spec.project", "names an account that can be none", "Correct the project");
            return;
        }
        policy.service_account_name = Some(name.to_owned());
        report.left(
            "spec.project",
            format!("objects were applied as the account {} on the target cluster", self.name),
            format!(
                "sync.serviceAccountName was set to {name}: it is looked for in the namespace {} of the Application; \
                 give that account its rights",
                head.namespace
            ),
        );
    }
}

impl Project {
    /// Namespaces of the allowed destinations that are this cluster.
    fn limit(&self, found: &Found, destination: &mut Destination, report: &mut Report) {
        if self.allowed.is_empty() {
            return;
        }
        let fits = |pattern: &Option<String>, text: &Option<String>| match (pattern, text) {
            (None, _) => true,
            (Some(pattern), Some(text)) => names::matches(pattern, text),
            (Some(pattern), None) => pattern == "*",
        };
        let mut namespaces: Vec<String> = self
            .allowed
            .iter()
            .filter(|allowed| {
                let named = allowed.server.is_some() || allowed.name.is_some();
                named && fits(&allowed.server, &found.server) && fits(&allowed.name, &found.name)
            })
            .map(|allowed| allowed.namespace.clone())
            .collect();
        namespaces.sort();
        namespaces.dedup();
        if namespaces.iter().any(|namespace| namespace == "*") {
            return;
        }
        if namespaces.is_empty() || namespaces.len() > MAX_NAMESPACES {
            report.left(
                "spec.project",
                format!("{} allows {} namespaces on this cluster", self.title, namespaces.len()),
                "Set destinations[].allowedNamespaces by hand (at most 64)",
            );
            return;
        }
        destination.allowed_namespaces = namespaces;
        destination.allow_cluster_scoped = self.cluster_scoped;
    }
}

fn project(title: String, mut spec: Fields, report: &mut Report) -> Project {
    let mut project = Project { title, ..Project::default() };
    for part in spec.parts("syncWindows", report) {
        project.windows.extend(window(part, report));
    }
    for mut part in spec.parts("destinations", report) {
        let allowed = Allowed {
            server: part.text("server", report).map(|server| server.trim_end_matches('/').to_owned()),
            name: part.text("name", report),
            namespace: part.text("namespace", report).unwrap_or_else(|| "*".to_owned()),
        };
        let denies = [&allowed.server, &allowed.name, &Some(allowed.namespace.clone())]
            .iter()
            .any(|text| text.as_deref().is_some_and(|text| text.starts_with('!')));
        let path = part.at("namespace");
        part.finish(report);
        if denies {
            report.left(
                path,
                "a destination that is denied cannot be said",
                "Name the namespaces that are allowed in destinations[].allowedNamespaces",
            );
        } else {
            project.allowed.push(allowed);
        }
    }
    for mut part in spec.parts("destinationServiceAccounts", report) {
        project.accounts.push(Account {
            server: part.text("server", report).unwrap_or_else(|| "*".to_owned()),
            namespace: part.text("namespace", report).unwrap_or_else(|| "*".to_owned()),
            name: part.text("defaultServiceAccount", report).unwrap_or_default(),
        });
        part.finish(report);
    }
    kinds(&mut spec, &mut project, report);
    limits(&mut spec, report);
    spec.finish(report);
    project
}

/// Cluster-scoped kinds are allowed or not; which ones cannot be said.
fn kinds(spec: &mut Fields, project: &mut Project, report: &mut Report) {
    const REMEDY: &str =
        "Bound it by RBAC of the account in sync.serviceAccountName, or by an admission policy";
    let list = spec.list("clusterResourceWhitelist", report);
    project.cluster_scoped = !list.is_empty();
    if !list.is_empty() && !list.iter().any(|entry| entry["group"] == "*" && entry["kind"] == "*") {
        report.left(
            "spec.clusterResourceWhitelist",
            "all cluster-scoped kinds are allowed instead of some",
            REMEDY,
        );
    }
    for field in ["clusterResourceBlacklist", "namespaceResourceBlacklist", "namespaceResourceWhitelist"] {
        spec.left(field, "kinds that are allowed or denied were not carried over", REMEDY, report);
    }
}

/// What an Application cannot say.
fn limits(spec: &mut Fields, report: &mut Report) {
    let repositories = spec.texts("sourceRepos", report);
    if !repositories.is_empty() && !repositories.iter().any(|repository| repository == "*") {
        report.left(
            "spec.sourceRepos",
            "repositories that are allowed were not carried over",
            "Let an admission policy check spec.source.repoURL of Applications",
        );
    }
    for (field, what, remedy) in [
        (
            "roles",
            "roles and tokens were not carried over",
            "Give people rights on applications.windlass.dev by RBAC",
        ),
        ("signatureKeys", "signatures of commits are not checked", "Let the forge take only signed commits"),
        (
            "sourceIntegrity",
            "signatures of commits are not checked",
            "Let the forge take only signed commits",
        ),
        (
            "orphanedResources",
            "objects that belong to no Application are not told",
            "List what lacks the label windlass.dev/application",
        ),
        (
            "permitOnlyProjectScopedClusters",
            "clusters are not tied to projects",
            "Let an admission policy check spec.destinations of Applications",
        ),
        (
            "sourceNamespaces",
            "namespaces of Applications were not carried over",
            "Applications may be in any namespace: bound by RBAC who may create them",
        ),
    ] {
        spec.left(field, what, remedy, report);
    }
    spec.pass("description");
}

fn window(mut part: Fields, report: &mut Report) -> Option<Bound> {
    let path = part.at("");
    let path = path.trim_end_matches('.').to_owned();
    let kind = match part.text("kind", report).as_deref() {
        Some("allow") => Some(WindowKind::Allow),
        Some("deny") => Some(WindowKind::Deny),
        _ => None,
    };
    let schedule = part.text("schedule", report);
    let duration = part.duration("duration", report);
    let bound = (kind, schedule, duration);
    let (time_zone, manual_sync) = (part.text("timeZone", report), part.flag("manualSync", report));
    let result = if let (Some(kind), Some(schedule), Some(duration)) = bound {
        Some(Bound {
            window: Window { kind, schedule, duration, time_zone, manual_sync: manual_sync.unwrap_or(false) },
            applications: part.texts("applications", report),
            namespaces: part.texts("namespaces", report),
            clusters: part.texts("clusters", report),
            every: part.flag("andOperator", report).unwrap_or(false),
        })
    } else {
        report.left(path, "is no whole window and was not carried over", "Correct the project");
        return None;
    };
    part.note("syncOverrun", "is not needed: a sync that has begun is ended", report);
    part.pass("description");
    part.finish(report);
    result
}
