#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
use serde_json::json;
use windlass_manifest::diff::diff;

use super::*;

fn pointers(pointers: &[&str]) -> IgnoreDifference {
    IgnoreDifference {
        group: Some("*".into()),
        kind: "*".into(),
        json_pointers: pointers.iter().map(|pointer| (*pointer).to_owned()).collect(),
        ..IgnoreDifference::default()
    }
}

fn rebuilt(wanted: &Value, live: &Value, owned: Option<&Value>, list: &[&str]) -> Value {
    let rule = pointers(list);
    at_pointers(wanted, live, owned, &[&rule])
}

#[test]
fn a_rule_is_about_the_objects_that_it_names() {
    let id: ObjectId = "apps/v1/Deployment/shop/web".parse().unwrap();
    let rule =
        |group: Option<&str>, kind: &str, name: Option<&str>, namespace: Option<&str>| IgnoreDifference {
            group: group.map(Into::into),
            kind: kind.into(),
            name: name.map(Into::into),
            namespace: namespace.map(Into::into),
            ..IgnoreDifference::default()
        };
    for (rule, fits) in [
        (rule(Some("apps"), "Deployment", None, None), true),
        (rule(Some("*"), "*", Some("web"), Some("shop")), true),
        (rule(None, "Deployment", None, None), false),
        (rule(Some("apps"), "Deployment", Some("other"), None), false),
        (rule(Some("apps"), "Deployment", None, Some("other")), false),
        (rule(Some("apps"), "StatefulSet", None, None), false),
    ] {
        assert_eq!(!rules_for(std::slice::from_ref(&rule), &id).is_empty(), fits, "{rule:?}");
    }
}

#[test]
fn the_live_value_takes_the_place_of_the_wanted_one() {
    let wanted = json!({"spec": {"replicas": 1, "paused": true}});
    let live = json!({"spec": {"replicas": 7, "paused": false}});
    let expected = json!({"spec": {"replicas": 7, "paused": true}});
    assert_eq!(rebuilt(&wanted, &live, None, &["/spec/replicas"]), expected);
    // Gone in the cluster: it stays gone.
    assert_eq!(
        rebuilt(&wanted, &json!({"spec": {}}), None, &["/spec/replicas"]),
        json!({"spec": {"paused": true}})
    );
}

#[test]
fn what_we_set_before_and_no_longer_want_stays_and_what_others_set_does_not_become_ours() {
    let wanted = json!({"metadata": {"annotations": {"a": "1"}}});
    let live = json!({"metadata": {"annotations": {"a": "2", "ours": "3", "theirs": "4"}}});
    let owned = json!({"metadata": {"annotations": {"a": "2", "ours": "3"}}});
    let expected = json!({"metadata": {"annotations": {"a": "2", "ours": "3"}}});
    assert_eq!(rebuilt(&wanted, &live, Some(&owned), &["/metadata/annotations"]), expected);
    let nothing = json!({"metadata": {}});
    assert_eq!(rebuilt(&nothing, &live, None, &["/metadata/annotations/theirs"]), nothing);
}

#[test]
fn the_marks_and_the_name_are_never_ignored() {
    let wanted = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a",
        "labels": {tracking::LABEL: "x"}, "annotations": {tracking::OWNER: "t/x", "b": "1"}}});
    let live = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "annotations": {"b": "2"}}});
    let expected = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a",
        "labels": {tracking::LABEL: "x"}, "annotations": {tracking::OWNER: "t/x", "b": "2"}}});
    assert_eq!(rebuilt(&wanted, &live, None, &["/metadata"]), expected);
}

#[test]
fn an_item_is_found_by_its_name_although_another_was_put_before_it() {
    let wanted = json!({"c": [{"name": "app", "image": "a:1"}]});
    let live = json!({"c": [{"name": "sidecar", "image": "s"}, {"name": "app", "image": "a:2"}]});
    let expected = json!({"c": [{"name": "app", "image": "a:2"}]});
    assert_eq!(rebuilt(&wanted, &live, None, &["/c/0/image"]), expected);
    assert_eq!(rebuilt(&wanted, &live, None, &["/c/5/image", "no pointer", "/c/x"]), wanted);
}

#[test]
fn escapes_in_a_pointer_are_understood() {
    let wanted = json!({"metadata": {"annotations": {"a/b": "1", "c~d": "1"}}});
    let live = json!({"metadata": {"annotations": {"a/b": "2", "c~d": "2"}}});
    let list = ["/metadata/annotations/a~1b", "/metadata/annotations/c~0d"];
    assert_eq!(rebuilt(&wanted, &live, None, &list), live);
}

#[test]
fn fields_that_a_listed_manager_set_are_left_to_it() {
    let wanted = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"},
        "spec": {"replicas": 1, "template": {"spec": {"containers": [{"name": "app", "image": "a:1"}]}}}});
    let live = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a", "managedFields": [
        {"manager": "hpa", "operation": "Update", "fieldsType": "FieldsV1", "subresource": "scale",
            "fieldsV1": {"f:spec": {"f:replicas": {}}}},
        {"manager": "image-bot", "operation": "Update", "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:template":
            {"f:spec": {"f:containers": {"k:{\"name\":\"app\"}": {"f:image": {}}}}}}}}]},
        "spec": {"replicas": 5, "template": {"spec": {"containers": [
            {"name": "side", "image": "s"}, {"name": "app", "image": "a:2"}]}}}});
    let differences = diff(&wanted, &live, "us");
    assert_eq!(differences.len(), 2, "{differences:?}");
    let rule = |managers: &[&str]| IgnoreDifference {
        kind: "*".into(),
        managers: managers.iter().map(|name| (*name).to_owned()).collect(),
        ..IgnoreDifference::default()
    };
    let both = of_managers(&wanted, &live, &differences, &[&rule(&["hpa", "image-bot"])]);
    assert_eq!(both["spec"]["replicas"], 5);
    assert_eq!(both["spec"]["template"]["spec"]["containers"], json!([{"name": "app", "image": "a:2"}]));
    assert_eq!(diff(&both, &live, "us"), []);
    let one = of_managers(&wanted, &live, &differences, &[&rule(&["hpa"])]);
    assert_eq!(diff(&one, &live, "us").len(), 1);
}

#[test]
fn a_path_that_is_not_there_is_made_or_left_out() {
    let steps =
        |names: &[&str]| -> Vec<Step> { names.iter().map(|name| Step::Field((*name).to_owned())).collect() };
    let mut object = json!({});
    put(&mut object, &steps(&["a", "b"]), Some(&json!(1)));
    assert_eq!(object, json!({"a": {"b": 1}}));
    put(&mut object, &steps(&["c", "d"]), None);
    put(&mut object, &steps(&["a", "b"]), None);
    assert_eq!(object, json!({"a": {}}));
    let key = Step::Key(vec![("name".into(), json!("x"))]);
    put(&mut object, &[Step::Field("l".into()), key.clone(), Step::Field("v".into())], Some(&json!(2)));
    assert_eq!(object["l"], json!([{"name": "x", "v": 2}]));
    put(&mut object, &[Step::Field("l".into()), key], None);
    put(&mut object, &[Step::Field("s".into()), Step::Member(json!("m"))], Some(&json!("m")));
    assert_eq!((&object["l"], &object["s"]), (&json!([]), &json!(["m"])));
}
