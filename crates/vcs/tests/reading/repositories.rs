//! Fetch, journal and Jujutsu, put together.

use tokio_util::sync::CancellationToken;
use windlass_vcs::{
    id::CommitId,
    journal::{Before, Pusher},
    mirror::{Fetched, MirrorOptions, Mirrors},
    push::{Options, Outcome, push},
    remote::{Remote, UrlPolicy},
    repositories::{Repositories, RepositoriesError},
    revision::Resolved,
    tree::{self, RepoPath},
    write::{CommitSpec, Edits, Message, Person},
};

use crate::support::{
    git::{Scene, file},
    jj::{self, Jj},
};

const MAIN: &str = "refs/heads/main";

/// A work dir for the remote of a scene.
struct Work {
    scene: Scene,
    remote: Remote,
}

impl Work {
    fn new() -> Self {
        let scene = Scene::new();
        let url = format!("file://{}", scene.remote.path.display());
        let remote = Remote::with_policy(&url, UrlPolicy { file: true }).unwrap();
        Self { scene, remote }
    }

    fn open(&self) -> Repositories {
        let (repositories, moved) =
            Repositories::open(&self.scene.dir.path().join("work"), MirrorOptions::default()).unwrap();
        assert_eq!(moved, None);
        repositories
    }

    fn commit(&self, text: &str) -> CommitId {
        self.scene.commit("main", &[("a", file(text))])
    }

    async fn fetch(&self, repositories: &Repositories) -> Fetched {
        repositories.fetch(&self.remote, &CancellationToken::new()).await.unwrap()
    }

    async fn resolve(&self, repositories: &Repositories, text: &str) -> Result<Resolved, RepositoriesError> {
        repositories.resolve(&self.remote, &text.parse().unwrap()).await
    }

    /// Where a ref went, oldest first; checks that every move begins where the one before it ended.
    async fn history(&self, repositories: &Repositories, name: &str) -> Vec<Option<CommitId>> {
        let mut moves = repositories.history(&self.remote, name, 99).await.unwrap();
        moves.reverse();
        let mut at = None;
        for entry in &moves {
            assert_eq!(entry.from, at, "{moves:?}");
            at = entry.to;
        }
        moves.iter().map(|entry| entry.to).collect()
    }
}

#[tokio::test]
async fn what_a_killed_process_fetched_and_did_not_record_is_recorded_by_the_next() {
    let work = Work::new();
    let first = work.commit("1");
    let repositories = work.open();
    work.fetch(&repositories).await;
    let second = work.commit("2");
    let fetched = work.fetch(&repositories).await;
    assert_eq!(fetched.movements.len(), 1);
    let before = repositories.before(&work.remote, MAIN, second).await.unwrap();
    assert_eq!(before, Before::At(first));
    drop(repositories);
    // A mirror without a journal is a process that was killed between the two.
    let third = work.commit("3");
    let mirrors = Mirrors::new(&work.scene.dir.path().join("work"), MirrorOptions::default()).unwrap();
    mirrors.mirror(&work.remote).unwrap().fetch(&CancellationToken::new()).await.unwrap();
    drop(mirrors);
    let fourth = work.commit("4");
    let repositories = work.open();
    work.fetch(&repositories).await;
    let told = work.history(&repositories, MAIN).await;
    assert_eq!(told, [first, second, third, fourth].map(Some));
    let forced = |entry: windlass_vcs::journal::Move| entry.forced;
    let moves = repositories.history(&work.remote, MAIN, 99).await.unwrap();
    assert!(!moves.into_iter().any(forced), "all of it went forward");
}

#[tokio::test]
async fn a_mirror_that_is_lost_does_not_begin_history_anew() {
    let work = Work::new();
    let first = work.commit("1");
    work.scene.remote.run(&["update-ref", "refs/heads/gone", &first.to_string()]);
    work.scene.remote.run(&["update-ref", "refs/heads/still", &first.to_string()]);
    let repositories = work.open();
    work.fetch(&repositories).await;
    drop(repositories);
    std::fs::remove_dir_all(work.scene.dir.path().join("work").join(work.remote.digest())).unwrap();
    work.scene.remote.run(&["update-ref", "-d", "refs/heads/gone"]);
    let second = work.commit("2");
    let repositories = work.open();
    work.fetch(&repositories).await;
    assert_eq!(work.history(&repositories, MAIN).await, [first, second].map(Some));
    assert_eq!(work.history(&repositories, "refs/heads/gone").await, [Some(first), None]);
    assert_eq!(work.history(&repositories, "refs/heads/still").await, [Some(first)]);
}

#[tokio::test]
async fn who_pushed_is_recorded_with_the_move() {
    let work = Work::new();
    let first = work.commit("1");
    work.scene.remote.run(&["update-ref", "refs/heads/other", &first.to_string()]);
    let repositories = work.open();
    let ada = Pusher { name: "ada".to_owned(), via: "hook".to_owned() };
    work.fetch(&repositories).await;
    let second = work.commit("2");
    repositories.pushed_by(&work.remote, second, ada.clone());
    work.fetch(&repositories).await;
    let moves = repositories.history(&work.remote, MAIN, 9).await.unwrap();
    assert_eq!(moves.iter().map(|entry| entry.who.clone()).collect::<Vec<_>>(), [Some(ada), None]);
}

#[tokio::test]
async fn a_push_of_our_own_is_recorded_with_our_name_even_if_we_die_before_the_next_fetch() {
    let work = Work::new();
    let first = work.commit("1");
    let repositories = work.open();
    work.fetch(&repositories).await;
    let cancel = CancellationToken::new();
    let link = repositories.link(&work.remote).await.unwrap();
    let repo = link.repo(&cancel).await.unwrap();
    let person =
        || Person::new("Ada", "ada@example.org", jiff::Timestamp::from_second(1_700_000_000).unwrap());
    let write = async |path: &str| {
        let mut edits = Edits::new();
        edits.upsert(path, "1").unwrap();
        let (author, committer, message) = (person(), person(), Message::new("Change"));
        let spec = CommitSpec { edits, author, committer, message, signer: None, change_id: None };
        let plan = async |_| Ok::<_, std::convert::Infallible>(Some(vec![spec.clone()]));
        match push(&link, &repo, "main", &Options::default(), &cancel, plan).await.unwrap() {
            Outcome::Pushed { commits, .. } => commits[0],
            other => panic!("{other:?}"),
        }
    };
    let second = write("b").await;
    let us = Pusher { name: "windlass".to_owned(), via: "push".to_owned() };
    repositories.pushed_by(&work.remote, second, us.clone());
    work.fetch(&repositories).await;
    let third = write("c").await;
    drop((link, repo, repositories));
    let repositories = work.open();
    work.fetch(&repositories).await;
    assert_eq!(work.history(&repositories, MAIN).await, [first, second, third].map(Some));
    let moves = repositories.history(&work.remote, MAIN, 9).await.unwrap();
    assert_eq!(moves[1].who, Some(us));
}

#[tokio::test]
async fn a_fetch_tells_jujutsu_and_a_change_is_followed_through_rewrites() {
    let work = Work::new();
    let mut user = Jj::new(&work.scene);
    let base = user.commit(&[], &[("a", "1")], "base");
    user.push(&base, "main");
    let repositories = work.open();
    let change = jj::change(&base).to_string();
    assert!(work.resolve(&repositories, &change).await.is_err(), "nothing was fetched yet");
    work.fetch(&repositories).await;
    let resolved = work.resolve(&repositories, &change).await.unwrap();
    assert_eq!(resolved.commit, jj::id(&base));
    let rewritten = user.describe(&base, "better");
    user.push(&rewritten, "main");
    work.fetch(&repositories).await;
    assert_eq!(work.resolve(&repositories, &change).await.unwrap().commit, jj::id(&rewritten));
    let moves = repositories.history(&work.remote, MAIN, 9).await.unwrap();
    assert_eq!(moves.iter().map(|entry| entry.forced).collect::<Vec<_>>(), [true, false]);
    // The next process finds the store and goes on with it.
    drop(repositories);
    let again = user.describe(&rewritten, "best");
    user.push(&again, "main");
    let repositories = work.open();
    work.fetch(&repositories).await;
    assert_eq!(work.resolve(&repositories, &change[..8]).await.unwrap().commit, jj::id(&again));
    assert_eq!(repositories.retain(&[]).await.unwrap(), 1, "the engine does not hold the mirror");
    assert_eq!(work.history(&repositories, MAIN).await.len(), 3, "the journal stays");
}

#[tokio::test]
async fn a_conflicted_commit_is_not_resolved_to() {
    let work = Work::new();
    let mut user = Jj::new(&work.scene);
    let base = user.commit(&[], &[("a", "base\n")], "base");
    let theirs = user.commit(&[&base], &[("a", "theirs\n")], "theirs");
    let ours = user.commit(&[&base], &[("a", "ours\n")], "ours");
    let rebased = user.rebase(&ours, &theirs);
    user.push(&rebased, "main");
    user.push(&theirs, "theirs");
    let repositories = work.open();
    work.fetch(&repositories).await;
    for revision in ["main".to_owned(), jj::change(&rebased).to_string()] {
        let error = work.resolve(&repositories, &revision).await.unwrap_err();
        assert_eq!(error.category(), "Conflicted", "{error}");
        assert!(error.to_string().contains(" in a:"), "{error}");
    }
    assert_eq!(work.resolve(&repositories, "theirs").await.unwrap().commit, jj::id(&theirs));
}

#[tokio::test]
async fn a_store_that_cannot_be_used_stops_no_branch() {
    let work = Work::new();
    let mut user = Jj::new(&work.scene);
    let base = user.commit(&[], &[("a", "1")], "base");
    user.push(&base, "main");
    let repositories = work.open();
    let mirror = repositories.mirror(&work.remote).await.unwrap();
    // Neither can a store be read there nor one be made.
    std::fs::write(mirror.folder().join("jj"), "not a folder").unwrap();
    std::fs::create_dir_all(mirror.folder().join("jj.broken")).unwrap();
    work.fetch(&repositories).await;
    assert_eq!(work.resolve(&repositories, "main").await.unwrap().commit, jj::id(&base));
}

#[tokio::test]
async fn a_commit_that_would_fill_the_memory_is_refused_and_disturbs_no_other() {
    let work = Work::new();
    let good = work.commit("1");
    let remote = &work.scene.remote;
    let tree = remote.run(&["rev-parse", "main^{tree}"]);
    let head = format!("tree {tree}\nauthor A <a@b> 1 +0000\ncommitter A <a@b> 1 +0000\n\n");
    let bomb = remote.raw("commit", &[head.as_bytes(), &vec![b'x'; 130 << 20]].concat());
    remote.run(&["update-ref", "refs/heads/bomb", &bomb]);
    let repositories = work.open();
    work.fetch(&repositories).await;
    let error = work.resolve(&repositories, "bomb").await.unwrap_err();
    assert_eq!(error.category(), "TooLarge", "{error}");
    assert_eq!(work.resolve(&repositories, "main").await.unwrap().commit, good);
    let mirror = repositories.mirror(&work.remote).await.unwrap();
    let repo = mirror.repo().unwrap();
    let error = tree::hash(&repo, bomb.parse::<CommitId>().unwrap(), &RepoPath::root()).unwrap_err();
    assert_eq!(error.category(), "TooLarge", "{error}");
    // After a crash everything is looked at: it is no reason to clone anew.
    std::fs::write(mirror.folder().join("writing"), "").unwrap();
    assert!(!work.fetch(&repositories).await.cloned_anew);
}
