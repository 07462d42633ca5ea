//! The child process: what it is told, and how it ends.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod mirror_support;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use mirror_support::{eventually, limits};
use tokio_util::sync::CancellationToken;
use windlass_vcs::command::{Category, Git, Limits, ORIGIN};
use windlass_vcs::remote::{Credentials, Hidden, Proxy, Remote};

struct Place {
    dir: tempfile::TempDir,
    git: Git,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let git = Git::new(&dir.path().join("scratch")).unwrap();
        Self { dir, git }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A shell script in the place of git.
    fn script(&self, text: &str) -> Git {
        let path = self.path("program");
        std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        self.git.clone().with_program(path)
    }

    async fn repository(&self) -> PathBuf {
        let path = self.path("repository");
        self.git.local(&path).args(["init", "-q", "--bare"]).run(&CancellationToken::new()).await.unwrap();
        path
    }
}

fn remote() -> Remote {
    let credentials = Credentials::basic("dev", Hidden::new("planted-password")).unwrap();
    let proxy = Proxy::new("http://me:planted-too@proxy:3128").unwrap();
    Remote::new("https://git.example/a")
        .unwrap()
        .with_credentials(credentials)
        .unwrap()
        .with_proxy(proxy)
        .unwrap()
}

#[tokio::test]
async fn what_the_child_is_told_is_not_shown() {
    let place = Place::new();
    let invocation = place.git.remote(&place.path("repository"), &remote()).unwrap().arg("fetch");
    let shown = format!("{invocation:?} {:?}", remote());
    // As they are, and in the base64 of the header.
    for secret in ["planted", "cGxhbnRlZC", "ZGV2OnBsYW50ZWQtcGFzc3dvcmQ"] {
        assert!(!shown.contains(secret), "{shown}");
    }
    assert!(shown.contains("git.example") && shown.contains("fetch"), "{shown}");
}

fn is_running(id: &str) -> bool {
    std::fs::read_to_string(format!("/proc/{id}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

#[tokio::test]
async fn the_child_gets_nothing_but_what_it_is_given_and_no_secret_in_its_arguments() {
    let place = Place::new();
    let git = place.script("env; echo; tr '\\0' '\\n' < /proc/$$/cmdline");
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some(), "what we have and the child must not");
    let run = git.remote(place.dir.path(), &remote()).unwrap().args(["fetch", ORIGIN]);
    let output = run.run(&CancellationToken::new()).await.unwrap();
    let output = String::from_utf8(output.stdout).unwrap();
    let (environment, arguments) = output.split_once("\n\n").unwrap();
    let known = ["PATH", "HOME", "TMPDIR", "LC_ALL", "TZ", "XDG_CONFIG_HOME", "PWD", "OLDPWD", "SHLVL", "_"];
    for line in environment.lines() {
        let name = line.split('=').next().unwrap();
        assert!(known.contains(&name) || name.starts_with("GIT_"), "{line}");
    }
    for expected in [
        "GIT_CONFIG_NOSYSTEM=1",
        "GIT_CONFIG_GLOBAL=/dev/null",
        "GIT_TERMINAL_PROMPT=0",
        "GIT_ALLOW_PROTOCOL=https",
    ] {
        assert!(environment.lines().any(|line| line == expected), "{expected}");
    }
    assert!(environment.contains("planted-too"), "the environment is where the secret is");
    assert!(!arguments.contains("planted"), "{arguments}");
    assert!(arguments.contains("fetch\norigin"), "{arguments}");
}

#[tokio::test]
async fn what_the_child_prints_about_secrets_is_taken_out() {
    let place = Place::new();
    let git = place.script(
        "echo 'fatal: planted-password and https://dev:planted-password@git.example are wrong' >&2; exit 128",
    );
    let error =
        git.remote(place.dir.path(), &remote()).unwrap().arg("fetch").run(&CancellationToken::new()).await;
    let text = format!("{0} {0:?}", error.unwrap_err());
    assert!(text.contains("are wrong") && !text.contains("planted"), "{text}");
}

#[tokio::test]
async fn only_the_protocol_of_the_remote_is_spoken_and_hooks_do_not_run() {
    let place = Place::new();
    let repository = place.repository().await;
    let cancel = CancellationToken::new();
    let marker = place.path("marker");
    for url in [
        format!("ext::touch {}", marker.display()),
        format!("file://{}", repository.display()),
        "git://127.0.0.1:1/a".to_owned(),
    ] {
        let run = place.git.remote(&repository, &remote()).unwrap().args(["ls-remote", &url]);
        let error = run.run(&cancel).await.unwrap_err().to_string();
        assert!(error.contains("not allowed"), "{error}");
        let error = place
            .git
            .local(&repository)
            .args(["ls-remote", &url])
            .run(&cancel)
            .await
            .unwrap_err()
            .to_string();
        assert!(error.contains("not allowed"), "{error}");
    }
    let hooks = repository.join("hooks");
    std::fs::create_dir_all(&hooks).unwrap();
    let hook = hooks.join("reference-transaction");
    std::fs::write(&hook, format!("#!/bin/sh\ntouch '{}'\n", marker.display())).unwrap();
    std::fs::set_permissions(&hook, PermissionsExt::from_mode(0o755)).unwrap();
    let tree = place.git.local(&repository).args(["mktree"]).input("").run(&cancel).await.unwrap();
    let tree = String::from_utf8(tree.stdout).unwrap();
    place.git.local(&repository).args(["update-ref", "refs/tags/t", tree.trim()]).run(&cancel).await.unwrap();
    assert!(!marker.exists());
}

#[tokio::test]
async fn a_child_ends_with_all_its_children_at_the_limit_on_cancellation_and_on_drop() {
    let place = Place::new();
    let pids = place.path("pids");
    let git =
        place.script(&format!("sleep 300 & echo $! > '{0}'; echo $$ >> '{0}'; sleep 300", pids.display()));
    let gone = || read(&pids).lines().count() == 2 && !read(&pids).lines().any(is_running);
    let start = Instant::now();
    let run = git.local(place.dir.path()).arg("gc").limits(limits(1, 60));
    assert_eq!(run.run(&CancellationToken::new()).await.unwrap_err().category(), Category::Timeout);
    assert!(start.elapsed() < Duration::from_secs(30));
    eventually("the end at the limit", gone).await;
    for by_drop in [false, true] {
        std::fs::remove_file(&pids).unwrap();
        let cancel = CancellationToken::new();
        let task = tokio::spawn({
            let (run, cancel) = (git.local(place.dir.path()).arg("gc"), cancel.clone());
            async move { run.run(&cancel).await }
        });
        eventually("its start", || read(&pids).lines().count() == 2).await;
        if by_drop {
            task.abort();
        } else {
            cancel.cancel();
            assert_eq!(task.await.unwrap().unwrap_err().category(), Category::Cancelled);
        }
        eventually("the end", gone).await;
    }
}

#[tokio::test]
async fn endless_output_and_silence_have_their_limits() {
    let place = Place::new();
    let limits = Limits { output: 10_000, ..limits(60, 1) };
    let run = place.script("yes").local(place.dir.path()).arg("log").limits(limits.clone());
    assert_eq!(run.run(&CancellationToken::new()).await.unwrap_err().category(), Category::TooLarge);
    let run = place.script("yes | head -c 20000").local(place.dir.path()).arg("log").limits(limits.clone());
    assert_eq!(run.run(&CancellationToken::new()).await.unwrap_err().category(), Category::TooLarge);
    let run = place.script("sleep 300").local(place.dir.path()).arg("log").limits(limits.clone());
    assert_eq!(run.run(&CancellationToken::new()).await.unwrap_err().category(), Category::Timeout);
    let run = place
        .script("yes error | head -n 200000 >&2; exit 1")
        .local(place.dir.path())
        .arg("log")
        .limits(limits);
    assert!(run.run(&CancellationToken::new()).await.unwrap_err().to_string().len() < 2000);
}

#[tokio::test]
async fn a_program_that_is_not_there_is_told() {
    let place = Place::new();
    let git = place.git.clone().with_program("/nowhere/git");
    let error = git.local(place.dir.path()).arg("version").run(&CancellationToken::new()).await.unwrap_err();
    assert_eq!(error.category(), Category::Program);
    assert!(error.to_string().contains("is git installed"), "{error}");
}
