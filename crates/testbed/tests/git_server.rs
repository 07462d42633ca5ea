//! The git server, asked by the real `git`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use tempfile::TempDir;
use windlass_testbed::faults::HttpClient;
use windlass_testbed::git::{Authorization, Fault, Git, GitServer, Kind, Repo, Scope};

/// Long enough for a busy machine; only waited for when something is broken.
const DEADLINE: Duration = Duration::from_mins(1);

fn clone(git: &Git, url: &str) -> anyhow::Result<TempDir> {
    let folder = tempfile::tempdir()?;
    git.run(folder.path(), &["clone", "--quiet", url, "."])?;
    Ok(folder)
}

fn commit_and_push(git: &Git, folder: &Path, content: &str) -> anyhow::Result<String> {
    std::fs::write(folder.join("pushed"), content)?;
    git.run(folder, &["add", "."])?;
    git.run(folder, &["commit", "--quiet", "-m", "from a clone"])?;
    git.run(folder, &["push", "--quiet", "origin", "HEAD"])?;
    git.run(folder, &["rev-parse", "HEAD"])
}

/// What git says when it fails.
fn failure<T>(result: anyhow::Result<T>) -> String {
    match result {
        Ok(_) => panic!("git succeeded, but was to fail"),
        Err(error) => format!("{error:#}"),
    }
}

fn noise(length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    ChaCha8Rng::seed_from_u64(7).fill_bytes(&mut bytes);
    bytes
}

fn small_repo(server: &GitServer, name: &str) -> Repo {
    server.repo_with_files(name, &[("a.yaml", "a: 1\n")]).unwrap()
}

#[tokio::test]
async fn clone_fetch_and_push_go_through_and_are_counted() {
    let server = GitServer::start().await.unwrap();
    let repo = small_repo(&server, "team/app");
    let work = clone(server.git(), &repo.url()).unwrap();
    assert_eq!(std::fs::read_to_string(work.path().join("a.yaml")).unwrap(), "a: 1\n");
    assert_eq!(
        (repo.count(Kind::FetchRefs), repo.count(Kind::ListRefs), repo.count(Kind::UploadPack)),
        (1, 1, 1)
    );

    let tip = repo.commit_files(&[("b/c.yaml", Some("c: 1\n")), ("a.yaml", None)], "Second").unwrap();
    server.git().run(work.path(), &["pull", "--quiet"]).unwrap();
    assert_eq!(server.git().run(work.path(), &["rev-parse", "HEAD"]).unwrap(), tip);
    assert!(!work.path().join("a.yaml").exists());
    assert_eq!(repo.count(Kind::UploadPack), 2);

    server.git().run(work.path(), &["fetch", "--quiet"]).unwrap();
    assert_eq!((repo.count(Kind::ListRefs), repo.count(Kind::UploadPack)), (3, 2), "nothing new, no pack");

    let pushed = commit_and_push(server.git(), work.path(), "x").unwrap();
    assert_eq!(repo.tip().unwrap(), pushed);
    assert_eq!(repo.file("pushed").unwrap().as_deref(), Some(b"x".as_slice()));
    assert_eq!((repo.count(Kind::PushRefs), repo.count(Kind::ReceivePack)), (1, 1));
    assert_eq!(server.count(Kind::ReceivePack), 1);
    assert_eq!(server.log().count_of("other", Kind::ReceivePack.as_str()), 0);
    assert!(!server.saw_credentials());
}

#[tokio::test]
async fn protocol_0_and_shallow_clients_are_served_too() {
    let server = GitServer::start().await.unwrap();
    let repo = small_repo(&server, "app");
    let first = repo.tip().unwrap();
    repo.commit_files(&[("b.yaml", Some("b"))], "Second").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let url = repo.url();
    server
        .git()
        .run(folder.path(), &["-c", "protocol.version=0", "clone", "--quiet", "--depth=1", &url, "."])
        .unwrap();
    assert_eq!(server.git().run(folder.path(), &["rev-list", "--count", "HEAD"]).unwrap(), "1");
    assert_eq!(repo.count(Kind::ListRefs), 0, "there is no such request in protocol 0");
    assert!(repo.count(Kind::UploadPack) >= 1);
    server.git().run(folder.path(), &["fetch", "--quiet", "--depth=1", "origin", &first]).unwrap();
}

#[tokio::test]
async fn the_same_folder_gives_the_same_commit_on_every_server() {
    let folder = tempfile::tempdir().unwrap();
    let write = |path: &str, content: &str| std::fs::write(folder.path().join(path), content).unwrap();
    std::fs::create_dir(folder.path().join("charts")).unwrap();
    write("charts/values.yaml", "replicas: 1\n");
    write(".gitignore", "*.log\n");
    write("kept.log", "kept although ignored\n");
    write("run.sh", "#!/bin/sh\n");
    std::fs::set_permissions(folder.path().join("run.sh"), PermissionsExt::from_mode(0o755)).unwrap();
    std::os::unix::fs::symlink("run.sh", folder.path().join("link")).unwrap();

    let mut tips = Vec::new();
    for _ in 0..2 {
        let server = GitServer::start().await.unwrap();
        let repo = server.repo_from_folder("app", folder.path()).unwrap();
        let files = repo.files_at("main").unwrap();
        assert_eq!(files, [".gitignore", "charts/values.yaml", "kept.log", "link", "run.sh"]);
        let listed = repo.git(&["ls-tree", "main", "run.sh", "link"]).unwrap();
        assert!(listed.contains("100755 blob") && listed.contains("120000 blob"), "{listed}");
        repo.commit_files(&[("charts", None)], "Without charts").unwrap();
        tips.push(repo.tip().unwrap());
        assert_eq!(
            repo.git(&["log", "-1", "--format=%an %ae %cn %ce %cI"]).unwrap(),
            "testbed testbed@localhost testbed testbed@localhost 2024-01-01T00:01:00+00:00"
        );
        assert_eq!(folder.path().read_dir().unwrap().count(), 5, "nothing is left in the folder");
    }
    assert_eq!(tips[0], tips[1]);
}

#[tokio::test]
async fn branches_tags_and_forced_updates() {
    let server = GitServer::start().await.unwrap();
    let repo = small_repo(&server, "app");
    let first = repo.tip().unwrap();
    let second = repo.commit_files(&[("a.yaml", Some("a: 2\n"))], "Second").unwrap();
    repo.branch("feature").unwrap();
    repo.tag("v1", &first).unwrap();
    let on_branch =
        repo.commit("On a branch").on("feature").file("odd \"name\"\\\n.bin", noise(10)).write().unwrap();
    assert_eq!(repo.tip_of("feature").unwrap(), on_branch);
    assert_eq!(repo.file_at("feature", "odd \"name\"\\\n.bin").unwrap(), Some(noise(10)));
    assert_eq!(repo.tip().unwrap(), second);
    assert_eq!(repo.resolve("v1").unwrap(), first);

    let amended = repo.force_push(&[("a.yaml", Some("a: 3\n"))], "Second, again").unwrap();
    assert_eq!(repo.tip().unwrap(), amended);
    assert_eq!(repo.git(&["rev-list", "main"]).unwrap().lines().collect::<Vec<_>>(), [&amended, &first]);
    assert_eq!(repo.file("a.yaml").unwrap().as_deref(), Some(b"a: 3\n".as_slice()));
    assert_eq!(repo.file("none.yaml").unwrap(), None);

    repo.reset_to(&first).unwrap();
    assert_eq!(repo.tip().unwrap(), first);
    repo.delete_branch("feature").unwrap();
    assert!(repo.tip_of("feature").is_err());
    assert!(repo.delete_branch("feature").is_err());
    let rewritten = repo.force_push(&[], "The first commit can be replaced too").unwrap();
    assert_eq!(repo.git(&["rev-list", "main"]).unwrap(), rewritten);
    assert!(server.empty_repo("app").is_err(), "the name is taken");
    assert!(server.empty_repo("../app").is_err());
}

#[tokio::test]
async fn users_read_and_push_as_far_as_they_may() {
    let server = GitServer::start().await.unwrap();
    let repo = small_repo(&server, "app");
    server.user("dev-a", "planted-secret").user("dev-b", "other").set_may_push("dev-b", false);
    server.token("robot", "t0ken");

    let anonymous = clone(server.git(), &repo.url()).unwrap();
    let refused = failure(commit_and_push(server.git(), anonymous.path(), "x"));
    assert!(refused.contains("could not read Username"), "{refused}");

    let dev_b = clone(server.git(), &repo.url_as("dev-b", "other")).unwrap();
    let refused = failure(commit_and_push(server.git(), dev_b.path(), "x"));
    assert!(refused.contains("403"), "{refused}");

    server.set_anonymous_read(false);
    failure(clone(server.git(), &repo.url()));
    let refused = failure(clone(server.git(), &repo.url_as("dev-a", "wrong")));
    assert!(refused.contains("Authentication failed"), "{refused}");
    let dev_a = clone(server.git(), &repo.url_as("dev-a", "planted-secret")).unwrap();
    let pushed = commit_and_push(server.git(), dev_a.path(), "from dev-a").unwrap();
    assert_eq!(repo.tip().unwrap(), pushed);
    clone(server.git(), &repo.url_as("x-access-token", "t0ken")).unwrap();

    server.user("dev-a", "rotated");
    failure(server.git().run(dev_a.path(), &["fetch"]));
    server.remove_user("robot");
    failure(clone(server.git(), &repo.url_as("x-access-token", "t0ken")));

    let records = server.log().requests();
    assert!(
        records
            .iter()
            .any(|r| r.authorization == Authorization::Basic("dev-a".into()) && r.status == Some(200))
    );
    assert!(records.iter().any(|r| r.authorization == Authorization::Absent && r.status == Some(401)));
    assert!(!format!("{records:?} {server:?}").contains("planted-secret"));
}

#[tokio::test]
async fn bearer_tokens_are_taken() {
    let server = GitServer::start().await.unwrap();
    let repo = small_repo(&server, "app");
    server.set_anonymous_read(false).token("robot", "t0ken");
    let folder = tempfile::tempdir().unwrap();
    let clone_with = |token: &str| {
        let header = format!("http.extraHeader=Authorization: Bearer {token}");
        server.git().run(folder.path(), &["-c", &header, "clone", "--quiet", &repo.url(), token])
    };
    clone_with("t0ken").unwrap();
    clone_with("wrong").unwrap_err();
    assert!(server.log().requests().iter().all(|r| r.authorization == Authorization::Bearer));
}

#[tokio::test]
async fn tls_takes_the_right_authority_and_no_other() {
    let server = GitServer::start_tls().await.unwrap();
    let repo = small_repo(&server, "app");
    assert!(repo.url().starts_with("https://127.0.0.1:"));
    clone(server.git(), &repo.url()).unwrap();

    let home = tempfile::tempdir().unwrap();
    let refused = failure(clone(&Git::new(home.path()), &repo.url()));
    assert!(refused.contains("certificate"), "{refused}");
    let other = GitServer::start_tls().await.unwrap();
    let refused = failure(clone(other.git(), &repo.url()));
    assert!(refused.contains("certificate"), "{refused}");

    let client = HttpClient::trusting(server.ca_pem().unwrap()).unwrap();
    let refs = client.get(&format!("{}/info/refs?service=git-upload-pack", repo.url())).await.unwrap();
    assert_eq!(refs.status, 200);
    assert_eq!(std::fs::read_to_string(server.ca_path().unwrap()).unwrap(), server.ca_pem().unwrap());
}

#[tokio::test]
async fn answers_can_be_refusals() {
    let server = GitServer::start().await.unwrap();
    let (repo, other) = (small_repo(&server, "app"), small_repo(&server, "other"));
    for (fault, expected) in [
        (Fault::Unauthorized, "could not read Username"),
        (Fault::Forbidden, "403"),
        (Fault::ServerError, "500"),
        (Fault::TooManyRequests { retry_after: Duration::from_secs(1) }, "429"),
        (Fault::Disconnect, "Empty reply"),
    ] {
        repo.fault(fault.clone());
        let refused = match clone(server.git(), &repo.url()) {
            Ok(_) => panic!("{fault:?} did not keep git from cloning"),
            Err(error) => format!("{error:#}"),
        };
        assert!(refused.contains(expected), "{fault:?}: {refused}");
        clone(server.git(), &other.url())
            .unwrap_or_else(|error| panic!("{fault:?} hit the other one: {error:#}"));
    }
    repo.clear_faults();
    clone(server.git(), &repo.url()).unwrap();

    server.fault(Fault::ServerError);
    failure(clone(server.git(), &other.url()));
    server.clear_faults();
    server.faults().set_times(Scope::all(), Fault::ServerError, 1);
    failure(clone(server.git(), &other.url()));
    clone(server.git(), &other.url()).unwrap();
}

#[tokio::test]
async fn made_up_answers_arrive_as_they_are() {
    let server = GitServer::start().await.unwrap();
    let repo = small_repo(&server, "app");
    let page = "<html>Sign in</html>";
    repo.fault(Fault::answer("text/html", page));
    let answer = HttpClient::new().get(&format!("{}/info/refs", repo.url())).await.unwrap();
    assert_eq!(
        (answer.status.as_u16(), answer.headers["content-type"].to_str().unwrap()),
        (200, "text/html")
    );
    assert_eq!(answer.text(), page);
    // Why this fault matters: git takes such a page for an empty repository.
    let work = clone(server.git(), &repo.url()).unwrap();
    assert_eq!(work.path().read_dir().unwrap().count(), 1, "only .git");
}

#[tokio::test]
async fn retry_after_is_told() {
    let server = GitServer::start().await.unwrap();
    server.fault(Fault::TooManyRequests { retry_after: Duration::from_millis(1500) });
    let answer = HttpClient::new().get(&server.url()).await.unwrap();
    assert_eq!((answer.status.as_u16(), answer.headers["retry-after"].to_str().unwrap()), (429, "2"));
}

#[tokio::test]
async fn a_push_can_be_rejected_by_a_hook_or_fail_while_fetches_work() {
    let server = GitServer::start().await.unwrap();
    let repo = small_repo(&server, "app");
    let before = repo.tip().unwrap();
    let work = clone(server.git(), &repo.url()).unwrap();
    repo.fault(Fault::RejectPush("main is frozen until Monday".into()));
    let refused = failure(commit_and_push(server.git(), work.path(), "x"));
    assert!(refused.contains("remote: main is frozen until Monday"), "{refused}");
    assert!(refused.contains("pre-receive hook declined"), "{refused}");
    assert_eq!(repo.tip().unwrap(), before);
    server.git().run(work.path(), &["fetch", "--quiet"]).unwrap();

    repo.clear_faults();
    repo.fault_on(Kind::ReceivePack, Fault::ServerError);
    let refused = failure(server.git().run(work.path(), &["push", "--quiet", "origin", "HEAD"]));
    assert!(refused.contains("500"), "{refused}");
    server.git().run(work.path(), &["fetch", "--quiet"]).unwrap();
    repo.clear_faults();
    server.git().run(work.path(), &["push", "--quiet", "origin", "HEAD"]).unwrap();
    assert_ne!(repo.tip().unwrap(), before);
}

#[tokio::test]
async fn transfers_break_off_both_ways() {
    let server = GitServer::start().await.unwrap();
    let repo = server.empty_repo("app").unwrap();
    repo.commit("Large").file("large.bin", noise(300_000)).write().unwrap();
    let before = repo.tip().unwrap();
    let work = clone(server.git(), &repo.url()).unwrap();

    repo.fault(Fault::DropMidTransfer { after_bytes: 100_000 });
    failure(clone(server.git(), &repo.url()));
    server.git().run(work.path(), &["fetch", "--quiet"]).expect("short answers pass");

    std::fs::write(work.path().join("more.bin"), &noise(600_000)[300_000..]).unwrap();
    failure(commit_and_push(server.git(), work.path(), "x"));
    assert_eq!(repo.tip().unwrap(), before);

    repo.clear_faults();
    server.git().run(work.path(), &["push", "--quiet", "origin", "HEAD"]).unwrap();
    assert_ne!(repo.tip().unwrap(), before);
    clone(server.git(), &repo.url()).unwrap();

    repo.fault_on(Kind::UploadPack, Fault::Corrupt { at_byte: 200_000 });
    failure(clone(server.git(), &repo.url()));
    repo.clear_faults();
    clone(server.git(), &repo.url()).unwrap();
}

#[tokio::test]
async fn slow_transfers_arrive_in_the_end_and_speed_up_when_cleared() {
    let server = GitServer::start().await.unwrap();
    let repo = server.empty_repo("app").unwrap();
    repo.commit("Large").file("large.bin", noise(60_000)).write().unwrap();
    repo.fault_on(Kind::UploadPack, Fault::Slow { bytes_per_sec: 60_000 });
    let begin = Instant::now();
    clone(server.git(), &repo.url()).unwrap();
    assert!(begin.elapsed() >= Duration::from_millis(900), "{:?}", begin.elapsed());

    repo.fault_on(Kind::UploadPack, Fault::Slow { bytes_per_sec: 1 });
    let folder = tempfile::tempdir().unwrap();
    let mut running =
        spawn(server.git().command().args(["clone", "--quiet", &repo.url()]).arg(folder.path()));
    until(|| repo.count(Kind::UploadPack) == 2);
    repo.clear_faults();
    assert!(finish(&mut running).success(), "60,000 s of waiting are over");
}

#[tokio::test]
async fn a_hanging_request_hangs_until_cleared() {
    let server = GitServer::start().await.unwrap();
    let repo = small_repo(&server, "app");
    repo.fault(Fault::Hang);
    let folder = tempfile::tempdir().unwrap();
    let mut running =
        spawn(server.git().command().args(["clone", "--quiet", &repo.url()]).arg(folder.path()));
    until(|| repo.count(Kind::FetchRefs) == 1);
    std::thread::sleep(Duration::from_millis(500));
    assert!(running.try_wait().unwrap().is_none(), "still waiting");
    let record = server.log().requests().pop().unwrap();
    assert_eq!((record.fault, record.status), (Some("hang"), None));
    repo.clear_faults();
    assert!(!finish(&mut running).success(), "never answered");
    clone(server.git(), &repo.url()).unwrap();
}

#[tokio::test]
async fn redirects_lead_elsewhere_and_credentials_stay() {
    let (old, new) = (GitServer::start().await.unwrap(), GitServer::start().await.unwrap());
    let moved = new.repo_with_files("team/moved", &[("moved", "yes")]).unwrap();
    let repo = small_repo(&old, "app");
    old.user("dev-a", "secret");
    repo.fault(Fault::Redirect(moved.url()));
    let work = clone(old.git(), &repo.url_as("dev-a", "secret")).unwrap();
    assert!(work.path().join("moved").exists());
    assert_eq!((old.count(Kind::FetchRefs), new.count(Kind::FetchRefs)), (1, 1));
    assert!(!new.saw_credentials());

    new.set_anonymous_read(false).user("dev-a", "secret");
    clone(new.git(), &moved.url_as("dev-a", "secret")).unwrap();
    assert!(new.saw_credentials(), "the record is able to show them");
}

#[tokio::test]
async fn many_clients_at_once() {
    let server = GitServer::start().await.unwrap();
    let repo = small_repo(&server, "app");
    let folder = tempfile::tempdir().unwrap();
    let mut clones: Vec<_> = (0..8)
        .map(|n| {
            spawn(
                server
                    .git()
                    .command()
                    .args(["clone", "--quiet", &repo.url()])
                    .arg(folder.path().join(n.to_string())),
            )
        })
        .collect();
    assert!(clones.iter_mut().all(|running| finish(running).success()));
    assert_eq!(repo.count(Kind::UploadPack), 8);
}

#[tokio::test]
async fn a_dropped_server_leaves_nothing() {
    let server = GitServer::start().await.unwrap();
    let repo = small_repo(&server, "app");
    let (url, path) = (repo.url(), repo.path().to_owned());
    repo.fault(Fault::Hang);
    let folder = tempfile::tempdir().unwrap();
    let mut hanging = spawn(server.git().command().args(["clone", "--quiet", &url]).arg(folder.path()));
    until(|| repo.count(Kind::FetchRefs) == 1);
    drop(server);
    assert!(!finish(&mut hanging).success());
    assert!(HttpClient::new().get(&url).await.is_err(), "nobody listens");
    assert!(path.exists(), "a handle is left");
    drop(repo);
    assert!(!path.exists());
}

fn spawn(command: &mut Command) -> std::process::Child {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

fn finish(child: &mut std::process::Child) -> std::process::ExitStatus {
    let mut status = None;
    until(|| {
        status = child.try_wait().unwrap();
        status.is_some()
    });
    status.unwrap()
}

fn until(mut reached: impl FnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !reached() {
        assert!(Instant::now() < deadline, "not reached within {DEADLINE:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
