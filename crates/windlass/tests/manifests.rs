//! `windlass health`, `canonical` and `diff`, as a user meets them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::{
    io::Write as _,
    path::Path,
    process::{Output, Stdio},
};

use serde_json::Value;
use support::{told, windlass};

const DEPLOYMENT: &str = "\
# The shop.
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop, generation: 2}
spec:
  replicas: 2
status: {observedGeneration: 2, replicas: 2, updatedReplicas: 2, readyReplicas: 2, availableReplicas: 2}
";

const CONFIG: &str =
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: words, namespace: shop}\ndata: {answer: 'yes'}\n";

struct Folder(tempfile::TempDir);

impl Folder {
    fn with(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        Self(folder)
    }

    fn run(&self, args: &[&str]) -> Output {
        windlass(self.0.path()).args(args).output().unwrap()
    }

    fn told(&self, args: &[&str]) -> String {
        told(&self.run(args))
    }

    fn json(&self, args: &[&str]) -> Value {
        let output = self.run(args);
        assert!(output.status.success(), "{}", told(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

fn piped(home: &Path, args: &[&str], input: &str) -> Output {
    let mut child = windlass(home)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn health_of_one_object_is_one_value_and_of_several_a_list() {
    let folder =
        Folder::with(&[("one.yaml", DEPLOYMENT), ("two.yaml", &format!("{DEPLOYMENT}---\n{CONFIG}"))]);
    let one = folder.json(&["health", "-f", "one.yaml", "-o", "json"]);
    assert_eq!(one["status"], "Healthy", "{one}");
    assert!(one["message"].is_string(), "{one}");
    assert_eq!((&one["kind"], &one["name"]), (&"Deployment".into(), &"web".into()));
    let two = folder.json(&["health", "-f", "two.yaml", "-o", "json"]);
    assert_eq!(two.as_array().unwrap().len(), 2);
    assert_eq!(two[1]["status"], "Healthy");
    let both = folder.json(&["health", "-f", "one.yaml", "-f", "two.yaml", "-o", "json"]);
    assert_eq!(both.as_array().unwrap().len(), 3);
}

#[test]
fn health_reads_standard_input_and_tells_people_a_line_each() {
    let folder = Folder::with(&[]);
    let late = DEPLOYMENT.replace("availableReplicas: 2", "availableReplicas: 1");
    let output = piped(folder.0.path(), &["health", "-f", "-"], &format!("{late}---\n{CONFIG}"));
    let text = told(&output);
    assert!(text.starts_with("exit code: 0\n"), "{text}");
    let lines: Vec<&str> = std::str::from_utf8(&output.stdout).unwrap().lines().collect();
    assert_eq!(lines.len(), 2, "{text}");
    assert!(lines[0].starts_with("Progressing  Deployment shop/web  "), "{text}");
    assert!(lines[1].starts_with("Healthy      ConfigMap shop/words"), "{text}");
}

#[test]
fn broken_input_is_told_with_file_line_and_column() {
    let folder =
        Folder::with(&[("bad.yaml", "kind: A\nkind: B\n"), ("text.yaml", "- 1\n"), ("empty.yaml", "---\n")]);
    for (args, words) in [
        (["health", "-f", "bad.yaml"], "line 2, column 1"),
        (["canonical", "-f", "text.yaml"], "line 1, column 1"),
        (["health", "-f", "empty.yaml"], "empty.yaml holds no object"),
        (["canonical", "-f", "missing.yaml"], "cannot read missing.yaml"),
        (["canonical", "-f", "."], "hint: Name the files in it"),
    ] {
        let told = folder.told(&args);
        assert!(told.starts_with("exit code: 1\n") && told.contains(words), "{args:?}: {told}");
    }
    let told = folder.told(&["health", "-f", "-", "-f", "-"]);
    assert!(told.starts_with("exit code: 2\n") && told.contains("only once"), "{told}");
}

#[test]
fn rules_of_the_user_come_first_and_bad_ones_are_refused() {
    let rules = "group: example.com\nkinds: [Widget]\nrules:\n- when: status.phase == 'Ready'\n  status: Suspended\n  message: resting in ${status.phase}\n";
    let widget = "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w}\nstatus: {phase: Ready}\n";
    let folder = Folder::with(&[("rules.yaml", rules), ("w.yaml", widget), ("bad.yaml", "kind: Widget\n")]);
    let own = folder.json(&["health", "-f", "w.yaml", "--rules", "rules.yaml", "-o", "json"]);
    assert_eq!((&own["status"], &own["message"]), (&"Suspended".into(), &"resting in Ready".into()));
    let told = folder.told(&["health", "-f", "w.yaml", "--rules", "bad.yaml"]);
    assert!(told.starts_with("exit code: 2\n") && told.contains("hint: "), "{told}");
}

#[test]
fn canonical_form_is_the_same_for_yaml_and_json_and_stays_the_same() {
    let json = r#"{"kind":"ConfigMap","data":{"answer":"yes"},"metadata":{"namespace":"shop","name":"words"},"apiVersion":"v1"}"#;
    let folder = Folder::with(&[("a.yaml", CONFIG), ("a.json", json)]);
    let canonical = folder.run(&["canonical", "-f", "a.yaml"]).stdout;
    assert_eq!(folder.run(&["canonical", "-f", "a.json"]).stdout, canonical);
    let text = String::from_utf8(canonical).unwrap();
    let again = piped(folder.0.path(), &["canonical", "-f", "-"], &text);
    assert_eq!(String::from_utf8(again.stdout).unwrap(), text);
    insta::assert_snapshot!(text, @r#"
    apiVersion: v1
    kind: ConfigMap
    metadata:
      name: words
      namespace: shop
    data:
      answer: "yes"
    "#);
}

#[test]
fn sanitizing_takes_away_what_nobody_wrote_and_says_what_it_leaves_out() {
    let owned = "apiVersion: apps/v1\nkind: ReplicaSet\nmetadata:\n  name: web-1\n  namespace: shop\n  ownerReferences:\n  - {apiVersion: apps/v1, kind: Deployment, name: web, uid: u, controller: true}\n";
    let folder = Folder::with(&[("live.yaml", &format!("{DEPLOYMENT}---\n{owned}"))]);
    let output = folder.run(&["canonical", "-f", "live.yaml", "--sanitize"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("replicas: 2") && !text.contains("status"), "{text}");
    assert!(!text.contains("ReplicaSet"), "{text}");
    let beside = String::from_utf8(output.stderr).unwrap();
    assert!(beside.contains("note: left out ReplicaSet.apps shop/web-1: "), "{beside}");
}

#[test]
fn diff_names_object_field_and_both_values() {
    let other = format!("{}---\n{CONFIG}", DEPLOYMENT.replace("replicas: 2\n", "replicas: 3\n"));
    let folder = Folder::with(&[("a.yaml", DEPLOYMENT), ("b.yaml", &other)]);
    let told = folder.told(&["diff", "-f", "a.yaml", "-f", "b.yaml"]);
    assert!(told.starts_with("exit code: 0\n"), "{told}");
    assert!(told.contains("Deployment.apps shop/web\n  spec.replicas: a.yaml 2, b.yaml 3\n"), "{told}");
    assert!(told.contains("ConfigMap shop/words\n  only in b.yaml\n"), "{told}");
    assert!(folder.told(&["diff", "-f", "a.yaml", "-f", "a.yaml"]).contains("no difference\n"));
    let later = Folder::with(&[
        ("a.yaml", DEPLOYMENT),
        ("b.yaml", &DEPLOYMENT.replace("generation: 2", "generation: 3")),
    ]);
    assert!(later.told(&["diff", "-f", "a.yaml", "-f", "b.yaml"]).contains("metadata.generation"));
    assert!(later.told(&["diff", "-f", "a.yaml", "-f", "b.yaml", "--sanitize"]).contains("no difference\n"));
    let json = folder.json(&["diff", "-f", "a.yaml", "-f", "b.yaml", "-o", "json"]);
    assert_eq!(json.as_array().unwrap().len(), 2, "{json}");
    let told = folder.told(&["diff", "-f", "a.yaml"]);
    assert!(told.starts_with("exit code: 2\n") && told.contains("hint: "), "{told}");
    let twice = Folder::with(&[("a.yaml", CONFIG), ("b.yaml", &format!("{CONFIG}---\n{CONFIG}"))]);
    assert!(twice.told(&["diff", "-f", "a.yaml", "-f", "b.yaml"]).contains("stands in this file twice"));
}

#[test]
fn spelling_is_no_difference_and_secrets_are_not_shown() {
    let secret = |value: &str| {
        format!("apiVersion: v1\nkind: Secret\nmetadata: {{name: s}}\ndata: {{key: {value}}}\n")
    };
    let pod = |cpu: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\nspec:\n  containers:\n  - {{name: a, image: i, resources: {{requests: {{cpu: {cpu}}}}}}}\n"
        )
    };
    let folder = Folder::with(&[
        ("a.yaml", &pod("1000m")),
        ("b.yaml", &pod("'1'")),
        ("c.yaml", &secret("aHVudGVyMg==")),
        ("d.yaml", &secret("b3RoZXI=")),
    ]);
    assert!(folder.told(&["diff", "-f", "a.yaml", "-f", "b.yaml"]).contains("no difference"));
    for format in [&[][..], &["-o", "json"][..]] {
        let told = folder.told(&[&["diff", "-f", "c.yaml", "-f", "d.yaml"][..], format].concat());
        assert!(told.contains("data.key"), "{told}");
        assert!(
            !told.contains("aHVudGVyMg") && !told.contains("hunter2") && !told.contains("b3RoZXI"),
            "{told}"
        );
    }
}
