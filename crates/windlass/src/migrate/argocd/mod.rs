//! Argo CD: `Application`, `ApplicationSet`, `AppProject`, the Secrets of repositories and clusters.

mod application;
mod destination;
mod helm;
mod ignore;
mod kustomize;
mod project;
mod repositories;
mod set;
mod source;
mod sync;

use serde_json::Value;

use self::{destination::Clusters, project::Projects, repositories::Repositories};
use super::{
    Options,
    objects::{Head, Produced},
    report::Report,
};

const GROUP: &str = "argoproj.io";
/// Label of the Secrets that belong to Argo CD.
pub(super) const SECRET_TYPE: &str = "argocd.argoproj.io/secret-type";

/// `ConfigMap`s of Argo CD that are read.
pub(super) const SETTINGS: [&str; 2] = [repositories::KNOWN_HOSTS, repositories::AUTHORITIES];

/// What Applications refer to.
struct Context<'a> {
    options: &'a Options,
    clusters: Clusters,
    projects: Projects,
    repositories: Repositories,
}

/// The objects of Argo CD, by what they are.
#[derive(Default)]
struct Given {
    applications: Vec<(Head, Value)>,
    sets: Vec<(Head, Value)>,
    projects: Vec<(Head, Value)>,
    clusters: Vec<(Head, Value)>,
    repositories: Vec<(Head, Value)>,
    settings: Vec<(Head, Value)>,
}

/// Converts all of them.
pub(super) fn convert(objects: Vec<Value>, options: &Options, report: &mut Report) -> Produced {
    let given = sort(objects, report);
    let mut produced = Produced::default();
    let clusters = Clusters::read(given.clusters, options, &mut produced, report);
    let projects = Projects::read(given.projects, report);
    let repositories = Repositories::read(given.repositories, &given.settings, report);
    let mut context = Context { options, clusters, projects, repositories };
    let mut applications = given.applications;
    for (head, set) in given.sets {
        applications.extend(set::expand(&head, set, report));
    }
    for (head, object) in applications {
        application::convert(&head, object, &mut context, &mut produced, report);
    }
    context.projects.tell_unused(report);
    context.repositories.tell_unused(report);
    produced
}

fn sort(objects: Vec<Value>, report: &mut Report) -> Given {
    let mut given = Given::default();
    for object in objects {
        let head = Head::of(&object);
        let label = object
            .pointer("/metadata/labels")
            .and_then(|labels| labels.get(SECRET_TYPE))
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned();
        let place = match (head.group.as_str(), head.kind.as_str(), label.as_str()) {
            (GROUP, "Application", _) => &mut given.applications,
            (GROUP, "ApplicationSet", _) => &mut given.sets,
            (GROUP, "AppProject", _) => &mut given.projects,
            ("", "Secret", "cluster") => &mut given.clusters,
            ("", "Secret", "repository" | "repo-creds") => &mut given.repositories,
            ("", "ConfigMap", _) if SETTINGS.contains(&head.name.as_str()) => &mut given.settings,
            _ => {
                other(&head, &label, report);
                continue;
            }
        };
        place.push((head, object));
    }
    given
}

fn other(head: &Head, label: &str, report: &mut Report) {
    let rollouts = ["Rollout", "AnalysisTemplate", "ClusterAnalysisTemplate", "AnalysisRun", "Experiment"];
    let own = head.group == GROUP && !rollouts.contains(&head.kind.as_str());
    let settings = ["argocd-cm", "argocd-rbac-cm", "argocd-cmd-params-cm", "argocd-notifications-cm"];
    if own || !label.is_empty() || (head.kind == "ConfigMap" && settings.contains(&head.name.as_str())) {
        report.about(&head.title());
        report.refused(
            "this kind of object of Argo CD has no counterpart here",
            "Look what it sets: health checks belong into spec.health of Applications, accounts and rights into RBAC",
        );
    } else {
        report.passed_over(if head.kind.is_empty() { "object without a kind" } else { &head.kind });
    }
}
