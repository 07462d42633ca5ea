//! In-place edits as a person would have made them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use serde_json::{Value, json};
use windlass_manifest::{
    edit::{EditError, Selector, add, edit, find, remove, replace},
    parse::{Limits, objects, parse},
};

const DEPLOYMENT: &str = "\
# The web shop. Ask the team before changing it.
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web            # same as the service
  labels:
    app: 'web'
    tier: \"front\"
spec:
  replicas: 3          # three zones
  template:
    spec:
      containers:
        # the server
        - name: nginx
          image: nginx:1.27 # pinned
          args: [\"-c\", /etc/nginx.conf]
          ports:
            - containerPort: 80
              name: http
        # the exporter
        - name: exporter
          image: exporter:2
          env:
            - name: MODE
              value: \"on\"
---
# The settings.
apiVersion: v1
kind: ConfigMap
metadata: {name: web, labels: {app: web}}
data:
  # how it is run
  run.sh: |
    #!/bin/sh
    exec web
  motd: >-
    hello
    world
  level: info
";

/// Edits the object at `document` by `change` and returns the new text.
fn edited(text: &str, document: usize, change: impl Fn(&mut Value)) -> String {
    let limits = Limits::default();
    let mut wanted = parse(text, &limits).unwrap()[document].value.clone();
    change(&mut wanted);
    edit(text, Selector { document, item: None }, &wanted, &limits).unwrap_or_else(|error| panic!("{error}"))
}

/// The lines that differ, as a person reads a diff.
fn diff(old: &str, new: &str) -> String {
    let (old, new): (Vec<_>, Vec<_>) =
        (old.split_inclusive('\n').collect(), new.split_inclusive('\n').collect());
    let head = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let tail = old[head..].iter().rev().zip(new[head..].iter().rev()).take_while(|(a, b)| a == b).count();
    let shown = |sign: &str, lines: &[&str]| -> String {
        lines.iter().flat_map(|line| [sign, line.trim_end_matches('\n'), "\n"]).collect()
    };
    shown("-", &old[head..old.len() - tail]) + &shown("+", &new[head..new.len() - tail])
}

fn refused(text: &str, change: impl Fn(&mut Value)) -> EditError {
    let limits = Limits::default();
    let mut wanted = parse(text, &limits).unwrap()[0].value.clone();
    change(&mut wanted);
    edit(text, Selector { document: 0, item: None }, &wanted, &limits).expect_err("the edit is refused")
}

#[test]
fn a_changed_scalar_changes_only_its_bytes() {
    let new = edited(DEPLOYMENT, 0, |o| {
        o["spec"]["replicas"] = json!(5);
        o["metadata"]["labels"]["app"] = json!("it's");
        o["metadata"]["labels"]["tier"] = json!("back\tend");
        o["spec"]["template"]["spec"]["containers"][0]["image"] = json!("nginx:1.28");
        o["spec"]["template"]["spec"]["containers"][1]["env"][0]["value"] = json!("off");
    });
    assert_eq!(
        new,
        DEPLOYMENT
            .replace("replicas: 3 ", "replicas: 5 ")
            .replace("'web'", "'it''s'")
            .replace("\"front\"", "\"back\\tend\"")
            .replace("nginx:1.27", "nginx:1.28")
            .replace("value: \"on\"", "value: \"off\"")
    );
}

#[test]
fn a_plain_scalar_gets_quotes_only_when_it_needs_them() {
    let new = edited(DEPLOYMENT, 1, |o| o["data"]["level"] = json!("no"));
    assert_eq!(new, DEPLOYMENT.replace("level: info", "level: \"no\""));
    let new = edited(DEPLOYMENT, 1, |o| o["data"]["level"] = json!("a: b"));
    assert_eq!(new, DEPLOYMENT.replace("level: info", "level: 'a: b'"));
}

#[test]
fn a_block_of_text_stays_a_block_with_its_indentation() {
    let new = edited(DEPLOYMENT, 1, |o| o["data"]["run.sh"] = json!("#!/bin/sh\n\nexec web --fast\n"));
    insta::assert_snapshot!(diff(DEPLOYMENT, &new), @r###"
    -    exec web
    +
    +    exec web --fast
    "###);
    let new = edited(DEPLOYMENT, 1, |o| o["data"]["level"] = json!("one\ntwo"));
    insta::assert_snapshot!(diff(DEPLOYMENT, &new), @r###"
    -  level: info
    +  level: |-
    +    one
    +    two
    "###);
    let new = edited(DEPLOYMENT, 1, |o| o["data"]["motd"] = json!("bye"));
    insta::assert_snapshot!(diff(DEPLOYMENT, &new), @r###"
    -  motd: >-
    -    hello
    -    world
    +  motd: |-
    +    bye
    "###);
}

#[test]
fn a_new_key_stands_where_the_order_of_its_map_wants_it() {
    let new = edited(DEPLOYMENT, 0, |o| o["metadata"]["labels"]["region"] = json!("eu"));
    insta::assert_snapshot!(diff(DEPLOYMENT, &new), @r###"
    +    region: eu
    "###);
    let new = edited(DEPLOYMENT, 0, |o| {
        o["spec"]["template"]["spec"]["containers"][0]["resources"] =
            json!({"limits": {"cpu": "1"}, "args": ["a", "b"]});
    });
    insta::assert_snapshot!(diff(DEPLOYMENT, &new), @r###"
    +          resources:
    +            args:
    +              - a
    +              - b
    +            limits:
    +              cpu: "1"
    "###);
    let new = edited("kind: A\ndata:\n  x: \"1\"\n", 0, |o| {
        o["apiVersion"] = json!("v1");
        o["metadata"] = json!({"name": "a"});
    });
    insta::assert_snapshot!(new, @r###"
    apiVersion: v1
    kind: A
    metadata:
      name: a
    data:
      x: "1"
    "###);
}

#[test]
fn a_removed_key_takes_its_comments_along_and_no_others() {
    let new = edited(DEPLOYMENT, 1, |o| drop(o["data"].as_object_mut().unwrap().remove("run.sh")));
    insta::assert_snapshot!(diff(DEPLOYMENT, &new), @r###"
    -  # how it is run
    -  run.sh: |
    -    #!/bin/sh
    -    exec web
    "###);
    let new = edited(DEPLOYMENT, 0, |o| drop(o["spec"].as_object_mut().unwrap().remove("replicas")));
    insta::assert_snapshot!(diff(DEPLOYMENT, &new), @r###"
    -  replicas: 3          # three zones
    "###);
}

#[test]
fn list_items_are_told_apart_by_name() {
    let containers = |o: &mut Value, change: &dyn Fn(&mut Vec<Value>)| {
        change(o["spec"]["template"]["spec"]["containers"].as_array_mut().unwrap());
    };
    let new = edited(DEPLOYMENT, 0, |o| containers(o, &|c| drop(c.remove(0))));
    insta::assert_snapshot!(diff(DEPLOYMENT, &new), @r###"
    -        # the server
    -        - name: nginx
    -          image: nginx:1.27 # pinned
    -          args: ["-c", /etc/nginx.conf]
    -          ports:
    -            - containerPort: 80
    -              name: http
    "###);
    let new = edited(DEPLOYMENT, 0, |o| {
        containers(o, &|c| {
            c.insert(1, json!({"name": "proxy", "image": "proxy:1", "args": ["x"]}));
            c[2]["image"] = json!("exporter:3");
        });
    });
    insta::assert_snapshot!(diff(DEPLOYMENT, &new), @r###"
    -        # the exporter
    -        - name: exporter
    -          image: exporter:2
    +        - args:
    +            - x
    +          image: proxy:1
    +          name: proxy
    +        # the exporter
    +        - name: exporter
    +          image: exporter:3
    "###);
    let new = edited(DEPLOYMENT, 0, |o| containers(o, &|c| c.swap(0, 1)));
    assert!(new.contains("# the exporter") || new.contains("# the server"), "{new}");
}

#[test]
fn collections_between_brackets_stay_between_brackets() {
    let new = edited(DEPLOYMENT, 1, |o| {
        o["metadata"]["labels"]["tier"] = json!("a, b");
        o["metadata"]["namespace"] = json!("shop");
    });
    insta::assert_snapshot!(diff(DEPLOYMENT, &new), @r###"
    -metadata: {name: web, labels: {app: web}}
    +metadata: {name: web, labels: {app: web, tier: 'a, b'}, namespace: shop}
    "###);
    let new = edited(DEPLOYMENT, 0, |o| {
        o["spec"]["template"]["spec"]["containers"][0]["args"] = json!(["-c", "/etc/other.conf", "-t"]);
    });
    insta::assert_snapshot!(diff(DEPLOYMENT, &new), @r###"
    -          args: ["-c", /etc/nginx.conf]
    +          args: ["-c", /etc/other.conf, '-t']
    "###);
    let new = edited(DEPLOYMENT, 1, |o| drop(o["metadata"].as_object_mut().unwrap().remove("name")));
    insta::assert_snapshot!(diff(DEPLOYMENT, &new), @r###"
    -metadata: {name: web, labels: {app: web}}
    +metadata: {labels: {app: web}}
    "###);
}

#[test]
fn json_files_stay_json() {
    let text = "{\n  \"kind\": \"A\",\n  \"spec\": {\n    \"n\": 1,\n    \"list\": [1, 2]\n  }\n}\n";
    let new = edited(text, 0, |o| {
        o["spec"]["text"] = json!("yes");
        o["spec"]["list"] = json!([1, 2, "no"]);
        o["kind"] = json!("B");
    });
    insta::assert_snapshot!(new, @r###"
    {
      "kind": "B",
      "spec": {
        "n": 1,
        "list": [1, 2, "no"],
        "text": "yes"
      }
    }
    "###);
    assert_eq!(serde_json::from_str::<Value>(&new).unwrap()["spec"]["text"], "yes");
}

#[test]
fn kinds_of_values_change_with_their_comments_kept() {
    let text = "a: 1 # one\nb: # two\n  c: 2\nd:\ne: []\nf: {x: 1}\ng: [a]\nh: {x, z: }\ni:\n-\n- a\n";
    let new = edited(text, 0, |o| {
        o["a"] = json!({"x": [1, {"w": 2}]});
        o["b"] = json!("text");
        o["d"] = json!("now");
        o["e"] = json!(["x"]);
        o["f"] = json!({});
        o["g"] = json!(null);
        o["h"] = json!({"x": 1, "z": 2});
        o["i"] = json!([{"x": 1}, "a"]);
    });
    insta::assert_snapshot!(new, @r###"
    a: # one
      x:
      - 1
      - w: 2
    b: text # two
    d: now
    e:
    - x
    f: {}
    g: null
    h: {x: 1, z: 2 }
    i:
    - x: 1
    - a
    "###);
}

#[test]
fn line_breaks_and_a_missing_one_at_the_end_stay_as_they_are() {
    let text = "a: 1\r\nb:\r\n- x\r\n- z";
    let new = edited(text, 0, |o| {
        o["b"] = json!(["x", "w", "z"]);
        o["c"] = json!({"d": 1});
    });
    assert_eq!(new, "a: 1\r\nb:\r\n- x\r\n- w\r\n- z\r\nc:\r\n  d: 1");
}

#[test]
fn nothing_to_change_is_the_same_text() {
    let text = "%YAML 1.1\n---\n  # odd\n  {a: 0x10, \"b\": !!str 5,\n   c: [on, 1_000]}\n...\n";
    let limits = Limits::default();
    let wanted = json!({"a": 16, "b": "5", "c": [true, 1000.0]});
    assert_eq!(edit(text, Selector { document: 0, item: None }, &wanted, &limits).unwrap(), text);
}

#[test]
fn an_item_of_a_list_is_edited_alone_and_can_go() {
    let text = "apiVersion: v1\nkind: List\nitems:\n# first\n- kind: A\n  no1: 1\n# second\n- kind: B\n  no1: 2 # two\n";
    let limits = Limits::default();
    let at = find(text, &limits, |o| o["kind"] == "B").unwrap();
    assert_eq!(at, Selector { document: 0, item: Some(1) });
    let new = edit(text, at, &json!({"kind": "B", "no1": 3, "zone": 4}), &limits).unwrap();
    assert_eq!(new, text.replace("no1: 2 # two\n", "no1: 3 # two\n  zone: 4\n"));
    let rest = remove(text, at, &limits).unwrap().unwrap();
    assert_eq!(rest, "apiVersion: v1\nkind: List\nitems:\n# first\n- kind: A\n  no1: 1\n");
    assert_eq!(remove(&rest, Selector { document: 0, item: Some(0) }, &limits).unwrap(), None);
}

#[test]
fn an_edited_alias_is_written_out_and_a_shared_value_is_refused() {
    let text = "base: &b\n  x: 1\nuse: *b\nother: *b\n";
    let new = edited(text, 0, |o| o["use"]["x"] = json!(2));
    assert_eq!(new, "base: &b\n  x: 1\nuse:\n  x: 2\nother: *b\n");
    let error = refused(text, |o| o["base"]["x"] = json!(2));
    assert_eq!(
        error.to_string(),
        "line 2, column 3: aliases repeat this value, so that others would change with it; write them out first"
    );
    let error = refused(text, |o| drop(o.as_object_mut().unwrap().remove("base")));
    assert_eq!(error.category(), "shared");
    let alone = edited("base: &b\n  x: 1\n", 0, |o| o["base"]["x"] = json!(2));
    assert_eq!(alone, "base: &b\n  x: 2\n");
}

#[test]
fn what_a_merge_brings_can_be_overridden_but_not_removed() {
    let text = "base: &b {x: 1, w: 2}\nuse:\n  <<: *b\n  z: 3\n";
    let new = edited(text, 0, |o| o["use"]["x"] = json!(5));
    assert_eq!(new, "base: &b {x: 1, w: 2}\nuse:\n  <<: *b\n  z: 3\n  x: 5\n");
    let error = refused(text, |o| drop(o["use"].as_object_mut().unwrap().remove("w")));
    assert!(error.to_string().starts_with("line 3, column 3: the key \"w\" comes from a merge"), "{error}");
}

#[test]
fn templates_are_refused_and_text_with_braces_is_not() {
    let limits = Limits::default();
    let at = Selector { document: 0, item: None };
    for text in [
        "kind: A\nname: {{ .Values.name }}\n",
        "kind: A\n{{- if .Values.x }}\nb: 1\n{{- end }}\n",
        "kind: A\n# {{- if .Values.x }}\nb: 1\n# {{- end }}\n",
    ] {
        let error = edit(text, at, &json!({"kind": "A"}), &limits).unwrap_err();
        assert_eq!(error.category(), "templated", "{text}");
    }
    let quoted = "kind: A\nimage: \"{{ .Values.image }}\"\nb: 1\n";
    let error = refused(quoted, |o| o["image"] = json!("nginx"));
    assert_eq!(error.to_string(), "line 2, column 8: the text is a template here; change its values instead");
    let new = edited(quoted, 0, |o| o["b"] = json!(2));
    assert_eq!(new, quoted.replace("b: 1", "b: 2"));
    let alert = "kind: A\nsummary: '{{ $labels.pod }} is down'\n";
    let new = edited(alert, 0, |o| o["summary"] = json!("{{ $labels.pod }} has gone"));
    assert_eq!(new, "kind: A\nsummary: '{{ $labels.pod }} has gone'\n");
}

#[test]
fn whole_documents_come_and_go_and_the_others_keep_their_bytes() {
    let limits = Limits::default();
    let text = "# header\n\n# a\nkind: A\n---\n# b\nkind: B\n--- # c\nkind: C";
    let without = |document| remove(text, Selector { document, item: None }, &limits).unwrap().unwrap();
    assert_eq!(without(0), "# header\n\n---\n# b\nkind: B\n--- # c\nkind: C");
    assert_eq!(without(1), "# header\n\n# a\nkind: A\n--- # c\nkind: C");
    assert_eq!(without(2), "# header\n\n# a\nkind: A\n---\n# b\nkind: B\n");
    assert_eq!(remove("kind: A\n", Selector { document: 0, item: None }, &limits).unwrap(), None);

    let more = add(text, &json!({"kind": "D", "apiVersion": "v1"}), &limits).unwrap();
    assert_eq!(more, format!("{text}\n---\napiVersion: v1\nkind: D\n"));
    assert_eq!(add("", &json!({"kind": "D"}), &limits).unwrap(), "kind: D\n");
    assert_eq!(add("# empty\n", &json!({"kind": "D"}), &limits).unwrap(), "# empty\nkind: D\n");
    assert_eq!(
        add("{\"kind\": \"A\"}", &json!({"kind": "D"}), &limits).unwrap_err().category(),
        "not-expressed"
    );

    let anew = replace(text, Selector { document: 1, item: None }, &json!({"kind": "B", "x": [1]}), &limits)
        .unwrap();
    assert_eq!(anew, "# header\n\n# a\nkind: A\n---\n# b\nkind: B\nx:\n- 1\n--- # c\nkind: C");
}

#[test]
fn an_object_is_found_once_or_the_reason_is_told() {
    let limits = Limits::default();
    let named = |name: &'static str| move |o: &Value| o["kind"] == name;
    let text = "kind: A\n---\nkind: B\n---\nkind: A\n";
    assert_eq!(find(text, &limits, named("B")).unwrap(), Selector { document: 1, item: None });
    assert_eq!(find(text, &limits, named("C")).unwrap_err(), EditError::NotFound);
    assert_eq!(
        find(text, &limits, named("A")).unwrap_err().to_string(),
        "the file holds the object twice, at line 1, column 1 and at line 5, column 1; remove one of them"
    );
    let all = objects(parse(text, &limits).unwrap()).unwrap();
    assert_eq!(Selector::from(&all[2]), Selector { document: 2, item: None });
}

#[test]
fn layouts_that_cannot_be_edited_are_refused_with_their_place() {
    let error = refused("? a\n: 1\n? b\n: 2\n", |o| o["a"] = json!(3));
    assert_eq!(
        error.to_string(),
        "line 1, column 3: a key after `?` cannot be edited in place; edit the file by hand or rewrite the object"
    );
    let error = refused("a: [1, # one\n  2]\n", |o| o["a"] = json!([1]));
    assert_eq!(error.category(), "not-expressed");
    let error =
        edit("a: 1\n", Selector { document: 0, item: None }, &json!([1]), &Limits::default()).unwrap_err();
    assert_eq!(error, EditError::NotAnObject);
}

#[test]
fn a_renamed_item_keeps_the_rest_of_its_lines() {
    let text = "ports:\n# in\n- protocol: TCP # old\n  port: 22\nenv:\n- name: A\n  value: x # why\n";
    let new = edited(text, 0, |object| {
        object["ports"][0]["protocol"] = json!("UDP");
        object["env"][0]["name"] = json!("B");
    });
    assert_eq!(new, "ports:\n# in\n- protocol: UDP # old\n  port: 22\nenv:\n- name: B\n  value: x # why\n");
    let other = edited(text, 0, |object| object["env"][0] = json!({"name": "B", "value": "y"}));
    assert!(
        other.ends_with("env:\n- name: B\n  value: \"y\"\n"),
        "another item has no comment of the old: {other}"
    );
}

#[test]
fn a_last_block_without_a_line_break_stays_what_it_is() {
    for (header, closed) in
        [("|", "|-"), (">", ">-"), ("|+", "|-"), ("|-", "|-"), ("|2", "|2-"), ("|2+", "|2-")]
    {
        let text = format!("a: 1\nb: {header} # why\n  x\n  y");
        let new = edited(&text, 0, |object| object["c"] = json!(2));
        assert_eq!(new, format!("a: 1\nb: {closed} # why\n  x\n  y\nc: 2"));
    }
}

#[test]
fn blanks_after_a_block_do_not_become_a_part_of_it() {
    let new = edited("a: >-\n  one\n  two  \nb: 1\n", 0, |object| object["a"] = json!("three"));
    assert_eq!(new, "a: |-\n  three\nb: 1\n");
}

#[test]
fn a_map_between_brackets_of_a_list_can_grow() {
    let new = edited("a: [b: c]\n", 0, |object| object["a"][0]["d"] = json!(1));
    let found = parse(&new, &Limits::default()).unwrap();
    assert_eq!(found[0].value, json!({"a": [{"b": "c", "d": 1}]}), "{new}");
}

#[test]
fn quoted_text_left_of_its_key_is_refused_unless_nothing_changes() {
    let text = "a: 'b\nc'\nd: 1\n";
    assert_eq!(edited(text, 0, |_| {}), text);
    let error = refused(text, |object| object["d"] = json!(2));
    assert_eq!(error.category(), "not-expressed");
    assert!(error.to_string().starts_with("line 2, column 1: quoted text"), "{error}");
}

#[test]
fn an_item_that_moves_takes_its_lines_along() {
    let text = "rules:\n# one\n- verbs: [\"get\"] # why\n  groups: ['']\n# two\n- verbs: [\"list\"]\nz: 1\n";
    let new = edited(text, 0, |object| object["rules"].as_array_mut().unwrap().reverse());
    assert_eq!(
        new,
        "rules:\n# two\n- verbs: [\"list\"]\n# one\n- verbs: [\"get\"] # why\n  groups: ['']\nz: 1\n"
    );
}
