//! Random sequences of writes, the same on two servers.
//!
//! What is written follows from the seed alone and never from an answer, so two servers that behave alike leave
//! equal transcripts.

use anyhow::Context as _;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde_json::{Map, Value, json};

use super::definitions::GROUP;
use super::session::Session;
use super::{Env, Outcome};

/// How long a sequence is.
#[derive(Clone, Copy, Debug)]
pub struct Differential {
    /// The seed.
    pub seed: u64,
    /// How many writes.
    pub steps: usize,
}

/// Runs a sequence; the outcome's transcript is what to compare.
pub async fn differential(env: &Env, plan: Differential) -> Outcome {
    const NAME: &str = "random";
    match Session::open(env, &format!("{NAME}-{}", plan.seed)).await {
        Err(error) => Outcome { name: NAME, result: Err(error), transcript: Vec::new() },
        Ok(session) => {
            let result = walk(&session, plan).await;
            session.release(&["configmaps/a", "configmaps/b", "widgets/a", "widgets/b"]).await;
            session.close().await;
            Outcome { name: NAME, result, transcript: session.transcript() }
        }
    }
}

async fn walk(session: &Session, plan: Differential) -> anyhow::Result<()> {
    let mut dice = Dice(ChaCha8Rng::seed_from_u64(plan.seed));
    for number in 0..plan.steps {
        step(session, &mut dice).await.with_context(|| format!("step {number}"))?;
    }
    for path in ["configmaps/a", "configmaps/b", "widgets/a", "widgets/b"] {
        session.get(path).await?;
    }
    Ok(())
}

struct Dice(ChaCha8Rng);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0.random_range(0..end)
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())].clone()
    }

    /// Some of the values, in a random order.
    fn some(&mut self, from: &[&str]) -> Vec<String> {
        let mut out: Vec<String> = Vec::new();
        for value in from {
            if self.chance(45) {
                let at = self.below(out.len() + 1);
                out.insert(at, (*value).to_owned());
            }
        }
        out
    }

    fn map(&mut self) -> Value {
        let keys = self.some(&["p", "q", "r"]);
        keys.into_iter().map(|key| (key, Value::from(self.pick(&["1", "2"])))).collect()
    }

    fn metadata(&mut self, name: &str) -> Value {
        let mut metadata = Map::from_iter([("name".to_owned(), json!(name))]);
        if self.chance(25) {
            metadata.insert("labels".into(), self.map());
        }
        if self.chance(15) {
            metadata.insert("annotations".into(), self.map());
        }
        if self.chance(15) {
            metadata.insert("finalizers".into(), json!(self.some(&["example.com/x", "example.com/y"])));
        }
        Value::Object(metadata)
    }

    fn config_map(&mut self, name: &str) -> Value {
        let mut object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": self.metadata(name)});
        if self.chance(85) {
            object["data"] = self.map();
        }
        object
    }

    fn ports(&mut self) -> Value {
        let numbers = self.some(&["1", "2", "3"]);
        numbers
            .iter()
            .map(|number| {
                let mut port = json!({"port": number.parse::<i64>().unwrap_or_default()});
                if self.chance(40) {
                    port["protocol"] = json!(self.pick(&["TCP", "UDP"]));
                }
                if self.chance(40) {
                    port["name"] = json!(self.pick(&["m", "n"]));
                }
                port
            })
            .collect()
    }

    fn widget_spec(&mut self) -> Value {
        let mut spec = Map::new();
        let mut set = |dice: &mut Self, name: &str, make: &dyn Fn(&mut Self) -> Value| {
            if dice.chance(35) {
                spec.insert(name.to_owned(), make(dice));
            }
        };
        set(self, "size", &|dice| json!(dice.below(12)));
        set(self, "mode", &|dice| json!(dice.pick(&["Fast", "Safe"])));
        set(self, "args", &|dice| json!(dice.some(&["1", "2"])));
        set(self, "tags", &|dice| json!(dice.some(&["x", "y", "z"])));
        set(self, "ports", &Self::ports);
        set(self, "labels", &Self::map);
        set(self, "whole", &Self::map);
        set(self, "free", &|dice| json!({"a": dice.map(), "b": dice.below(3), "c": [dice.below(2)]}));
        set(self, "target", &|dice| dice.pick(&[json!(1), json!("2")]));
        set(self, "inner", &|dice| json!({"must": "x", "depth": dice.below(5)}));
        Value::Object(spec)
    }

    fn widget(&mut self, name: &str) -> Value {
        json!({"apiVersion": format!("{GROUP}/v1"), "kind": "Widget", "metadata": self.metadata(name), "spec": self.widget_spec()})
    }

    fn status(&mut self, name: &str) -> Value {
        let conditions: Vec<Value> = self
            .some(&["Ready", "Synced"])
            .into_iter()
            .map(|kind| json!({"type": kind, "status": self.pick(&["True", "False"])}))
            .collect();
        json!({"apiVersion": format!("{GROUP}/v1"), "kind": "Widget", "metadata": {"name": name},
            "status": {"phase": self.pick(&["1", "2"]), "conditions": conditions}})
    }
}

/// One write, of which refusals are as good as acceptances.
async fn step(session: &Session, dice: &mut Dice) -> anyhow::Result<()> {
    let name = dice.pick(&["a", "b"]);
    let custom = dice.chance(60);
    let plural = if custom { "widgets" } else { "configmaps" };
    let object = if custom { dice.widget(name) } else { dice.config_map(name) };
    let manager = dice.pick(&["one", "two", "three"]);
    let one = format!("{plural}/{name}");
    match dice.below(100) {
        0..18 => session.post(&format!("{plural}?fieldManager={manager}"), &object).await?,
        18..58 => {
            let force = if dice.chance(40) { "?force=true" } else { "" };
            session.apply(manager, &format!("{one}{force}"), &object).await?
        }
        58..68 => {
            let mut patch = object;
            patch.as_object_mut().map(|fields| fields.shift_remove("apiVersion"));
            patch.as_object_mut().map(|fields| fields.shift_remove("kind"));
            session.patch("merge", &format!("{one}?fieldManager={manager}"), &patch).await?
        }
        68..74 => {
            let patch = json!({"metadata": {"finalizers": null, "labels": null}, "data": null});
            session.patch("merge", &format!("{one}?fieldManager={manager}"), &patch).await?
        }
        74..82 => session.put(&format!("{one}?fieldManager={manager}"), &object).await?,
        82..92 if custom => {
            let status = dice.status(name);
            let force = if dice.chance(40) { "?force=true" } else { "" };
            session.apply(manager, &format!("{one}/status{force}"), &status).await?
        }
        _ => session.delete(&one, &json!({})).await?,
    };
    Ok(())
}
