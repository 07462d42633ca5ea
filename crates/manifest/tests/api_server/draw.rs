//! Objects drawn at random, small enough that two of them often meet.

use serde_json::{Map, Value, json};

/// Numbers from a seed.
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d)
    }

    fn next(&mut self) -> u64 {
        // xorshift64*: good enough to choose among a few.
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33
    }

    pub fn one_in(&mut self, of: u64) -> bool {
        self.next().is_multiple_of(of)
    }

    fn of(&mut self, choices: &[Value]) -> Value {
        let at = self.next() % choices.len() as u64;
        choices[usize::try_from(at).unwrap()].clone()
    }

    /// Some of these fields, each with one of its values.
    fn some(&mut self, fields: &[(&str, &[Value])]) -> Value {
        let mut map = Map::new();
        for (name, values) in fields {
            if self.one_in(2) {
                map.insert((*name).to_owned(), self.of(values));
            }
        }
        Value::Object(map)
    }

    /// Some of these items, in their order or the other way round.
    fn items(&mut self, items: &[Value]) -> Value {
        let mut drawn: Vec<Value> = Vec::new();
        for item in items {
            if self.one_in(2) {
                drawn.push(item.clone());
            }
        }
        if self.one_in(2) {
            drawn.reverse();
        }
        drawn.into()
    }
}

fn text(words: &[&str]) -> Vec<Value> {
    words.iter().map(|word| Value::from(*word)).collect()
}

fn metadata(dice: &mut Dice, namespace: &str, seed: u64) -> Value {
    let values = text(&["1", "2"]);
    let mut metadata = dice.some(&[]);
    metadata["name"] = format!("drawn-{seed}").into();
    metadata["namespace"] = namespace.into();
    metadata["labels"] = dice.some(&[("l1", &values), ("l2", &values), ("example.org/l3", &values)]);
    if dice.one_in(2) {
        metadata["annotations"] = dice.some(&[("a1", &values), ("a2", &text(&["", "x"]))]);
    }
    metadata
}

/// A Deployment.
pub fn deployment(dice: &mut Dice, namespace: &str, seed: u64) -> Value {
    let mut spec = dice.some(&[
        ("paused", &[json!(true), json!(false)]),
        ("minReadySeconds", &[json!(0), json!(5)]),
        ("revisionHistoryLimit", &[json!(10), json!(2)]),
        (
            "strategy",
            &[
                json!({"type": "Recreate"}),
                json!({"rollingUpdate": {"maxSurge": "50%"}}),
                json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}}),
            ],
        ),
    ]);
    // No pods, so that nothing is written while we look.
    spec["replicas"] = 0.into();
    spec["selector"] = json!({"matchLabels": {"app": "x"}});
    let mut pod = dice.some(&[
        ("terminationGracePeriodSeconds", &[json!(30), json!(5)]),
        ("hostNetwork", &[json!(false)]),
        ("nodeSelector", &[json!({"a": "b"}), json!({"a": "c", "d": "e"}), json!({})]),
        (
            "tolerations",
            &[
                json!([]),
                json!([{"key": "a", "operator": "Exists"}]),
                json!([{"key": "b"}, {"key": "a", "effect": "NoSchedule"}]),
            ],
        ),
        (
            "securityContext",
            &[
                json!({}),
                json!({"runAsUser": 1000}),
                json!({"runAsNonRoot": false, "supplementalGroups": [1, 2]}),
            ],
        ),
        ("imagePullSecrets", &[json!([{"name": "a"}]), json!([{"name": "b"}, {"name": "a"}])]),
    ]);
    let volumes = [
        json!({"name": "v", "emptyDir": {}}),
        json!({"name": "w", "emptyDir": {"sizeLimit": "1024Mi"}}),
        json!({"name": "c", "configMap": {"name": "x"}}),
        json!({"name": "p", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}),
    ];
    pod["volumes"] = dice.items(&volumes);
    let mut containers = vec![container(dice, "a")];
    for name in ["b", "c"] {
        if dice.one_in(2) {
            containers.push(container(dice, name));
        }
    }
    if dice.one_in(2) {
        containers.reverse();
    }
    pod["containers"] = containers.into();
    spec["template"] = json!({"metadata": {"labels": {"app": "x"}}, "spec": pod});
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata(dice, namespace, seed), "spec": spec})
}

fn container(dice: &mut Dice, name: &str) -> Value {
    let mut container = dice.some(&[
        ("imagePullPolicy", &text(&["Always", "IfNotPresent"])),
        ("args", &[json!([]), json!(["a", "b"]), json!(["b", "a"])]),
        ("stdin", &[json!(true), json!(false)]),
        (
            "securityContext",
            &[
                json!({"allowPrivilegeEscalation": false}),
                json!({"privileged": false, "capabilities": {"drop": ["ALL"]}}),
                json!({}),
            ],
        ),
        (
            "resources",
            &[
                json!({"requests": {"cpu": "1000m"}}),
                json!({"requests": {"cpu": 1, "memory": "0.5Gi"}, "limits": {}}),
                json!({"requests": {"cpu": "500m", "memory": "512Mi"}}),
            ],
        ),
        (
            "readinessProbe",
            &[
                json!({"tcpSocket": {"port": 80}}),
                json!({"tcpSocket": {"port": 80}, "periodSeconds": 10}),
                json!({"tcpSocket": {"port": "http"}}),
            ],
        ),
    ]);
    container["name"] = name.into();
    container["image"] = dice.of(&text(&["x:1", "x:2"]));
    container["env"] = dice.items(&[
        json!({"name": "A", "value": ""}),
        json!({"name": "B", "value": "1"}),
        json!({"name": "C", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}),
    ]);
    container["ports"] = dice.items(&[
        json!({"containerPort": 80}),
        json!({"containerPort": 80, "protocol": "UDP"}),
        json!({"containerPort": 81, "name": "p"}),
    ]);
    container
}

/// A custom resource of the definition in `wide.yaml`.
pub fn widget(dice: &mut Dice, namespace: &str, seed: u64) -> Value {
    let spec = dice.some(&[
        ("size", &[json!(3), json!(4), json!(0)]),
        ("ratio", &[json!(1.5), json!(2.0), json!(2)]),
        ("enabled", &[json!(true), json!(false)]),
        ("words", &[json!(["a", "b"]), json!(["b", "a"]), json!([])]),
        ("selector", &[json!({"a": "b"}), json!({"a": "b", "c": "d"})]),
        (
            "steps",
            &[
                json!([{"run": "one"}]),
                json!([{"run": "one", "mode": "fast"}]),
                json!([{"run": "one", "mode": "slow"}, {"run": ""}]),
            ],
        ),
        (
            "free",
            &[
                json!({"list": [{"a": 1}]}),
                json!({"list": [{"a": 1, "b": 2}], "x": {"y": 1}}),
                json!({"x": {"z": ""}}),
            ],
        ),
    ]);
    let mut spec = spec;
    spec["tags"] = dice.items(&text(&["x", "y", "z"]));
    spec["parts"] = dice.items(&[
        json!({"id": 1}),
        json!({"id": 2, "mode": "fast", "note": ""}),
        json!({"id": 3, "mode": "slow"}),
    ]);
    let version = format!("{namespace}.example.org/v1");
    json!({"apiVersion": version, "kind": "Widget", "metadata": metadata(dice, namespace, seed), "spec": spec})
}

/// A change by hand, as a merge patch that fits both kinds.
pub fn edit(dice: &mut Dice) -> Value {
    dice.of(&[
        json!({"metadata": {"labels": {"l1": "2"}}}),
        json!({"metadata": {"labels": {"l1": null, "l2": "9"}}}),
        json!({"metadata": {"labels": null}}),
        json!({"metadata": {"annotations": {"a1": null, "theirs": "x"}}}),
        json!({"metadata": {"annotations": {"a2": "y"}}}),
    ])
}
