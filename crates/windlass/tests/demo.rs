//! The demo, as a newcomer runs it: on a control plane of its own, and on a cluster that is there.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::{path::PathBuf, process::Command};

use k8s_openapi::{
    api::core::v1::Namespace, apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::Api;
use windlass_testbed::control_plane::{ControlPlane, User};

/// The test bed's program lies beside ours: `cargo test --workspace` and `make demo` build both.
fn testbed() -> PathBuf {
    let windlass = PathBuf::from(env!("CARGO_BIN_EXE_windlass"));
    let beside = windlass.with_file_name("testbed");
    if !beside.exists() {
        let built = Command::new(env!("CARGO"))
            .args(["build", "-p", "windlass-testbed", "--bin", "testbed"])
            .status();
        assert!(built.unwrap().success());
    }
    beside
}

fn demo(args: &[&str], kubeconfig: Option<PathBuf>) -> (bool, String) {
    let mut command = Command::new(testbed());
    command.arg("demo").args(args).env("WINDLASS_BIN", env!("CARGO_BIN_EXE_windlass"));
    if let Some(path) = kubeconfig {
        command.env("KUBECONFIG", path);
    }
    let output = command.output().unwrap();
    let text =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    (output.status.success(), text)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demo_delivers_heals_holds_back_undoes_stops_a_bad_version_and_leaves_nothing_behind() {
    let control_plane = ControlPlane::shared().await.unwrap();
    control_plane.ensure_nodes(1).await.unwrap();
    let kubeconfig = control_plane.kubeconfig_path(&User::Admin).unwrap();
    let context = control_plane.kubeconfig(&User::Admin).unwrap().current_context.unwrap();
    let run = tokio::task::spawn_blocking(move || demo(&["--once", "--context", &context], Some(kubeconfig)));
    let (success, text) = run.await.unwrap();
    assert!(success, "{text}");
    // Every step looks on the cluster for its effect and fails without; here is what it shows of them.
    for expected in [
        "demo-home",
        "demo-by-kubeconfig",
        "Reachable",
        "v1.36",
        "ConnectionRefused",
        "$ kubectl apply -n windlass-demo -f applications",
        "application.windlass.dev/api created",
        "$ git -C shop push",
        "{\"accepted\":true}",
        "ms after the hook",
        "deployment.apps/web scaled",
        "# healed",
        "$ windlass diff app web --path=shop",
        "windlass-demo-no-latest",
        "images need a tag",
        "is taken back",
        "rollout.windlass.dev/checkout created",
        "# stopped, and back",
        "Look around",
    ] {
        assert!(text.contains(expected), "{expected} is missing:\n{text}");
    }
    let definitions: Api<CustomResourceDefinition> = Api::all(control_plane.admin());
    let namespaces: Api<Namespace> = Api::all(control_plane.admin());
    for _ in 0..100 {
        let left = definitions.get_opt("clusters.windlass.dev").await.unwrap().is_some()
            || namespaces.get_opt("windlass-demo").await.unwrap().is_some()
            || namespaces.get_opt("windlass-demo-shop").await.unwrap().is_some();
        if !left {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    }
    panic!("the demo left something behind:\n{text}");
}

#[test]
fn a_context_that_does_not_exist_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kubeconfig");
    std::fs::write(&path, "apiVersion: v1\nkind: Config\nclusters: []\ncontexts: []\nusers: []\n").unwrap();
    let (success, text) = demo(&["--context", "nowhere"], Some(path));
    assert!(!success);
    assert!(text.contains("nowhere"), "{text}");
}
