//! What is done with objects.

use std::cell::Cell;

use serde_json::{Value, json};
use windlass_deliver::{
    fleet::{State, Work, carry_out},
    object::{ObjectId, Sealed},
    tracking,
    trouble::Trouble,
};

use super::house::{House, eventually, key, trouble};

fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"k": "v"}})
}

fn bad(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "dta": {}})
}

async fn uid(house: &House, id: &ObjectId) -> String {
    house.live(id).await.unwrap()["metadata"]["uid"].as_str().unwrap().to_owned()
}

fn apply(wanted: &[Sealed]) -> Vec<Work> {
    wanted.iter().cloned().map(Work::Apply).collect()
}

#[tokio::test]
async fn what_fails_stops_the_steps_after_it_and_not_its_own() {
    let house = House::new("steps").await;
    let wanted = house.wanted(&[map("a"), bad("b"), map("c"), map("d")]).await;
    let done = house.carry_out(&[apply(&wanted[..1]), apply(&wanted[1..3]), apply(&wanted[3..])]).await;
    let results: Vec<(&str, bool)> =
        done.iter().map(|done| (done.object.name.as_str(), done.result.is_ok())).collect();
    assert_eq!(results, [("a", true), ("b", false), ("c", true)]);
    assert_eq!(done[1].result.as_ref().unwrap_err().reason, "UnknownField");
    assert!(house.live(wanted[3].id()).await.is_none());
}

#[tokio::test]
async fn a_closed_gate_and_a_lost_cluster_end_all_work_that_remains() {
    let house = House::new("gate").await;
    let wanted = house.wanted(&[map("a"), map("b"), map("c")]).await;
    let steps: Vec<Vec<Work>> = wanted.iter().map(|sealed| apply(std::slice::from_ref(sealed))).collect();
    let asked = Cell::new(0);
    let gate = || {
        asked.set(asked.get() + 1);
        if asked.get() > 1 { Err(Trouble::passing("Superseded", "newer", "")) } else { Ok(()) }
    };
    let done = carry_out(&house.link, &house.app, None, &steps, gate).await;
    let reasons: Vec<Option<&str>> =
        done.iter().map(|done| done.result.as_ref().err().map(|trouble| trouble.reason)).collect();
    assert_eq!(reasons, [None, Some("Superseded"), Some("Superseded")]);
    assert!(house.live(wanted[1].id()).await.is_none());

    house.break_off(true);
    let done = house.carry_out(&steps[1..]).await;
    house.break_off(false);
    assert_eq!(done.len(), 2);
    for done in done {
        let trouble = done.result.unwrap_err();
        assert_eq!((trouble.reason, trouble.waits_for_change), ("Unreachable", false));
    }
}

#[tokio::test]
async fn nothing_is_written_without_an_identity() {
    let house = House::new("identity").await;
    let wanted = house.wanted(&[map("a")]).await;
    let done = carry_out(&house.link, &house.app, Some(""), &[apply(&wanted)], || Ok(())).await;
    assert_eq!(trouble(&done).reason, "IdentityMissing");
    let account = format!("system:serviceaccount:{}:default", house.namespace.name());
    let done = carry_out(&house.link, &house.app, Some(&account), &[apply(&wanted)], || Ok(())).await;
    assert_eq!(trouble(&done).reason, "Forbidden");
    assert!(house.live(wanted[0].id()).await.is_none());
}

#[tokio::test]
async fn only_the_object_that_is_meant_is_deleted_and_only_while_it_is_ours() {
    let house = House::new("delete").await;
    let wanted = house.wanted(&[map("mine"), map("given-away"), map("anew")]).await;
    house.apply(&wanted).await;
    let ids: Vec<ObjectId> = wanted.iter().map(|sealed| sealed.id().clone()).collect();
    let mut works = Vec::new();
    for id in &ids {
        works.push(Work::Delete { id: id.clone(), uid: uid(&house, id).await });
    }
    let release = json!({"metadata": {"annotations": {tracking::OWNER: null}}});
    house.somebody_patches(&ids[1], "kubectl", &release).await;
    house.api(&ids[2]).delete("anew", &kube::api::DeleteParams::default()).await.unwrap();
    house.somebody_makes(&map("anew"), "kubectl", false).await;

    let done = house.carry_out(std::slice::from_ref(&works)).await;
    assert_eq!(done[0].result, Ok(()));
    assert!(house.live(&ids[0]).await.is_none());
    assert_eq!(done[1].result.as_ref().unwrap_err().reason, "NotOurs");
    assert_eq!(done[2].result, Ok(()), "what was meant is gone");
    assert!(house.live(&ids[1]).await.is_some() && house.live(&ids[2]).await.is_some());
    let again = house.carry_out(&[works[..1].to_vec()]).await;
    assert_eq!(again[0].result, Ok(()), "gone already");
    eventually("the index to know", async || house.link.index().get(&ids[0].key()).is_none().then_some(()))
        .await;
}

#[tokio::test]
async fn a_released_object_stays_as_it_is_without_our_marks() {
    let house = House::new("release").await;
    let wanted = house.wanted(&[map("a")]).await;
    house.apply(&wanted).await;
    let id = wanted[0].id().clone();
    let work = Work::Release { id: id.clone(), uid: uid(&house, &id).await };
    for _ in 0..2 {
        assert_eq!(house.carry_out(&[vec![work.clone()]]).await[0].result, Ok(()));
    }
    let live = house.live(&id).await.unwrap();
    assert_eq!(tracking::owner(&live), None);
    assert!(live["metadata"]["labels"].get(tracking::LABEL).is_none());
    assert_eq!(live["data"], json!({"k": "v"}));
}

fn of_another(name: &str) -> Value {
    let mut object = map(name);
    object["metadata"]["annotations"] = json!({tracking::OWNER: "team/another"});
    object["data"] = json!({"k": "theirs"});
    object
}

#[tokio::test]
async fn what_another_application_made_a_moment_before_is_not_taken() {
    let house = House::new("quicker").await;
    let wanted = house.wanted(&[map("a")]).await;
    house.somebody_is_quicker(&of_another("a"));
    let done = house.carry_out(&[apply(&wanted)]).await;
    assert_eq!(trouble(&done).reason, "BelongsToAnother");
    let live = house.live(wanted[0].id()).await.unwrap();
    assert_eq!((tracking::owner(&live), &live["data"]["k"]), (Some("team/another"), &json!("theirs")));
    let managers = live["metadata"]["managedFields"].as_array().unwrap();
    assert!(managers.iter().all(|entry| entry["manager"] == "kubectl"), "{managers:?}");
}

#[tokio::test]
async fn what_nobody_owns_is_adopted_also_when_it_appears_a_moment_before() {
    let house = House::new("adopted-late").await;
    let wanted = house.wanted(&[map("a")]).await;
    let mut theirs = map("a");
    theirs["data"] = json!({"k": "theirs", "more": "x"});
    house.somebody_is_quicker(&theirs);
    house.apply(&wanted).await;
    let live = house.live(wanted[0].id()).await.unwrap();
    assert_eq!(tracking::owner(&live), Some(house.app.to_string().as_str()));
    assert_eq!(live["data"], json!({"k": "v", "more": "x"}));
}

#[tokio::test]
async fn two_applications_that_make_the_same_object_do_not_take_it_from_each_other() {
    let house = House::new("both-make").await;
    let other = key("both-make-other");
    for round in 0..5 {
        let name = format!("a{round}");
        let mine = apply(&house.wanted(&[map(&name)]).await);
        let theirs = apply(&house.wanted_by(&other, &[map(&name)]).await);
        let (mine_steps, their_steps) = ([mine], [theirs]);
        let (mine, theirs) = tokio::join!(
            carry_out(&house.link, &house.app, None, &mine_steps, || Ok(())),
            carry_out(&house.link, &other, None, &their_steps, || Ok(())),
        );
        let (won, lost) = if mine[0].result.is_ok() { (&house.app, &theirs) } else { (&other, &mine) };
        assert_eq!(trouble(lost).reason, "BelongsToAnother", "{mine:?} {theirs:?}");
        let live = house.live(&lost[0].object).await.unwrap();
        assert_eq!(tracking::owner(&live), Some(won.to_string().as_str()));
    }
}

#[tokio::test]
async fn a_new_object_costs_one_look_and_one_write() {
    let house = House::new("one-write").await;
    let wanted = house.wanted(&[map("a")]).await;
    house.requests();
    house.apply(&wanted).await;
    let requests = house.requests();
    let verbs: Vec<&str> =
        requests.iter().map(|line| line.split_whitespace().next().unwrap_or_default()).collect();
    assert_eq!(verbs, ["GET", "PATCH"], "{requests:?}");
}

fn job(image: &str) -> Value {
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "job"}, "spec": {"suspend": true, "template": {
        "spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": image}]}}}})
}

#[tokio::test]
async fn what_cannot_be_changed_is_deleted_and_made_anew() {
    let house = House::new("replace").await;
    let first = house.wanted(&[job("a:1")]).await;
    house.apply(&first).await;
    let before = uid(&house, first[0].id()).await;
    let second = house.wanted(&[job("a:2")]).await;
    let refused = house.carry_out(&[apply(&second)]).await;
    assert_eq!(trouble(&refused).reason, "FieldImmutable");
    let work = Work::Replace { wanted: second[0].clone(), uid: before.clone() };
    for _ in 0..2 {
        assert_eq!(house.carry_out(&[vec![work.clone()]]).await[0].result, Ok(()));
    }
    let after = house.live(second[0].id()).await.unwrap();
    assert_ne!(after["metadata"]["uid"], before.as_str());
    assert_eq!(after["spec"]["template"]["spec"]["containers"][0]["image"], "a:2");
    assert_eq!(house.survey(&second).await[0].state, State::Same);
}

#[tokio::test]
async fn an_object_is_put_whole() {
    let house = House::new("put").await;
    let wanted = house.wanted(&[map("a")]).await;
    let work = Work::Put(wanted[0].clone());
    assert_eq!(house.carry_out(&[vec![work.clone()]]).await[0].result, Ok(()));
    house.somebody_patches(wanted[0].id(), "kubectl", &json!({"data": {"other": "x"}})).await;
    assert_eq!(house.carry_out(&[vec![work]]).await[0].result, Ok(()));
    let live = house.live(wanted[0].id()).await.unwrap();
    assert_eq!(live["data"], json!({"k": "v"}), "replaced, not merged");
    assert_eq!(house.survey(&wanted).await[0].state, State::Same);
}

#[tokio::test]
async fn a_namespace_is_made_once_and_not_marked_as_ours() {
    let house = House::new("ensure").await;
    let name = format!("{}-made", house.namespace.name());
    let work = Work::EnsureNamespace(name.clone());
    for _ in 0..2 {
        assert_eq!(house.carry_out(&[vec![work.clone()]]).await[0].result, Ok(()));
    }
    let live = house.live(&work.object()).await.unwrap();
    assert_eq!(tracking::owner(&live), None);
    house.api(&work.object()).delete(&name, &kube::api::DeleteParams::default()).await.unwrap();
}

#[tokio::test]
async fn a_kind_can_be_used_once_its_definition_is_applied() {
    let house = House::new("definition").await;
    let group = format!("{}.example.org", house.namespace.name());
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("widgets.{group}")}, "spec": {"group": group, "scope": "Namespaced",
            "names": {"kind": "Widget", "plural": "widgets", "singular": "widget", "listKind": "WidgetList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object",
                "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"},
                    "mode": {"type": "string", "default": "slow"}}}}}}}]}});
    let widget = json!({"apiVersion": format!("{group}/v1"), "kind": "Widget", "metadata": {"name": "w"}, "spec": {"size": 1}});
    // The kind is unknown, and yet the namespace is filled in: the render defines it.
    let wanted = house.wanted(&[definition, widget]).await;
    assert_eq!(wanted[1].id().namespace, house.namespace.name());
    let found = house.survey(&wanted).await;
    assert_eq!((&found[0].state, &found[1].state), (&State::Missing, &State::UnknownKind));
    house.apply(&wanted[..1]).await;
    let name = wanted[0].id().name.clone();
    eventually("established", async || {
        let live = house.live(wanted[0].id()).await?;
        let conditions = live["status"]["conditions"].as_array()?.clone();
        conditions.iter().any(|one| one["type"] == "Established" && one["status"] == "True").then_some(())
    })
    .await;
    // Nobody told the discovery that there is something new.
    eventually("the kind", async || {
        let done = house.carry_out(&[apply(&wanted[1..])]).await;
        match &done[0].result {
            Ok(()) => Some(()),
            Err(trouble) => {
                assert_eq!(trouble.reason, "UnknownKind");
                None
            }
        }
    })
    .await;
    for found in house.survey(&wanted).await {
        assert_eq!(found.state, State::Same, "{:?}", found.wanted);
    }
    house.api(wanted[0].id()).delete(&name, &kube::api::DeleteParams::default()).await.unwrap();
}

#[tokio::test]
async fn all_of_it_can_move_between_threads() {
    let house = std::sync::Arc::new(House::new("threads").await);
    let there = std::sync::Arc::clone(&house);
    let done = tokio::spawn(async move {
        let wanted = there.wanted(&[map("a")]).await;
        there.survey(&wanted).await;
        carry_out(&there.link, &there.app, None, &[apply(&wanted)], || Ok(())).await
    });
    assert_eq!(done.await.unwrap()[0].result, Ok(()));
}
