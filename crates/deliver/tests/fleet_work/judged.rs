//! What a cluster would refuse is known, and named, while nothing has changed.

use serde_json::{Value, json};
use windlass_deliver::{
    fleet::{Found, State, Survey, survey},
    gate::{Ruling, Verdict},
    object::Sealed,
};

use super::house::{House, eventually};

fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"k": "v"}})
}

fn verdict(found: &Found) -> &Verdict {
    found.verdict.as_ref().unwrap_or_else(|| panic!("{found:?}"))
}

fn refused(found: &Found) -> (&str, &str) {
    let verdict = verdict(found);
    let Ruling::Refused(message) = &verdict.ruling else { panic!("{verdict:?}") };
    assert_eq!((&verdict.object, verdict.cluster.as_deref()), (found.wanted.id(), Some("east")));
    (&verdict.policy, message)
}

/// Asks until somebody refuses: policies and quotas take a moment to count.
async fn until_refused(house: &House, wanted: &[Sealed]) -> Found {
    eventually("refusal", async || {
        house.memory.clear();
        let found = house.survey(wanted).await.remove(0);
        matches!(verdict(&found).ruling, Ruling::Refused(_)).then_some(found)
    })
    .await
}

#[tokio::test]
async fn a_refusal_by_an_admission_policy_names_the_policy_and_its_message() {
    let house = House::new("policy").await;
    let name = format!("needs-owner-{}", house.namespace.name());
    let policy = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name}, "spec": {"failurePolicy": "Fail", "matchConstraints": {"resourceRules": [
            {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["configmaps"]}]},
            "validations": [{"expression": "has(object.data.owner)", "message": "say who owns it"}]}});
    let binding = |actions: Value| {
        json!({"apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": name}, "spec": {"policyName": name,
            "validationActions": actions, "matchResources": {"namespaceSelector": {"matchLabels":
                {"kubernetes.io/metadata.name": house.namespace.name()}}}}})
    };
    house.somebody_makes(&policy, "test", true).await;
    house.somebody_makes(&binding(json!(["Deny"])), "test", true).await;

    let wanted = house.wanted(&[map("a")]).await;
    let found = until_refused(&house, &wanted).await;
    assert_eq!(refused(&found), (name.as_str(), "say who owns it"));
    assert_eq!(found.state, State::Missing);

    house.somebody_makes(&binding(json!(["Warn"])), "test", true).await;
    let warned = eventually("warning", async || {
        house.memory.clear();
        let found = house.survey(&wanted).await.remove(0);
        matches!(verdict(&found).ruling, Ruling::Warned(_)).then_some(found)
    })
    .await;
    assert_eq!(verdict(&warned).policy, name);

    let api = house.api(&house.id(&policy));
    api.delete(&name, &kube::api::DeleteParams::default()).await.unwrap();
    let api = house.api(&house.id(&binding(json!([]))));
    api.delete(&name, &kube::api::DeleteParams::default()).await.unwrap();
}

#[tokio::test]
async fn a_quota_that_would_be_exceeded_is_named() {
    let house = House::new("quota").await;
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none"},
        "spec": {"hard": {"count/configmaps": "0"}}});
    house.somebody_makes(&quota, "test", true).await;
    let wanted = house.wanted(&[map("a")]).await;
    let found = until_refused(&house, &wanted).await;
    let (policy, message) = refused(&found);
    assert_eq!(policy, "quota");
    assert!(message.contains("none"), "{message}");
}

#[tokio::test]
async fn bad_fields_are_named() {
    let house = House::new("fields").await;
    let mut unknown = map("unknown");
    unknown["dta"] = json!({});
    let mut negative = job("negative", "a:1");
    negative["spec"]["parallelism"] = json!(-1);
    let wanted = house.wanted(&[unknown, negative]).await;
    let found = house.survey(&wanted).await;
    let (policy, message) = refused(&found[0]);
    assert_eq!(policy, "schema");
    assert!(message.contains("dta"), "{message}");
    let (policy, message) = refused(&found[1]);
    assert_eq!(policy, "validation");
    assert!(message.contains("spec.parallelism"), "{message}");
}

fn job(name: &str, image: &str) -> Value {
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": {"suspend": true, "template": {
        "spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": image}]}}}})
}

#[tokio::test]
async fn a_field_that_cannot_be_changed_is_refused_unless_the_object_may_be_made_anew() {
    let house = House::new("immutable").await;
    let first = house.wanted(&[job("job", "a:1")]).await;
    house.apply(&first).await;
    let wanted = house.wanted(&[job("job", "a:2")]).await;
    let found = house.survey(&wanted).await.remove(0);
    let (policy, message) = refused(&found);
    assert_eq!(policy, "immutable");
    assert!(message.contains("spec.template") && message.contains("Force=true"), "{message}");
    for (annotation, option) in
        [("argocd.argoproj.io/sync-options", "Replace=true"), ("windlass.dev/sync-options", "Force=true")]
    {
        let mut anew = job("job", "a:2");
        anew["metadata"]["annotations"] = json!({annotation: option});
        let wanted = house.wanted(&[anew]).await;
        let found = house.survey(&wanted).await.remove(0);
        assert!(matches!(found.state, State::Differs(_)), "{found:?}");
        assert_eq!(verdict(&found).ruling, Ruling::Pass, "{option}");
    }
}

#[tokio::test]
async fn an_object_waits_for_a_namespace_of_its_change_and_is_refused_where_nobody_brings_it() {
    let house = House::new("homeless").await;
    let elsewhere = format!("{}-later", house.namespace.name());
    let mut object = map("a");
    object["metadata"]["namespace"] = elsewhere.as_str().into();
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": elsewhere}});

    let both = house.wanted(&[object.clone(), namespace]).await;
    let found = house.survey(&both).await;
    assert_eq!((&found[0].state, &found[0].verdict), (&State::Missing, &None));
    assert_eq!(verdict(&found[1]).ruling, Ruling::Pass);

    let alone = house.wanted(&[object]).await;
    house.memory.clear();
    let made = Survey { makes_namespace: Some(&elsewhere), ..house.asks(&alone) };
    assert_eq!(house.surveyed(&made).await.objects[0].verdict, None);
    house.memory.clear();
    let found = house.survey(&alone).await.remove(0);
    let (policy, message) = refused(&found);
    assert_eq!(policy, "namespace");
    assert!(message.contains(&elsewhere) && message.contains("createNamespace"), "{message}");
}

#[tokio::test]
async fn a_tenant_is_judged_by_its_own_rights() {
    let house = House::new("tenant").await;
    let wanted = house.wanted(&[map("a")]).await;
    let account = format!("system:serviceaccount:{}:default", house.namespace.name());
    let asked = Survey { as_user: Some(&account), ..house.asks(&wanted) };
    let found = house.surveyed(&asked).await.objects.remove(0);
    let (policy, message) = refused(&found);
    assert_eq!(policy, "rbac");
    assert!(message.contains(&account), "{message}");
    let nobody = Survey { as_user: Some(" "), ..house.asks(&wanted) };
    assert_eq!(survey(&house.link, &nobody).await.unwrap_err().reason, "IdentityMissing");
}

#[tokio::test]
async fn values_of_a_secret_are_nowhere_in_what_was_found() {
    let house = House::new("secrets").await;
    let secret = |value: &str| {
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"},
        "stringData": {"password": value}})
    };
    let wanted = house.wanted(&[secret("planted-one")]).await;
    let missing = house.survey(&wanted).await;
    house.apply(&wanted).await;
    let other = house.wanted(&[secret("planted-two")]).await;
    let differing = house.survey(&other).await;
    assert!(matches!(differing[0].state, State::Differs(_)), "{differing:?}");
    let malformed = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "t"}, "data": {"k": ["planted-three"]}});
    let bad = house.wanted(&[malformed]).await;
    let refused = house.survey(&bad).await;
    assert!(matches!(verdict(&refused[0]).ruling, Ruling::Refused(_)), "{refused:?}");
    let done = house.carry_out(&[vec![windlass_deliver::fleet::Work::Apply(bad[0].clone())]]).await;
    assert!(done[0].result.is_err());
    let shown = format!("{missing:?} {differing:?} {refused:?} {done:?} {:?}", house.memory);
    for planted in ["planted", "cGxhbnRlZC1vbmU=", "cGxhbnRlZC10d28="] {
        assert!(!shown.contains(planted), "{shown}");
    }
}
