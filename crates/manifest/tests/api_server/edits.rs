//! Changes by somebody else to the objects of `wide.yaml`.

use serde_json::{Value, json};

/// A kind, a patch of its object, and what the differ has to say; nothing for what is nobody's business.
pub fn cases() -> Vec<(&'static str, Value, String)> {
    let app = "/spec/template/spec/containers/0";
    let container = "spec.template.spec.containers[name=app]";
    let replace = |path: String, value: Value| json!([{"op": "replace", "path": path, "value": value}]);
    let remove = |path: String| json!([{"op": "remove", "path": path}]);
    vec![
        ("Deployment", replace(format!("{app}/image"), json!("other:1")),
            format!("{container}.image: wanted \"registry.example.org/app@sha256:0000000000000000000000000000000000000000000000000000000000000000\", live \"other:1\", set by somebody (Update)")),
        ("Deployment", replace(format!("{app}/resources/requests/cpu"), json!("1500m")),
            format!("{container}.resources.requests.cpu: wanted \"1000m\", live \"1500m\", set by somebody (Update)")),
        ("Deployment", replace(format!("{app}/resources/requests/cpu"), json!("1.0")), String::new()),
        ("Deployment", remove(format!("{app}/securityContext/allowPrivilegeEscalation")),
            format!("{container}.securityContext.allowPrivilegeEscalation: wanted false, missing in the cluster")),
        ("Deployment", remove(format!("{app}/env/1")),
            format!("{container}.env[name=NODE]: wanted {{\"name\":\"NODE\",\"valueFrom\":{{\"fieldRef\":{{\"fieldPath\":\"spec.nodeName\"}}}}}}, missing in the cluster")),
        ("Deployment", json!([{"op": "add", "path": format!("{app}/env/0/value"), "value": "x"}]),
            format!("{container}.env[name=EMPTY].value: wanted \"\", live \"x\", set by somebody (Update)")),
        ("Deployment", json!([{"op": "add", "path": format!("{app}/env/-"), "value": {"name": "THEIRS", "value": "1"}}]), String::new()),
        ("Deployment", json!({"spec": {"replicas": 4}}), String::new()),
        ("Deployment", json!({"spec": {"revisionHistoryLimit": 3}}), String::new()),
        ("Deployment", replace("/spec/template/spec/tolerations/0/operator".into(), json!("Equal")),
            "spec.template.spec.tolerations: wanted [{\"key\":\"a\",\"operator\":\"Exists\"}], live [{\"key\":\"a\",\"operator\":\"Equal\"}], set by somebody (Update)".into()),
        ("ConfigMap", json!({"data": {"a": "2"}}), "data.a: wanted \"1\", live \"2\", set by somebody (Update)".into()),
        ("NetworkPolicy", remove("/spec/egress".into()), "spec.egress: wanted [{}], missing in the cluster".into()),
        ("PodDisruptionBudget", json!({"spec": {"maxUnavailable": "1%"}}),
            "spec.maxUnavailable: wanted 1, live \"1%\", set by somebody (Update)".into()),
        ("Role", json!({"rules": []}),
            "rules: wanted [{\"apiGroups\":[\"\"],\"resources\":[\"pods\"],\"verbs\":[\"get\",\"list\"]}], missing in the cluster, set by somebody (Update)".into()),
        ("Widget", json!({"spec": {"enabled": null}}), "spec.enabled: wanted false, missing in the cluster".into()),
        ("Widget", json!({"spec": {"tags": ["z", "theirs"]}}), "spec.tags[=x]: wanted \"x\", missing in the cluster".into()),
        ("Widget", json!({"spec": {"selector": {"a": "c"}}}),
            "spec.selector: wanted {\"a\":\"b\"}, live {\"a\":\"c\"}, set by somebody (Update)".into()),
        ("Widget", replace("/spec/parts/1/mode".into(), json!("slow")),
            "spec.parts[id=1].mode: wanted \"fast\", live \"slow\", set by somebody (Update)".into()),
        ("Widget", json!({"metadata": {"finalizers": ["example.org/theirs"]}}),
            "metadata.finalizers[=example.org/keep]: wanted \"example.org/keep\", missing in the cluster".into()),
    ]
}
