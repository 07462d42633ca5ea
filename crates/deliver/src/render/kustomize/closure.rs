//! Which files a build reads: kustomization files name all of them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};
use windlass_manifest::parse;

use super::{
    super::{
        Limits,
        folder::KUSTOMIZATIONS,
        snapshot::{Snapshot, below, resolve},
    },
    Input, entry,
};
use crate::trouble::Trouble;

/// Fields that need a chart from the network and a program that is not run here.
const CHARTS: [&str; 3] = ["helmCharts", "helmChartInflationGenerator", "helmGlobals"];

/// Fields that name folders with a kustomization, or files.
const FOLDERS: [&str; 3] = ["resources", "bases", "components"];

/// Fields that name files with settings of kustomize, which may name files themselves; also folders.
const SETTINGS: [&str; 3] = ["generators", "transformers", "validators"];

/// Fields that name files.
const FILES: [&str; 3] = ["crds", "configurations", "patchesStrategicMerge"];

/// Fields with entries that name a file in `path`.
const WITH_PATH: [&str; 3] = ["patches", "patchesJson6902", "replacements"];

/// The files that were found so far.
pub(super) struct Closure<'a> {
    snapshot: &'a Snapshot,
    limits: &'a Limits,
    files: BTreeMap<String, Input>,
    folders: BTreeSet<String>,
    bytes: u64,
}

/// What a path is in the repository.
enum Lies {
    File,
    Folder,
    Nowhere,
}

impl<'a> Closure<'a> {
    pub(super) fn new(snapshot: &'a Snapshot, limits: &'a Limits) -> Self {
        Self { snapshot, limits, files: BTreeMap::new(), folders: BTreeSet::new(), bytes: 0 }
    }

    pub(super) fn into_files(self) -> BTreeMap<String, Input> {
        self.files
    }

    /// Follows the kustomization of a folder, and those it leads to.
    pub(super) fn follow(&mut self, folder: &str) -> Result<(), Trouble> {
        let mut ahead = vec![folder.to_owned()];
        while let Some(folder) = ahead.pop() {
            if self.folders.insert(folder.clone()) {
                self.read_folder(&folder, &mut ahead)?;
            }
        }
        Ok(())
    }

    fn read_folder(&mut self, folder: &str, ahead: &mut Vec<String>) -> Result<(), Trouble> {
        let mut found = false;
        for name in self.snapshot.present(folder, &KUSTOMIZATIONS)? {
            let path = below(folder, name);
            if self.take(&path)? {
                found = true;
                let text = self.files.get(&path).map(|input| input.bytes.clone()).unwrap_or_default();
                self.read_kustomization(folder, &path, &text, ahead)?;
            }
        }
        if found {
            return Ok(());
        }
        let shown = if folder.is_empty() { "." } else { folder };
        Err(Trouble::standing(
            "KustomizationMissing",
            format!("the folder {shown} has no kustomization.yaml at commit {}", self.snapshot.at()),
            "add one, or render the folder with spec.source.directory",
        ))
    }

    fn read_kustomization(
        &mut self,
        folder: &str,
        path: &str,
        text: &[u8],
        ahead: &mut Vec<String>,
    ) -> Result<(), Trouble> {
        let documents = parse::parse_bytes(text, &parse::Limits::default()).map_err(|error| {
            Trouble::standing("InvalidYaml", format!("{path}: {error}"), "correct the file")
        })?;
        for document in documents {
            let Value::Object(fields) = document.value else { continue };
            self.read_fields(folder, path, &fields, ahead)?;
        }
        Ok(())
    }

    fn read_fields(
        &mut self,
        folder: &str,
        path: &str,
        fields: &Map<String, Value>,
        ahead: &mut Vec<String>,
    ) -> Result<(), Trouble> {
        if let Some(field) = CHARTS.iter().find(|field| fields.contains_key(**field)) {
            return Err(Trouble::standing(
                "ChartInKustomization",
                format!("{path} uses {field}, which would fetch and run a chart while rendering"),
                "commit the chart and render it with spec.source.helm, or commit what it renders to",
            ));
        }
        for field in FOLDERS {
            for text in texts(fields.get(field)) {
                match self.locate(folder, path, text)? {
                    (Lies::Folder, at) => ahead.push(at),
                    (Lies::File, _) => {}
                    (Lies::Nowhere, _) => return Err(self.absent(path, field, text)),
                }
            }
        }
        for field in SETTINGS {
            for text in texts(fields.get(field)).filter(|text| !text.contains('\n')) {
                match self.locate(folder, path, text)? {
                    (Lies::Folder, at) => ahead.push(at),
                    (Lies::File, at) => self.read_settings(folder, &at)?,
                    (Lies::Nowhere, _) => return Err(self.absent(path, field, text)),
                }
            }
        }
        for (field, text) in named_files(fields) {
            match self.locate(folder, path, text)? {
                (Lies::File, _) => {}
                (Lies::Folder | Lies::Nowhere, _) => return Err(self.absent(path, field, text)),
            }
        }
        Ok(())
    }

    /// Settings may name files in ways that only their kind knows: every text that is a file is taken for one.
    fn read_settings(&mut self, folder: &str, path: &str) -> Result<(), Trouble> {
        let bytes = self.files.get(path).map(|input| input.bytes.clone()).unwrap_or_default();
        let Ok(documents) = parse::parse_bytes(&bytes, &parse::Limits::default()) else {
            // kustomize tells what is wrong, in its own words.
            return Ok(());
        };
        let mut words = BTreeSet::new();
        for document in &documents {
            strings(&document.value, &mut words);
        }
        for word in words {
            let word = word.split_once('=').map_or(word.as_str(), |(_, path)| path);
            if word.len() > 255 || word.contains(['\n', '\0']) || word.contains("://") || word.is_empty() {
                continue;
            }
            if let Some(at) = resolve(folder, word).filter(|at| !at.is_empty()) {
                self.take(&at)?;
            }
        }
        Ok(())
    }

    /// Takes a file that a kustomization names, or says that it is a folder.
    fn locate(&mut self, folder: &str, path: &str, text: &str) -> Result<(Lies, String), Trouble> {
        // Control characters are in no path that is read; kustomize would take them for an inline document.
        if text.is_empty() || text.chars().any(char::is_control) || text.len() > 4096 {
            return Ok((Lies::Nowhere, String::new()));
        }
        let Some(at) = resolve(folder, text) else {
            if is_remote(text) {
                return Ok((Lies::Nowhere, String::new()));
            }
            return Err(Trouble::standing(
                "InvalidPath",
                format!("{path} names {text}, which leaves the repository"),
                "commit what it names and use a path inside of the repository",
            ));
        };
        if !at.is_empty() && self.take(&at)? {
            return Ok((Lies::File, at));
        }
        if self.snapshot.has_folder(&at)? {
            return Ok((Lies::Folder, at));
        }
        Ok((Lies::Nowhere, at))
    }

    /// Takes a file, if there is one.
    pub(super) fn take(&mut self, path: &str) -> Result<bool, Trouble> {
        if self.files.contains_key(path) {
            return Ok(true);
        }
        let Some(file) = self.snapshot.file(path)? else { return Ok(false) };
        self.bytes += file.bytes.len() as u64;
        if self.bytes > self.limits.input_bytes || self.files.len() >= self.limits.files {
            return Err(Trouble::standing(
                "InputTooLarge",
                format!(
                    "the build reads more than {} files or {} bytes",
                    self.limits.files, self.limits.input_bytes
                ),
                "split it into several Applications",
            ));
        }
        if let Some((_, input)) = entry(file) {
            self.files.insert(path.to_owned(), input);
        }
        Ok(true)
    }

    /// The text of a file that was taken.
    pub(super) fn text(&self, path: &str) -> Option<String> {
        self.files.get(path).map(|input| String::from_utf8_lossy(&input.bytes).into_owned())
    }

    /// What a kustomization names is not there.
    pub(super) fn absent(&self, path: &str, field: &str, text: &str) -> Trouble {
        if is_remote(text) {
            return Trouble::standing(
                "RemoteInput",
                format!("{path} names {text} in {field}, which is not in the repository"),
                "rendering has no network: commit a copy of it and name that",
            );
        }
        Trouble::standing(
            "MissingFile",
            format!("{path} names {text} in {field}, which is not there at commit {}", self.snapshot.at()),
            "commit it or correct the path",
        )
    }
}

/// The texts of a list.
fn texts(value: Option<&Value>) -> impl Iterator<Item = &str> {
    value.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

/// All files that a kustomization names in fields that hold nothing but files.
fn named_files(fields: &Map<String, Value>) -> Vec<(&'static str, &str)> {
    let mut all = Vec::new();
    for field in FILES {
        let names = texts(fields.get(field)).filter(|text| !text.contains('\n') && !text.contains(": "));
        all.extend(names.map(|name| (field, name)));
    }
    for field in WITH_PATH {
        let entries = fields.get(field).and_then(Value::as_array).into_iter().flatten();
        all.extend(entries.filter_map(|entry| entry.get("path")?.as_str()).map(|name| (field, name)));
    }
    if let Some(name) = fields.get("openapi").and_then(|openapi| openapi.get("path")?.as_str()) {
        all.push(("openapi", name));
    }
    for field in ["configMapGenerator", "secretGenerator"] {
        for entry in fields.get(field).and_then(Value::as_array).into_iter().flatten() {
            let files =
                texts(entry.get("files")).map(|text| text.split_once('=').map_or(text, |(_, path)| path));
            let env = entry.get("env").and_then(Value::as_str);
            all.extend(files.chain(texts(entry.get("envs"))).chain(env).map(|name| (field, name)));
        }
    }
    all.retain(|(_, name)| !name.is_empty());
    all
}

fn strings(value: &Value, all: &mut BTreeSet<String>) {
    match value {
        Value::String(text) => {
            all.insert(text.clone());
        }
        Value::Array(items) => items.iter().for_each(|item| strings(item, all)),
        Value::Object(fields) => fields.values().for_each(|value| strings(value, all)),
        _ => {}
    }
}

/// Whether kustomize would look for it on the network.
fn is_remote(text: &str) -> bool {
    text.contains("://")
        || text.starts_with("git@")
        || text.starts_with("git::")
        || text.contains("?ref=")
        || text.contains(".git//")
        || text.strip_suffix(".git").is_some()
        || ["github.com/", "github.com:", "gitlab.com/", "bitbucket.org/"]
            .iter()
            .any(|host| text.starts_with(host))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    #[test]
    fn all_fields_that_name_files_are_known() {
        let fields = json!({
            "patches": [{ "path": "a" }, { "patch": "inline" }],
            "patchesJson6902": [{ "path": "b", "target": {} }],
            "patchesStrategicMerge": ["c", "kind: Deployment\nspec: {}"],
            "replacements": [{ "path": "d" }],
            "configurations": ["e"], "crds": ["f"], "openapi": { "path": "g" },
            "configMapGenerator": [{ "files": ["h", "key=i"], "envs": ["j"], "env": "k", "literals": ["x=y"] }],
            "secretGenerator": [{ "envs": ["l"] }],
        });
        let names: Vec<&str> =
            named_files(fields.as_object().unwrap()).iter().map(|(_, name)| *name).collect();
        let mut sorted = names.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"]);
    }

    #[test]
    fn addresses_are_told_from_paths() {
        for text in
            ["https://example.org/a.yaml", "git@github.com:a/b", "github.com/a/b?ref=v1", "ssh://x/y.git"]
        {
            assert!(is_remote(text), "{text}");
        }
        for text in ["../base", "a.yaml", "charts/github.com", "./x"] {
            assert!(!is_remote(text), "{text}");
        }
    }
}
