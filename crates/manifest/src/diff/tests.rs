// Values are written where they are used, and given away.
#![allow(clippy::unwrap_used, clippy::needless_pass_by_value)]

use serde_json::{Value, json};

use super::*;

const US: &str = "windlass";

fn entry(manager: &str, operation: &str, fields: &Value) -> Value {
    json!({"manager": manager, "operation": operation, "apiVersion": "v1", "fieldsType": "FieldsV1",
        "time": "2026-01-01T00:00:00Z", "fieldsV1": fields})
}

fn ours(fields: &Value) -> Value {
    entry(US, "Apply", fields)
}

/// An object with managers.
fn live(mut object: Value, managers: &[Value]) -> Value {
    object["metadata"]["managedFields"] = managers.to_vec().into();
    object["metadata"]["name"] = "x".into();
    object
}

fn deployment(spec: Value) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "x"}, "spec": spec})
}

fn pod(container: Value) -> Value {
    deployment(json!({"template": {"spec": {"containers": [container]}}}))
}

#[track_caller]
fn sentences(wanted: &Value, live: &Value) -> Vec<String> {
    diff(wanted, live, US).iter().map(ToString::to_string).collect()
}

#[test]
fn a_field_that_somebody_else_changed_is_named_with_its_manager() {
    let wanted = deployment(json!({"replicas": 3, "template": {"spec": {"containers": [
        {"name": "app", "image": "shop:2"}]}}}));
    let found = live(
        deployment(
            json!({"replicas": 5, "revisionHistoryLimit": 10, "template": {"spec": {"restartPolicy": "Always",
            "containers": [{"name": "proxy", "image": "envoy"}, {"name": "app", "image": "shop:1", "imagePullPolicy": "Always"}]}}}),
        ),
        &[
            ours(&json!({"f:spec": {"f:template": {"f:spec": {"f:containers": {
                "k:{\"name\":\"app\"}": {".": {}, "f:name": {}, "f:image": {}}}}}}})),
            json!({"manager": "hpa", "operation": "Update", "subresource": "scale", "fieldsType": "FieldsV1",
                "fieldsV1": {"f:spec": {"f:replicas": {}}}}),
        ],
    );
    assert_eq!(
        sentences(&wanted, &found),
        [
            "spec.replicas: wanted 3, live 5, set by hpa (Update of scale)",
            "spec.template.spec.containers[name=app].image: wanted \"shop:2\", live \"shop:1\"",
        ]
    );
    let json = serde_json::to_value(&diff(&wanted, &found, US)[0]).unwrap();
    assert_eq!(
        json,
        json!({"path": "spec.replicas", "wanted": 3, "live": 5,
            "owner": {"manager": "hpa", "operation": "Update", "subresource": "scale"}})
    );
}

#[test]
fn defaults_and_the_fields_of_others_are_no_differences() {
    let wanted = deployment(
        json!({"selector": {"matchLabels": {"a": "b"}}, "template": {"spec": {"containers": [
        {"name": "app", "ports": [{"containerPort": 80}], "env": [{"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]}]}}}),
    );
    let mut found = live(
        deployment(json!({"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": {"spec": {
            "dnsPolicy": "ClusterFirst", "tolerations": [{"key": "x"}], "containers": [{"name": "app", "image": "i", "resources": {},
            "ports": [{"containerPort": 80, "protocol": "TCP"}, {"containerPort": 81, "protocol": "TCP"}],
            "env": [{"name": "N", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}}, {"name": "M", "value": "1"}]},
            {"name": "sidecar"}]}}})),
        &[entry("other", "Update", &json!({"f:spec": {"f:replicas": {}}}))],
    );
    found["metadata"]["annotations"] = json!({"deployment.kubernetes.io/revision": "1"});
    found["status"] = json!({"replicas": 1});
    assert_eq!(sentences(&wanted, &found), Vec::<String>::new());
}

#[test]
fn what_we_set_and_no_longer_want_is_a_removal() {
    let wanted = deployment(
        json!({"template": {"spec": {"containers": [{"name": "app", "env": [{"name": "A", "value": "1"}]}]}}}),
    );
    let mut found = live(
        pod(
            json!({"name": "app", "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}, {"name": "C", "value": "3"}],
            "command": ["run"]}),
        ),
        &[
            ours(&json!({
                "f:metadata": {"f:annotations": {"f:example.org/note": {}}, "f:finalizers": {"v:\"a/b\"": {}},
                    "f:labels": {"f:gone": {}}},
                "f:spec": {"f:template": {"f:spec": {"f:containers": {"k:{\"name\":\"app\"}": {".": {}, "f:name": {}, "f:command": {},
                    "f:env": {"k:{\"name\":\"A\"}": {".": {}, "f:name": {}, "f:value": {}},
                    "k:{\"name\":\"B\"}": {".": {}, "f:name": {}, "f:value": {}},
                    "k:{\"name\":\"C\"}": {".": {}, "f:name": {}, "f:value": {}}}}}}}}})),
            entry(
                "injector",
                "Apply",
                &json!({"f:spec": {"f:template": {"f:spec": {"f:containers": {"k:{\"name\":\"app\"}": {
                    "f:env": {"k:{\"name\":\"C\"}": {"f:name": {}}}}}}}}}),
            ),
        ],
    );
    found["metadata"]["annotations"] = json!({"example.org/note": "x", "theirs": "y"});
    found["metadata"]["finalizers"] = json!(["a/b", "c/d"]);
    let mut found = sentences(&wanted, &found);
    found.sort();
    assert_eq!(
        found,
        [
            "metadata.annotations[\"example.org/note\"]: no longer wanted, live \"x\"",
            "metadata.finalizers[=a/b]: no longer wanted, live \"a/b\"",
            "spec.template.spec.containers[name=app].command: no longer wanted, live [\"run\"]",
            "spec.template.spec.containers[name=app].env[name=B]: no longer wanted, live {\"name\":\"B\",\"value\":\"2\"}",
            "spec.template.spec.containers[name=app].env[name=C].value: no longer wanted, live \"3\"",
        ]
    );
}

#[test]
fn what_an_update_of_our_name_set_is_not_ours_to_remove() {
    let wanted = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": {}});
    let found = live(
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}, "data": {"a": "1"}}),
        &[entry(US, "Update", &json!({"f:data": {"f:a": {}}}))],
    );
    assert_eq!(sentences(&wanted, &found), Vec::<String>::new());
}

#[test]
fn spelling_is_no_difference() {
    let cases = [
        (
            json!({"resources": {"limits": {"cpu": "1000m", "memory": "1Gi"}}}),
            json!({"resources": {"limits": {"cpu": "1", "memory": "1024Mi"}}}),
        ),
        (json!({"resources": {"limits": {"cpu": 2}}}), json!({"resources": {"limits": {"cpu": "2"}}})),
        (
            json!({"ports": [{"containerPort": 80}]}),
            json!({"ports": [{"containerPort": 80, "protocol": "TCP"}]}),
        ),
        (
            json!({"ports": [{"containerPort": 53, "protocol": "UDP"}, {"containerPort": 53}]}),
            json!({"ports": [{"containerPort": 53, "protocol": "TCP"}, {"containerPort": 53, "protocol": "UDP"}]}),
        ),
        (
            json!({"livenessProbe": {"httpGet": {"port": "80"}}}),
            json!({"livenessProbe": {"httpGet": {"port": 80}}}),
        ),
        (json!({"env": [], "command": null, "resources": {"limits": {}}}), json!({})),
        (json!({"image": null}), json!({"image": "x"})),
        (json!({"env": [{"name": "A"}, {"name": "B"}]}), json!({"env": [{"name": "B"}, {"name": "A"}]})),
        (
            json!({"env": [{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}}]}),
            json!({"env": [{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "0"}}}]}),
        ),
    ];
    for (wanted, found) in cases {
        let name = |mut container: Value| {
            container["name"] = "c".into();
            pod(container)
        };
        let (wanted, found) = (name(wanted), live(name(found), &[]));
        assert_eq!(sentences(&wanted, &found), Vec::<String>::new(), "{wanted}");
    }
    let policy = |port: Value| {
        json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "x"},
        "spec": {"ingress": [{"ports": [port]}]}})
    };
    assert!(
        diff(&policy(json!({"port": 80})), &live(policy(json!({"port": 80, "protocol": "TCP"})), &[]), US)
            .is_empty()
    );
    assert_eq!(
        diff(&policy(json!({"port": 80})), &live(policy(json!({"port": 80, "protocol": "UDP"})), &[]), US)
            .len(),
        1
    );
}

#[test]
fn what_only_looks_like_spelling_is_a_difference() {
    let cases = [
        (json!({"resources": {"limits": {"cpu": "1"}}}), json!({"resources": {"limits": {"cpu": "1k"}}})),
        (json!({"image": "1000m"}), json!({"image": "1"})),
        (
            json!({"ports": [{"containerPort": 80, "name": "a"}]}),
            json!({"ports": [{"containerPort": 80, "name": "b"}]}),
        ),
        (json!({"env": [{"name": "A", "value": "1"}]}), json!({"env": [{"name": "A", "value": "1.0"}]})),
        (json!({"tty": true}), json!({})),
        (json!({"command": ["a", "b"]}), json!({"command": ["b", "a"]})),
    ];
    for (wanted, found) in cases {
        let name = |mut container: Value| {
            container["name"] = "c".into();
            pod(container)
        };
        assert_eq!(sentences(&name(wanted.clone()), &live(name(found), &[])).len(), 1, "{wanted}");
    }
}

#[test]
fn a_zero_that_was_taken_away_is_told_from_one_that_was_never_stored() {
    let wanted = pod(json!({"name": "c", "securityContext": {"privileged": false}, "stdin": false}));
    let found = pod(json!({"name": "c", "securityContext": {}}));
    let container = |fields: &Value| {
        ours(&json!({"f:spec": {"f:template": {"f:spec": {"f:containers": {"k:{\"name\":\"c\"}": fields}}}}}))
    };
    let untouched =
        container(&json!({".": {}, "f:name": {}, "f:stdin": {}, "f:securityContext": {"f:privileged": {}}}));
    assert_eq!(sentences(&wanted, &live(found.clone(), &[untouched])), Vec::<String>::new());
    let taken = container(&json!({".": {}, "f:name": {}, "f:stdin": {}}));
    assert_eq!(
        sentences(&wanted, &live(found, &[taken])),
        [
            "spec.template.spec.containers[name=c].securityContext.privileged: wanted false, missing in the cluster"
        ]
    );
    // In a custom resource a zero is stored, so that its absence means something.
    let wanted = json!({"apiVersion": "example.org/v1", "kind": "A", "metadata": {"name": "x"}, "spec": {"on": false, "list": []}});
    let found = json!({"apiVersion": "example.org/v1", "kind": "A", "metadata": {}, "spec": {}});
    assert_eq!(sentences(&wanted, &live(found, &[])), ["spec.on: wanted false, missing in the cluster"]);
}

#[test]
fn what_is_replaced_as_a_whole_is_one_difference() {
    let service = |selector: Value| json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "x"}, "spec": {"selector": selector}});
    let found = live(
        service(json!({"a": "b", "c": "d"})),
        &[entry("kubectl-edit", "Update", &json!({"f:spec": {"f:selector": {}}}))],
    );
    assert_eq!(
        sentences(&service(json!({"a": "b"})), &found),
        ["spec.selector: wanted {\"a\":\"b\"}, live {\"a\":\"b\",\"c\":\"d\"}, set by kubectl-edit (Update)"]
    );
    let tolerating =
        |tolerations: Value| deployment(json!({"template": {"spec": {"tolerations": tolerations}}}));
    let found = live(tolerating(json!([{"key": "a", "effect": "NoSchedule"}])), &[]);
    assert_eq!(diff(&tolerating(json!([{"key": "a"}])), &found, US).len(), 1, "an effect is no default");
    assert!(
        diff(&tolerating(json!([{"key": "a", "effect": "NoSchedule", "value": ""}])), &found, US).is_empty()
    );
}

#[test]
fn lists_of_unknown_kinds_are_told_apart_as_their_managers_did() {
    let widget = |spec: Value| json!({"apiVersion": "example.org/v1", "kind": "Widget", "metadata": {"name": "x"}, "spec": spec});
    let wanted = widget(
        json!({"parts": [{"id": 1, "size": 2}], "tags": ["a", "b"], "words": [{"w": 1}], "whole": {"a": 1},
        "resources": {"limits": {"cpu": "1000m"}}}),
    );
    let found = widget(
        json!({"parts": [{"id": 2, "size": 9}, {"id": 1, "size": 3, "more": true}], "tags": ["b", "c"],
        "words": [{"w": 1, "filled": true}], "whole": {"a": 1, "b": 2}, "resources": {"limits": {"cpu": 1}}}),
    );
    let set = ours(
        &json!({"f:spec": {"f:parts": {"k:{\"id\":1}": {".": {}, "f:id": {}, "f:size": {}}}, "f:tags": {"v:\"a\"": {}, "v:\"b\"": {}},
        "f:words": {}, "f:whole": {}, "f:resources": {"f:limits": {"f:cpu": {}}}}}),
    );
    assert_eq!(
        sentences(&wanted, &live(found.clone(), &[set])),
        ["spec.parts[id=1].size: wanted 2, live 3", "spec.tags[=a]: wanted \"a\", missing in the cluster",],
        "words and whole are ours, and what they have more are defaults"
    );
    // Without any hint a list is a whole, and what it has more may be anybody's.
    let differences = sentences(&wanted, &live(found, &[]));
    assert!(differences[0].starts_with("spec.parts: wanted") && differences.len() == 3, "{differences:?}");
}

#[test]
fn a_definition_makes_an_unknown_kind_known() {
    let definition = json!({"spec": {"group": "example.org", "names": {"kind": "Widget"}, "versions": [{"name": "v1",
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": {"steps": {"type": "array",
        "items": {"type": "object", "properties": {"run": {"type": "string"}, "mode": {"type": "string", "default": "slow"}}}}}}}}}}]}});
    let schema = crate::schema::Schema::built_in().with_definitions([&definition]);
    let widget = |steps: Value| json!({"apiVersion": "example.org/v1", "kind": "Widget", "metadata": {"name": "x"}, "spec": {"steps": steps}});
    let set = ours(&json!({"f:spec": {"f:steps": {}}}));
    let wanted = widget(json!([{"run": "a"}]));
    let slow = live(widget(json!([{"run": "a", "mode": "slow"}])), std::slice::from_ref(&set));
    assert!(diff_with(&schema, &wanted, &slow, US).is_empty());
    let fast = live(widget(json!([{"run": "a", "mode": "fast"}])), &[set]);
    assert_eq!(diff_with(&schema, &wanted, &fast, US).len(), 1, "only the default is forgiven");
}

#[test]
fn the_status_and_the_notes_of_the_server_are_left_alone() {
    let wanted = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "namespace": "other", "uid": "1", "creationTimestamp": null},
        "status": {"phase": "Running"}, "spec": {}});
    let found = live(
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "n", "uid": "2", "generation": 4}, "status": {"phase": "Failed"}, "spec": {}}),
        &[],
    );
    assert!(diff(&wanted, &found, US).is_empty());
    let found = live(
        json!({"apiVersion": "e.org/v1", "kind": "A", "metadata": {}, "status": {"phase": "Failed"}}),
        &[ours(&json!({"f:status": {"f:phase": {}}}))],
    );
    let wanted = json!({"apiVersion": "e.org/v1", "kind": "A", "metadata": {"name": "x"}, "status": {"phase": "Running"}});
    assert_eq!(diff(&wanted, &found, US).len(), 1, "a status that was applied with the rest is compared");
}

#[test]
fn the_rules_of_an_aggregated_role_are_computed() {
    let role = |rules: Value| {
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "x"},
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}, "rules": rules})
    };
    let found = live(role(json!([{"verbs": ["get"], "resources": ["pods"], "apiGroups": [""]}])), &[]);
    assert!(diff(&role(json!([])), &found, US).is_empty());
    assert_eq!(diff(&role(json!([{"verbs": ["list"]}])), &found, US).len(), 1);
}

#[test]
fn the_data_of_a_secret_is_compared_and_never_shown() {
    let wanted = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x"},
        "stringData": {"password": "canary-wanted", "same": "x"}, "data": {"token": "Y2Fu\nYXJ5"}});
    let found = live(
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"annotations": {"kubectl.kubernetes.io/last-applied-configuration": "canary"}},
            "data": {"password": "Y2FuYXJ5LWxpdmU=", "same": "eA==", "token": "Y2FuYXJ5", "old": "Y2FuYXJ5LW9sZA=="}}),
        &[ours(
            &json!({"f:data": {"f:token": {}}, "f:stringData": {"f:password": {}, "f:same": {}, "f:old": {}},
            "f:metadata": {"f:annotations": {"f:kubectl.kubernetes.io/last-applied-configuration": {}}}}),
        )],
    );
    let differences = diff(&wanted, &found, US);
    let shown: Vec<String> = differences.iter().map(ToString::to_string).collect();
    assert_eq!(
        shown,
        [
            "data.password: wanted (secret, 13 bytes), live (secret, 11 bytes)",
            "data.old: no longer wanted, live (secret, 10 bytes)",
            "metadata.annotations[\"kubectl.kubernetes.io/last-applied-configuration\"]: no longer wanted, live (secret, 6 bytes)",
        ]
    );
    let everything =
        format!("{differences:?} {} {}", serde_json::to_string(&differences).unwrap(), shown.join(" "));
    assert!(!everything.contains("canary") && !everything.contains("Y2Fu"), "{everything}");
    assert_eq!(differences[0].live.as_ref().unwrap().expose(), "Y2FuYXJ5LWxpdmU=");
    let empty = live(json!({"apiVersion": "v1", "kind": "Secret", "metadata": {}}), &[]);
    let whole = diff(&wanted, &empty, US);
    assert!(!format!("{whole:?}{}", whole[0]).contains("Y2Fu"), "{whole:?}");
}

#[test]
fn malformed_managers_count_as_nobody() {
    let wanted =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"a": "1"}});
    for managers in [
        json!([1, null, {}]),
        json!([{"manager": US, "operation": "Apply", "fieldsV1": "no"}]),
        json!("no"),
        json!([{"manager": US, "operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": {"f:data": 1, "k:{": {}, "x": {}, "v:": {}}}]),
    ] {
        let mut found =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"a": "2"}});
        found["metadata"]["managedFields"] = managers;
        assert_eq!(sentences(&wanted, &found), ["data.a: wanted \"1\", live \"2\""]);
    }
    assert!(diff(&json!(1), &json!(null), US).is_empty());
}

#[test]
fn two_files_are_compared_in_both_directions() {
    let one = deployment(
        json!({"replicas": 1, "paused": true, "selector": {"matchLabels": {"a": "b"}}, "template": {"spec": {"containers": [
        {"name": "a", "image": "x", "ports": [{"containerPort": 80}], "args": ["1", "2"]}, {"name": "old"}]}}}),
    );
    let two = deployment(json!({"replicas": 2, "template": {"spec": {"containers": [
        {"name": "new"}, {"name": "a", "image": "x", "ports": [{"containerPort": 80, "protocol": "TCP"}], "args": ["1", "3"], "tty": false}]}},
        "selector": {"matchLabels": {"a": "c"}}, "strategy": {}}));
    let found: Vec<String> =
        compare(&one, &two).iter().map(|difference| difference.between("a.yaml", "b.yaml")).collect();
    assert_eq!(
        found,
        [
            "spec.replicas: a.yaml 1, b.yaml 2",
            "spec.paused: a.yaml true, not in b.yaml",
            "spec.selector.matchLabels.a: a.yaml \"b\", b.yaml \"c\"",
            "spec.template.spec.containers[name=a].args[1]: a.yaml \"2\", b.yaml \"3\"",
            "spec.template.spec.containers[name=old]: a.yaml {\"name\":\"old\"}, not in b.yaml",
            "spec.template.spec.containers[name=new]: not in a.yaml, b.yaml {\"name\":\"new\"}",
        ]
    );
    assert!(compare(&one, &one).is_empty());
    let secret = |text: &str| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x"}, "stringData": {"a": text}});
    assert!(!format!("{:?}", compare(&secret("canary-1"), &secret("canary-2"))).contains("canary"));
    assert_eq!(compare(&secret("canary-1"), &secret("canary-2")).len(), 1);
}

#[test]
fn a_change_is_an_addition_a_replacement_or_a_removal() {
    let map = |data: Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": data});
    let changes: Vec<Change> = compare(&map(json!({"a": "1", "b": "1"})), &map(json!({"b": "2", "c": "3"})))
        .iter()
        .map(Difference::change)
        .collect();
    assert_eq!(changes, [Change::Add, Change::Replace, Change::Remove]);
}

#[test]
fn a_secret_is_not_shown_as_a_whole_either() {
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "data": {"a": "aHVudGVyMg=="}, "metadata": {"name": "x",
        "annotations": {"kapp.k14s.io/original": "hunter2", "objectset.rio.cattle.io/applied": "hunter2"}}});
    let bare = json!({"apiVersion": "v1", "kind": "Secret", "data": {"a": "aHVudGVyMg=="}});
    let named =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x", "annotations": {"a": "b"}}});
    for other in [Value::Null, json!(1), json!([]), bare, named] {
        let found = compare(&secret, &other);
        assert!(!found.is_empty());
        let shown = format!("{found:?} {}", serde_json::to_string(&found).unwrap());
        assert!(!shown.contains("hunter2") && !shown.contains("aHVudGVyMg"), "{shown}");
    }
}

/// As long as the API server takes them: the square of it would take minutes.
#[test]
fn long_lists_are_compared_in_time() {
    let ports =
        |from: u32| -> Value { (from..from + 20_000).map(|at| json!({"containerPort": at})).collect() };
    let wanted = pod(json!({"name": "a", "ports": ports(10_000)}));
    let mut found = pod(json!({"name": "a", "ports": ports(20_000)}));
    for port in found.pointer_mut("/spec/template/spec/containers/0/ports").unwrap().as_array_mut().unwrap() {
        port["protocol"] = "TCP".into();
    }
    let keys = (20_000..40_000).map(|at| {
        (format!(r#"k:{{"containerPort":{at},"protocol":"TCP"}}"#), json!({".": {}, "f:containerPort": {}}))
    });
    let keys = Value::Object(keys.collect());
    let set = json!({"f:spec": {"f:template": {"f:spec": {"f:containers": {"k:{\"name\":\"a\"}": {"f:ports": keys}}}}}});
    let compared = compare(&wanted, &found);
    assert_eq!(compared.iter().filter(|found| found.change() != Change::Replace).count(), 20_000);
    let found = live(found, &[ours(&set), entry("other", "Update", &set)]);
    let differences = diff(&wanted, &found, US);
    assert_eq!(differences.iter().filter(|found| found.change() == Change::Add).count(), 10_000);

    let words =
        |from: u32| -> Value { (from..from + 20_000).map(|at| json!(format!("example.org/{at}"))).collect() };
    let object = |words: Value| json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "finalizers": words}});
    assert_eq!(compare(&object(words(0)), &object(words(5_000))).len(), 10_000);
}
