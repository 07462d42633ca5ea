//! What Applications follow, and what they hear of it.

use std::time::Duration;

use windlass_deliver::origin::{Follow, Origin, Push, Sighting};
use windlass_testbed::git::Kind;

use crate::bed::{Bed, app, eventually, source};

fn push(bed: &Bed) -> Push {
    Push { urls: vec![bed.repo.url()], ..Push::default() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_applications_of_one_repository_cost_one_fetch() {
    let bed = Bed::new().await;
    let tip = bed.repo.tip().unwrap();
    let follows: Vec<Follow> = (0..50).map(|number| bed.follow(&format!("app-{number}"), None)).collect();
    for follow in &follows {
        // Never waits for the network, so the first ones see nothing yet.
        assert!(!matches!(bed.repos.look(follow).await, Sighting::Trouble(_)));
    }
    for follow in &follows {
        let seen = bed.until_at(follow, &tip).await;
        assert_eq!((seen.name.as_deref(), seen.stale), (Some("main"), None));
    }
    assert_eq!(bed.repo.count(Kind::UploadPack), 1);
    let quiet = bed.server.log().total();
    let began = std::time::Instant::now();
    for follow in &follows {
        bed.until_at(follow, &tip).await;
    }
    println!("a quiet look: {:?}", began.elapsed() / 50);
    assert_eq!(bed.server.log().total(), quiet, "a look asks the network for nothing");
    assert_eq!(bed.hub.reads(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_wakes_exactly_those_who_follow_what_moved() {
    let bed = Bed::new().await;
    let first = bed.repo.tip().unwrap();
    bed.repo.branch("release").unwrap();
    bed.repo.tag("v1", &first).unwrap();
    let on_default = bed.follow("default", None);
    let on_main = bed.follow("main", Some("main"));
    let on_release = bed.follow("release", Some("refs/heads/release"));
    let on_tag = bed.follow("tag", Some("v1"));
    let on_commit = bed.follow("commit", Some(&first));
    let all = [&on_default, &on_main, &on_release, &on_tag, &on_commit];
    for follow in all {
        bed.until_at(follow, &first).await;
    }
    bed.wakes.lock().unwrap().clear();
    let second = bed.repo.commit_files(&[("a/one.yaml", Some("one: 2\n"))], "second").unwrap();
    assert_eq!(bed.repos.pushed(&push(&bed)), 1);
    let seen = bed.until_at(&on_main, &second).await;
    assert_eq!(seen.before.as_deref(), Some(first.as_str()));
    assert_eq!(seen.movements[0].to.as_deref(), Some(second.as_str()));
    assert_eq!(seen.movements[0].from.as_deref(), Some(first.as_str()));
    assert!(!seen.movements[0].forced && seen.movements[0].at.is_some());
    bed.until_at(&on_default, &second).await;
    for (follow, wakes) in all.into_iter().zip([1, 1, 0, 0, 1]) {
        assert_eq!(bed.woken(&follow.app), wakes, "{}", follow.app);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repository_without_hooks_is_polled_as_often_as_the_most_eager_wants() {
    let bed = Bed::new().await;
    let first = bed.repo.tip().unwrap();
    let lazy = bed.follow("lazy", None);
    bed.until_at(&lazy, &first).await;
    // Comes later, and changes when the next fetch is due.
    let eager = Follow { interval: Duration::from_millis(200), ..bed.follow("eager", None) };
    bed.until_at(&eager, &first).await;
    let second = bed.repo.commit_files(&[("a/one.yaml", Some("one: 2\n"))], "second").unwrap();
    bed.until_at(&lazy, &second).await;
    // With the eager one gone the lazy one decides again.
    bed.repos.forget(&eager.app);
    tokio::time::sleep(Duration::from_millis(500)).await;
    let quiet = bed.server.log().total();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(bed.server.log().total(), quiet);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_force_push_is_followed_and_told() {
    let bed = Bed::new().await;
    let first = bed.repo.tip().unwrap();
    let follow = bed.follow("web", Some("main"));
    bed.until_at(&follow, &first).await;
    let second = bed.repo.force_push(&[("a/one.yaml", Some("other\n"))], "rewritten").unwrap();
    bed.repos.pushed(&push(&bed));
    let seen = bed.until_at(&follow, &second).await;
    assert!(seen.movements[0].forced, "{seen:?}");
    assert_eq!(seen.before.as_deref(), Some(first.as_str()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_branch_is_trouble_that_names_where_it_was_and_ends_when_it_is_back() {
    let bed = Bed::new().await;
    let first = bed.repo.tip().unwrap();
    bed.repo.branch("release").unwrap();
    let follow = bed.follow("web", Some("release"));
    bed.until_at(&follow, &first).await;
    bed.repo.delete_branch("release").unwrap();
    bed.repos.pushed(&push(&bed));
    let trouble = bed.until_trouble(&follow, "RevisionDeleted").await;
    assert!(trouble.waits_for_change && trouble.what.contains(&first), "{trouble:?}");
    bed.wakes.lock().unwrap().clear();
    bed.repo.branch("release").unwrap();
    bed.repos.pushed(&push(&bed));
    eventually("the wake", || bed.woken(&follow.app) == 1).await;
    bed.until_at(&follow, &first).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revision_that_never_was_is_trouble_with_names_that_are_near() {
    let bed = Bed::new().await;
    let trouble = bed.until_trouble(&bed.follow("web", Some("mian")), "RevisionNotFound").await;
    assert!(trouble.what.contains("did you mean main"), "{trouble:?}");
    let trouble = bed.until_trouble(&bed.follow("odd", Some("main~1")), "RevisionInvalid").await;
    assert!(trouble.remedy.contains("spec.source.revision"), "{trouble:?}");
    let empty = bed.server.empty_repo("empty").unwrap();
    let follow = Follow { source: source(&empty.url()), ..bed.follow("empty", None) };
    bed.until_trouble(&follow, "RevisionNotFound").await;
    let bad = Follow { source: source("file:///etc"), ..bed.follow("bad", None) };
    bed.until_trouble(&bad, "RepositoryAddressInvalid").await;
    let ssh = Follow { source: source("git@git.example.org:team/app.git"), ..bed.follow("ssh", None) };
    bed.until_trouble(&ssh, "CredentialsMissing").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repository_that_nobody_follows_any_more_is_left_alone() {
    let bed = Bed::new().await;
    let tip = bed.repo.tip().unwrap();
    let follow = Follow { interval: Duration::from_millis(100), ..bed.follow("web", None) };
    bed.until_at(&follow, &tip).await;
    bed.repos.forget(&follow.app);
    bed.repos.forget(&app("shop", "who-never-was"));
    tokio::time::sleep(Duration::from_millis(500)).await;
    let quiet = bed.server.log().total();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(bed.server.log().total(), quiet);
    assert_eq!(bed.repos.pushed(&push(&bed)), 0);
    // And it is taken up again.
    let next = bed.repo.commit_files(&[("a/one.yaml", Some("one: 2\n"))], "second").unwrap();
    bed.until_at(&follow, &next).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mirrors_that_nobody_follows_are_removed() {
    let settings = windlass_deliver::origin::Settings {
        sweep_every: Duration::from_millis(300),
        ..crate::bed::settings()
    };
    let bed = Bed::with(settings).await;
    let other = bed.server.repo_with_files("other", &[("a", "b")]).unwrap();
    let (stays, goes) =
        (bed.follow("stays", None), Follow { source: source(&other.url()), ..bed.follow("goes", None) });
    bed.until_at(&stays, &bed.repo.tip().unwrap()).await;
    bed.until_at(&goes, &other.tip().unwrap()).await;
    assert_eq!(bed.mirrors(), 2);
    bed.repos.forget(&goes.app);
    eventually("the removal", || bed.mirrors() == 1).await;
    tokio::time::sleep(Duration::from_millis(700)).await;
    assert_eq!(bed.mirrors(), 1, "what is followed stays");
    bed.until_at(&stays, &bed.repo.tip().unwrap()).await;
    assert_eq!(bed.repo.count(Kind::UploadPack), 1);
}
