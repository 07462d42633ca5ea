#![allow(clippy::unwrap_used, clippy::expect_used)]

use windlass_vcs::mirror::Movement;

use super::*;

const BACKOFF: Backoff = Backoff { first: Duration::from_secs(5), longest: Duration::from_secs(300) };

fn remote() -> Remote {
    Remote::new("https://git.example.org/team/app").unwrap()
}

fn app(name: &str) -> Key {
    Key { namespace: Some("shop".into()), name: name.into() }
}

fn names(apps: Vec<Key>) -> Vec<String> {
    apps.into_iter().map(|app| app.name.to_string()).collect()
}

fn fetched(moved: &[&str], default: &str) -> Fetched {
    let to = "1111111111111111111111111111111111111111".parse().ok();
    let movement = |name: &&str| Movement { name: (*name).to_owned(), from: None, to, forced: false };
    Fetched {
        movements: moved.iter().map(movement).collect(),
        default_branch: Some(default.to_owned()),
        ..Fetched::default()
    }
}

fn down(reason: &'static str) -> Result<&'static Fetched, Trouble> {
    Err(Trouble::passing(reason, "down", "wait"))
}

/// How long until the next fetch.
fn wait(feed: &Feed) -> Duration {
    feed.due(&BACKOFF).saturating_duration_since(Instant::now())
}

fn follow(feed: &Feed, name: &str, stake: Stake, seconds: u64) {
    feed.follow(&app(name), remote(), None, Duration::from_secs(seconds));
    feed.stakes(&app(name), None, stake);
}

#[tokio::test(start_paused = true)]
async fn a_remote_is_asked_as_often_as_the_most_eager_wants_and_after_failures_within_five_minutes() {
    let feed = Feed::new(remote());
    follow(&feed, "lazy", Stake::Any, 3600);
    assert_eq!(wait(&feed), Duration::ZERO, "the first time at once");
    follow(&feed, "eager", Stake::Any, 30);
    feed.settle(Ok(&fetched(&[], "main")));
    assert_eq!(wait(&feed), Duration::from_secs(30));
    feed.poke();
    assert_eq!(wait(&feed), Duration::ZERO);
    feed.begin();
    feed.settle(Ok(&fetched(&[], "main")));
    assert!(!feed.leave(&app("eager")));
    assert_eq!(wait(&feed), Duration::from_secs(3600));
    let mut before = Duration::ZERO;
    for failures in 1..20 {
        feed.settle(down("Away"));
        let now = wait(&feed);
        assert!(now > Duration::ZERO && now <= BACKOFF.longest, "{failures}: {now:?}");
        assert!(failures > 5 || now > before, "{failures}: {now:?}");
        before = now;
    }
    assert!(feed.is_failing());
    let rotated =
        remote().with_credentials(windlass_vcs::remote::Credentials::token("new").unwrap()).unwrap();
    feed.follow(&app("lazy"), rotated, None, Duration::from_secs(3600));
    assert_eq!(wait(&feed), Duration::ZERO, "new credentials are tried at once");
}

#[tokio::test(start_paused = true)]
async fn only_news_wake_and_only_those_concerned() {
    let feed = Feed::new(remote());
    follow(&feed, "any", Stake::Any, 30);
    follow(&feed, "default", Stake::Default, 30);
    follow(&feed, "full", Stake::Name("refs/heads/main".into()), 30);
    follow(&feed, "main", Stake::Name("main".into()), 30);
    follow(&feed, "tag", Stake::Name("v1".into()), 30);
    let all = ["any", "default", "full", "main", "tag"];
    let settle = |result: Result<&Fetched, Trouble>| names(feed.settle(result));
    assert_eq!(settle(Ok(&fetched(&[], "main"))), all, "the first answer");
    assert_eq!(settle(Ok(&fetched(&[], "main"))), [""; 0]);
    assert_eq!(settle(Ok(&fetched(&["refs/heads/main"], "main"))), ["any", "default", "full", "main"]);
    assert_eq!(settle(Ok(&fetched(&["refs/tags/v1"], "main"))), ["any", "tag"]);
    assert_eq!(settle(Ok(&fetched(&["refs/heads/other"], "main"))), ["any"]);
    assert_eq!(settle(Ok(&fetched(&[], "other"))), ["any", "default"]);
    assert_eq!(settle(down("Away")), all, "trouble came");
    assert_eq!(settle(down("Away")), [""; 0]);
    assert_eq!(settle(down("Refused")), all, "other trouble came");
    assert_eq!(settle(Ok(&fetched(&[], "other"))), all, "trouble went");
}

#[tokio::test(start_paused = true)]
async fn an_answer_holds_until_something_moves() {
    let feed = Feed::new(remote());
    let look = || feed.follow(&app("web"), remote(), Some("main"), Duration::from_secs(30));
    assert!(look().is_none(), "not before the first fetch");
    feed.settle(Ok(&fetched(&[], "main")));
    let known = look().unwrap();
    assert!(known.answer.is_none());
    feed.remember(Some("main"), known.generation, Err(Trouble::standing("Gone", "a", "b")));
    assert!(look().unwrap().answer.is_some());
    feed.settle(Ok(&fetched(&[], "main")));
    assert!(look().unwrap().answer.is_some(), "no news");
    feed.settle(Ok(&fetched(&["refs/heads/main"], "main")));
    let newer = look().unwrap();
    assert!(newer.answer.is_none());
    // Whoever was slow to look does not bring back what was.
    feed.remember(Some("main"), newer.generation, Err(Trouble::standing("New", "a", "b")));
    feed.remember(Some("main"), known.generation, Err(Trouble::standing("Old", "a", "b")));
    assert_eq!(look().unwrap().answer.unwrap().unwrap_err().reason, "New");
    assert!(feed.leave(&app("web")));
}

#[tokio::test(start_paused = true)]
async fn a_late_first_answer_wakes_once_and_is_told_as_stale() {
    let feed = Feed::new(remote());
    let look = || feed.follow(&app("web"), remote(), None, Duration::from_secs(30));
    assert!(look().is_none());
    let slow = || Trouble::passing("Slow", "a", "b");
    assert_eq!(names(feed.is_late(slow())), ["web"]);
    assert_eq!(names(feed.is_late(slow())), [""; 0]);
    assert_eq!(look().unwrap().stale.unwrap().reason, "Slow");
    assert_eq!(names(feed.settle(Ok(&fetched(&[], "main")))), ["web"]);
    assert!(look().unwrap().stale.is_none());
    assert_eq!(names(feed.is_late(slow())), [""; 0], "only the first one counts");
}

#[tokio::test(start_paused = true)]
async fn a_push_that_no_fetch_shows_yet_is_waited_for_a_few_times() {
    let feed = Feed::new(remote());
    follow(&feed, "web", Stake::Name("main".into()), 3600);
    feed.settle(Ok(&fetched(&[], "main")));
    let commit = "1111111111111111111111111111111111111111".parse().unwrap();
    feed.expect("refs/heads/feature", commit);
    assert!(feed.expected().is_empty(), "nobody follows it");
    let mut waits = Vec::new();
    for _ in 0..5 {
        feed.expect("refs/heads/main", commit);
        for _ in 0..=MISSES {
            feed.checked("refs/heads/main", commit, false);
            waits.push(wait(&feed).as_millis());
        }
        assert!(feed.expected().is_empty());
    }
    assert_eq!(waits[..4], [500, 1000, 2000, 3_600_000]);
    feed.expect("refs/heads/main", commit);
    let other = "2222222222222222222222222222222222222222".parse().unwrap();
    feed.checked("refs/heads/main", other, true);
    assert_eq!(feed.expected().len(), 1, "another push");
    feed.checked("refs/heads/main", commit, true);
    assert!(feed.expected().is_empty());
}

#[tokio::test(start_paused = true)]
async fn another_way_to_write_the_address_is_no_reason_to_fetch() {
    let feed = Feed::new(remote());
    let with_git = || Remote::new("https://git.example.org/team/app.git").unwrap();
    assert_eq!(with_git().digest(), remote().digest());
    follow(&feed, "one", Stake::Any, 3600);
    feed.settle(Ok(&fetched(&[], "main")));
    feed.follow(&app("other"), with_git(), None, Duration::from_secs(3600));
    assert_eq!(wait(&feed), Duration::from_secs(3600));
    assert_eq!(feed.begin().url().to_string(), remote().url().to_string(), "the one that works stays");
    feed.settle(down("Away"));
    feed.follow(&app("other"), with_git(), None, Duration::from_secs(3600));
    assert!(wait(&feed) > Duration::ZERO);
    assert_eq!(feed.begin().url().to_string(), with_git().url().to_string(), "the other one is tried");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_fetched_for_those_who_may_not_use_the_remote() {
    let feed = Feed::new(remote());
    follow(&feed, "web", Stake::Any, 30);
    follow(&feed, "other", Stake::Any, 60);
    feed.settle(Ok(&fetched(&[], "main")));
    feed.park(&app("web"));
    assert_eq!(wait(&feed), Duration::from_secs(60));
    feed.park(&app("other"));
    feed.poke();
    assert!(wait(&feed) > Duration::ZERO, "not even for a push");
    assert!(!feed.leave(&app("other")), "somebody still needs what is there");
    follow(&feed, "web", Stake::Any, 30);
    assert_eq!(wait(&feed), Duration::ZERO, "the push is not forgotten");
}

#[tokio::test(start_paused = true)]
async fn a_request_leads_to_one_fetch_and_is_answered_by_one_that_began_after_it() {
    let feed = Feed::new(remote());
    follow(&feed, "web", Stake::Name("main".into()), 3600);
    follow(&feed, "other", Stake::Name("main".into()), 3600);
    feed.begin();
    feed.settle(Ok(&fetched(&[], "main")));
    feed.begin();
    assert!(!feed.ask(&app("web"), "1"));
    assert_eq!(names(feed.settle(Ok(&fetched(&[], "main")))), Vec::<String>::new(), "it began before");
    assert_eq!(wait(&feed), Duration::ZERO, "one more follows at once");
    feed.begin();
    assert!(!feed.ask(&app("web"), "1"), "it is under way");
    assert_eq!(names(feed.settle(Ok(&fetched(&[], "main")))), ["web"], "also when nothing moved");
    assert!(feed.ask(&app("web"), "1"));
    assert_eq!(wait(&feed), Duration::from_secs(3600), "asked again, it is fetched no more");
    // A remote that is down answers as well: there is nothing newer to be had.
    assert!(!feed.ask(&app("web"), "2"));
    feed.begin();
    assert!(names(feed.settle(down("Away"))).contains(&"web".to_owned()));
    assert!(feed.ask(&app("web"), "2"));
}

#[tokio::test(start_paused = true)]
async fn whoever_asked_does_not_wait_for_a_fetch_that_takes_too_long() {
    let feed = Feed::new(remote());
    follow(&feed, "web", Stake::Name("main".into()), 3600);
    feed.begin();
    feed.settle(Ok(&fetched(&[], "main")));
    assert!(!feed.ask(&app("web"), "1"));
    feed.begin();
    assert_eq!(names(feed.is_late(Trouble::passing("Slow", "slow", "wait"))), ["web"]);
    assert!(feed.ask(&app("web"), "1"));
}
