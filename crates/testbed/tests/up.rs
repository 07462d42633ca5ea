//! `testbed up` and `testbed down`, as a person uses them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use k8s_openapi::api::core::v1::Node;
use kube::api::ListParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use windlass_testbed::tools::{self, Tool};

/// A cache folder of its own with the tools of the real one, so that a person's own clusters are left alone.
struct Cache(tempfile::TempDir);

impl Cache {
    fn new() -> Self {
        tools::ensure(&Tool::CONTROL_PLANE).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let real = tools::cache_dir().unwrap().join("tools");
        if real.exists() {
            std::os::unix::fs::symlink(real, dir.path().join("tools")).unwrap();
        }
        Self(dir)
    }

    fn testbed(&self, args: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_testbed"))
            .args(args)
            .env("WINDLASS_CACHE", self.0.path())
            .output()
            .unwrap()
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        self.testbed(&["down"]);
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

async fn ready_nodes(path: &Path, context: &str) -> anyhow::Result<usize> {
    let options = KubeConfigOptions { context: Some(context.into()), ..KubeConfigOptions::default() };
    let config = Config::from_custom_kubeconfig(Kubeconfig::read_from(path)?, &options).await?;
    Ok(Api::<Node>::all(Client::try_from(config)?).list(&ListParams::default()).await?.items.len())
}

#[tokio::test]
async fn up_prints_the_line_to_copy_and_down_ends_it() {
    let cache = Cache::new();
    let up = cache.testbed(&["up", "--clusters", "2", "--nodes", "1"]);
    assert!(up.status.success(), "{}", text(&up.stderr));
    let line = text(&up.stdout);
    let path = PathBuf::from(line.trim_end().strip_prefix("export KUBECONFIG=").unwrap());
    assert_eq!(line.lines().count(), 1, "{line}");
    assert_eq!(ready_nodes(&path, "windlass-1").await.unwrap(), 1);
    assert_eq!(ready_nodes(&path, "windlass-2").await.unwrap(), 1);
    for user in ["dev-a", "dev-b", "dev-a@windlass-2"] {
        let refused = ready_nodes(&path, user).await.unwrap_err();
        assert!(refused.to_string().contains("forbidden"), "{user}: {refused}");
    }

    let again = cache.testbed(&["up"]);
    assert!(again.status.success());
    assert!(text(&again.stderr).contains("already up: 2 cluster(s)"), "{}", text(&again.stderr));
    assert_eq!(text(&again.stdout), line);

    let down = cache.testbed(&["down"]);
    assert!(down.status.success() && text(&down.stderr).contains("down"), "{}", text(&down.stderr));
    assert!(!path.exists(), "the kubeconfig is left");
    let nothing = cache.testbed(&["down"]);
    assert!(
        nothing.status.success() && text(&nothing.stderr).contains("nothing is up"),
        "{}",
        text(&nothing.stderr)
    );
}
