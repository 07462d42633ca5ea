//! From templates and arguments to a run.

use std::collections::BTreeMap;

use serde_json::json;
use windlass_api::analysis::{
    AnalysisTemplateSpec, Argument, Metric, TemplateRef,
    merge::{Library, MergeError, Request, run_spec},
};
use windlass_rollout::analysis::{
    args::{Args, ArgumentError, redact},
    check::{means, problems},
};

fn spec(value: serde_json::Value) -> AnalysisTemplateSpec {
    serde_json::from_value(value).unwrap()
}

fn metric(value: serde_json::Value) -> Metric {
    serde_json::from_value(value).unwrap()
}

fn args(value: serde_json::Value) -> Vec<Argument> {
    serde_json::from_value(value).unwrap()
}

fn named(name: &str) -> TemplateRef {
    TemplateRef { template_name: name.into(), cluster_scope: false }
}

fn cluster(name: &str) -> TemplateRef {
    TemplateRef { template_name: name.into(), cluster_scope: true }
}

fn simple(name: &str) -> serde_json::Value {
    json!({ "name": name, "provider": { "prometheus": { "address": "http://p", "query": "up" } } })
}

#[test]
fn templates_and_those_that_they_refer_to_become_one_run() {
    let mut library = Library::default();
    library.namespaced.insert(
        "top".into(),
        spec(json!({ "metrics": [simple("a")], "args": [{ "name": "service" }, { "name": "rate", "value": "5m" }],
            "templates": [{ "templateName": "below" }, { "templateName": "wide", "clusterScope": true }] })),
    );
    library.namespaced.insert("below".into(), spec(json!({ "metrics": [simple("b")], "args": [{ "name": "service" }],
        "dryRun": [{ "metricName": "b" }], "templates": [{ "templateName": "wide", "clusterScope": true }] })));
    let wanted = [named("top")];
    assert_eq!(library.missing(&wanted).into_iter().collect::<Vec<_>>(), [cluster("wide")]);
    library.cluster.insert("wide".into(), spec(json!({ "metrics": [simple("c")] })));
    assert!(library.missing(&wanted).is_empty());

    let given = args(json!([{ "name": "service", "value": "web" }, { "name": "nobody", "value": "x" }]));
    let request = Request { templates: &wanted, args: &given, ..Request::default() };
    let run = run_spec(request, &library).unwrap();
    let names: Vec<&str> = run.metrics.iter().map(|metric| metric.name.as_str()).collect();
    assert_eq!(names, ["a", "b", "c"], "a template that is named twice counts once");
    assert_eq!(
        run.args,
        args(json!([{ "name": "service", "value": "web" }, { "name": "rate", "value": "5m" }]))
    );
    assert_eq!(run.dry_run.len(), 1);

    let nobody = run_spec(Request { templates: &wanted, ..Request::default() }, &library).unwrap_err();
    assert_eq!(nobody, MergeError::ArgumentMissing("service".into()));
}

#[test]
fn templates_in_a_circle_missing_ones_and_clashes_are_named() {
    let mut library = Library::default();
    library.namespaced.insert("one".into(), spec(json!({ "templates": [{ "templateName": "two" }] })));
    library.namespaced.insert("two".into(), spec(json!({ "templates": [{ "templateName": "one" }] })));
    library.namespaced.insert(
        "x".into(),
        spec(json!({ "metrics": [simple("same")], "args": [{ "name": "v", "value": "1" }] })),
    );
    library.namespaced.insert("y".into(), spec(json!({ "metrics": [simple("same")] })));
    library.namespaced.insert("z".into(), spec(json!({ "args": [{ "name": "v", "value": "2" }] })));
    library.cluster.insert("low".into(), spec(json!({ "templates": [{ "templateName": "x" }] })));
    let fails = |templates: &[TemplateRef]| {
        run_spec(Request { templates, ..Request::default() }, &library).unwrap_err().to_string()
    };
    assert!(fails(&[named("one")]).contains("one → two → one"));
    assert!(fails(&[cluster("nowhere")]).contains("ClusterAnalysisTemplate nowhere does not exist"));
    assert!(fails(&[named("x"), named("y")]).contains("two metrics have the name same"));
    assert!(fails(&[named("x"), named("z")]).contains("argument v"));
    assert!(fails(&[cluster("low")]).contains("clusterScope"));
}

#[test]
fn arguments_are_put_into_every_text_and_missing_ones_are_named() {
    let known = Args::of(&args(json!([
        { "name": "service", "value": "web \"quoted\"\n" }, { "name": "count", "value": "3" }, { "name": "wait", "value": "5s" },
    ])))
    .unwrap();
    let with = metric(json!({
        "name": "m", "interval": "{{args.wait}}", "count": "{{ args.count }}", "successCondition": "result[0] > {{args.count}}",
        "provider": { "web": { "url": "http://x/{{args.service}}", "headers": [{ "key": "a", "value": "{{args.service}}" }],
            "jsonBody": { "deep": ["{{args.count}}"] } } },
    }));
    let filled = known.masked(&with).unwrap();
    assert_eq!(filled.interval.as_deref(), Some("5s"));
    assert_eq!(filled.provider.web.as_ref().unwrap().url, "http://x/web \"quoted\"\n");
    assert_eq!(filled.provider.web.as_ref().unwrap().json_body, Some(json!({ "deep": ["3"] })));
    assert_eq!(filled.success_condition.as_deref(), Some("result[0] > 3"));
    assert!(problems(&[filled]).is_empty());

    let lost = metric(json!({ "name": "m", "provider": { "web": { "url": "http://x/{{args.lost}}" } } }));
    assert_eq!(known.masked(&lost).unwrap_err(), ArgumentError::Missing("lost".into()));
    let odd = metric(json!({ "name": "m", "provider": { "web": { "url": "{{what}}" } } }));
    assert!(known.masked(&odd).unwrap_err().to_string().contains("{{what}} is not known"));
}

#[test]
fn secrets_are_named_until_something_is_measured_and_never_shown() {
    let known = Args::of(&args(json!([
        { "name": "token", "valueFrom": { "secretKeyRef": { "name": "login", "key": "t" } } },
        { "name": "other", "valueFrom": { "secretKeyRef": { "name": "unused", "key": "t" } } },
    ])))
    .unwrap();
    let with = metric(json!({ "name": "m", "provider": { "web": { "url": "http://x",
        "headers": [{ "key": "Authorization", "value": "Bearer {{args.token}}" }] } } }));
    assert_eq!(known.secrets_of(&with).into_keys().collect::<Vec<_>>(), ["token"]);
    let shown = format!("{:?}", known.masked(&with).unwrap());
    assert!(shown.contains("Bearer *****"), "{shown}");
    let filled =
        known.with_secrets(&with, &BTreeMap::from([("token".to_owned(), "hush".to_owned())])).unwrap();
    assert_eq!(filled.provider.web.unwrap().headers[0].value, "Bearer hush");
    let secrets = ["hush".to_owned(), "hush-more".to_owned(), String::new()];
    assert_eq!(redact("a hush-more b hush c", &secrets), "a ***** b ***** c");
}

#[test]
fn what_argo_rollouts_has_and_we_have_not_is_refused_by_name() {
    for name in [
        "datadog",
        "newRelic",
        "wavefront",
        "kayenta",
        "cloudWatch",
        "graphite",
        "influxdb",
        "skywalking",
        "plugin",
    ] {
        let found = problems(&[metric(json!({ "name": "m", "provider": { name: { "query": "x" } } }))]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].field.ends_with(name) && found[0].what.contains(name), "{found:?}");
        let kept = metric(json!({ "name": "m", "provider": { name: { "query": "x" } } }));
        assert_eq!(serde_json::to_value(kept).unwrap()["provider"][name]["query"], "x", "it is not dropped");
    }
    let login = json!({ "sigv4": { "region": "eu" } });
    let found = problems(&[metric(
        json!({ "name": "m", "provider": { "prometheus": { "query": "up", "authentication": login } } }),
    )]);
    assert!(found[0].field.contains("sigv4"), "{found:?}");
}

#[test]
fn bad_metrics_are_told_with_what_to_do() {
    let prometheus = json!({ "prometheus": { "query": "up" } });
    for (bad, told) in [
        (json!({ "name": "m", "provider": {} }), "there is no provider"),
        (
            json!({ "name": "m", "provider": { "prometheus": { "query": "up" }, "web": { "url": "http://x" } } }),
            "more than one",
        ),
        (json!({ "name": "m", "provider": prometheus, "count": 3 }), "no interval"),
        (json!({ "name": "m", "provider": prometheus, "interval": "soon" }), "not a duration"),
        (json!({ "name": "m", "provider": prometheus, "count": "many" }), "whole number"),
        (json!({ "name": "m", "provider": prometheus, "failureLimit": -2 }), "less than -1"),
        (json!({ "name": "m", "provider": prometheus, "failureLimit": -1 }), "nothing would ever decide"),
        (
            json!({ "name": "m", "provider": prometheus, "interval": "1s", "count": 2, "failureLimit": 3 }),
            "less than failureLimit",
        ),
        (
            json!({ "name": "m", "provider": prometheus, "interval": "1s", "count": 2, "inconclusiveLimit": 3 }),
            "inconclusiveLimit",
        ),
        (json!({ "name": "m", "provider": prometheus, "successCondition": "result >" }), "cannot be read"),
    ] {
        let found = problems(&[metric(bad.clone())]);
        assert!(found.iter().any(|problem| problem.to_string().contains(told)), "{bad}: {found:?}");
    }
    assert!(problems(&[]).len() == 1);
    assert!(
        means("*", "x") && means(".*", "x") && means("^ab", "abc") && !means("^b", "abc") && !means("(", "x")
    );
}
