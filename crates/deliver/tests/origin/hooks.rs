//! Pushes that hooks tell of.

use std::time::{Duration, Instant};

use windlass_deliver::origin::{Follow, Origin, Push};
use windlass_testbed::git::{Fault, Kind};

use crate::bed::{Bed, app, eventually, source};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_storm_of_pushes_is_coalesced() {
    let bed = Bed::new().await;
    let follow = bed.follow("web", None);
    bed.until_at(&follow, &bed.repo.tip().unwrap()).await;
    let before = bed.repo.count(Kind::ListRefs);
    let push = Push { urls: vec![bed.repo.url()], ..Push::default() };
    for _ in 0..100 {
        assert_eq!(bed.repos.pushed(&push), 1);
    }
    eventually("a fetch", || bed.repo.count(Kind::ListRefs) > before).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let fetches = bed.repo.count(Kind::ListRefs) - before;
    assert!((1..=3).contains(&fetches), "{fetches}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pushes_during_a_fetch_lead_to_exactly_one_more() {
    let bed = Bed::new().await;
    let follow = bed.follow("web", None);
    bed.until_at(&follow, &bed.repo.tip().unwrap()).await;
    let push = Push { urls: vec![bed.repo.url()], ..Push::default() };
    let (begun, done) = (bed.repo.count(Kind::FetchRefs), bed.repo.count(Kind::ListRefs));
    bed.repo.fault(Fault::Hang);
    bed.repos.pushed(&push);
    eventually("the fetch", || bed.repo.count(Kind::FetchRefs) == begun + 1).await;
    // Arrives while the fetch that cannot see it any more is under way.
    let second = bed.repo.commit_files(&[("a/one.yaml", Some("one: 2\n"))], "second").unwrap();
    for _ in 0..10 {
        bed.repos.pushed(&push);
    }
    bed.repo.clear_faults();
    bed.until_at(&follow, &second).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    // It asks for the refs twice: to see what there is, and to fetch it.
    assert_eq!(bed.repo.count(Kind::ListRefs), done + 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_push_that_the_server_tells_of_too_early_is_found_soon_after() {
    let bed = Bed::new().await;
    let first = bed.repo.tip().unwrap();
    let follow = bed.follow("web", Some("main"));
    bed.until_at(&follow, &first).await;
    let second = bed.repo.commit_files(&[("a/one.yaml", Some("one: 2\n"))], "second").unwrap();
    bed.repo.reset_to(&first).unwrap();
    let push = Push {
        urls: vec![bed.repo.url()],
        reference: Some("refs/heads/main".into()),
        commit: Some(second.clone()),
        pusher: None,
    };
    let before = bed.repo.count(Kind::ListRefs);
    bed.repos.pushed(&push);
    eventually("the fetch", || bed.repo.count(Kind::ListRefs) > before).await;
    // The copy that answered has it a little later.
    tokio::time::sleep(Duration::from_millis(300)).await;
    bed.repo.set_branch("main", &second).unwrap();
    bed.until_at(&follow, &second).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hook_finds_the_repository_by_any_of_its_addresses_and_says_who_pushed() {
    let bed = Bed::new().await;
    let follow = bed.follow("web", Some("main"));
    bed.until_at(&follow, &bed.repo.tip().unwrap()).await;
    let second = bed.repo.commit_files(&[("a/one.yaml", Some("one: 2\n"))], "second").unwrap();
    let push = |url: &str| Push {
        urls: vec!["https://elsewhere.example.org/x".into(), url.to_owned()],
        reference: Some("refs/heads/main".into()),
        commit: Some(second.clone()),
        pusher: Some("mara\u{7}".into()),
    };
    assert_eq!(bed.repos.pushed(&push("https://127.0.0.1/team/other.git")), 0);
    assert_eq!(bed.repos.pushed(&push("no address at all")), 0);
    assert_eq!(bed.repos.pushed(&push("ssh://git@127.0.0.1/team/App.git")), 1);
    let seen = bed.until_at(&follow, &second).await;
    assert_eq!(seen.movements[0].by.as_deref(), Some("mara"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_push_is_answered_at_once_with_fifteen_hundred_repositories_followed() {
    let bed = Bed::new().await;
    // Nobody is there, and all are being asked.
    for number in 0..1500 {
        let url = format!("http://127.0.0.1:1/team/app-{number}.git");
        let follow = Follow { source: source(&url), ..bed.follow(&format!("app-{number}"), None) };
        bed.repos.look(&follow).await;
    }
    let push = Push { urls: vec!["https://127.0.0.1/team/app-700".into()], ..Push::default() };
    let mut quickest = Duration::MAX;
    for _ in 0..20 {
        let began = Instant::now();
        assert_eq!(bed.repos.pushed(&push), 1);
        quickest = quickest.min(began.elapsed());
    }
    assert!(quickest < Duration::from_millis(100), "{quickest:?}");
    println!("a push with 1500 repositories: {quickest:?}");
    for number in 0..1500 {
        bed.repos.forget(&app("shop", &format!("app-{number}")));
    }
}
