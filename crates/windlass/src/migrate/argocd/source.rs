//! Where the manifests of an Argo CD Application are.

use std::collections::BTreeMap;

use windlass_api::application::source::{Directory, Source};

use super::{helm, kustomize};
use crate::migrate::{fields::Fields, names, report::Report, shared};

/// Other sources of the same Application that value files may point into: by their `ref`, address and revision.
pub(super) type References = BTreeMap<String, (String, Option<String>)>;

/// A source, and the name that it has among several.
pub(super) type Named = (Option<String>, Source);

/// The sources of an Application. None when it cannot be converted; the report says why.
pub(super) fn read(spec: &mut Fields, types: &[String], report: &mut Report) -> Option<Vec<Named>> {
    if spec.has("sourceHydrator") {
        report.refused(
            "its source is hydrated",
            "Point source.path at the folder of the dry source: Windlass renders it by itself",
        );
        return None;
    }
    let mut parts = spec.parts("sources", report);
    if parts.is_empty() {
        parts.extend(spec.part("source", report));
    } else {
        // Argo CD does not look at it either when there are several.
        spec.pass("source");
    }
    if parts.is_empty() {
        report.refused("it has no source", "Correct the object");
        return None;
    }
    let mut drafts = Vec::new();
    let mut references = References::new();
    for mut part in parts {
        let draft = Draft::of(&mut part, report)?;
        if let Some(reference) = &draft.reference {
            references.insert(reference.clone(), (draft.repo.clone(), draft.revision.clone()));
        }
        drafts.push((draft, part));
    }
    let several = drafts.len() > 1;
    let mut sources = Vec::new();
    for (at, (draft, part)) in drafts.into_iter().enumerate() {
        if several && draft.reference.is_some() && draft.path.is_none() && draft.chart.is_none() {
            part.finish(report);
            continue;
        }
        let found = types.get(at).map(String::as_str);
        let label = draft.name.clone();
        sources.push((label, draft.finish(part, found, &references, report)?));
    }
    if sources.is_empty() {
        report.refused("none of its sources has a folder", "Correct the object");
        return None;
    }
    Some(sources)
}

/// What every source has.
struct Draft {
    repo: String,
    revision: Option<String>,
    path: Option<String>,
    chart: Option<String>,
    reference: Option<String>,
    name: Option<String>,
}

impl Draft {
    fn of(part: &mut Fields, report: &mut Report) -> Option<Self> {
        let Some(repo) = part.text("repoURL", report) else {
            report.refused("a source has no repoURL", "Correct the object");
            return None;
        };
        let field = part.at("targetRevision");
        let revision = part.text("targetRevision", report);
        let chart = part.text("chart", report);
        Some(Self {
            repo,
            // Of a chart it is a version.
            revision: revision.filter(|_| chart.is_none()).and_then(|text| revision_of(text, &field, report)),
            path: names::folder(part.text("path", report)),
            chart,
            reference: part.text("ref", report),
            name: part.text("name", report),
        })
    }

    fn finish(
        self,
        mut part: Fields,
        found: Option<&str>,
        references: &References,
        report: &mut Report,
    ) -> Option<Source> {
        if let Some(chart) = &self.chart {
            report.refused(
                format!("the chart {chart} comes from a Helm repository"),
                "Charts are read from Git: commit the chart (helm pull --untar) and point source.path at its folder",
            );
            return None;
        }
        if self.repo.starts_with("oci://") {
            report.refused("its source is an OCI artifact", "Commit the manifests to Git");
            return None;
        }
        if part.has("plugin") || found == Some("Plugin") {
            report.refused(
                "it is rendered by a plug-in",
                "Commit what the plug-in renders, or express it with kustomize or a chart",
            );
            return None;
        }
        let base = part.at("");
        // An empty part says nothing about the folder.
        let mut renderer = |key: &str, report: &mut Report| {
            if part.has(key) { part.part(key, report) } else { None }
        };
        let directory = renderer("directory", report);
        let kustomize = renderer("kustomize", report);
        let helm = renderer("helm", report);
        part.finish(report);
        let mut source = Source {
            repo_url: self.repo,
            secret_ref: None,
            revision: self.revision,
            path: self.path,
            directory: None,
            kustomize: kustomize.and_then(|part| kustomize::read(part, report)),
            helm: None,
            decryption: None,
        };
        source.helm = helm
            .map(|part| helm::read(part, &source.repo_url, source.revision.as_deref(), references, report));
        source.directory = directory.map(|part| directory_of(part, report));
        one_renderer(&mut source, found, &base, report);
        Some(source)
    }
}

/// At most one renderer is named; a folder that names none is looked at as Argo CD would.
fn one_renderer(source: &mut Source, found: Option<&str>, base: &str, report: &mut Report) {
    let base = base.trim_end_matches('.');
    let several = usize::from(source.directory.is_some())
        + usize::from(source.kustomize.is_some())
        + usize::from(source.helm.is_some());
    if several > 1 {
        let keep = match found {
            Some("Helm") => "helm",
            Some("Kustomize") => "kustomize",
            Some("Directory") => "directory",
            _ if source.helm.is_some() => "helm",
            _ => "kustomize",
        };
        report.left(
            base,
            format!("sets several of directory, kustomize and helm; {keep} was kept"),
            "Check that it is what the folder holds",
        );
        source.directory.take_if(|_| keep != "directory");
        source.kustomize.take_if(|_| keep != "kustomize");
        source.helm.take_if(|_| keep != "helm");
        return;
    }
    if several == 1 {
        return;
    }
    match found {
        Some("Directory") => source.directory = Some(Directory { recurse: false, ..Directory::default() }),
        Some(_) => {}
        None => report.left(
            base,
            "does not say whether the folder is plain, kustomize or a chart: of a plain folder Argo CD reads only the \
             files in it, Windlass also those in folders below",
            "If it is plain and has folders below, set source.directory.recurse to false; converted from the cluster, \
             the status tells",
        ),
    }
}

fn directory_of(mut part: Fields, report: &mut Report) -> Directory {
    let directory = Directory {
        recurse: part.flag("recurse", report).unwrap_or(false),
        include: part.text("include", report).into_iter().collect(),
        exclude: part.text("exclude", report).into_iter().collect(),
    };
    if directory.recurse && directory.include.iter().chain(&directory.exclude).any(|glob| glob.contains('*'))
    {
        report.note(
            part.at("include"),
            "globs: in Argo CD `*` also stands for slashes; write `**/` where folders below are meant",
        );
    }
    part.left(
        "jsonnet",
        "Jsonnet is not rendered and was not carried over",
        "Commit what it renders, or express it with kustomize or a chart",
        report,
    );
    part.finish(report);
    directory
}

/// A branch, tag or commit. `HEAD` is the default branch; ranges of versions are not followed.
fn revision_of(text: String, field: &str, report: &mut Report) -> Option<String> {
    if text == "HEAD" {
        return None;
    }
    let range = text.contains(['*', '<', '>', '=', '~', '^', '|', ' '])
        || text.split('.').any(|part| part == "x" || part == "X");
    if range {
        report.left(
            field,
            format!("the range of versions {text} cannot be followed; the default branch is"),
            "Name a branch or a tag in source.revision",
        );
        return None;
    }
    shared::at_most(Some(text), 255, field, report)
}
