//! Mirrors of a real git server.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod mirror_support;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use mirror_support::{Bed, eventually, fetch, git, id, movement, options, put, read_all};
use tokio_util::sync::CancellationToken;
use windlass_testbed::git::{Fault, Kind};
use windlass_vcs::command::Category;
use windlass_vcs::mirror::{Depth, MirrorError, MirrorOptions, Tidying};
use windlass_vcs::remote::{Remote, UrlPolicy};

#[tokio::test]
async fn a_mirror_follows_branches_tags_deletions_and_forced_moves() {
    let bed = Bed::new().await;
    let mirror = bed.mirror();
    assert_eq!(
        mirror.repo().unwrap_err().category(),
        Category::NotFound,
        "nothing is there before the first fetch"
    );
    let first = bed.repo.tip().unwrap();
    let fetched = fetch(&mirror).await.unwrap();
    assert_eq!(fetched.movements, [movement("refs/heads/main", None, Some(&first), false)]);
    assert_eq!(fetched.default_branch.as_deref(), Some("main"));
    assert!(fetched.received > 0 && !fetched.cloned_anew);

    let again = fetch(&mirror).await.unwrap();
    assert!(again.movements.is_empty() && again.received == 0);

    let second = bed.repo.commit_files(&[("a.yaml", Some("a: 2\n"))], "second").unwrap();
    bed.repo.set_branch("side/one", &first).unwrap();
    bed.repo.tag("v1", &first).unwrap();
    let fetched = fetch(&mirror).await.unwrap();
    assert_eq!(
        fetched.movements,
        [
            movement("refs/heads/main", Some(&first), Some(&second), false),
            movement("refs/heads/side/one", None, Some(&first), false),
            movement("refs/tags/v1", None, Some(&first), false),
        ]
    );
    let third = bed.repo.force_push(&[("a.yaml", Some("a: 3\n"))], "third").unwrap();
    bed.repo.delete_branch("side/one").unwrap();
    // A branch where a folder of branches was.
    bed.repo.set_branch("side", &first).unwrap();
    let fetched = fetch(&mirror).await.unwrap();
    assert_eq!(
        fetched.movements,
        [
            movement("refs/heads/main", Some(&second), Some(&third), true),
            movement("refs/heads/side", None, Some(&first), false),
            movement("refs/heads/side/one", Some(&first), None, false),
        ]
    );
    let refs = mirror.refs().unwrap();
    assert_eq!(refs.keys().collect::<Vec<_>>(), ["refs/heads/main", "refs/heads/side", "refs/tags/v1"]);
    assert_eq!(refs["refs/heads/main"], id(&third));
    assert_eq!(read_all(&mirror), 6);
}

#[tokio::test]
async fn annotated_tags_are_told_by_their_commit_and_the_default_branch_is_followed() {
    let bed = Bed::with(MirrorOptions { head_every: Duration::ZERO, ..options() }).await;
    let tip = bed.repo.tip().unwrap();
    bed.repo.git(&["tag", "-a", "-m", "release", "v1", &tip]).unwrap();
    bed.repo.branch("trunk").unwrap();
    let mirror = bed.mirror();
    let fetched = fetch(&mirror).await.unwrap();
    assert!(fetched.movements.contains(&movement("refs/tags/v1", None, Some(&tip), false)));
    assert_eq!(mirror.refs().unwrap()["refs/tags/v1"], id(&tip));
    bed.repo.git(&["symbolic-ref", "HEAD", "refs/heads/trunk"]).unwrap();
    assert_eq!(fetch(&mirror).await.unwrap().default_branch.as_deref(), Some("trunk"));
    assert_eq!(
        bed.reopened(options()).mirror(&bed.remote()).unwrap().default_branch().unwrap().as_deref(),
        Some("trunk")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_readers_share_two_fetches_and_the_later_see_what_came_later() {
    let bed = Bed::new().await;
    let mirror = bed.mirror();
    fetch(&mirror).await.unwrap();
    bed.server.log().reset();
    // Slow enough that all readers come while the first fetch is at work.
    bed.repo.fault_on(Kind::ListRefs, Fault::Slow { bytes_per_sec: 400 });
    let readers = |count: usize| {
        (0..count)
            .map(|_| {
                tokio::spawn({
                    let mirror = mirror.clone();
                    async move { fetch(&mirror).await }
                })
            })
            .collect::<Vec<_>>()
    };
    let early = readers(1);
    eventually("the first request", || bed.server.count(Kind::FetchRefs) > 0).await;
    let second = bed.repo.commit_files(&[("a.yaml", Some("a: 2\n"))], "second").unwrap();
    let late = readers(50);
    for reader in early.into_iter().chain(late) {
        reader.await.unwrap().unwrap();
        bed.repo.clear_faults();
    }
    assert_eq!(mirror.refs().unwrap()["refs/heads/main"], id(&second));
    let lists = bed.repo.count(Kind::ListRefs);
    assert!((2..=4).contains(&lists), "{lists} lists of refs for 51 readers");
    assert!(bed.repo.count(Kind::UploadPack) <= 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_reader_leaves_the_others_alone_and_the_last_ends_the_fetch() {
    let bed = Bed::new().await;
    let mirror = bed.mirror();
    bed.repo.fault(Fault::Hang);
    let cancel = CancellationToken::new();
    let impatient = tokio::spawn({
        let (mirror, cancel) = (mirror.clone(), cancel.clone());
        async move { mirror.fetch(&cancel).await }
    });
    let patient = tokio::spawn({
        let mirror = mirror.clone();
        async move { fetch(&mirror).await }
    });
    eventually("a request", || bed.server.count(Kind::FetchRefs) > 0).await;
    cancel.cancel();
    assert_eq!(impatient.await.unwrap().unwrap_err().category(), Category::Cancelled);
    assert!(!patient.is_finished());
    let marker = bed.work.path().display().to_string();
    eventually("git at work for the other", || !processes_with(&marker).is_empty()).await;
    patient.abort();
    eventually("the end of git", || processes_with(&marker).is_empty()).await;
    bed.repo.clear_faults();
    fetch(&mirror).await.unwrap();
}

/// Processes that have this text in their environment.
fn processes_with(text: &str) -> Vec<String> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    entries
        .filter(|entry| {
            std::fs::read(entry.path().join("environ"))
                .is_ok_and(|environ| environ.windows(text.len()).any(|window| window == text.as_bytes()))
        })
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}

#[tokio::test]
async fn a_remote_that_names_nothing_any_more_is_an_error_and_nothing_is_deleted() {
    let bed = Bed::new().await;
    let mirror = bed.mirror();
    fetch(&mirror).await.unwrap();
    // What git takes for an empty repository: a page with nothing in it.
    bed.repo.fault(Fault::answer("text/html", ""));
    let error = fetch(&mirror).await.unwrap_err();
    assert!(matches!(error, MirrorError::Emptied { count: 1, .. }), "{error}");
    bed.repo.fault(Fault::answer("text/html", "<html>please sign in</html>\n"));
    assert_eq!(fetch(&mirror).await.unwrap_err().category(), Category::NotARepository);
    bed.repo.clear_faults();
    // And a repository whose last branch was deleted.
    let tip = bed.repo.tip().unwrap();
    bed.repo.delete_branch("main").unwrap();
    assert_eq!(fetch(&mirror).await.unwrap_err().category(), Category::Emptied);
    assert_eq!(mirror.refs().unwrap().len(), 1);
    bed.repo.set_branch("main", &tip).unwrap();
    assert!(fetch(&mirror).await.unwrap().movements.is_empty());
}

#[tokio::test]
async fn an_empty_repository_is_told_from_an_empty_page() {
    let bed = Bed::new().await;
    let empty = bed.server.empty_repo("empty").unwrap();
    let remote = Remote::new(&empty.url()).unwrap();
    let mirror = bed.mirrors.mirror(&remote).unwrap();
    assert!(fetch(&mirror).await.unwrap().movements.is_empty());
    empty.fault(Fault::answer("text/html", ""));
    assert!(matches!(fetch(&mirror).await.unwrap_err(), MirrorError::NotARepository { .. }));
    empty.clear_faults();
    let first = empty.commit_files(&[("a", Some("1"))], "first").unwrap();
    assert_eq!(
        fetch(&mirror).await.unwrap().movements,
        [movement("refs/heads/main", None, Some(&first), false)]
    );
}

#[tokio::test]
async fn a_movement_of_a_fetch_that_failed_half_way_is_told_by_the_next() {
    let bed = Bed::new().await;
    let mirror = bed.mirror();
    fetch(&mirror).await.unwrap();
    let first = bed.repo.tip().unwrap();
    bed.repo.branch("old").unwrap();
    fetch(&mirror).await.unwrap();
    bed.repo.delete_branch("old").unwrap();
    let second = bed.repo.commit_files(&[("a.yaml", Some("a: 2\n"))], "second").unwrap();
    bed.repo.fault_on(Kind::UploadPack, Fault::ServerError);
    assert_eq!(fetch(&mirror).await.unwrap_err().category(), Category::Unavailable);
    bed.repo.clear_faults();
    assert_eq!(
        fetch(&mirror).await.unwrap().movements,
        [
            movement("refs/heads/main", Some(&first), Some(&second), false),
            movement("refs/heads/old", Some(&first), None, false),
        ]
    );
}

#[tokio::test]
async fn every_movement_is_handed_on_once() {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let on_move = {
        let heard = heard.clone();
        move |remote: &Remote, moves: &[windlass_vcs::mirror::Movement]| {
            heard
                .lock()
                .unwrap()
                .extend(moves.iter().map(|movement| (remote.digest(), movement.name.clone())));
        }
    };
    let bed = Bed::with(MirrorOptions { on_move: Some(Arc::new(on_move)), ..options() }).await;
    let mirror = bed.mirror();
    for _ in 0..3 {
        fetch(&mirror).await.unwrap();
    }
    assert_eq!(*heard.lock().unwrap(), [(mirror.digest().to_owned(), "refs/heads/main".to_owned())]);
}

#[tokio::test]
async fn tidying_puts_packs_together_and_readers_do_not_notice() {
    let bed = Bed::new().await;
    let mirror = bed.mirror();
    fetch(&mirror).await.unwrap();
    let reader = mirror.repo().unwrap();
    let mut commits = vec![bed.repo.tip().unwrap()];
    for number in 0..8 {
        commits.push(bed.repo.commit_files(&[("a.yaml", Some(&format!("a: {number}\n")))], "more").unwrap());
        fetch(&mirror).await.unwrap();
    }
    let tidied = mirror.tidy(false, &CancellationToken::new()).await.unwrap();
    assert_eq!((tidied.packs_before, tidied.thorough), (9, false));
    assert!(tidied.packs_after < 4, "{tidied:?}");
    // One that was opened before all of it, and one from now.
    for commit in &commits {
        reader.tree_of(id(commit)).unwrap();
        mirror.repo().unwrap().tree_of(id(commit)).unwrap();
    }
    let tidied = mirror.tidy(true, &CancellationToken::new()).await.unwrap();
    assert_eq!((tidied.packs_after, tidied.thorough), (1, true));
    for commit in &commits {
        reader.tree_of(id(commit)).unwrap();
    }
    assert!(mirror.is_whole(Depth::Content, &CancellationToken::new()).await.unwrap());
}

#[tokio::test]
async fn what_was_force_pushed_or_deleted_stays_for_its_time_of_grace() {
    let tidying = |grace| Tidying { automatic: false, grace, ..Tidying::default() };
    let bed = Bed::with(MirrorOptions { tidying: tidying(Duration::from_secs(3600)), ..options() }).await;
    let mirror = bed.mirror();
    let second = bed.repo.commit_files(&[("a.yaml", Some("a: 2\n"))], "second").unwrap();
    let side = bed.repo.commit("side").on("side").file("s", "s").write().unwrap();
    fetch(&mirror).await.unwrap();
    bed.repo.force_push(&[("a.yaml", Some("a: 3\n"))], "third").unwrap();
    bed.repo.delete_branch("side").unwrap();
    fetch(&mirror).await.unwrap();
    let cancel = CancellationToken::new();
    assert!(mirror.tidy(true, &cancel).await.unwrap().thorough);
    for commit in [&second, &side] {
        mirror.repo().unwrap().tree_of(id(commit)).unwrap();
    }
    drop(mirror);
    // The same mirror, without grace.
    let mirrors = bed.reopened(MirrorOptions { tidying: tidying(Duration::ZERO), ..options() });
    let mirror = mirrors.mirror(&bed.remote()).unwrap();
    let user = mirror.keep_objects().await;
    assert!(!mirror.tidy(true, &cancel).await.unwrap().thorough, "somebody works with objects");
    mirror.repo().unwrap().tree_of(id(&second)).unwrap();
    drop(user);
    assert!(mirror.tidy(true, &cancel).await.unwrap().thorough);
    for commit in [&second, &side] {
        assert!(mirror.repo().unwrap().tree_of(id(commit)).is_err(), "{commit} is past its time");
    }
    assert!(fetch(&mirror).await.unwrap().movements.is_empty());
    assert!(read_all(&mirror) > 0);
}

#[tokio::test]
async fn packs_are_put_together_by_themselves() {
    let tidying = Tidying { packs: 5, ..Tidying::default() };
    let bed = Bed::with(MirrorOptions { tidying, ..options() }).await;
    let mirror = bed.mirror();
    for number in 0..12 {
        bed.repo.commit_files(&[("a.yaml", Some(&format!("a: {number}\n")))], "more").unwrap();
        fetch(&mirror).await.unwrap();
    }
    let packs = || {
        git(&mirror.git_dir(), &["count-objects", "-v"])
            .lines()
            .find_map(|line| line.strip_prefix("packs: ")?.parse::<usize>().ok())
            .unwrap()
    };
    eventually("fewer packs", || packs() < 6).await;
    assert_eq!(read_all(&mirror), 2);
}

#[tokio::test]
async fn a_broken_mirror_is_cloned_anew() {
    let bed = Bed::new().await;
    let mirror = bed.mirror();
    fetch(&mirror).await.unwrap();
    let packs = |extension: &str| {
        let entries = std::fs::read_dir(mirror.git_dir().join("objects/pack")).unwrap().flatten();
        entries
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|found| found == extension))
            .collect::<Vec<_>>()
    };
    // A byte of the pack's middle is another: only reading finds that.
    let pack = packs("pack").remove(0);
    let mut bytes = std::fs::read(&pack).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0xff;
    std::fs::remove_file(&pack).unwrap();
    std::fs::write(&pack, bytes).unwrap();
    assert!(!mirror.is_whole(Depth::Content, &CancellationToken::new()).await.unwrap());
    mirror.report_corrupt();
    let fetched = fetch(&mirror).await.unwrap();
    assert!(fetched.cloned_anew && fetched.movements.is_empty(), "{fetched:?}");
    assert!(mirror.is_whole(Depth::Content, &CancellationToken::new()).await.unwrap());
    assert_eq!(read_all(&mirror), 2);
    // All objects are gone: git gets them again when there is news.
    for path in packs("pack").into_iter().chain(packs("idx")) {
        std::fs::remove_file(path).unwrap();
    }
    bed.repo.commit_files(&[("a.yaml", Some("a: 2\n"))], "second").unwrap();
    fetch(&mirror).await.unwrap();
    assert!(mirror.is_whole(Depth::Content, &CancellationToken::new()).await.unwrap());
    assert_eq!(read_all(&mirror), 2);
    // A ref that is half written, found by the next process.
    put(&mirror.git_dir().join("refs/remotes/origin/main"), "0123");
    let mirrors = bed.reopened(options());
    let mirror = mirrors.mirror(&bed.remote()).unwrap();
    assert!(fetch(&mirror).await.unwrap().cloned_anew);
    // No repository at all where one should be.
    std::fs::write(mirror.git_dir().join("config"), "[core").unwrap();
    let mirrors = bed.reopened(options());
    let mirror = mirrors.mirror(&bed.remote()).unwrap();
    assert_eq!(mirror.repo().unwrap_err().category(), Category::Corrupt);
    assert!(fetch(&mirror).await.unwrap().cloned_anew);
    assert_eq!(read_all(&mirror), 2);
    let left: Vec<_> =
        std::fs::read_dir(mirror.folder()).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().starts_with("git.")), "{left:?}");
}

#[tokio::test]
async fn a_broken_mirror_stays_readable_while_the_remote_is_down() {
    let bed = Bed::new().await;
    let mirror = bed.mirror();
    fetch(&mirror).await.unwrap();
    let tip = id(&bed.repo.tip().unwrap());
    put(&mirror.git_dir().join("refs/remotes/origin/broken"), "0123");
    bed.repo.fault(Fault::ServerError);
    mirror.report_corrupt();
    for _ in 0..2 {
        assert_eq!(fetch(&mirror).await.unwrap_err().category(), Category::Unavailable);
        mirror.repo().unwrap().tree_of(tip).unwrap();
    }
    bed.repo.clear_faults();
    assert!(fetch(&mirror).await.unwrap().cloned_anew);
    assert_eq!(mirror.refs().unwrap().len(), 1);
}

#[tokio::test]
async fn leftovers_of_a_killed_process_are_swept() {
    let bed = Bed::new().await;
    let mirror = bed.mirror();
    fetch(&mirror).await.unwrap();
    let git_dir = mirror.git_dir();
    let left = [
        "refs/remotes/origin/main.lock",
        "packed-refs.lock",
        "config.lock",
        "objects/pack/tmp_pack_abc",
        "objects/pack/pack-0000000000000000000000000000000000000000.pack",
        "objects/pack/pack-0000000000000000000000000000000000000000.keep",
        "objects/pack/.tmp-1-pack-1.idx",
        "objects/tmp_obj_abc",
    ];
    for path in left {
        put(&git_dir.join(path), "left");
    }
    std::fs::write(mirror.folder().join("writing"), "").unwrap();
    std::fs::create_dir(mirror.folder().join("git.fresh")).unwrap();
    drop(mirror);
    let mirrors = bed.reopened(options());
    let mirror = mirrors.mirror(&bed.remote()).unwrap();
    for path in left {
        assert!(!git_dir.join(path).exists(), "{path}");
    }
    bed.repo.commit_files(&[("a.yaml", Some("a: 2\n"))], "second").unwrap();
    let fetched = fetch(&mirror).await.unwrap();
    assert_eq!((fetched.movements.len(), fetched.cloned_anew), (1, false));
    assert!(!mirror.folder().join("writing").exists() && !mirror.folder().join("git.fresh").exists());
}

#[tokio::test]
async fn two_writers_do_not_meet() {
    let bed = Bed::with(MirrorOptions { lock_wait: Duration::from_millis(300), ..options() }).await;
    let mirror = bed.mirror();
    fetch(&mirror).await.unwrap();
    let lock = std::fs::OpenOptions::new().read(true).write(true).open(mirror.folder().join("lock")).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    // Without news nobody needs to write.
    fetch(&mirror).await.unwrap();
    bed.repo.commit_files(&[("a.yaml", Some("a: 2\n"))], "second").unwrap();
    assert_eq!(fetch(&mirror).await.unwrap_err().category(), Category::Busy);
    drop(lock);
    assert_eq!(fetch(&mirror).await.unwrap().movements.len(), 1);
}

#[tokio::test]
async fn many_remotes_live_in_one_folder_and_unused_ones_go() {
    let bed = Bed::new().await;
    let remotes: Vec<_> = (0..4)
        .map(|number| {
            let repo = bed.server.repo_with_files(&format!("team/r{number}"), &[("a", "1")]).unwrap();
            Remote::new(&repo.url()).unwrap()
        })
        .collect();
    let scoped = remotes[0].clone().in_scope("tenant");
    for remote in remotes.iter().chain([&scoped]) {
        fetch(&bed.mirrors.mirror(remote).unwrap()).await.unwrap();
    }
    let folders = || {
        std::fs::read_dir(bed.work.path())
            .unwrap()
            .flatten()
            .filter(|entry| entry.file_name().len() == 32)
            .count()
    };
    assert_eq!(folders(), 5, "a scope has a mirror of its own");
    let same = Remote::new(remotes[0].url().to_string().trim_end_matches(".git")).unwrap();
    assert!(Arc::ptr_eq(&bed.mirrors.mirror(&same).unwrap(), &bed.mirrors.mirror(&remotes[0]).unwrap()));
    let held = bed.mirrors.mirror(&remotes[3]).unwrap();
    assert_eq!(bed.mirrors.retain(&remotes[..2]).unwrap(), 2);
    assert_eq!(folders(), 3, "one that is held stays");
    held.repo().unwrap();
    drop(held);
    // Those of an earlier run too.
    assert_eq!(bed.reopened(options()).retain(&remotes[..1]).unwrap(), 2);
    assert!(bed.mirrors.remove(&remotes[0]).unwrap());
    assert_eq!(folders(), 0);
}

#[tokio::test]
async fn shallow_and_blobless_mirrors_get_less() {
    let bed = Bed::new().await;
    for number in 0..5 {
        bed.repo.commit_files(&[("a.yaml", Some(&format!("a: {number}\n")))], "more").unwrap();
    }
    let tip = id(&bed.repo.tip().unwrap());
    let work = tempfile::tempdir().unwrap();
    let open = |name: &str, options| {
        let mirrors = windlass_vcs::mirror::Mirrors::new(&work.path().join(name), options).unwrap();
        mirrors.mirror(&bed.remote()).unwrap()
    };
    let shallow = open("shallow", MirrorOptions { depth: std::num::NonZeroU32::new(1), ..options() });
    fetch(&shallow).await.unwrap();
    assert_eq!(git(&shallow.git_dir(), &["rev-list", "--count", "--all"]), "1");
    assert_eq!(read_all(&shallow), 2);
    bed.repo.commit_files(&[("a.yaml", Some("a: x\n"))], "more").unwrap();
    assert_eq!(fetch(&shallow).await.unwrap().movements.len(), 1);
    let blobless = open("blobless", MirrorOptions { blobless: true, ..options() });
    fetch(&blobless).await.unwrap();
    let missing = |commit: &str| {
        let listed =
            git(&blobless.git_dir(), &["rev-list", "--objects", "--no-walk", "--missing=print", commit]);
        listed.lines().filter(|line| line.starts_with('?')).count()
    };
    let new_tip = bed.repo.tip().unwrap();
    assert_eq!(missing(&new_tip), 2);
    blobless.complete(id(&new_tip), &CancellationToken::new()).await.unwrap();
    assert_eq!(missing(&new_tip), 0);
    assert!(missing(&tip.to_string()) > 0);
    assert!(blobless.is_whole(Depth::Connectivity, &CancellationToken::new()).await.unwrap());
    blobless.tidy(true, &CancellationToken::new()).await.unwrap();
    assert_eq!(missing(&new_tip), 0);
}

#[tokio::test]
async fn a_folder_can_be_mirrored_in_tests() {
    let bed = Bed::new().await;
    let url = format!("file://{}", bed.repo.path().display());
    let remote = Remote::with_policy(&url, UrlPolicy { file: true }).unwrap();
    let mirror = bed.mirrors.mirror(&remote).unwrap();
    assert_eq!(fetch(&mirror).await.unwrap().movements.len(), 1);
}
