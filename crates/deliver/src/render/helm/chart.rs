//! The files of a chart and of what it depends on.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use windlass_manifest::parse;
use windlass_vcs::{
    id::TreeId,
    tree::{Globs, RepoPath},
};

use super::super::{
    Limits,
    key::Hasher,
    snapshot::{Snapshot, below, repo_path, resolve},
};
use crate::trouble::Trouble;

/// How deep dependencies may lie in each other.
const DEEPEST: usize = 16;

/// A chart, ready to be exported.
pub(super) struct Chart {
    /// By their paths from the root of the repository, dependencies put where helm looks for them.
    files: BTreeMap<String, Vec<u8>>,
    /// Folders that were read, with the place they go to.
    read: BTreeMap<String, TreeId>,
    bytes: u64,
}

/// What a chart says that it depends on.
struct Dependency {
    name: String,
    version: String,
    repository: String,
}

impl Chart {
    /// Reads the chart in a folder.
    pub(super) fn read(snapshot: &Snapshot, folder: &str, limits: &Limits) -> Result<Self, Trouble> {
        let mut chart = Self { files: BTreeMap::new(), read: BTreeMap::new(), bytes: 0 };
        chart.add(snapshot, folder, folder, limits, 0)?;
        Ok(chart)
    }

    pub(super) fn files(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.files.iter().map(|(path, bytes)| (path.as_str(), bytes.as_slice()))
    }

    pub(super) fn hash(&self, hasher: &mut Hasher) {
        for (place, tree) in &self.read {
            hasher.part(place).part(tree.to_string());
        }
    }

    /// Adds the chart that lies in `folder`, to be exported to `place`.
    fn add(
        &mut self,
        snapshot: &Snapshot,
        folder: &str,
        place: &str,
        limits: &Limits,
        depth: usize,
    ) -> Result<(), Trouble> {
        let path = repo_path(folder)?;
        self.read.insert(place.to_owned(), snapshot.hash(&path)?);
        let local = self.take(snapshot, &path, place, limits)?;
        let shown = below(folder, "Chart.yaml");
        let Some(text) = local.get("Chart.yaml") else {
            return Err(Trouble::standing(
                "ChartMissing",
                format!("{shown} is not there at commit {}", snapshot.at()),
                "point spec.source.path to the folder of the chart",
            ));
        };
        let mut dependencies = dependencies(&shown, text)?;
        if let Some(text) = local.get("requirements.yaml") {
            dependencies.extend(self::dependencies(&below(folder, "requirements.yaml"), text)?);
        }
        let vendored = vendored(&local);
        for dependency in dependencies {
            if vendored.iter().any(|found| dependency.is(found)) {
                continue;
            }
            let Some(path) = dependency.repository.strip_prefix("file://") else {
                return Err(dependency.missing(&shown));
            };
            let Some(source) = resolve(folder, path).filter(|_| depth < DEEPEST) else {
                return Err(Trouble::standing(
                    "InvalidPath",
                    format!("{shown} depends on {}, which leaves the repository", dependency.repository),
                    "commit the chart and name it by a path inside of the repository",
                ));
            };
            let place = below(place, &format!("charts/{}", dependency.name));
            self.add(snapshot, &source, &place, limits, depth + 1)?;
        }
        Ok(())
    }

    /// Takes the files of a folder. Gives those that tell what a chart depends on, by their path in the chart.
    fn take(
        &mut self,
        snapshot: &Snapshot,
        folder: &RepoPath,
        place: &str,
        limits: &Limits,
    ) -> Result<BTreeMap<String, Vec<u8>>, Trouble> {
        let mut local = BTreeMap::new();
        for file in snapshot.files(folder, &Globs::default())? {
            let Some(within) = file.path.within(folder) else { continue };
            let Some(name) = within.as_str() else { continue };
            self.bytes += file.bytes.len() as u64;
            if self.bytes > limits.input_bytes || self.files.len() >= limits.files {
                return Err(Trouble::standing(
                    "InputTooLarge",
                    format!(
                        "the chart {folder} and what it depends on hold more than {} files or {} bytes",
                        limits.files, limits.input_bytes
                    ),
                    "leave out what the chart does not need",
                ));
            }
            let telling = matches!(name, "Chart.yaml" | "requirements.yaml") || name.starts_with("charts/");
            if telling {
                // Of an archive only the name tells.
                let keep = !name.starts_with("charts/") || name.split('/').nth(2) == Some("Chart.yaml");
                local.insert(name.to_owned(), if keep { file.bytes.clone() } else { Vec::new() });
            }
            self.files.insert(below(place, name), file.bytes);
        }
        Ok(local)
    }
}

impl Dependency {
    /// Whether something in `charts/` is this: a chart's name, or an archive's file name.
    fn is(&self, found: &str) -> bool {
        found == self.name
            || found.strip_suffix(".tgz").and_then(|file| file.strip_prefix(&self.name)).is_some_and(|rest| {
                rest.strip_prefix('-').is_some_and(|version| {
                    version.trim_start_matches('v').starts_with(|c: char| c.is_ascii_digit())
                })
            })
    }

    fn missing(&self, chart: &str) -> Trouble {
        Trouble::standing(
            "DependencyMissing",
            format!("{chart} depends on {} {}, which is not in its charts/ folder", self.name, self.version),
            "vendor it: run `helm dependency build` and commit the charts/ folder",
        )
    }
}

fn dependencies(path: &str, text: &[u8]) -> Result<Vec<Dependency>, Trouble> {
    let documents = parse::parse_bytes(text, &parse::Limits::default())
        .map_err(|error| Trouble::standing("InvalidYaml", format!("{path}: {error}"), "correct the file"))?;
    let listed = documents.first().and_then(|document| document.value.get("dependencies")?.as_array());
    let text = |entry: &Value, field: &str| {
        entry.get(field).and_then(Value::as_str).map(str::trim).unwrap_or_default().to_owned()
    };
    let mut all = Vec::new();
    for entry in listed.into_iter().flatten() {
        let name = text(entry, "name");
        // It becomes the name of a folder.
        if name.is_empty() || name.contains(['/', '\\', '\0']) || name.starts_with('.') {
            return Err(Trouble::standing(
                "InvalidChart",
                format!("{path} has a dependency without a proper name"),
                "correct its name",
            ));
        }
        all.push(Dependency { name, version: text(entry, "version"), repository: text(entry, "repository") });
    }
    Ok(all)
}

/// What lies in `charts/`: names of folders, of the charts in them, and of archives.
fn vendored(local: &BTreeMap<String, Vec<u8>>) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (path, bytes) in local {
        let Some(rest) = path.strip_prefix("charts/") else { continue };
        match rest.split_once('/') {
            // A file: an archive, by its name.
            None => {
                found.insert(rest.to_owned());
            }
            Some((_, "Chart.yaml")) => {
                let documents = parse::parse_bytes(bytes, &parse::Limits::default()).unwrap_or_default();
                let name = documents.first().and_then(|document| document.value.get("name")?.as_str());
                found.extend(name.map(str::to_owned));
            }
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn an_archive_is_known_by_its_name() {
        let dependency = Dependency { name: "redis".into(), version: "1".into(), repository: String::new() };
        assert!(
            dependency.is("redis") && dependency.is("redis-1.2.3.tgz") && dependency.is("redis-v1.2.3.tgz")
        );
        assert!(!dependency.is("redis-cluster-1.2.3.tgz") && !dependency.is("redis2"));
    }

    #[test]
    fn a_dependency_never_leaves_its_folder_by_its_name() {
        for name in ["../../x", "a/b", "", ".", ".."] {
            let text = format!("dependencies:\n- name: {name:?}\n");
            assert!(dependencies("Chart.yaml", text.as_bytes()).is_err(), "{name}");
        }
        assert_eq!(dependencies("Chart.yaml", b"dependencies:\n- name: a\n").unwrap().len(), 1);
    }
}
