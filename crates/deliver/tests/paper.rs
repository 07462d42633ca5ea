//! The repositories on paper that the simulation of Applications stands on: they behave as the real ones promise to.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "support/paper.rs"]
mod paper;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use paper::{Disk, Forge, MAIN, Paper};
use tokio_util::sync::{CancellationToken, DropGuard};
use windlass_api::application::Source;
use windlass_cluster::drive::Key;
use windlass_deliver::{
    origin::{Follow, Origin, Seen, Sighting, Wanted},
    trouble::Trouble,
};

const URL: &str = "https://git.example.com/shop.git";
const ONE: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: { name: one }\n";
const TWO: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: { name: two }\n";
const INTERVAL: Duration = Duration::from_secs(30);

fn source(revision: Option<&str>) -> Source {
    let mut text = serde_json::json!({ "repoURL": URL, "path": "app" });
    if let Some(revision) = revision {
        text["revision"] = revision.into();
    }
    serde_json::from_value(text).unwrap()
}

fn app(name: &str) -> Key {
    Key { namespace: Some("apps".into()), name: name.into() }
}

/// One life of an origin, with what it woke.
struct Life {
    paper: Paper,
    woken: Arc<Mutex<Vec<String>>>,
    _stop: DropGuard,
}

impl Life {
    fn start(forge: &Forge, disk: &Disk) -> Self {
        let woken: Arc<Mutex<Vec<String>>> = Arc::default();
        let notes = woken.clone();
        let epoch = jiff::Timestamp::from_second(1_767_225_600).unwrap();
        let paper =
            Paper::new(forge, disk, move || epoch, move |key| notes.lock().unwrap().push(key.to_string()));
        let stop = CancellationToken::new();
        let (runner, token) = (paper.clone(), stop.clone());
        tokio::spawn(async move { runner.run(token).await });
        Self { paper, woken, _stop: stop.drop_guard() }
    }

    async fn look(&self, name: &str, revision: Option<&str>) -> Sighting {
        self.paper.look(&Follow { app: app(name), source: source(revision), interval: INTERVAL }).await
    }

    async fn found(&self, name: &str, revision: Option<&str>) -> Seen {
        match self.look(name, revision).await {
            Sighting::Found(seen) => seen,
            other => panic!("{other:?}"),
        }
    }

    async fn trouble(&self, name: &str, revision: Option<&str>) -> Trouble {
        match self.look(name, revision).await {
            Sighting::Trouble(trouble) => trouble,
            other => panic!("{other:?}"),
        }
    }

    fn woken(&self) -> Vec<String> {
        std::mem::take(&mut self.woken.lock().unwrap())
    }

    async fn render(&self, commit: &str) -> Result<Vec<String>, Trouble> {
        self.digest(commit).await.map(|(names, _)| names)
    }

    async fn digest(&self, commit: &str) -> Result<(Vec<String>, String), Trouble> {
        let (key, source) = (app("shop"), source(None));
        let wanted =
            Wanted { app: &key, source: &source, commit, path: None, namespace: None, kube_version: None };
        let rendered = self.paper.render(wanted).await?;
        let names = rendered.objects.iter().map(|manifest| manifest.id.name.clone()).collect();
        Ok((names, rendered.digest.clone()))
    }
}

async fn secs(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

#[tokio::test(start_paused = true)]
async fn a_push_is_seen_at_the_next_fetch_and_wakes_who_follows() {
    let forge = Forge::default();
    let first = forge.push(URL, MAIN, &[("app/one.yaml", Some(ONE))]);
    let life = Life::start(&forge, &Disk::default());
    assert_eq!(life.look("shop", None).await, Sighting::NotYet);
    secs(1).await;
    assert_eq!(life.woken(), ["apps/shop"]);
    let seen = life.found("shop", None).await;
    assert_eq!((seen.commit.as_str(), seen.name.as_deref(), seen.before), (first.as_str(), Some(MAIN), None));
    let second = forge.push(URL, MAIN, &[("app/two.yaml", Some(TWO))]);
    secs(1).await;
    assert_eq!(life.found("shop", None).await.commit, first, "nobody knows before the next fetch");
    assert!(life.woken().is_empty());
    secs(31).await;
    assert_eq!(life.woken(), ["apps/shop"]);
    let seen = life.found("shop", None).await;
    assert_eq!((seen.commit.clone(), seen.before), (second.clone(), Some(first.clone())));
    assert_eq!((seen.movements.len(), seen.movements[0].forced), (2, false));
    secs(100).await;
    assert!(life.woken().is_empty(), "nothing moved");
    assert_eq!(life.render(&first).await.unwrap(), ["one"]);
    assert_eq!(life.render(&second).await.unwrap(), ["one", "two"]);
}

#[tokio::test(start_paused = true)]
async fn a_poke_fetches_at_once() {
    let forge = Forge::default();
    forge.push(URL, MAIN, &[("app/one.yaml", Some(ONE))]);
    let life = Life::start(&forge, &Disk::default());
    life.look("shop", None).await;
    secs(1).await;
    life.woken();
    let second = forge.push(URL, MAIN, &[("app/one.yaml", None), ("app/two.yaml", Some(TWO))]);
    life.paper.poke(URL);
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(life.woken(), ["apps/shop"]);
    assert_eq!(life.found("shop", None).await.commit, second);
    assert_eq!(life.render(&second).await.unwrap(), ["two"]);
}

#[tokio::test(start_paused = true)]
async fn a_force_push_is_told_and_the_old_commit_can_still_be_rendered() {
    let forge = Forge::default();
    let old = forge.push(URL, MAIN, &[("app/one.yaml", Some(ONE))]);
    let life = Life::start(&forge, &Disk::default());
    life.look("shop", None).await;
    secs(1).await;
    let new = forge.force_push(URL, MAIN, &[("app/two.yaml", TWO)]);
    secs(31).await;
    let seen = life.found("shop", None).await;
    assert_eq!((seen.commit.as_str(), seen.before.as_deref()), (new.as_str(), Some(old.as_str())));
    assert!(seen.movements[0].forced);
    assert_eq!(life.render(&old).await.unwrap(), ["one"]);
    // And back.
    forge.point(URL, MAIN, &old);
    secs(31).await;
    assert_eq!(life.found("shop", None).await.commit, old);
}

#[tokio::test(start_paused = true)]
async fn a_deleted_branch_is_trouble_until_it_is_back() {
    let forge = Forge::default();
    let commit = forge.push(URL, "dev", &[("app/one.yaml", Some(ONE))]);
    let life = Life::start(&forge, &Disk::default());
    life.look("shop", Some("dev")).await;
    secs(1).await;
    life.woken();
    forge.delete_branch(URL, "dev");
    secs(31).await;
    assert_eq!(life.woken(), ["apps/shop"]);
    let trouble = life.trouble("shop", Some("dev")).await;
    assert_eq!((trouble.reason, trouble.waits_for_change), ("RevisionDeleted", true));
    assert_eq!(life.render(&commit).await.unwrap(), ["one"], "the last good state can still be rendered");
    assert_eq!(life.trouble("other", Some("never")).await.reason, "RevisionNotFound");
    assert_eq!(life.found("fixed", Some(&commit)).await.name, None);
    forge.point(URL, "dev", &commit);
    secs(31).await;
    assert_eq!(life.found("shop", Some("dev")).await.commit, commit);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_down_leaves_what_was_seen() {
    let forge = Forge::default();
    forge.set_down(URL, true);
    let disk = Disk::default();
    let life = Life::start(&forge, &disk);
    life.look("shop", None).await;
    secs(1).await;
    assert_eq!(life.woken(), ["apps/shop"]);
    let trouble = life.trouble("shop", None).await;
    assert_eq!((trouble.reason, trouble.waits_for_change), ("RepositoryUnavailable", false));
    let commit = forge.push(URL, MAIN, &[("app/one.yaml", Some(ONE))]);
    forge.set_down(URL, false);
    secs(31).await;
    assert_eq!(life.found("shop", None).await.stale, None);
    life.woken();
    forge.set_down(URL, true);
    secs(31).await;
    assert_eq!(life.woken(), ["apps/shop"], "trouble came");
    let seen = life.found("shop", None).await;
    assert_eq!(
        (seen.commit.as_str(), seen.stale.unwrap().reason),
        (commit.as_str(), "RepositoryUnavailable")
    );

    // The next life finds the disk, or does not.
    drop(life);
    let again = Life::start(&forge, &disk);
    assert_eq!(again.look("shop", None).await, Sighting::NotYet);
    secs(1).await;
    assert_eq!(again.found("shop", None).await.commit, commit);
    let anew = Life::start(&forge, &Disk::default());
    anew.look("shop", None).await;
    secs(1).await;
    assert_eq!(anew.trouble("shop", None).await.reason, "RepositoryUnavailable");
    assert_eq!(anew.render(&commit).await.unwrap_err().reason, "CommitNotFound");
}

#[tokio::test(start_paused = true)]
async fn a_bad_commit_is_refused_with_its_place() {
    let forge = Forge::default();
    let broken = forge.push(URL, MAIN, &[("app/one.yaml", Some("kind: [\n")), ("other/x.yaml", Some("{"))]);
    let twice = forge.push(URL, MAIN, &[("app/one.yaml", Some(ONE)), ("app/sub/copy.yaml", Some(ONE))]);
    let nameless = forge.push(
        URL,
        MAIN,
        &[("app/one.yaml", Some("apiVersion: v1\nkind: Secret\n")), ("app/sub/copy.yaml", None)],
    );
    let empty =
        forge.push(URL, MAIN, &[("app/one.yaml", Some("# nothing\n")), ("app/README.md", Some("hello"))]);
    let gone = forge.push(URL, MAIN, &[("app/one.yaml", None), ("app/README.md", None)]);
    let conflicted = forge.push_conflicted(URL, "conflicted");
    let life = Life::start(&forge, &Disk::default());
    life.look("shop", None).await;
    secs(1).await;
    let trouble = life.render(&broken).await.unwrap_err();
    assert!(trouble.reason == "InvalidYaml" && trouble.what.starts_with("app/one.yaml: "), "{trouble:?}");
    let trouble = life.render(&twice).await.unwrap_err();
    assert!(
        trouble.reason == "DuplicateObject" && trouble.what.contains("app/sub/copy.yaml:1"),
        "{trouble:?}"
    );
    assert_eq!(life.render(&nameless).await.unwrap_err().reason, "NotAnObject");
    assert_eq!(life.render(&empty).await.unwrap(), Vec::<String>::new());
    assert_eq!(life.render(&gone).await.unwrap_err().reason, "PathNotFound");
    assert_eq!(life.trouble("other", Some("conflicted")).await.reason, "CommitConflicted");
    assert_eq!(life.trouble("other", Some(&conflicted)).await.reason, "CommitConflicted");
    assert_eq!(life.paper.renders(), 5);
}

#[tokio::test(start_paused = true)]
async fn the_digest_is_that_of_the_objects_not_of_their_files() {
    let forge = Forge::default();
    let apart = forge.push(URL, MAIN, &[("app/1.yaml", Some(ONE)), ("app/2.yaml", Some(TWO))]);
    let both = format!("{TWO}---\n# a comment\n{ONE}");
    let together = forge.force_push(URL, "b", &[("app/all.yaml", &both)]);
    let other = forge.force_push(URL, "c", &[("app/all.yaml", ONE)]);
    let life = Life::start(&forge, &Disk::default());
    life.look("shop", None).await;
    secs(1).await;
    let of = async |commit: &str| life.digest(commit).await.unwrap().1;
    assert_eq!(of(&apart).await, of(&together).await);
    assert_ne!(of(&apart).await, of(&other).await);
    assert_eq!(of(&apart).await.len(), 64);
}

#[tokio::test(start_paused = true)]
async fn a_change_id_follows_rewrites() {
    let change = "kkmpptxzrspxrzommnulwmwkkqwworpl";
    let forge = Forge::default();
    forge.push(URL, MAIN, &[("app/one.yaml", Some(ONE))]);
    let first = forge.push_change(URL, MAIN, change, &[("app/two.yaml", Some(TWO))]);
    let life = Life::start(&forge, &Disk::default());
    life.look("shop", Some(change)).await;
    secs(1).await;
    let seen = life.found("shop", Some(change)).await;
    assert_eq!((seen.commit.as_str(), seen.change_id.as_deref()), (first.as_str(), Some(change)));
    let second = forge.push_change(URL, MAIN, change, &[("app/one.yaml", None)]);
    secs(31).await;
    assert_eq!(life.found("shop", Some(change)).await.commit, second);
    assert_eq!(life.render(&second).await.unwrap(), ["two"]);
}

#[tokio::test(start_paused = true)]
async fn what_nobody_follows_is_not_fetched() {
    let forge = Forge::default();
    forge.push(URL, MAIN, &[("app/one.yaml", Some(ONE))]);
    let life = Life::start(&forge, &Disk::default());
    life.look("shop", None).await;
    secs(1).await;
    life.woken();
    life.paper.forget(&app("shop"));
    let second = forge.push(URL, MAIN, &[("app/two.yaml", Some(TWO))]);
    secs(100).await;
    assert!(life.woken().is_empty());
    assert_eq!(life.render(&second).await.unwrap_err().reason, "CommitNotFound");
    life.look("shop", None).await;
    secs(31).await;
    assert_eq!(life.found("shop", None).await.commit, second);
}
