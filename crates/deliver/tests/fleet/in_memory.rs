//! The index over the in-memory API, in virtual time.

use std::time::Duration;

use kube::api::GroupVersionKind;
use serde_json::json;
use windlass_deliver::{fleet::Wake, tracking::MANAGER};
use windlass_manifest::{diff, digest::digest};
use windlass_testbed::sim::api::Api;

use crate::common::{Woken, app, apply, config_map, gvk, key, link, until};

const PATIENCE: Duration = Duration::from_secs(10);

#[tokio::test(start_paused = true)]
async fn a_quiet_object_has_the_digest_of_what_was_applied() {
    let api = Api::new();
    let (client, woken) = (api.client("test"), Woken::default());
    let object = config_map("default", "a", &app("shop", "web"));
    apply(&client, &object).await;
    let link = link("east", client, &woken);
    link.index().ensure(&[gvk(&object)], PATIENCE).await.unwrap();
    let live = link.index().get(&key(&object)).unwrap();
    assert_eq!(live.owned, digest(&diff::comparable(&object)));
    assert_eq!(live.owner.as_deref(), Some("shop/web"));
    assert_eq!(link.index().owned_by(&app("shop", "web")).len(), 1);
    assert!(link.index().owned_by(&app("shop", "other")).is_empty());
    assert!(woken.take().is_empty(), "the first list wakes nobody");
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_known_at_once_and_its_event_wakes_nobody() {
    let api = Api::new();
    let (client, woken) = (api.client("test"), Woken::default());
    let object = config_map("default", "a", &app("shop", "web"));
    let link = link("east", client.clone(), &woken);
    link.index().ensure(&[gvk(&object)], PATIENCE).await.unwrap();
    assert!(link.index().is_watched(&gvk(&object)) && link.index().get(&key(&object)).is_none());
    let answer = apply(&client, &object).await;
    link.index().saw(&answer);
    let live = link.index().get(&key(&object)).unwrap();
    assert_eq!(live.version, answer["metadata"]["resourceVersion"].as_str().unwrap());
    // Longer than an answer is believed without its event.
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(link.index().get(&key(&object)).is_some());
    assert!(woken.take().is_empty());

    api.delete("test", ("v1", "ConfigMap", "default", "a")).unwrap();
    link.index().gone(&key(&object), &live.uid);
    assert!(link.index().get(&key(&object)).is_none());
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(link.index().get(&key(&object)).is_none() && woken.take().is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_changed_while_no_watch_was_there_is_seen_by_the_next_list() {
    let api = Api::new();
    let (client, woken) = (api.client("test"), Woken::default());
    let objects = ["a", "b", "c"].map(|name| config_map("default", name, &app("shop", name)));
    for object in &objects {
        apply(&client, object).await;
    }
    let link = link("east", client.clone(), &woken);
    link.index().ensure(&[gvk(&objects[0])], PATIENCE).await.unwrap();
    let before = link.index().get(&key(&objects[0])).unwrap();
    let at = |name: &'static str| ("v1", "ConfigMap", "default", name);
    api.drop_watches();
    api.mutate("kubectl", at("a"), |object| object["data"]["k"] = "2".into()).unwrap();
    api.delete("kubectl", at("b")).unwrap();
    api.compact();
    until("the list", || link.index().get(&key(&objects[1])).is_none()).await;
    let after = link.index().get(&key(&objects[0])).unwrap();
    assert_eq!(after.uid, before.uid);
    assert_ne!(after.owned, before.owned, "somebody took a field of ours");
    let mut wakes = woken.take();
    wakes.sort();
    wakes.dedup();
    assert_eq!(wakes, [Wake::App(app("shop", "a")), Wake::App(app("shop", "b"))], "c is as it was");
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_not_served_holds_nobody_up() {
    let api = Api::new();
    let link = link("east", api.client("test"), &Woken::default());
    let thing = GroupVersionKind::gvk("example.org", "v1", "Thing");
    let secret = GroupVersionKind::gvk("", "v1", "Secret");
    link.index().ensure(&[thing.clone(), secret.clone()], PATIENCE).await.unwrap();
    assert!(!link.index().is_watched(&thing) && link.index().is_watched(&secret));
}

#[tokio::test(start_paused = true)]
async fn a_silent_cluster_is_given_up_in_time() {
    let silent = kube::Client::new(
        tower::service_fn(|_: http::Request<kube::client::Body>| {
            futures::future::pending::<Result<http::Response<kube::client::Body>, tower::BoxError>>()
        }),
        "default",
    );
    let link = link("east", silent, &Woken::default());
    let begin = tokio::time::Instant::now();
    let secret = GroupVersionKind::gvk("", "v1", "Secret");
    let trouble = link.index().ensure(&[secret], Duration::from_secs(3)).await.unwrap_err();
    assert_eq!(trouble.reason, "ClusterUnreachable");
    assert!(!trouble.waits_for_change && trouble.what.contains("east"), "{trouble:?}");
    assert!(begin.elapsed() < Duration::from_secs(4));
}

#[tokio::test(start_paused = true)]
async fn an_object_that_somebody_else_applied_has_no_digest_of_ours() {
    let api = Api::new();
    let (client, woken) = (api.client("test"), Woken::default());
    let object = config_map("default", "a", &app("shop", "web"));
    api.create("kubectl", &object).unwrap();
    let link = link("east", client, &woken);
    link.index().ensure(&[gvk(&object)], PATIENCE).await.unwrap();
    let live = link.index().get(&key(&object)).unwrap();
    assert_eq!(live.owned, windlass_deliver::fleet::NOT_APPLIED);
    let stored = api.get("v1", "ConfigMap", "default", "a").unwrap();
    assert_eq!(diff::owned(&stored, MANAGER), None);
}

/// What the index needs for an object, whatever the object's size.
#[tokio::test]
async fn an_object_costs_the_index_less_than_500_bytes() {
    const OBJECTS: usize = 50_000;
    let api = Api::new();
    let link = link("east", api.client("test"), &Woken::default());
    let first = config_map("default", "first", &app("shop", "web"));
    link.index().ensure(&[gvk(&first)], PATIENCE).await.unwrap();
    let resident = || -> usize {
        let text = std::fs::read_to_string("/proc/self/statm").unwrap();
        text.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
    };
    let fill = |from: usize, to: usize| {
        for at in from..to {
            let mut object = config_map(
                &format!("ns-{}", at % 100),
                &format!("object-{at}"),
                &app("shop", &format!("app-{}", at % 1000)),
            );
            object["metadata"]["uid"] = format!("{at:08x}-1111-4222-8333-444444444444").into();
            object["metadata"]["resourceVersion"] = (1000 + at).to_string().into();
            object["data"] = json!({ "big": "x".repeat(500) });
            link.index().saw(&object);
        }
    };
    fill(0, 1000);
    let before = resident();
    fill(1000, 1000 + OBJECTS);
    let each = resident().saturating_sub(before) / OBJECTS;
    println!("{each} bytes for each of {} objects", link.index().len());
    assert_eq!(link.index().len(), OBJECTS + 1000);
    // Other tests of this program allocate meanwhile.
    assert!(each < 500, "{each} bytes for each object");
}
