#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn key(text: &str) -> Key {
    let (namespace, name) = text.split_once('/').unwrap_or(("shop", text));
    Key { namespace: Some(namespace.into()), name: name.into() }
}

fn needs(text: &str) -> Dependency {
    let (name, ready) =
        text.split_once('?').map_or((text, None), |(name, ready)| (name, Some(ready.to_owned())));
    let (namespace, name) = name.split_once('/').map_or((None, name), |(a, b)| (Some(a.to_owned()), b));
    Dependency { name: name.into(), namespace, ready }
}

/// `name: needs needs`, with `!` before a name that is not ready.
fn world(lines: &[&str]) -> BTreeMap<Key, Facts> {
    lines
        .iter()
        .map(|line| {
            let (name, list) = line.split_once(':').unwrap();
            let ready = !name.starts_with('!');
            let facts = Facts {
                depends_on: list.split_whitespace().map(needs).collect(),
                ready,
                why: (!ready).then(|| "its Deployment web is Degraded".to_owned()),
            };
            (key(name.trim_start_matches('!')), facts)
        })
        .collect()
}

fn ask(lines: &[&str], across_namespaces: bool) -> Option<Blocked> {
    let world = world(lines);
    let object = |key: &Key| {
        world.get(key).map(|facts| json!({ "metadata": { "name": &*key.name }, "status": { "phase": if facts.ready { "Healthy" } else { "Degraded" }, "clusters": [1, 2] } }))
    };
    blocked(&key("app"), &Graph { facts: &|key| world.get(key).cloned(), object: &object, across_namespaces })
}

fn told(lines: &[&str]) -> String {
    ask(lines, false).map_or("nothing".to_owned(), |blocked| blocked.trouble().message())
}

#[test]
fn an_application_waits_for_what_is_not_ready_and_for_nothing_else() {
    assert_eq!(told(&["app:"]), "nothing");
    assert_eq!(told(&["app: db", "db:"]), "nothing");
    assert_eq!(
        told(&["!app: db cache", "db:", "cache:"]),
        "nothing",
        "that it is not ready itself does not matter"
    );
    assert_eq!(told(&["app: db", "db: net", "!net:"]), "nothing", "db is ready, whatever it needs");
    assert_eq!(told(&[]), "nothing");
    insta::assert_snapshot!(told(&["app: cache db", "cache:", "!db:"]), @"Waits for shop/app → shop/db: its Deployment web is Degraded. It goes on by itself when that one is ready.");
}

#[test]
fn the_whole_path_to_the_cause_is_told() {
    insta::assert_snapshot!(told(&["app: db", "!db: ok net", "ok:", "!net: dns", "!dns:"]), @"Waits for shop/app → shop/db → shop/net → shop/dns: its Deployment web is Degraded. It goes on by itself when that one is ready.");
    insta::assert_snapshot!(told(&["app: db", "!db: gone"]), @"Waits for shop/app → shop/db → shop/gone: it does not exist. Make that Application, or take it out of spec.dependsOn.");
}

#[test]
fn a_missing_dependency_is_named() {
    let blocked = ask(&["app: nowhere"], false).unwrap();
    assert_eq!((blocked.reason, blocked.path), (DEPENDENCY_MISSING, vec![key("app"), key("nowhere")]));
}

#[test]
fn a_circle_is_named_with_all_its_members() {
    insta::assert_snapshot!(told(&["!app: db", "!db: app"]), @"Waits for shop/app → shop/db → shop/app: shop/app and shop/db need each other. Take one of them out of the other's spec.dependsOn.");
    // Also while all of it is ready: the next change would wait for itself.
    assert_eq!(ask(&["app: db", "db: net", "net: app"], false).unwrap().reason, DEPENDENCY_CYCLE);
    insta::assert_snapshot!(told(&["app: app"]), @"Waits for shop/app → shop/app: it needs itself. Take one of them out of the other's spec.dependsOn.");
    // A circle further on, that this one is no part of.
    insta::assert_snapshot!(told(&["app: a", "!a: b", "!b: c", "!c: b"]), @"Waits for shop/app → shop/a → shop/b → shop/c → shop/b: shop/b and shop/c need each other. Take one of them out of the other's spec.dependsOn.");
}

#[test]
fn an_application_of_another_namespace_is_refused_unless_allowed() {
    let lines = ["app: infra/net", "infra/net:"];
    let blocked = ask(&lines, false).unwrap();
    assert_eq!((blocked.reason, blocked.path), (DEPENDENCY_NOT_ALLOWED, vec![key("app"), key("infra/net")]));
    assert_eq!(ask(&lines, true), None);
    assert_eq!(ask(&["app: shop/db", "db:"], false), None, "the own namespace may be written out");
    // Whether it exists there is nobody's business.
    assert_eq!(ask(&["app: infra/net"], false).unwrap().reason, DEPENDENCY_NOT_ALLOWED);
}

#[test]
fn an_expression_decides_instead_of_readiness() {
    assert_eq!(ask(&["app: db?app.status.phase==\"Degraded\"", "!db:"], false), None);
    let blocked = ask(&["app: db?app.status.phase!=\"Healthy\"", "db:"], false).unwrap();
    assert_eq!(
        (blocked.reason, blocked.why.as_str()),
        (DEPENDENCY_NOT_READY, "app.status.phase!=\"Healthy\" is false")
    );
    let blocked = ask(&["app: db?app.status.nothing", "db:"], false).unwrap();
    assert!(blocked.why.contains("fails"), "{blocked:?}");
}

#[test]
fn expressions_are_read_as_people_write_them() {
    let app = json!({
        "metadata": { "generation": 3, "labels": { "tier": "gold" } },
        "status": { "observedGeneration": 3, "phase": "Healthy", "share": 0.5,
            "conditions": [{ "type": "Ready", "status": "True" }, { "type": "Synced", "status": "False" }] },
    });
    for (expression, wanted) in [
        ("true", true),
        ("app.status.phase == 'Healthy'", true),
        ("app.metadata.generation == app.status.observedGeneration && app.metadata.generation >= 3", true),
        ("app.status.conditions.exists(c, c.type == 'Ready' && c.status == 'True')", true),
        ("app.status.conditions.all(c, c.status == 'True')", false),
        ("app.status.conditions.filter(c, c.status == 'True').map(c, c.type) == ['Ready']", true),
        ("has(app.status.pin)", false),
        ("has(app.metadata.labels) && 'tier' in app.metadata.labels", true),
        ("app.status.share < 0.6", true),
    ] {
        assert_eq!(is_ready(expression, &app), Ok(wanted), "{expression}");
    }
}

#[test]
fn an_expression_that_cannot_be_followed_is_not_ready_and_says_why() {
    let app = json!({ "status": { "list": [1, 2, 3] } });
    let deep = "(".repeat(50) + "true" + &")".repeat(50);
    for (expression, part) in [
        ("app.status.", "cannot be read"),
        ("", "cannot be read"),
        ("app.status.phase == 'Healthy'", "fails"),
        ("nothing.here", "fails"),
        ("app.status.list", "gives a list"),
        ("'yes'", "gives a string"),
        ("app.status.list.all(a, app.status.list.all(b, a < b))", "loop within a loop"),
        (deep.as_str(), "brackets"),
    ] {
        let trouble = is_ready(expression, &app).unwrap_err();
        assert!(trouble.what.contains(part) && trouble.reason == DEPENDENCY_NOT_READY, "{trouble:?}");
    }
}

#[test]
fn an_expression_that_would_go_too_deep_is_refused_before_it_is_read() {
    let app = json!({ "a": 1 });
    let cases = [
        ("!", "true", 110),
        ("-", "1", 110),
        ("(", "true", 20),
        ("[", "1", 20),
        ("size(", "1", 20),
        ("true ? true : ", "true", 20),
        ("1+", "1", 110),
        ("true && ", "true", 55),
    ];
    for (unit, end, most) in cases {
        // What is just let through must not end the process, whatever it gives.
        let close = match unit {
            "(" | "size(" => ")",
            "[" => "]",
            _ => "",
        };
        let _ = is_ready(&(unit.repeat(most) + end + &close.repeat(most)), &app);
        let trouble = is_ready(&(unit.repeat(2000) + end), &app).unwrap_err();
        assert!(trouble.what.contains("more than"), "{trouble:?}");
    }
    for (unit, most) in [(".a", 110), ("[0]", 20), (".a()", 20), ("()", 20)] {
        let _ = is_ready(&(String::from("app") + &unit.repeat(most)), &app);
        assert!(is_ready(&(String::from("app") + &unit.repeat(1000)), &app).is_err());
    }
    assert_eq!(is_ready(&vec!["true"; 55].join("&&"), &app), Ok(true));
}

fn any_world() -> impl Strategy<Value = Vec<String>> {
    let names = ["app", "a", "b", "c", "d", "e"];
    let edges = proptest::collection::vec(proptest::collection::vec(0..7_usize, 0..3), 6);
    (edges, proptest::collection::vec(any::<bool>(), 6)).prop_map(move |(edges, ready)| {
        (0..6)
            .map(|at| {
                let list: Vec<&str> =
                    edges[at].iter().map(|to| names.get(*to).copied().unwrap_or("gone")).collect();
                format!("{}{}: {}", if ready[at] { "" } else { "!" }, names[at], list.join(" "))
            })
            .collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_path_is_one_of_needs_and_ends_in_a_cause(lines in any_world()) {
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let world = world(&lines);
        let names = |key: &Key| world.get(key).map(|facts| facts.depends_on.iter().map(|needs| key_of(key, needs)).collect::<Vec<_>>());
        let Some(found) = ask(&lines, false) else {
            for needed in names(&key("app")).unwrap() {
                prop_assert!(world[&needed].ready);
            }
            return Ok(());
        };
        prop_assert_eq!(&found.path[0], &key("app"));
        for two in found.path.windows(2) {
            prop_assert!(names(&two[0]).unwrap().contains(&two[1]));
        }
        let last = found.path.last().unwrap();
        match found.reason {
            DEPENDENCY_MISSING => prop_assert!(!world.contains_key(last)),
            DEPENDENCY_CYCLE => prop_assert!(found.path[..found.path.len() - 1].contains(last)),
            DEPENDENCY_NOT_READY => {
                prop_assert!(!world[last].ready);
                prop_assert!(names(last).unwrap().iter().all(|needed| world.get(needed).is_some_and(|facts| facts.ready)));
            }
            other => prop_assert!(false, "{}", other),
        }
    }
}
