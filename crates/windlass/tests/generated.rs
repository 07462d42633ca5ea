//! Generated files are committed; these tests fail when they are stale. `WINDLASS_UPDATE=1` makes them anew.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::{collections::BTreeSet, fmt::Write as _, fs};

use support::{assert_current, markdown::values_table, root, windlass};

const CRDS: &str = "charts/windlass/files/crds";

#[test]
fn the_crds_in_the_chart_are_those_of_the_binary() {
    let home = tempfile::tempdir().unwrap();
    assert!(windlass(home.path()).args(["crds", "--output-dir", "crds"]).status().unwrap().success());
    let names = |dir: std::path::PathBuf| -> BTreeSet<String> {
        let entries = fs::read_dir(dir).into_iter().flatten();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    };
    let made = names(home.path().join("crds"));
    for name in &made {
        let text = fs::read_to_string(home.path().join("crds").join(name)).unwrap();
        assert_current(&format!("{CRDS}/{name}"), &text);
    }
    assert_eq!(names(root().join(CRDS)), made, "the chart has CRDs that no longer exist");
}

#[test]
fn the_command_line_reference_is_current() {
    let home = tempfile::tempdir().unwrap();
    let help = |args: &[&str]| {
        let output = windlass(home.path()).args(args).arg("--help").output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
    };
    let mut text =
        String::from("# Command line\n\nMade from `--help` by a test; do not edit.\n\n## windlass\n\n");
    let _ = writeln!(text, "```text\n{}\n```", help(&[]));
    for verb in [
        "controller",
        "get",
        "describe",
        "why",
        "tree",
        "sync",
        "history",
        "undo",
        "rollback",
        "approve",
        "health",
        "canonical",
        "diff",
        "diff app",
        "migrate",
        "crds",
        "version",
        "completion",
    ] {
        let _ = writeln!(
            text,
            "\n## windlass {verb}\n\n```text\n{}\n```",
            help(&verb.split(' ').collect::<Vec<_>>())
        );
    }
    assert_current("docs/cli.md", &text);
}

#[test]
fn the_values_in_the_readme_of_the_chart_are_current() {
    let path = "charts/windlass/README.md";
    let values = fs::read_to_string(root().join("charts/windlass/values.yaml")).unwrap();
    let readme = fs::read_to_string(root().join(path)).unwrap();
    let (before, rest) = readme.split_once("<!-- values -->\n").expect("the place of the table is marked");
    let (_, after) = rest.split_once("<!-- /values -->\n").expect("the end of the table is marked");
    let table = values_table(&values);
    assert!(table.lines().count() > 20, "the comments of values.yaml are not understood: {table}");
    assert_current(path, &format!("{before}<!-- values -->\n{table}<!-- /values -->\n{after}"));
}

#[test]
fn the_schema_of_the_chart_knows_every_setting() {
    let schema = fs::read_to_string(root().join("charts/windlass/values.schema.json")).unwrap();
    let schema: serde_json::Value = serde_json::from_str(&schema).unwrap();
    let known = schema["properties"]["config"]["properties"].as_object().unwrap();
    let known: BTreeSet<&str> = known.keys().map(String::as_str).collect();
    let home = tempfile::tempdir().unwrap();
    let help = windlass(home.path()).args(["controller", "--help"]).output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    // Each setting shows the variable it is read from.
    let settings: BTreeSet<String> = help
        .split("[env: WINDLASS_")
        .skip(1)
        .map(|rest| rest.split(['=', ']']).next().unwrap().to_lowercase())
        .filter(|name| name != "config")
        .map(|name| {
            let mut words = name.split('_');
            let first = words.next().unwrap().to_owned();
            words.fold(first, |text, word| text + &word[..1].to_uppercase() + &word[1..])
        })
        .collect();
    assert_eq!(known, settings.iter().map(String::as_str).collect());
}

#[test]
fn the_chart_has_the_version_of_the_binary() {
    let chart = fs::read_to_string(root().join("charts/windlass/Chart.yaml")).unwrap();
    let chart: serde_json::Value = serde_saphyr::from_str(&chart).unwrap();
    assert_eq!(chart["appVersion"], env!("CARGO_PKG_VERSION"));
    assert_eq!(chart["version"], env!("CARGO_PKG_VERSION"));
}
