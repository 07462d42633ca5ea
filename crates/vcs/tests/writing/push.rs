//! Pushes to a real git server.

use std::{
    convert::Infallible,
    os::unix::fs::PermissionsExt,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use crate::support::{Clone, fsck, spec, spec_with, upserts};
use tokio_util::sync::CancellationToken;
use windlass_testbed::git::{Fault, GitServer, Kind, Repo};
use windlass_vcs::{
    id::CommitId,
    journal::Journal,
    mirror::{MirrorOptions, Mirrors, Movement, OnMove},
    push::{MirrorLink, Missing, Options, Outcome, PushError, push},
    remote::Remote,
    write::{CommitSpec, Message},
};

fn options() -> Options {
    Options { attempts: 4, first_wait: Duration::from_millis(5), seed: Some(1), ..Options::default() }
}

fn one(path: &str, content: &str) -> Vec<CommitSpec> {
    vec![spec(upserts(&[(path, content)]))]
}

async fn push_one(clone: &Clone, branch: &str, options: &Options, path: &str) -> Result<Outcome, PushError> {
    let plan = async |_| Ok::<_, Infallible>(Some(one(path, "x\n")));
    push(&clone.link, &clone.bare.repo(), branch, options, &CancellationToken::new(), plan).await
}

fn pushed(outcome: &Outcome) -> CommitId {
    match outcome {
        Outcome::Pushed { commits, .. } => *commits.last().unwrap(),
        other => panic!("{other:?}"),
    }
}

fn linear(repo: &Repo, branch: &str) {
    assert_eq!(repo.git(&["rev-list", "--min-parents=2", branch]).unwrap(), "");
}

#[tokio::test]
async fn commits_reach_the_branch_by_fast_forward() {
    let server = GitServer::start().await.unwrap();
    let repo = server.repo_with_files("app", &[("a", "1")]).unwrap();
    let first = repo.tip().unwrap();
    let clone = Clone::of(&repo.url());
    let plan = async |tip: Option<CommitId>| {
        assert_eq!(tip.unwrap().to_string(), first);
        Ok::<_, Infallible>(Some([one("b", "2"), one("c", "3")].concat()))
    };
    let cancel = CancellationToken::new();
    let outcome = push(&clone.link, &clone.bare.repo(), "main", &options(), &cancel, plan).await.unwrap();
    let Outcome::Pushed { from, commits } = &outcome else { panic!("{outcome:?}") };
    assert_eq!((from.unwrap().to_string(), commits.len()), (first, 2));
    assert_eq!(repo.tip().unwrap(), commits[1].to_string());
    assert_eq!(repo.files_at("main").unwrap(), ["a", "b", "c"]);
    let copy = clone.bare.git(&["rev-parse", "refs/remotes/origin/main"]);
    assert_eq!(copy, from.unwrap().to_string(), "only a fetch moves the copy");

    let again = push_one(&clone, "main", &options(), "b").await.unwrap();
    assert!(matches!(again, Outcome::Pushed { .. }), "other content");
    let tip = repo.tip().unwrap();
    let idle = push_one(&clone, "main", &options(), "b").await.unwrap();
    assert_eq!(idle, Outcome::NothingToDo { tip: Some(tip.parse().unwrap()) });
    let nothing = async |_| Ok::<_, Infallible>(None);
    let idle = push(&clone.link, &clone.bare.repo(), "main", &options(), &cancel, nothing).await.unwrap();
    assert!(matches!(idle, Outcome::NothingToDo { .. }));
    assert_eq!(repo.count(Kind::ReceivePack), 2, "who has nothing to do does not push");
    linear(&repo, "main");
    fsck(server.git(), repo.path());
}

#[tokio::test]
async fn a_rejected_push_is_planned_again_on_the_new_tip() {
    let server = GitServer::start().await.unwrap();
    let repo = server.repo_with_files("app", &[("count", "0")]).unwrap();
    let clone = Clone::of(&repo.url());
    let calls = AtomicU32::new(0);
    let plan = async |tip: Option<CommitId>| {
        let count: u32 = clone.bare.git(&["show", &format!("{}:count", tip.unwrap())]).parse().unwrap();
        if calls.fetch_add(1, Ordering::Relaxed) < 2 {
            let content = (count + 10).to_string();
            repo.commit_files(&[("count", Some(&content)), ("other", Some(&content))], "Faster").unwrap();
        }
        Ok::<_, Infallible>(Some(one("count", &(count + 1).to_string())))
    };
    let cancel = CancellationToken::new();
    let outcome = push(&clone.link, &clone.bare.repo(), "main", &options(), &cancel, plan).await.unwrap();
    assert_eq!(calls.load(Ordering::Relaxed), 3);
    assert_eq!(repo.tip().unwrap(), pushed(&outcome).to_string());
    assert_eq!(repo.file("count").unwrap().unwrap(), b"21", "no update is lost");
    assert_eq!(repo.file("other").unwrap().unwrap(), b"20");
    linear(&repo, "main");
}

#[tokio::test]
async fn a_history_that_was_rewritten_is_followed_and_never_restored() {
    let server = GitServer::start().await.unwrap();
    let repo = server.repo_with_files("app", &[("a", "1")]).unwrap();
    repo.commit_files(&[("secret", Some("x"))], "Oops").unwrap();
    let clone = Clone::of(&repo.url());
    push_one(&clone, "main", &options(), "one").await.unwrap();
    let calls = AtomicU32::new(0);
    let plan = async |_| {
        if calls.fetch_add(1, Ordering::Relaxed) == 0 {
            repo.reset_to("main~2").unwrap();
            repo.commit_files(&[("clean", Some("1"))], "Clean").unwrap();
        }
        Ok::<_, Infallible>(Some(one("two", "2")))
    };
    let cancel = CancellationToken::new();
    push(&clone.link, &clone.bare.repo(), "main", &options(), &cancel, plan).await.unwrap();
    assert_eq!(repo.files_at("main").unwrap(), ["a", "clean", "two"]);
}

#[tokio::test]
async fn whoever_is_overtaken_every_time_gives_up() {
    let server = GitServer::start().await.unwrap();
    let repo = server.repo_with_files("app", &[("a", "1")]).unwrap();
    let clone = Clone::of(&repo.url());
    let calls = AtomicU32::new(0);
    let plan = async |_| {
        let n = calls.fetch_add(1, Ordering::Relaxed).to_string();
        repo.commit_files(&[("a", Some(&n))], "Faster").unwrap();
        Ok::<_, Infallible>(Some(one("b", "2")))
    };
    let cancel = CancellationToken::new();
    let error = push(&clone.link, &clone.bare.repo(), "main", &options(), &cancel, plan).await.unwrap_err();
    assert!(matches!(&error, PushError::Exhausted { attempts: 4, .. }), "{error:?}");
    assert_eq!(error.category(), "Contended");
    assert_eq!(calls.load(Ordering::Relaxed), 4);
    assert_eq!(repo.file("b").unwrap(), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_change_of_four_concurrent_writers_arrives_exactly_once() {
    const WRITERS: usize = 4;
    const EACH: usize = 6;
    let server = GitServer::start().await.unwrap();
    let repo = server.repo_with_files("app", &[("count", "0")]).unwrap();
    let writers = (0..WRITERS).map(|writer| {
        let url = repo.url();
        tokio::spawn(async move {
            let clone = Clone::of(&url);
            let patient = Options { attempts: 200, seed: Some(writer as u64), ..Options::default() };
            for n in 0..EACH {
                let plan = async |tip: Option<CommitId>| {
                    let tip = tip.unwrap();
                    let count: u32 = clone.bare.git(&["show", &format!("{tip}:count")]).parse().unwrap();
                    let count = (count + 1).to_string();
                    let edits = upserts(&[("count", &count), (&format!("{writer}/{n}"), "x")]);
                    let message = Message::new("Change").trailer("Number", format!("{writer}-{n}"));
                    Ok::<_, Infallible>(Some(vec![spec_with(edits, message)]))
                };
                let cancel = CancellationToken::new();
                push(&clone.link, &clone.bare.repo(), "main", &patient, &cancel, plan).await.unwrap();
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    assert_eq!(repo.file("count").unwrap().unwrap(), (WRITERS * EACH).to_string().into_bytes());
    let mut numbers: Vec<_> = repo
        .git(&["log", "--format=%(trailers:key=Number,valueonly,separator=)", "main"])
        .unwrap()
        .lines()
        .filter(|line| !line.is_empty())
        .map(str::to_owned)
        .collect();
    numbers.sort();
    let mut wanted: Vec<_> = (0..WRITERS).flat_map(|w| (0..EACH).map(move |n| format!("{w}-{n}"))).collect();
    wanted.sort();
    assert_eq!(numbers, wanted);
    linear(&repo, "main");
    fsck(server.git(), repo.path());
}

/// A hook that runs when the push is already accepted and says more than the fault lets through.
fn chatty_after_receive(repo: &Repo) {
    let hook = repo.path().join("hooks/post-receive");
    std::fs::create_dir_all(hook.parent().unwrap()).unwrap();
    std::fs::write(&hook, "#!/bin/sh\ncat >/dev/null\nseq 1 20000\n").unwrap();
    std::fs::set_permissions(&hook, PermissionsExt::from_mode(0o755)).unwrap();
}

#[tokio::test]
async fn a_push_whose_answer_was_lost_is_found_and_not_doubled() {
    let server = GitServer::start().await.unwrap();
    let repo = server.repo_with_files("app", &[("a", "1")]).unwrap();
    chatty_after_receive(&repo);
    let clone = Clone::of(&repo.url());
    let lost = Fault::DropMidTransfer { after_bytes: 4096 };
    let scope = windlass_testbed::git::Scope::subject("app").of_kind(Kind::ReceivePack.as_str());
    server.faults().set_times(scope.clone(), lost.clone(), 1);
    let outcome = push_one(&clone, "main", &options(), "b").await.unwrap();
    assert_eq!(server.faults().hits(), 1);
    assert_eq!(repo.tip().unwrap(), pushed(&outcome).to_string());
    assert_eq!(repo.git(&["rev-list", "--count", "main"]).unwrap(), "2");
    assert_eq!(repo.count(Kind::ReceivePack), 1, "it is not pushed again");

    // Somebody pushes on top of it before we look.
    server.faults().set_times(scope, lost, 1);
    let plan = async |_| Ok::<_, Infallible>(Some(one("c", "3")));
    let cancel = CancellationToken::new();
    let (busy, bare) = (repo.clone(), clone.bare.repo());
    let slow = Options { first_wait: Duration::from_secs(2), ..options() };
    let pushing = push(&clone.link, &bare, "main", &slow, &cancel, plan);
    let meanwhile = async {
        while busy.file("c").unwrap().is_none() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        busy.commit_files(&[("d", Some("4"))], "On top").unwrap();
    };
    let (outcome, ()) = tokio::join!(pushing, meanwhile);
    let commit = pushed(&outcome.unwrap()).to_string();
    assert_eq!(repo.resolve("main~1").unwrap(), commit);
    assert_eq!(repo.git(&["rev-list", "--count", "main"]).unwrap(), "4");
}

#[tokio::test]
async fn the_same_commit_pushed_by_another_life_is_recognised() {
    let server = GitServer::start().await.unwrap();
    let repo = server.repo_with_files("app", &[("a", "1")]).unwrap();
    let (clone, other) = (Clone::of(&repo.url()), Clone::of(&repo.url()));
    let plan = async |_| {
        push_one(&other, "main", &options(), "b").await.unwrap();
        Ok::<_, Infallible>(Some(one("b", "x\n")))
    };
    let cancel = CancellationToken::new();
    let outcome = push(&clone.link, &clone.bare.repo(), "main", &options(), &cancel, plan).await.unwrap();
    assert_eq!(outcome, Outcome::UpToDate { tip: repo.tip().unwrap().parse().unwrap() });
    assert_eq!(repo.git(&["rev-list", "--count", "main"]).unwrap(), "2");
}

#[tokio::test]
async fn each_fault_of_the_server_has_its_own_error() {
    let server = GitServer::start().await.unwrap();
    server.user("ada", "planted-secret");
    let repo = server.repo_with_files("app", &[("a", "1")]).unwrap();
    let clone = Clone::of(&repo.url_as("ada", "planted-secret"));
    let before = repo.tip().unwrap();
    let cases = [
        (Kind::ReceivePack, Fault::RejectPush("no: planted-secret\u{1b}[31m".into()), "Rejected"),
        (
            Kind::ReceivePack,
            Fault::RejectPush("GitLab: You are not allowed to push code to protected branches.".into()),
            "Protected",
        ),
        (Kind::PushRefs, Fault::Unauthorized, "Unauthorized"),
        (Kind::PushRefs, Fault::Forbidden, "Forbidden"),
        (Kind::FetchRefs, Fault::Unauthorized, "Unauthorized"),
        (Kind::FetchRefs, Fault::ServerError, "Unavailable"),
        (Kind::ReceivePack, Fault::ServerError, "Uncertain"),
        (Kind::ReceivePack, Fault::Disconnect, "Uncertain"),
    ];
    let hasty = Options { attempts: 2, ..options() };
    for (kind, fault, category) in cases {
        repo.fault_on(kind, fault.clone());
        let error = push_one(&clone, "main", &hasty, "b").await.unwrap_err();
        assert_eq!(error.category(), category, "{fault:?}: {error:?}");
        let mut shown = format!("{error} {error:?}");
        let mut source = std::error::Error::source(&error);
        while let Some(error) = source {
            shown.push_str(&error.to_string());
            source = error.source();
        }
        assert!(!shown.contains("planted-secret") && !shown.contains('\u{1b}'), "{shown}");
        repo.clear_faults();
    }
    assert_eq!(repo.tip().unwrap(), before);
    repo.fault_on(Kind::ReceivePack, Fault::RejectPush("long ".repeat(10_000)));
    let error = push_one(&clone, "main", &hasty, "b").await.unwrap_err().to_string();
    assert!(error.len() < 2_000, "a hook may talk, but not for ever: {}", error.len());
    repo.clear_faults();
    let wrong = Clone::of(&repo.url_as("ada", "wrong"));
    assert_eq!(push_one(&wrong, "main", &hasty, "b").await.unwrap_err().category(), "Unauthorized");
    push_one(&clone, "main", &hasty, "b").await.unwrap();
}

#[tokio::test]
async fn a_fault_that_passes_is_survived() {
    let server = GitServer::start().await.unwrap();
    let repo = server.repo_with_files("app", &[("a", "1")]).unwrap();
    let clone = Clone::of(&repo.url());
    for (n, kind) in [Kind::FetchRefs, Kind::PushRefs, Kind::ReceivePack].into_iter().enumerate() {
        let scope = windlass_testbed::git::Scope::kind(kind.as_str());
        server.faults().set_times(scope, Fault::ServerError, 1);
        push_one(&clone, "main", &options(), &format!("f{n}")).await.unwrap();
        server.clear_faults();
    }
    assert_eq!(repo.git(&["rev-list", "--count", "main"]).unwrap(), "4");
}

#[tokio::test]
async fn a_server_that_stays_down_is_asked_a_bounded_number_of_times() {
    let server = GitServer::start().await.unwrap();
    let repo = server.repo_with_files("app", &[("a", "1")]).unwrap();
    repo.fault(Fault::ServerError);
    let clone = Clone::of(&repo.url());
    let error = push_one(&clone, "main", &options(), "b").await.unwrap_err();
    assert_eq!(error.category(), "Unavailable", "{error:?}");
    assert_eq!(repo.count(Kind::FetchRefs), 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pushes_out_of_a_mirror_share_its_fetches_and_reach_the_journal() {
    let server = GitServer::start().await.unwrap();
    let repo = server.repo_with_files("app", &[("a", "1")]).unwrap();
    let first = repo.tip().unwrap();
    let work = tempfile::tempdir().unwrap();
    let (journal, moved) = Journal::open(work.path()).unwrap();
    assert_eq!(moved, None);
    let keeper = journal.clone();
    let on_move: OnMove = Arc::new(move |remote: &Remote, movements: &[Movement]| {
        keeper.record(&remote.digest(), movements, jiff::Timestamp::now(), None).unwrap();
    });
    let options = MirrorOptions { on_move: Some(on_move), ..MirrorOptions::default() };
    let mirrors = Mirrors::new(&work.path().join("mirrors"), options).unwrap();
    let remote = Remote::new(&repo.url()).unwrap();
    let mirror = mirrors.mirror(&remote).unwrap();
    let cancel = CancellationToken::new();
    let link = MirrorLink::new(mirrors.git().clone(), mirror.clone()).await;
    let bare = link.repo(&cancel).await.unwrap();
    let stop = CancellationToken::new();
    let readers: Vec<_> = (0..3)
        .map(|_| {
            let (mirror, stop) = (mirror.clone(), stop.clone());
            tokio::spawn(async move {
                while !stop.is_cancelled() {
                    mirror.fetch(&CancellationToken::new()).await.unwrap();
                    tokio::time::sleep(Duration::from_millis(30)).await;
                }
            })
        })
        .collect();
    let mut tips = vec![first];
    for n in 0..4 {
        let plan = async |_| Ok::<_, Infallible>(Some(one(&format!("f{n}"), "1")));
        let outcome = push(&link, &bare, "main", &Options::default(), &cancel, plan).await.unwrap();
        tips.push(pushed(&outcome).to_string());
    }
    stop.cancel();
    for reader in readers {
        reader.await.unwrap();
    }
    mirror.fetch(&cancel).await.unwrap();
    assert_eq!(repo.tip().unwrap(), tips[4]);
    assert_eq!(mirror.refs().unwrap()["refs/heads/main"].to_string(), tips[4]);
    let history = journal.history(&remote.digest(), "refs/heads/main", 99).unwrap();
    let mut told: Vec<_> = history.iter().rev().map(|entry| entry.to.unwrap().to_string()).collect();
    assert_eq!(told.last(), tips.last(), "the last state is in the journal");
    assert!(history.iter().all(|entry| !entry.forced));
    let seen: Vec<_> = tips.iter().filter(|tip| told.contains(tip)).cloned().collect();
    told.dedup();
    assert_eq!(told, seen, "the journal tells states in their order, and none that never was");
    // Named by itself: a mirror's HEAD names a copy of a remote's branch, which git fsck calls strange.
    server.git().run(&mirror.git_dir(), &["fsck", "--full", "--strict", "--no-dangling", &tips[4]]).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_push_whose_answer_comes_late_does_not_take_the_mirror_back() {
    let server = GitServer::start().await.unwrap();
    let repo = server.repo_with_files("app", &[("a", "1")]).unwrap();
    let work = tempfile::tempdir().unwrap();
    let mirrors = Mirrors::new(work.path(), MirrorOptions::default()).unwrap();
    let mirror = mirrors.mirror(&Remote::new(&repo.url()).unwrap()).unwrap();
    let cancel = CancellationToken::new();
    let link = MirrorLink::new(mirrors.git().clone(), mirror.clone()).await;
    let bare = link.repo(&cancel).await.unwrap();
    let main = || mirror.refs().unwrap()["refs/heads/main"].to_string();
    let plan = async |_| Ok::<_, Infallible>(Some(one("b", "1")));
    let outcome = push(&link, &bare, "main", &Options::default(), &cancel, plan).await.unwrap();
    let first = pushed(&outcome).to_string();
    assert_eq!(main(), first, "it is seen at once");

    // The branch has moved, and the answer waits for the hook.
    let (hook, go_on) = (repo.path().join("hooks/post-receive"), work.path().join("go-on"));
    std::fs::create_dir_all(hook.parent().unwrap()).unwrap();
    let script =
        format!("#!/bin/sh\ncat >/dev/null\nwhile [ ! -e '{}' ]; do sleep 0.05; done\n", go_on.display());
    std::fs::write(&hook, script).unwrap();
    std::fs::set_permissions(&hook, PermissionsExt::from_mode(0o755)).unwrap();
    let plan = async |_| Ok::<_, Infallible>(Some(one("c", "1")));
    let options = Options::default();
    let late = push(&link, &bare, "main", &options, &cancel, plan);
    let others = async {
        while repo.tip().unwrap() == first {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        std::fs::remove_file(&hook).unwrap();
        let theirs = repo.commit_files(&[("d", Some("1"))], "theirs").unwrap();
        mirror.fetch(&cancel).await.unwrap();
        assert_eq!(main(), theirs);
        std::fs::write(&go_on, "").unwrap();
        theirs
    };
    let (outcome, theirs) = tokio::join!(late, others);
    assert!(matches!(outcome.unwrap(), Outcome::Pushed { .. }));
    assert_eq!(main(), theirs);
}

#[tokio::test]
async fn a_lock_that_a_killed_git_left_behind_is_taken_away() {
    let server = GitServer::start().await.unwrap();
    let repo = server.repo_with_files("app", &[("a", "1")]).unwrap();
    let clone = Clone::of(&repo.url());
    let folder = clone.bare.path().join("refs/remotes/origin");
    std::fs::create_dir_all(&folder).unwrap();
    let lock = std::fs::File::create(folder.join("main.lock")).unwrap();
    let error = push_one(&clone, "main", &options(), "b").await.unwrap_err();
    assert_eq!(error.category(), "Busy", "somebody may be at work: {error:?}");
    lock.set_modified(std::time::SystemTime::now() - Duration::from_secs(60)).unwrap();
    push_one(&clone, "main", &options(), "b").await.unwrap();
    assert_eq!(repo.files_at("main").unwrap(), ["a", "b"]);
}

#[tokio::test]
async fn a_missing_branch_is_refused_or_created_as_asked() {
    let server = GitServer::start().await.unwrap();
    let repo = server.repo_with_files("app", &[("a", "1")]).unwrap();
    let clone = Clone::of(&repo.url());
    let error = push_one(&clone, "new", &options(), "b").await.unwrap_err();
    assert!(matches!(error, PushError::NoBranch { .. }), "{error:?}");
    assert_eq!(error.category(), "NoBranch");

    let orphan = Options { missing: Missing::Orphan, ..options() };
    let outcome = push_one(&clone, "orphan", &orphan, "b").await.unwrap();
    assert!(matches!(outcome, Outcome::Pushed { from: None, .. }));
    assert_eq!(repo.files_at("orphan").unwrap(), ["b"]);
    push_one(&clone, "orphan", &orphan, "c").await.unwrap();
    assert_eq!(repo.git(&["rev-list", "--count", "orphan"]).unwrap(), "2", "it exists from then on");

    push_one(&clone, "main", &options(), "m").await.unwrap();
    let base = repo.tip().unwrap().parse().unwrap();
    let from = Options { missing: Missing::From(base), ..options() };
    push_one(&clone, "review/1", &from, "b").await.unwrap();
    assert_eq!(repo.files_at("review/1").unwrap(), ["a", "b", "m"]);

    let empty = server.empty_repo("empty").unwrap();
    let clone = Clone::of(&empty.url());
    push_one(&clone, "main", &orphan, "b").await.unwrap();
    assert_eq!(empty.files_at("main").unwrap(), ["b"]);
}

#[tokio::test]
async fn names_that_are_no_branch_are_refused_before_git_sees_them() {
    let clone = Clone::of("http://127.0.0.1:9/app.git");
    for branch in [
        "",
        "-f",
        "--force",
        "a:b",
        "a b",
        "a..b",
        "a/",
        "/a",
        "a.lock",
        "@{x",
        "a\nb",
        "a\\b",
        "x:refs/heads/y",
    ] {
        let result = push_one(&clone, branch, &options(), "b").await;
        assert!(matches!(result, Err(PushError::BadBranch { .. })), "{branch:?}: {result:?}");
    }
}

#[tokio::test]
async fn a_push_can_be_cancelled_and_a_plan_can_fail() {
    let server = GitServer::start().await.unwrap();
    let repo = server.repo_with_files("app", &[("a", "1")]).unwrap();
    let clone = Clone::of(&repo.url());
    let cancel = CancellationToken::new();
    let failing = async |_| Err::<Option<Vec<CommitSpec>>, _>("no idea");
    let error =
        push(&clone.link, &clone.bare.repo(), "main", &options(), &cancel, failing).await.unwrap_err();
    assert_eq!(error.category(), "Plan");

    repo.fault_on(Kind::UploadPack, Fault::Hang);
    repo.fault_on(Kind::FetchRefs, Fault::Hang);
    let bare = clone.bare.repo();
    let plan = async |_| Ok::<_, Infallible>(None);
    let settings = options();
    let pushing = push(&clone.link, &bare, "main", &settings, &cancel, plan);
    let stopping = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        cancel.cancel();
    };
    let (result, ()) = tokio::join!(pushing, stopping);
    assert_eq!(result.unwrap_err().category(), "Cancelled");
}
