//! The command line, as a user meets it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::os::unix::fs::symlink;

use support::{WINDLASS, told, windlass};

fn run(args: &[&str]) -> String {
    let home = tempfile::tempdir().unwrap();
    told(&windlass(home.path()).args(args).output().unwrap())
}

#[test]
fn without_a_verb_the_help_is_shown_and_the_usage_is_wrong() {
    let told = run(&[]);
    assert!(told.starts_with("exit code: 2\n"), "{told}");
    assert!(told.contains("Usage: windlass <COMMAND>"), "{told}");
}

#[test]
fn the_help_lists_verbs_exit_codes_and_the_plug_in() {
    let told = run(&["--help"]);
    assert!(told.starts_with("exit code: 0\n"), "{told}");
    for part in ["controller", "crds", "version", "completion", "Exit codes:", "kubectl-windlass"] {
        assert!(told.contains(part), "{part}: {told}");
    }
}

#[test]
fn every_verb_has_examples() {
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
        "migrate",
        "crds",
        "version",
        "completion",
    ] {
        let told = run(&[verb, "--help"]);
        assert!(told.starts_with("exit code: 0\n") && told.contains("Examples:\n"), "{verb}: {told}");
    }
}

#[test]
fn a_slip_of_the_finger_gets_a_suggestion() {
    insta::assert_snapshot!(run(&["contoller"]), @r"
    exit code: 2
    --- stdout ---
    --- stderr ---
    error: unrecognized subcommand 'contoller'

      tip: a similar subcommand exists: 'controller'

    Usage: windlass <COMMAND>

    For more information, try '--help'.
    ");
}

#[test]
fn as_a_kubectl_plug_in_the_usage_says_kubectl() {
    let home = tempfile::tempdir().unwrap();
    let plugin = home.path().join("kubectl-windlass");
    symlink(WINDLASS, &plugin).unwrap();
    let output =
        std::process::Command::new(&plugin).args(["version", "--help"]).env_clear().output().unwrap();
    let told = told(&output);
    assert!(told.contains("Usage: kubectl windlass version"), "{told}");
}

#[test]
fn the_version_is_told_for_people_and_for_programs() {
    let version = env!("CARGO_PKG_VERSION");
    assert!(run(&["version"]).contains(&format!("windlass {version}")));
    let home = tempfile::tempdir().unwrap();
    let output = windlass(home.path()).args(["version", "-o", "json"]).output().unwrap();
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["version"], version);
    assert_eq!(json["apiVersion"], "windlass.dev/v1alpha1");
    assert!(run(&["version", "-o", "yaml"]).contains("apiVersion: windlass.dev/v1alpha1"));
}

#[test]
fn completions_know_the_verbs_for_every_shell() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let told = run(&["completion", shell]);
        assert!(told.starts_with("exit code: 0\n") && told.contains("controller"), "{shell}");
    }
}

#[test]
fn crds_are_printed_as_documents_or_written_one_file_each() {
    let home = tempfile::tempdir().unwrap();
    let printed = windlass(home.path()).arg("crds").output().unwrap().stdout;
    let printed = String::from_utf8(printed).unwrap();
    let documents: Vec<serde_json::Value> = serde_saphyr::from_multiple(&printed).unwrap();
    assert!(!documents.is_empty());
    let output = windlass(home.path()).args(["crds", "--output-dir", "out/crds"]).output().unwrap();
    assert!(output.status.success(), "{}", told(&output));
    for document in documents {
        assert_eq!(document["kind"], "CustomResourceDefinition");
        let plural = document["spec"]["names"]["plural"].as_str().unwrap();
        let file = home.path().join(format!("out/crds/windlass.dev_{plural}.yaml"));
        let written: serde_json::Value =
            serde_saphyr::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
        assert_eq!(written, document);
    }
}

#[test]
fn a_folder_that_cannot_be_written_is_a_failure_with_its_cause() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("file"), "").unwrap();
    let told = told(&windlass(home.path()).args(["crds", "--output-dir", "file"]).output().unwrap());
    assert!(told.starts_with("exit code: 1\n"), "{told}");
    assert!(told.contains("error: cannot write file/windlass.dev_"), "{told}");
    assert!(told.contains("caused by: "), "{told}");
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let script = format!("'{WINDLASS}' completion bash | head -n 1 >/dev/null; exit \"${{PIPESTATUS[0]}}\"");
    let status = std::process::Command::new("bash").args(["-c", &script]).status().unwrap();
    assert!(status.success(), "{status}");
}

#[test]
fn without_a_cluster_the_controller_says_where_it_looked_and_what_to_do() {
    let told = run(&["controller", "--http-address=127.0.0.1:0"]);
    assert!(told.starts_with("exit code: 1\n"), "{told}");
    let errors: Vec<&str> = told.lines().filter(|line| !line.starts_with('{')).collect();
    let errors = errors.join("\n");
    assert!(errors.contains("error: cannot connect to the cluster with Windlass' own objects"), "{errors}");
    assert!(errors.contains("caused by: found no cluster"), "{errors}");
    assert!(errors.contains("hint: "), "{errors}");
}

#[test]
fn an_address_that_is_taken_is_a_failure_with_a_hint() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let told = run(&["controller", &format!("--http-address={}", taken.local_addr().unwrap())]);
    assert!(told.starts_with("exit code: 1\n"), "{told}");
    assert!(told.contains("hint: Choose another address with the setting httpAddress."), "{told}");
}

#[test]
fn errors_have_no_colours_when_nobody_sees_them() {
    assert!(!run(&["crds", "--output-dir", "/proc/nothing"]).contains('\x1b'));
}
