//! Servers that are away, slow or refuse.

use std::time::Duration;

use windlass_deliver::origin::{Follow, Origin, Settings, Sighting, Wanted};
use windlass_testbed::git::{Fault, GitServer};

use crate::bed::{Bed, eventually, settings, source};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_the_server_is_down_the_last_state_is_told_as_stale_and_the_end_is_noticed() {
    let bed = Bed::new().await;
    let first = bed.repo.tip().unwrap();
    let follow = Follow { interval: Duration::from_millis(300), ..bed.follow("web", None) };
    bed.until_at(&follow, &first).await;
    bed.wakes.lock().unwrap().clear();
    bed.repo.fault(Fault::ServerError);
    eventually("the wake", || bed.woken(&follow.app) == 1).await;
    let stale = |sighting: &Sighting| matches!(sighting, Sighting::Found(seen) if seen.stale.is_some());
    let Sighting::Found(seen) = bed.until("staleness", &follow, stale).await else { panic!() };
    let trouble = seen.stale.unwrap();
    assert_eq!((trouble.reason, trouble.waits_for_change), ("RepositoryUnavailable", false));
    assert_eq!(seen.commit, first);
    // The same trouble again is no news.
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(bed.woken(&follow.app), 1);
    bed.repo.clear_faults();
    eventually("the wake", || bed.woken(&follow.app) == 2).await;
    let fresh = |sighting: &Sighting| matches!(sighting, Sighting::Found(seen) if seen.stale.is_none());
    bed.until("freshness", &follow, fresh).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_never_fetched_is_trouble_that_passes() {
    let bed = Bed::new().await;
    bed.repo.fault(Fault::Disconnect);
    let follow = bed.follow("web", Some("main"));
    let trouble = bed.until_trouble(&follow, "RepositoryUnavailable").await;
    assert!(!trouble.waits_for_change, "{trouble:?}");
    let wanted = Wanted {
        app: &follow.app,
        source: &follow.source,
        commit: &bed.repo.tip().unwrap(),
        path: None,
        namespace: None,
        kube_version: None,
    };
    let trouble = bed.repos.render(wanted).await.unwrap_err();
    assert_eq!((trouble.reason, trouble.waits_for_change), ("RepositoryUnavailable", false));
    bed.repo.clear_faults();
    bed.until_at(&follow, &bed.repo.tip().unwrap()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_server_delays_no_other() {
    // One lane only: whoever hangs in it must give it up.
    let bed = Bed::with(Settings { lanes: 1, patience: Duration::from_millis(500), ..settings() }).await;
    let dead = GitServer::start().await.unwrap();
    dead.fault(Fault::Hang);
    let mut hanging = Vec::new();
    for number in 0..5 {
        let repo = dead.repo_with_files(&format!("dead-{number}"), &[("a", "b")]).unwrap();
        let follow = Follow {
            source: source(&repo.url()),
            interval: Duration::from_millis(100),
            ..bed.follow(&format!("dead-{number}"), None)
        };
        assert_eq!(bed.repos.look(&follow).await, Sighting::NotYet);
        hanging.push(follow);
    }
    let alive = Follow { interval: Duration::from_millis(300), ..bed.follow("alive", None) };
    bed.until_at(&alive, &bed.repo.tip().unwrap()).await;
    let second = bed.repo.commit_files(&[("a/one.yaml", Some("one: 2\n"))], "second").unwrap();
    bed.until_at(&alive, &second).await;
    for follow in &hanging {
        let sighting = bed.repos.look(follow).await;
        assert!(!matches!(sighting, Sighting::Found(_)), "{sighting:?}");
    }
    dead.clear_faults();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_restart_with_the_server_hanging_the_last_state_is_there_to_be_rendered() {
    let bed = Bed::new().await;
    let first = bed.repo.tip().unwrap();
    let second = bed.repo.commit_files(&[("a/one.yaml", Some("one: 2\n"))], "second").unwrap();
    let follow = bed.follow("web", Some("main"));
    bed.until_at(&follow, &second).await;
    bed.server.fault(Fault::Hang);
    let bed = bed.restart(Settings { patience: Duration::from_millis(300), ..settings() }).await;
    assert_eq!(bed.repos.look(&follow).await, Sighting::NotYet);
    eventually("the wake", || bed.woken(&follow.app) == 1).await;
    let seen = bed.until_at(&follow, &second).await;
    assert_eq!(seen.stale.unwrap().reason, "RepositoryTimeout");
    for commit in [&first, &second] {
        let wanted = Wanted {
            app: &follow.app,
            source: &follow.source,
            commit,
            path: None,
            namespace: None,
            kube_version: None,
        };
        assert_eq!(bed.repos.render(wanted).await.unwrap().objects.len(), 2);
    }
    bed.server.clear_faults();
    let fresh = |sighting: &Sighting| matches!(sighting, Sighting::Found(seen) if seen.stale.is_none());
    bed.until("freshness", &follow, fresh).await;
}
