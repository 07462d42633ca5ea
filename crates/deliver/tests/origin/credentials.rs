//! Secrets: missing, wrong, rotated, and never shown.

use std::time::Duration;

use windlass_api::application::LocalSecret;
use windlass_deliver::origin::{Follow, Origin, Push, Settings, Sighting, Wanted};

use crate::bed::{Bed, NEVER, app, settings, source};

const PASSWORD: &str = "hush-7f3a-b+c";

fn with_secret(bed: &Bed, namespace: &str, name: &str) -> Follow {
    let mut source = source(&bed.repo.url());
    source.secret_ref = Some(LocalSecret { name: "git".into() });
    Follow { app: app(namespace, name), source, interval: NEVER }
}

async fn private() -> Bed {
    private_with(settings()).await
}

async fn private_with(settings: Settings) -> Bed {
    let bed = Bed::with(settings).await;
    bed.server.user("robot", PASSWORD).set_anonymous_read(false);
    bed
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_secret_is_trouble_until_it_appears() {
    let bed = private().await;
    let follow = with_secret(&bed, "shop", "web");
    let trouble = bed.until_trouble(&follow, "SecretNotFound").await;
    assert!(trouble.waits_for_change && trouble.what.contains("shop/git"), "{trouble:?}");
    bed.hub.put("shop", "git", &[("username", "robot"), ("password", PASSWORD)]);
    bed.repos.secret_changed("shop", "git");
    bed.until_at(&follow, &bed.repo.tip().unwrap()).await;
    assert_eq!(bed.hub.reads(), 2, "however often it was looked");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_credentials_are_trouble_without_them_and_rotated_ones_are_used_at_once() {
    let bed = private().await;
    let follow = with_secret(&bed, "shop", "web");
    let wrong = "not-the-password";
    bed.hub.put("shop", "git", &[("username", "robot"), ("password", wrong)]);
    let trouble = bed.until_trouble(&follow, "RepositoryUnauthorized").await;
    let shown = format!("{trouble:?} {} {:?} {:?}", trouble.message(), bed.repos, follow);
    assert!(!shown.contains(wrong), "{shown}");
    bed.hub.put("shop", "git", &[("username", "robot"), ("password", PASSWORD)]);
    bed.repos.secret_changed("shop", "git");
    // No push and no poll: the new credentials are reason enough.
    bed.until_at(&follow, &bed.repo.tip().unwrap()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn credentials_in_the_address_are_used_and_not_shown() {
    let bed = private().await;
    let url = bed.repo.url_as("robot", PASSWORD);
    let follow =
        Follow { app: app("shop", "web"), source: source(&url), interval: Duration::from_millis(200) };
    let seen = bed.until_at(&follow, &bed.repo.tip().unwrap()).await;
    assert!(seen.stale.is_none());
    bed.server.remove_user("robot");
    let stale = |sighting: &Sighting| matches!(sighting, Sighting::Found(seen) if seen.stale.is_some());
    let sighting = bed.until("staleness", &follow, stale).await;
    let shown = format!("{sighting:?} {:?}", bed.repos);
    assert!(!shown.contains("hush"), "{shown}");
    let broken = url.replace("http://", "ftp://");
    let trouble =
        bed.until_trouble(&Follow { source: source(&broken), ..follow }, "RepositoryAddressInvalid").await;
    assert!(!format!("{trouble:?}").contains("hush"), "{trouble:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_tenant_reads_what_anothers_credentials_fetched() {
    let bed = private().await;
    bed.hub.put("shop", "git", &[("username", "robot"), ("password", PASSWORD)]);
    bed.hub.put("spy", "git", &[("username", "spy"), ("password", "guess")]);
    bed.until_at(&with_secret(&bed, "shop", "web"), &bed.repo.tip().unwrap()).await;
    bed.until_trouble(&with_secret(&bed, "spy", "web"), "RepositoryUnauthorized").await;
    let without = Follow { source: source(&bed.repo.url()), ..with_secret(&bed, "spy", "other") };
    bed.until_trouble(&without, "RepositoryUnauthorized").await;
    // A push is told to all of them: it gives away nothing.
    assert_eq!(bed.repos.pushed(&Push { urls: vec![bed.repo.url()], ..Push::default() }), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_secret_that_cannot_be_used_is_trouble_that_names_it() {
    let bed = private().await;
    for data in [vec![], vec![("username", "robot")], vec![("bearerToken", "a"), ("username", "b")]] {
        bed.hub.put("shop", "git", &data);
        bed.repos.secret_changed("shop", "git");
        let trouble = bed.until_trouble(&with_secret(&bed, "shop", "web"), "SecretInvalid").await;
        assert!(trouble.remedy.contains("shop/git"), "{trouble:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rotated_secret_is_noticed_even_when_nobody_tells() {
    let bed = private_with(Settings { secret_ttl: Duration::from_millis(300), ..settings() }).await;
    let follow = with_secret(&bed, "shop", "web");
    bed.hub.put("shop", "git", &[("username", "robot"), ("password", "wrong")]);
    bed.until_trouble(&follow, "RepositoryUnauthorized").await;
    bed.hub.put("shop", "git", &[("username", "robot"), ("password", PASSWORD)]);
    bed.until_at(&follow, &bed.repo.tip().unwrap()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_its_secret_nothing_is_fetched_and_what_runs_can_still_be_rendered() {
    let bed = private_with(Settings { sweep_every: Duration::from_millis(300), ..settings() }).await;
    let tip = bed.repo.tip().unwrap();
    let follow = Follow { interval: Duration::from_millis(100), ..with_secret(&bed, "shop", "web") };
    bed.hub.put("shop", "git", &[("username", "robot"), ("password", PASSWORD)]);
    bed.until_at(&follow, &tip).await;
    bed.hub.remove("shop", "git");
    bed.repos.secret_changed("shop", "git");
    bed.until_trouble(&follow, "SecretNotFound").await;
    // A fetch may have been under way.
    tokio::time::sleep(Duration::from_millis(700)).await;
    let quiet = bed.server.log().total();
    bed.repos.pushed(&Push { urls: vec![bed.repo.url()], ..Push::default() });
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(bed.server.log().total(), quiet);
    let wanted = || Wanted {
        app: &follow.app,
        source: &follow.source,
        commit: &tip,
        path: None,
        namespace: None,
        kube_version: None,
    };
    assert_eq!(bed.repos.render(wanted()).await.unwrap().objects.len(), 2);
    // The next process does not know that it ever was there, and keeps it all the same.
    let bed = bed.restart(Settings { sweep_every: Duration::from_millis(300), ..settings() }).await;
    bed.until_trouble(&follow, "SecretNotFound").await;
    tokio::time::sleep(Duration::from_millis(700)).await;
    let wanted = || Wanted {
        app: &follow.app,
        source: &follow.source,
        commit: &tip,
        path: None,
        namespace: None,
        kube_version: None,
    };
    assert_eq!(bed.repos.render(wanted()).await.unwrap().objects.len(), 2);
    bed.hub.put("shop", "git", &[("username", "robot"), ("password", PASSWORD)]);
    bed.repos.secret_changed("shop", "git");
    bed.until_at(&follow, &tip).await;
}
