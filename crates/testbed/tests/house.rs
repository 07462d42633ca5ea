//! The house rules that a compiler does not check: who depends on whom, and that every promise names a test.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

/// What each crate may see of the others, apart from tests. `windlass` may see all but the test bed.
const DOORS: [(&str, &[&str]); 11] = [
    ("windlass-api", &[]),
    ("windlass-manifest", &["windlass-api"]),
    ("windlass-policy", &["windlass-api", "windlass-manifest"]),
    ("windlass-vcs", &["windlass-api", "windlass-manifest"]),
    ("windlass-cluster", &["windlass-api", "windlass-manifest"]),
    ("windlass-deliver", PARTS_SEE),
    ("windlass-capture", PARTS_SEE),
    ("windlass-rollout", PARTS_SEE),
    ("windlass-preview", PREVIEW_SEES),
    ("windlass-server", PARTS_SEE),
    ("windlass-testbed", &[]),
];
const PARTS_SEE: &[&str] =
    &["windlass-api", "windlass-manifest", "windlass-policy", "windlass-vcs", "windlass-cluster"];
const PREVIEW_SEES: &[&str] = &[
    "windlass-api",
    "windlass-manifest",
    "windlass-policy",
    "windlass-vcs",
    "windlass-cluster",
    "windlass-deliver",
];

#[test]
fn the_crates_depend_on_each_other_as_drawn() {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let doors: BTreeMap<&str, BTreeSet<&str>> =
        DOORS.iter().map(|(name, sees)| (*name, sees.iter().copied().collect())).collect();

    for package in metadata["packages"].as_array().unwrap() {
        let name = package["name"].as_str().unwrap();
        let sees: BTreeSet<&str> = package["dependencies"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|dependency| dependency["kind"] != "dev")
            .map(|dependency| dependency["name"].as_str().unwrap())
            .filter(|dependency| dependency.starts_with("windlass"))
            .collect();
        if name.starts_with("bench-") {
            continue;
        }
        if name == "windlass" {
            assert!(!sees.contains("windlass-testbed"), "the product must not ship the test bed");
            continue;
        }
        let allowed =
            doors.get(name).unwrap_or_else(|| panic!("{name} has no place in the house: draw it first"));
        let extra: Vec<_> = sees.difference(allowed).collect();
        assert!(extra.is_empty(), "{name} must not see {extra:?}");
    }
}

#[test]
fn every_promise_names_a_test_that_exists() {
    let tests = tests_in(&root());
    let promises = fs::read_to_string(root().join("docs/promises.md")).unwrap();
    let mut count = 0;
    let mut missing = Vec::new();
    for line in promises.lines().filter(|line| line.starts_with("- ")) {
        let Some((promise, shown_by)) = line.rsplit_once('→') else { panic!("no test is named: {line}") };
        let names: Vec<&str> = shown_by.split('`').skip(1).step_by(2).collect();
        assert!(!names.is_empty(), "no test is named: {promise}");
        for name in names {
            count += 1;
            if !tests.contains(name) {
                missing.push(format!("{name} ({})", promise.trim()));
            }
        }
    }
    assert!(missing.is_empty(), "no such test:\n  {}", missing.join("\n  "));
    assert!(count > 20, "the list of promises is nearly empty: {count}");
}

#[test]
fn every_crate_opens_with_its_purpose() {
    for folder in fs::read_dir(root().join("crates")).unwrap() {
        let folder = folder.unwrap().path();
        let file =
            ["src/lib.rs", "src/main.rs"].iter().map(|file| folder.join(file)).find(|file| file.exists());
        let text =
            fs::read_to_string(file.unwrap_or_else(|| panic!("{} has no source", folder.display()))).unwrap();
        let words =
            text.lines().take_while(|line| line.starts_with("//!")).flat_map(str::split_whitespace).count();
        assert!(words > 20, "{} does not say what it is for", folder.display());
    }
}

/// Names of all functions that are marked as tests.
fn tests_in(root: &Path) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut folders = vec![root.join("crates"), root.join("bench")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                collect(&fs::read_to_string(&path).unwrap(), &mut names);
            }
        }
    }
    names
}

fn collect(source: &str, names: &mut BTreeSet<String>) {
    let mut marked = false;
    for line in source.lines().map(str::trim_start) {
        if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
            marked = true;
        } else if let Some(rest) = line.strip_prefix("async fn ").or_else(|| line.strip_prefix("fn ")) {
            if std::mem::take(&mut marked) {
                let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
                names.insert(name);
            }
        } else if !(line.starts_with('#') || line.starts_with("//")) {
            marked = false;
        }
    }
}
