//! The field walk's cases, derived from a small CRD: no control plane needed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};
use windlass_testbed::walk::{Case, Deed, Expect, cases};

fn crd() -> CustomResourceDefinition {
    let spec = json!({
        "type": "object",
        "required": ["url"],
        "properties": {
            "url": { "type": "string", "pattern": "^https://[a-z.]+/[a-z]*$", "maxLength": 40 },
            "replicas": { "type": "integer", "format": "int32", "minimum": 1, "maximum": 5 },
            "mode": { "type": "string", "enum": ["Fast", "Safe"], "default": "Safe" },
            "suspend": { "type": "boolean" },
            "note": { "type": "string" },
            "port": { "x-kubernetes-int-or-string": true },
            "labels": { "type": "object", "additionalProperties": { "type": "string", "maxLength": 5 } },
            "owners": { "type": "array", "maxItems": 2, "x-kubernetes-list-type": "set", "items": { "type": "string" } },
            "auth": {
                "type": "object",
                "required": ["secret"],
                "x-kubernetes-validations": [{ "rule": "self.secret != 'no'", "message": "not that" }],
                "properties": {
                    "secret": { "type": "string", "minLength": 2 },
                    "key": { "type": "string", "pattern": "(?i)unknown" },
                },
            },
            "free": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
        },
    });
    serde_json::from_value(json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "sources.example.com" },
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": { "kind": "Source", "plural": "sources" },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object", "properties": { "spec": spec } } },
            }],
        },
    }))
    .unwrap()
}

fn base() -> Value {
    json!({
        "apiVersion": "example.com/v1", "kind": "Source",
        "metadata": { "name": "s", "namespace": "default" },
        "spec": { "url": "https://example.com/a", "replicas": 2, "mode": "Safe" },
    })
}

fn about<'a>(all: &'a [Case], path: &str, deed: Deed) -> Vec<&'a Case> {
    all.iter().filter(|case| case.path == path && case.deed == deed).collect()
}

fn values(all: &[Case], path: &str, deed: Deed) -> Vec<Value> {
    let pointer = format!("/{}", path.replace('.', "/").replace("[0]", "/0"));
    about(all, path, deed).iter().map(|case| case.object.pointer(&pointer).unwrap().clone()).collect()
}

#[test]
fn every_field_is_set_or_changed_and_broken() {
    let all = cases(&crd(), &base());
    let paths: BTreeSet<&str> = all.iter().map(|case| case.path.as_str()).collect();
    for path in [
        "spec",
        "spec.url",
        "spec.replicas",
        "spec.mode",
        "spec.suspend",
        "spec.note",
        "spec.port",
        "spec.labels",
        "spec.labels.walk",
        "spec.owners",
        "spec.owners[0]",
        "spec.auth",
        "spec.auth.secret",
        "spec.auth.key",
        "spec.free",
    ] {
        assert!(paths.contains(path), "{path} is not walked: {paths:?}");
        let legal = about(&all, path, Deed::Set).len() + about(&all, path, Deed::Change).len();
        // No example can be made for a pattern that is not understood.
        assert!(legal > 0 || path == "spec.auth.key" || path == "spec", "{path} is never set");
        assert!(!about(&all, path, Deed::Illegal).is_empty(), "{path} is never broken");
    }
    assert_eq!(all, cases(&crd(), &base()), "the same CRD and base give the same cases");
}

#[test]
fn bounds_enums_and_patterns_give_values() {
    let all = cases(&crd(), &base());
    assert_eq!(values(&all, "spec.replicas", Deed::Change), [json!(1), json!(5)]);
    let illegal = values(&all, "spec.replicas", Deed::Illegal);
    assert!(
        illegal.contains(&json!(0)) && illegal.contains(&json!(6)) && illegal.contains(&json!(1.5)),
        "{illegal:?}"
    );
    assert_eq!(values(&all, "spec.mode", Deed::Change), [json!("Fast")]);
    assert!(values(&all, "spec.mode", Deed::Illegal).contains(&json!("no-such-value")));
    let urls = values(&all, "spec.url", Deed::Change);
    assert!(!urls.is_empty());
    assert!(urls.iter().all(|url| url.as_str().unwrap().starts_with("https://")), "{urls:?}");
    assert_eq!(values(&all, "spec.suspend", Deed::Set), [json!(true), json!(false)]);
    assert!(
        values(&all, "spec.owners", Deed::Illegal).contains(&json!(["a", "a"])),
        "a set with the same item twice"
    );
    assert!(
        values(&all, "spec.labels.walk", Deed::Illegal).contains(&json!("mmmmmm")),
        "longer than maxLength"
    );
}

#[test]
fn expectations_follow_the_schema_and_rules_make_them_open() {
    let all = cases(&crd(), &base());
    for case in all.iter().filter(|case| case.deed == Deed::Illegal && case.what != "an unknown field") {
        assert_eq!(case.expect, Expect::Refused, "{case}");
    }
    let removal = |path: &str| about(&all, path, Deed::Remove).first().map(|case| case.expect);
    assert_eq!(removal("spec.url"), Some(Expect::Refused), "required");
    assert_eq!(removal("spec.replicas"), Some(Expect::Accepted));
    assert_eq!(removal("spec.note"), None, "the base has none");
    assert!(about(&all, "spec.suspend", Deed::Set).iter().all(|case| case.expect == Expect::Accepted));
    assert!(
        about(&all, "spec.auth.secret", Deed::Set).iter().all(|case| case.expect == Expect::Either),
        "CEL above"
    );
    assert!(
        about(&all, "spec.auth.key", Deed::Hostile).iter().all(|case| case.expect == Expect::Either),
        "unknown pattern"
    );
}

#[test]
fn hostile_texts_reach_every_text_field() {
    let all = cases(&crd(), &base());
    for path in ["spec.note", "spec.url", "spec.auth.secret", "spec.owners[0]", "spec.labels.walk"] {
        let hostile = values(&all, path, Deed::Hostile);
        let texts: Vec<&str> = hostile.iter().filter_map(Value::as_str).collect();
        assert!(texts.iter().any(|text| text.contains("..")), "path traversal at {path}");
        assert!(texts.iter().any(|text| text.starts_with('-')), "leading dash at {path}");
        assert!(texts.iter().any(|text| text.chars().any(char::is_control)), "control characters at {path}");
        assert!(texts.iter().any(|text| text.len() == 10_000), "long text at {path}");
    }
    assert!(about(&all, "spec.note", Deed::Hostile).iter().all(|case| case.expect == Expect::Accepted));
    assert!(about(&all, "spec.url", Deed::Hostile).iter().all(|case| case.expect == Expect::Refused));
}

#[test]
fn missing_parents_are_filled_in() {
    let all = cases(&crd(), &base());
    let case = about(&all, "spec.auth.key", Deed::Illegal)[0];
    let auth = &case.object["spec"]["auth"];
    assert!(auth["secret"].is_string(), "a required sibling is there: {auth}");
    assert_eq!(case.object["spec"]["url"], base()["spec"]["url"], "the rest is the base's");
}

/// A controller of the small kind, in the simulation; what is wrong with it, if anything.
mod runner {
    use std::{
        sync::{
            Arc,
            atomic::{AtomicBool, Ordering},
        },
        time::Duration,
    };

    use serde_json::{Value, json};
    use windlass_testbed::{
        sim::{self, Faults, Instance, World},
        walk::{self, Deed, Hooks, Report},
    };

    #[derive(Clone, Copy, PartialEq, Eq)]
    enum Bug {
        None,
        /// Keeps what an earlier spec asked for.
        Sticky,
        /// Says nothing when suspended.
        Silent,
        /// Ends for ever at a path with dots.
        Fragile,
        /// Does not report on what it does not like.
        Mute,
    }

    const PATH: &str = "/apis/example.com/v1/namespaces/default/sources";

    fn status(object: &Value, bug: Bug) -> Option<Value> {
        let spec = &object["spec"];
        let bad = spec["note"].as_str().is_some_and(|note| note.contains(".."));
        if bad && bug == Bug::Mute {
            return None;
        }
        let suspended = spec["suspend"] == true;
        let message = if suspended && bug == Bug::Silent { "" } else { "as asked" };
        let mut mode = spec["mode"].clone();
        if bug == Bug::Sticky && object["status"]["mode"] == "Fast" {
            mode = json!("Fast");
        }
        let ready = json!({
            "type": "Ready", "status": if bad { "False" } else { "True" }, "reason": "Checked", "message": message,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        });
        let generation = &object["metadata"]["generation"];
        Some(json!({ "observedGeneration": generation, "mode": mode, "conditions": [ready] }))
    }

    async fn control(instance: Instance, bug: Bug, alive: Arc<AtomicBool>) {
        loop {
            tokio::time::sleep(Duration::from_millis(200)).await;
            let request = http::Request::get(PATH).body(Vec::new()).unwrap();
            let list: Value = instance.client.request(request).await.unwrap();
            for object in list["items"].as_array().unwrap() {
                if object["status"]["observedGeneration"] == object["metadata"]["generation"] {
                    continue;
                }
                if bug == Bug::Fragile
                    && object["spec"]["note"].as_str().is_some_and(|note| note.contains(".."))
                {
                    alive.store(false, Ordering::Relaxed);
                    return;
                }
                let Some(status) = status(object, bug) else { continue };
                let path =
                    format!("{PATH}/{}/status?fieldManager=c", object["metadata"]["name"].as_str().unwrap());
                let request =
                    http::Request::patch(path).header("content-type", "application/merge-patch+json");
                let request = request.body(json!({ "status": status }).to_string().into_bytes()).unwrap();
                // It may have been deleted meanwhile.
                let _gone = instance.client.request::<Value>(request).await;
            }
        }
    }

    fn walk(bug: Bug) -> Report {
        let (send, receive) = std::sync::mpsc::channel();
        let run = sim::run(1, &Faults::none(), |world: World| async move {
            let mut crd = super::crd();
            crd.spec.names.singular = Some("source".to_owned());
            crd.spec.names.list_kind = Some("SourceList".to_owned());
            let version = &mut crd.spec.versions[0];
            version.subresources = serde_json::from_value(json!({ "status": {} })).unwrap();
            let mut schema = serde_json::to_value(version.schema.clone()).unwrap();
            let open = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
            schema["openAPIV3Schema"]["properties"]["status"] = open;
            version.schema = serde_json::from_value(schema).unwrap();
            world.api().install_crd(&crd)?;
            let alive = Arc::new(AtomicBool::new(true));
            let flag = Arc::clone(&alive);
            world.start_once("c", move |instance| control(instance, bug, Arc::clone(&flag)));
            let hooks = Hooks::new(move || {
                let alive = alive.load(Ordering::Relaxed);
                async move { alive.then_some(()).ok_or_else(|| anyhow::anyhow!("it has ended")) }
            });
            // Rules in CEL and lists with set semantics are the real server's; the rest is enough to show the runner.
            let plain = |path: &str| {
                ["spec.mode", "spec.suspend", "spec.note", "spec.replicas", "spec.url"].contains(&path)
            };
            let few = move |case: &walk::Case| {
                plain(&case.path) && (case.deed != Deed::Hostile || case.path == "spec.note")
            };
            let report = walk::run(world.client(), &crd, &super::base(), &hooks.only(few)).await?;
            send.send(report).unwrap();
            Ok(())
        });
        assert_eq!(run.result, Ok(()));
        receive.recv().unwrap()
    }

    #[test]
    fn a_sound_controller_has_no_finding() {
        let report = walk(Bug::None);
        report.check().unwrap();
        assert!(report.accepted > 10 && report.refused > 10, "{report:?}");
    }

    #[test]
    fn planted_bugs_are_found() {
        for (bug, says) in
            [(Bug::Sticky, "does not recover"), (Bug::Silent, "empty message"), (Bug::Mute, "no report")]
        {
            let report = walk(bug);
            assert!(
                report.findings.iter().any(|finding| finding.problem.contains(says)),
                "{says}: {report:?}"
            );
            assert!(report.check().is_err());
        }
    }

    #[test]
    fn a_dead_controller_is_found_and_ends_the_walk() {
        let report = walk(Bug::Fragile);
        let dead = report.findings.iter().find(|finding| finding.problem.contains("not alive"));
        assert!(dead.is_some_and(|finding| finding.problem.contains("it has ended")), "{report:?}");
        assert!(report.skipped > 0, "{report:?}");
        assert!(report.check().is_err());
    }
}
