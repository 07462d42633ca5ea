//! Values of a chart: files, values of the source, and which of them go through a pipe.

use std::collections::BTreeSet;

use serde_json::{Map, Value};
use windlass_api::application::source::Helm;
use windlass_manifest::parse;
use windlass_vcs::tree::File;

use super::super::{
    Decrypt,
    key::Hasher,
    snapshot::{Snapshot, resolve},
};
use crate::trouble::Trouble;

/// The value files of a source, in their order.
pub(super) struct Values {
    files: Vec<(String, File)>,
}

/// What helm is given.
pub(super) struct Prepared {
    /// Files to write, by their place in the private folder, in their order.
    pub(super) files: Vec<(String, Vec<u8>)>,
    /// Values over all files.
    pub(super) stdin: Option<Vec<u8>>,
    /// Texts that were encrypted.
    pub(super) secrets: Vec<String>,
}

impl Values {
    /// Reads the value files.
    pub(super) fn read(snapshot: &Snapshot, folder: &str, options: &Helm) -> Result<Self, Trouble> {
        let mut files = Vec::new();
        for name in &options.value_files {
            if name.contains("://") {
                return Err(Trouble::standing(
                    "RemoteInput",
                    format!("the value file {name} is not in the repository"),
                    "rendering has no network: commit a copy of it and name that",
                ));
            }
            let (from, rest) = match name.strip_prefix('/') {
                Some(rest) => ("", rest),
                None => (folder, name.as_str()),
            };
            let Some(path) = resolve(from, rest).filter(|path| !path.is_empty()) else {
                return Err(Trouble::standing(
                    "InvalidPath",
                    format!("the value file {name} leaves the repository"),
                    "name a file inside of the repository",
                ));
            };
            match snapshot.file(&path)? {
                Some(file) => files.push((path, file)),
                None if options.ignore_missing_value_files => {}
                None => {
                    return Err(Trouble::standing(
                        "MissingFile",
                        format!("the value file {path} is not there at commit {}", snapshot.at()),
                        "commit it, or set spec.source.helm.ignoreMissingValueFiles",
                    ));
                }
            }
        }
        Ok(Self { files })
    }

    pub(super) fn hash(&self, hasher: &mut Hasher) {
        for (_, file) in &self.files {
            hasher.part(file.content.to_string());
        }
    }

    /// From the first encrypted file on, files are merged here, as helm would, and go through a pipe: what is decrypted
    /// is never written to disk.
    pub(super) fn prepare(
        &self,
        inline: Option<&Map<String, Value>>,
        keys: Option<&dyn Decrypt>,
    ) -> Result<Prepared, Trouble> {
        let mut files = Vec::new();
        let mut merged: Option<Map<String, Value>> = None;
        let mut secrets = BTreeSet::new();
        for (index, (path, file)) in self.files.iter().enumerate() {
            let clear = match keys {
                Some(keys) => keys.decrypt_file(path, &file.bytes)?,
                None => None,
            };
            if clear.is_none() && is_encrypted(&file.bytes) {
                return Err(Trouble::standing(
                    "NotDecrypted",
                    format!("the value file {path} is encrypted with SOPS and there are no keys"),
                    "name the Secret with the age keys in spec.source.decryption",
                ));
            }
            if clear.is_none() && merged.is_none() {
                files.push((place(index), file.bytes.clone()));
                continue;
            }
            let values = values(path, clear.as_deref().unwrap_or(&file.bytes))?;
            if clear.is_some() {
                values.values().for_each(|value| texts(value, &mut secrets));
            }
            merge(merged.get_or_insert_default(), values);
        }
        if let Some(inline) = inline {
            merge(merged.get_or_insert_default(), inline.clone());
        }
        let stdin = merged.map(|values| Value::Object(values).to_string().into_bytes());
        // Longer ones first: one may hold another.
        let mut secrets: Vec<String> = secrets.into_iter().collect();
        secrets.sort_by_key(|text| std::cmp::Reverse(text.len()));
        Ok(Prepared { files, stdin, secrets })
    }

    /// Names value files in an error as the repository does.
    pub(super) fn rename(&self, mut trouble: Trouble) -> Trouble {
        for (index, (path, _)) in self.files.iter().enumerate() {
            trouble.what = trouble.what.replace(&place(index), path);
        }
        trouble
    }
}

/// Where a value file is written: a name without signs that mean something on a command line.
fn place(index: usize) -> String {
    format!("values/file-{index}.yaml")
}

/// Whether the file carries the mark of SOPS. What cannot be read is left to helm to complain about.
fn is_encrypted(bytes: &[u8]) -> bool {
    let marked = bytes.windows(4).any(|word| word == b"sops");
    marked
        && parse::parse_bytes(bytes, &parse::Limits::default()).is_ok_and(|documents| {
            documents.iter().any(|document| document.value.get("sops").is_some_and(Value::is_object))
        })
}

fn values(path: &str, bytes: &[u8]) -> Result<Map<String, Value>, Trouble> {
    let invalid = |what: String| Trouble::standing("InvalidYaml", what, "correct the value file");
    let documents = parse::parse_bytes(bytes, &parse::Limits::default())
        .map_err(|error| invalid(format!("{path}: {error}")))?;
    match documents.into_iter().next().map(|document| document.value) {
        None => Ok(Map::new()),
        Some(Value::Object(values)) => Ok(values),
        Some(_) => Err(invalid(format!("{path} holds no map of values"))),
    }
}

/// Later values over earlier ones, as helm lays them: maps are merged, all else is replaced, and `null` stays, because it
/// takes away what the chart itself sets.
fn merge(base: &mut Map<String, Value>, over: Map<String, Value>) {
    for (name, value) in over {
        match (base.get_mut(&name), value) {
            (Some(Value::Object(below)), Value::Object(above)) => merge(below, above),
            (_, value) => {
                base.insert(name, value);
            }
        }
    }
}

fn texts(value: &Value, all: &mut BTreeSet<String>) {
    match value {
        Value::String(text) => {
            all.insert(text.clone());
            // Of a text with many lines an error may quote a single one.
            all.extend(text.lines().map(str::to_owned));
        }
        Value::Number(number) => {
            all.insert(number.to_string());
        }
        Value::Array(items) => items.iter().for_each(|item| texts(item, all)),
        Value::Object(fields) => fields.values().for_each(|value| texts(value, all)),
        Value::Null | Value::Bool(_) => {}
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    #[test]
    fn later_values_lie_over_earlier_ones() {
        let mut base = json!({ "a": { "b": 1, "c": [1, 2] }, "d": 1, "e": { "f": 1 } });
        let over = json!({ "a": { "c": [3], "x": null }, "d": { "y": 1 }, "e": null });
        merge(base.as_object_mut().unwrap(), over.as_object().unwrap().clone());
        assert_eq!(base, json!({ "a": { "b": 1, "c": [3], "x": null }, "d": { "y": 1 }, "e": null }));
    }

    #[test]
    fn an_encrypted_value_file_is_known() {
        assert!(is_encrypted(b"password: ENC[x]\nsops:\n  mac: x\n"));
        assert!(!is_encrypted(b"sops: yes\nname: a\n"));
        assert!(!is_encrypted(b"tool: sops\n"));
    }
}
