//! Where settings come from: flags over environment over file over defaults, for every single one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::{collections::BTreeSet, fmt::Write as _, path::Path};

use serde_json::Value;
use support::{told, windlass};

/// Key, default (empty: none), and a value for the file, the environment and the flag. Lists have commas.
const TABLE: &[(&str, &str, [&str; 3])] = &[
    ("kubeconfig", "", ["f", "e", "x"]),
    ("context", "", ["f", "e", "x"]),
    ("namespace", "windlass-system", ["f", "e", "x"]),
    ("kubeApiQps", "500", ["1", "2", "3"]),
    ("kubeApiBurst", "1000", ["1", "2", "3"]),
    (
        "controllers",
        "analysisrun,application,cluster,experiment,rollout",
        ["-cluster", "cluster", "*,-cluster"],
    ),
    ("workers", "16", ["1", "2", "3"]),
    ("applicationWorkers", "16", ["1", "2", "3"]),
    ("resync", "10m", ["1m", "2m", "3m"]),
    ("heartbeat", "5m", ["1m", "2m", "3m"]),
    ("shutdownGrace", "1s200ms", ["1s", "2s", "3s"]),
    ("leaderElect", "true", ["false", "true", "false"]),
    ("leaseName", "windlass", ["f", "e", "x"]),
    ("identity", "", ["f", "e", "x"]),
    ("shards", "1", ["2", "3", "4"]),
    ("leaseDuration", "10s", ["11s", "12s", "13s"]),
    ("leaseRenew", "2s500ms", ["1s", "2s", "3s"]),
    ("httpAddress", ":8080", [":1", ":2", "127.0.0.1:3"]),
    ("webhook", "false", ["true", "false", "true"]),
    ("webhookAddress", ":9443", [":1", ":2", "127.0.0.1:3"]),
    ("webhookService", "windlass-webhook", ["f", "e", "x"]),
    ("webhookUrl", "", ["https://f", "https://e", "https://x"]),
    ("webhookSecret", "windlass-webhook-tls", ["f", "e", "x"]),
    ("webhookConfigurations", "windlass", ["f,g", "e", "x,y"]),
    ("certDir", "", ["f", "e", "x"]),
    ("workDir", "", ["f", "e", "x"]),
    ("helm", "helm", ["f", "e", "x"]),
    ("kustomize", "kustomize", ["f", "e", "x"]),
    ("renderConcurrency", "2", ["3", "4", "5"]),
    ("defaultServiceAccount", "", ["f", "e", "x"]),
    ("allowCrossNamespaceDependencies", "false", ["true", "false", "true"]),
    ("cdeventsSinks", "", ["http://f/in,http://g/in", "http://e/in", "http://x/in,http://y/in"]),
    ("cdeventsSource", "", ["f", "e", "x"]),
    ("cdeventsEnvironment", "", ["f", "e", "x"]),
    ("hooks", "false", ["true", "false", "true"]),
    ("hooksAddress", ":8090", [":1", ":2", "127.0.0.1:3"]),
    ("hooksSecret", "windlass-hooks", ["f", "e", "x"]),
    ("hooksRate", "100", ["1", "2", "3"]),
    ("hooksMaxBytes", "1048576", ["2000", "3000", "4000"]),
    ("secretNamespaces", "", ["f,g", "*", "x,y"]),
    ("allowKubeconfigExec", "false", ["true", "false", "true"]),
    ("allowKubeconfigFiles", "false", ["true", "false", "true"]),
    ("allowKubeconfigInsecureTls", "false", ["true", "false", "true"]),
    ("logFormat", "json", ["text", "json", "text"]),
    ("logLevel", "info", ["warn", "debug", "error"]),
];

/// Which layers of a row are given.
#[derive(Clone, Copy, Debug)]
enum Given {
    Nothing,
    File,
    FileAndEnvironment,
    All,
}

fn kebab(key: &str) -> String {
    let mut text = String::new();
    for letter in key.chars() {
        if letter.is_ascii_uppercase() {
            text.push('-');
        }
        text.push(letter.to_ascii_lowercase());
    }
    text
}

fn yaml(value: &str) -> String {
    let list = |value: &str| value.split(',').map(|item| format!("{item:?}")).collect::<Vec<_>>().join(", ");
    if value.contains(',') { format!("[{}]", list(value)) } else { value.to_owned() }
}

fn is_list(key: &str) -> bool {
    ["controllers", "webhookConfigurations", "secretNamespaces", "cdeventsSinks"].contains(&key)
}

fn shown(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::Array(items) => items.iter().map(shown).collect::<Vec<_>>().join(","),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Gives each row its layers, runs the binary once, and returns the settings in effect.
fn print_config(home: &Path, given: impl Fn(usize) -> Given) -> Value {
    let mut file = String::new();
    let mut command = windlass(home);
    command.args(["controller", "--print-config", "--config", "windlass.yaml"]);
    for (row, (key, _, [in_file, in_env, in_flag])) in TABLE.iter().enumerate() {
        let given = given(row);
        if !matches!(given, Given::Nothing) {
            let value =
                if is_list(key) && !in_file.contains(',') { format!("[{in_file:?}]") } else { yaml(in_file) };
            let value = if value.starts_with(':') { format!("{value:?}") } else { value };
            let _ = writeln!(file, "{key}: {value}");
        }
        if matches!(given, Given::FileAndEnvironment | Given::All) {
            command.env(format!("WINDLASS_{}", kebab(key).replace('-', "_").to_uppercase()), in_env);
        }
        if matches!(given, Given::All) {
            command.arg(format!("--{}={in_flag}", kebab(key)));
        }
    }
    std::fs::write(home.join("windlass.yaml"), file).unwrap();
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", told(&output));
    serde_saphyr::from_str(std::str::from_utf8(&output.stdout).unwrap()).unwrap()
}

/// How a value is shown: `controllers` as the list of what is on.
fn expected(key: &str, value: &str) -> String {
    match (key, value) {
        ("controllers", "-cluster") => String::new(),
        ("controllers", "*,-cluster") => "analysisrun,application,experiment,rollout".to_owned(),
        _ => value.to_owned(),
    }
}

#[test]
fn a_flag_wins_over_the_environment_over_the_file_over_the_default() {
    const TURNS: [Given; 4] = [Given::Nothing, Given::File, Given::FileAndEnvironment, Given::All];
    let home = tempfile::tempdir().unwrap();
    // Every turn has all four kinds of rows at once, so that layers are mixed; over four turns each row meets each.
    for turn in 0..TURNS.len() {
        let given = |row: usize| TURNS[(row + turn) % TURNS.len()];
        let config = print_config(home.path(), given);
        for (row, (key, default, [in_file, in_env, in_flag])) in TABLE.iter().enumerate() {
            let wanted = match given(row) {
                // Taken from the surroundings; covered by unit tests.
                Given::Nothing if ["identity", "secretNamespaces", "workDir"].contains(key) => continue,
                Given::Nothing => default,
                Given::File => in_file,
                Given::FileAndEnvironment => in_env,
                Given::All => in_flag,
            };
            assert_eq!(shown(&config[*key]), expected(key, wanted), "{key} with {:?}", given(row));
        }
    }
}

#[test]
fn the_table_has_every_setting() {
    let home = tempfile::tempdir().unwrap();
    let config = print_config(home.path(), |_| Given::All);
    let printed: BTreeSet<&str> = config.as_object().unwrap().keys().map(String::as_str).collect();
    let known: BTreeSet<&str> = TABLE.iter().map(|(key, ..)| *key).collect();
    assert_eq!(printed, known);
}

#[test]
fn what_is_printed_can_be_given_back() {
    let home = tempfile::tempdir().unwrap();
    let print = |args: &[&str]| {
        let output =
            windlass(home.path()).args(["controller", "--print-config"]).args(args).output().unwrap();
        assert!(output.status.success(), "{}", told(&output));
        output.stdout
    };
    let first = print(&[
        "--identity=me",
        "--shards=3",
        "--controllers=-cluster",
        "--webhook",
        "--secret-namespaces=*",
    ]);
    std::fs::write(home.path().join("again.yaml"), &first).unwrap();
    assert_eq!(String::from_utf8(print(&["--config=again.yaml"])), String::from_utf8(first));
}

#[test]
fn the_config_file_can_be_named_by_the_environment() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("w.yaml"), "workers: 7\n").unwrap();
    let output = windlass(home.path())
        .args(["controller", "--print-config"])
        .env("WINDLASS_CONFIG", "w.yaml")
        .output()
        .unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains("workers: 7"), "{}", told(&output));
}

#[test]
fn the_pod_says_where_and_who_it_is() {
    let home = tempfile::tempdir().unwrap();
    let output = windlass(home.path())
        .args(["controller", "--print-config"])
        .env("POD_NAMESPACE", "apps")
        .env("POD_NAME", "windlass-5d9f-x2x")
        .output()
        .unwrap();
    let config: Value = serde_saphyr::from_str(&String::from_utf8_lossy(&output.stdout)).unwrap();
    assert_eq!(
        (shown(&config["namespace"]), shown(&config["secretNamespaces"])),
        ("apps".into(), "apps".into())
    );
    assert!(shown(&config["identity"]).starts_with("windlass-5d9f-x2x-"), "{config}");
}

#[test]
fn a_wrong_setting_is_wrong_usage_wherever_it_stands() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("w.yaml"), "leaderElection: false\n").unwrap();
    for (args, env) in [
        (vec!["--workers=many"], None),
        (vec!["--workers=0"], None),
        (vec!["--config=missing.yaml"], None),
        (vec!["--config=w.yaml"], None),
        (vec![], Some(("WINDLASS_RESYNC", "soon"))),
        (vec![], Some(("WINDLASS_LEADER_ELECT", "perhaps"))),
    ] {
        let output = windlass(home.path())
            .args(["controller", "--print-config"])
            .args(&args)
            .envs(env)
            .output()
            .unwrap();
        let told = told(&output);
        assert!(told.starts_with("exit code: 2\n"), "{args:?} {env:?}: {told}");
        assert!(told.contains("error: "), "{told}");
    }
}
