//! How objects stand.

use serde_json::{Value, json};
use windlass_api::application::sync::IgnoreDifference;
use windlass_deliver::{
    fleet::{Judge, State, Survey, Work, survey},
    gate::Ruling,
    tracking,
};

use super::house::{House, eventually, key, trouble};

fn map(name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"k": value}})
}

fn deployment(replicas: u32, image: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "app", "image": image, "resources": {"limits": {"memory": "1024Mi"}}}]}}}
    })
}

#[tokio::test]
async fn a_quiet_survey_makes_no_request() {
    let house = House::new("quiet").await;
    // Zero replicas: nothing in the cluster writes to it after a moment.
    let objects = [
        map("a", "1"),
        deployment(0, "app:1"),
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "s"}}),
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"},
            "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]}}),
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"k": "v"}}),
    ];
    let wanted = house.wanted(&objects).await;
    house.survey(&wanted).await;
    house.apply(&wanted).await;
    let inventory: Vec<_> = wanted.iter().map(|sealed| sealed.id().clone()).collect();
    let asked = Survey { inventory: &inventory, ..house.asks(&wanted) };
    house.surveyed(&asked).await;
    house.requests();
    for _ in 0..3 {
        let again = house.wanted(&objects).await;
        let surveyed = house.surveyed(&Survey { wanted: &again, ..asked }).await;
        assert!(surveyed.objects.iter().all(|found| found.state == State::Same), "{surveyed:?}");
        assert!(surveyed.objects.iter().all(|found| found.live.is_some() && found.verdict.is_none()));
    }
    assert_eq!(house.requests(), Vec::<String>::new());
}

#[tokio::test]
async fn a_new_object_costs_one_request_and_its_refusal_or_pass_is_remembered() {
    let house = House::new("new").await;
    let wanted = house.wanted(&[map("a", "1")]).await;
    house.survey(&[]).await;
    house.requests();
    let found = house.survey(&wanted).await;
    assert_eq!((&found[0].state, &found[0].live), (&State::Missing, &None));
    assert_eq!(found[0].verdict.as_ref().unwrap().ruling, Ruling::Pass);
    let requests = house.requests();
    assert_eq!(requests.len(), 1, "{requests:?}");
    assert!(
        requests[0].contains("dryRun=All") && requests[0].contains("fieldValidation=Strict"),
        "{requests:?}"
    );
    assert_eq!(house.survey(&wanted).await, found);
    assert_eq!(house.requests(), Vec::<String>::new());
    assert!(house.live(wanted[0].id()).await.is_none(), "a dry run stores nothing");
}

#[tokio::test]
async fn without_a_judge_nothing_is_tried_out() {
    let house = House::new("unjudged").await;
    let wanted = house.wanted(&[map("a", "1")]).await;
    let asked = Survey { judge: Judge::None, ..house.asks(&wanted) };
    let found = house.surveyed(&asked).await.objects;
    assert_eq!((&found[0].state, &found[0].verdict), (&State::Missing, &None));
    assert!(house.requests().iter().all(|line| line.starts_with("GET")));
}

#[tokio::test]
async fn a_difference_names_field_values_and_manager() {
    let house = House::new("differs").await;
    let wanted = house.wanted(&[map("a", "1")]).await;
    house.apply(&wanted).await;
    assert_eq!(house.survey(&wanted).await[0].state, State::Same);
    house.somebody_patches(wanted[0].id(), "kubectl-edit", &json!({"data": {"k": "2"}})).await;
    let found = eventually("drift", async || {
        let found = house.survey(&wanted).await.remove(0);
        matches!(found.state, State::Differs(_)).then_some(found)
    })
    .await;
    let State::Differs(differences) = &found.state else { unreachable!() };
    let told = differences[0].to_string();
    for part in ["data.k", "wanted \"1\"", "live \"2\"", "kubectl-edit"] {
        assert!(told.contains(part), "{told}");
    }
    assert_eq!(found.verdict.as_ref().unwrap().ruling, Ruling::Pass);
    house.requests();
    house.survey(&wanted).await;
    assert_eq!(house.requests(), Vec::<String>::new(), "what was found out is remembered");
}

#[tokio::test]
async fn an_object_of_another_application_is_neither_taken_nor_deleted() {
    let house = House::new("foreign").await;
    let other = key("other");
    for labelled in [true, false] {
        let name = if labelled { "with-label" } else { "without-label" };
        let mut theirs = map(name, "theirs");
        theirs["metadata"]["annotations"] = json!({tracking::OWNER: other.to_string()});
        if labelled {
            theirs["metadata"]["labels"] = json!({tracking::LABEL: tracking::label(&other)});
        }
        let made = house.somebody_makes(&theirs, "windlass-deliver", true).await;
        let wanted = house.wanted(&[map(name, "ours")]).await;
        let found = eventually("foreign", async || {
            let found = house.survey(&wanted).await.remove(0);
            matches!(found.state, State::Foreign(_)).then_some(found)
        })
        .await;
        assert_eq!(found.state, State::Foreign("team/other".into()));
        assert!(found.verdict.is_some(), "a change is judged as a whole, whoever has the object now");

        let id = wanted[0].id().clone();
        let uid = made["metadata"]["uid"].as_str().unwrap().to_owned();
        for work in [
            Work::Apply(wanted[0].clone()),
            Work::Put(wanted[0].clone()),
            Work::Replace { wanted: wanted[0].clone(), uid: uid.clone() },
            Work::Delete { id: id.clone(), uid: uid.clone() },
        ] {
            let done = house.carry_out(&[vec![work.clone()]]).await;
            let trouble = trouble(&done);
            assert_eq!(trouble.reason, "BelongsToAnother", "{work}");
            assert!(trouble.what.contains("team/other"), "{trouble:?}");
        }
        // There is nothing of ours to take off.
        let done = house.carry_out(&[vec![Work::Release { id: id.clone(), uid }]]).await;
        assert_eq!(done[0].result, Ok(()));
        let live = house.live(&id).await.unwrap();
        assert_eq!(
            live["metadata"]["resourceVersion"], made["metadata"]["resourceVersion"],
            "nothing was written"
        );
    }
}

#[tokio::test]
async fn replicas_that_an_autoscaler_set_are_left_alone() {
    let house = House::new("autoscaled").await;
    let wanted = house.wanted(&[deployment(1, "app:1")]).await;
    house.apply(&wanted).await;
    let params = kube::api::PatchParams { field_manager: Some("hpa".into()), ..Default::default() };
    let scale = kube::api::Patch::Merge(json!({"spec": {"replicas": 5}}));
    house.api(wanted[0].id()).patch_scale("web", &params, &scale).await.unwrap();

    let rule = |json_pointers: Vec<String>, managers: Vec<String>| IgnoreDifference {
        group: Some("apps".into()),
        kind: "Deployment".into(),
        json_pointers,
        managers,
        ..IgnoreDifference::default()
    };
    let rules = [rule(vec!["/spec/replicas".into()], vec![]), rule(vec![], vec!["hpa".into()])];
    eventually("the autoscaler's change in the index", async || {
        let found = house.survey(&wanted).await.remove(0);
        matches!(found.state, State::Differs(_)).then_some(())
    })
    .await;
    let mut current = wanted.clone();
    for (at, rule) in rules.iter().enumerate() {
        let rules = std::slice::from_ref(rule);
        let found = house.look_ignoring(&current, rules).await.remove(0);
        assert_eq!(found.state, State::Same, "{rule:?}");
        assert_eq!(found.wanted.object()["spec"]["replicas"], 5);

        // An apply for another reason neither changes nor drops them.
        let next = house.wanted(&[deployment(1, &format!("app:{}", at + 2))]).await;
        let found = house.look_ignoring(&next, rules).await.remove(0);
        let State::Differs(differences) = &found.state else { panic!("{found:?}") };
        assert_eq!(differences.len(), 1, "{differences:?}");
        house.apply(&[found.wanted]).await;
        let live = house.live(wanted[0].id()).await.unwrap();
        assert_eq!(live["spec"]["replicas"], 5, "{rule:?}");
        current = next;
    }
}

#[tokio::test]
async fn a_kind_that_is_not_served_is_told_and_not_judged() {
    let house = House::new("unknown").await;
    let widget = json!({"apiVersion": "nowhere.example.org/v1", "kind": "Widget", "metadata": {"name": "w"}});
    let wanted = house.wanted(&[widget, map("a", "1")]).await;
    let found = house.survey(&wanted).await;
    assert_eq!((&found[0].state, &found[0].verdict), (&State::UnknownKind, &None));
    assert_eq!(found[1].state, State::Missing, "the others are not held up");
    let done = house.carry_out(&[vec![Work::Apply(wanted[0].clone())]]).await;
    assert_eq!(trouble(&done).reason, "UnknownKind");
}

#[tokio::test]
async fn what_is_no_longer_wanted_is_found_even_when_somebody_took_its_label_off() {
    let house = House::new("extra").await;
    let wanted = house.wanted(&[map("stays", "1"), map("labelled", "1"), map("bare", "1")]).await;
    house.apply(&wanted).await;
    let bare = wanted[2].id().clone();
    house.somebody_patches(&bare, "kubectl", &json!({"metadata": {"labels": {tracking::LABEL: null}}})).await;
    let mut inventory: Vec<_> = wanted.iter().map(|sealed| sealed.id().clone()).collect();
    inventory.push("v1/ConfigMap/nowhere/gone".parse().unwrap());
    inventory.push("nowhere.example.org/v1/Widget/n/gone".parse().unwrap());
    eventually("the label's removal", async || house.link.index().get(&bare.key()).is_none().then_some(()))
        .await;
    let asked = Survey { inventory: &inventory, ..house.asks(&wanted[..1]) };
    let extra = house.surveyed(&asked).await.extra;
    let there: Vec<(&str, bool)> =
        extra.iter().map(|extra| (extra.id.name.as_str(), extra.live.is_some())).collect();
    assert_eq!(there, [("labelled", true), ("bare", true), ("gone", false), ("gone", false)]);
    assert_eq!(extra[1].live.as_ref().unwrap().owner, Some(house.app.to_string()));
}

#[tokio::test]
async fn a_cluster_that_does_not_answer_is_trouble_and_never_a_verdict() {
    let house = House::new("away").await;
    let wanted = house.wanted(&[map("a", "1")]).await;
    house.survey(&[]).await;
    house.surveyed(&Survey { judge: Judge::None, ..house.asks(&wanted) }).await;
    house.memory.clear();
    house.break_off(true);
    let failed = survey(&house.link, &house.asks(&wanted)).await.unwrap_err();
    assert_eq!((failed.reason, failed.waits_for_change), ("Unreachable", false));
    let inventory = [wanted[0].id().clone()];
    let asked = Survey { inventory: &inventory, ..house.asks(&[]) };
    assert!(survey(&house.link, &asked).await.is_err(), "gone is told only by an API server that said so");
    house.break_off(false);
    assert_eq!(house.survey(&wanted).await[0].state, State::Missing);
}
