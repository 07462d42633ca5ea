use serde_json::{Map, json};

use super::*;

fn schema() -> Schema {
    Schema::parse(
        &json!({"type": "object", "properties": {
            "metadata": {"type": "object", "properties": {"name": {"type": "string"}}},
            "data": {"type": "object", "additionalProperties": {"type": "string"}},
            "status": {"type": "object", "additionalProperties": {"type": "string"}}}}),
        &Map::new(),
    )
}

fn writer(manager: &str, second: i64) -> Writer<'_> {
    let now = Timestamp::from_second(1_767_225_600 + second).unwrap();
    Writer { manager, api_version: "v1", subresource: "", now }
}

struct Fixture {
    schema: Schema,
    blank: Value,
    object: Option<Value>,
}

impl Fixture {
    fn new() -> Self {
        Self { schema: schema(), blank: json!({}), object: None }
    }

    fn kind(&self) -> Kind<'_> {
        Kind { schema: &self.schema, blank: &self.blank, reset: FieldSet::of(&[&["status"]]) }
    }

    fn update(&mut self, manager: &str, second: i64, data: &Value) {
        let mut new = self.object.clone().unwrap_or_else(|| json!({"metadata": {"name": "a"}}));
        new["data"] = data.clone();
        on_update(&self.kind(), self.object.as_ref(), &mut new, &writer(manager, second));
        self.object = Some(new);
    }

    fn apply(&mut self, manager: &str, second: i64, data: &Value, force: bool) -> Result<(), Failure> {
        let applied = json!({"metadata": {"name": "a"}, "data": data});
        let merged = on_apply(&self.kind(), self.object.as_ref(), &applied, &writer(manager, second), force)?;
        self.object = Some(merged);
        Ok(())
    }

    fn data(&self) -> Value {
        self.object.as_ref().and_then(|object| object.get("data").cloned()).unwrap_or_default()
    }

    /// `manager operation paths` of every entry.
    fn owners(&self) -> Vec<String> {
        let entries = self.object.as_ref().and_then(Entries::of).unwrap_or_default();
        let mut object = json!({});
        entries.store(&mut object);
        let entries =
            object.pointer("/metadata/managedFields").and_then(Value::as_array).cloned().unwrap_or_default();
        let line = |entry: &Value| {
            let text = |key: &str| entry[key].as_str().unwrap_or_default().to_owned();
            let paths = FieldSet::from_json(&entry["fieldsV1"]).unwrap_or_default().paths();
            format!("{} {} {}", text("manager"), text("operation"), paths.join(" "))
        };
        entries.iter().map(line).collect()
    }
}

#[test]
fn an_update_takes_what_it_changes() {
    let mut fixture = Fixture::new();
    fixture.update("one", 0, &json!({"k": "1", "l": "1"}));
    fixture.update("two", 1, &json!({"k": "2", "m": "1"}));
    assert_eq!(fixture.owners(), ["one Update .data", "two Update .data.k .data.m"]);
}

#[test]
fn an_apply_gives_up_what_it_no_longer_names() {
    let mut fixture = Fixture::new();
    fixture.apply("one", 0, &json!({"k": "1", "l": "1"}), false).unwrap();
    fixture.apply("two", 1, &json!({"l": "1"}), false).unwrap();
    fixture.apply("one", 2, &json!({"m": "1"}), false).unwrap();
    assert_eq!(fixture.data(), json!({"l": "1", "m": "1"}));
    assert_eq!(fixture.owners(), ["two Apply .data.l", "one Apply .data.m"]);
}

#[test]
fn a_conflict_names_the_owner_and_force_takes() {
    let mut fixture = Fixture::new();
    fixture.update("human", 0, &json!({"k": "1"}));
    let failure = fixture.apply("one", 1, &json!({"k": "2"}), false).unwrap_err();
    assert_eq!(failure.code, 409);
    assert!(failure.message.ends_with("conflict with \"human\" using v1: .data.k"), "{}", failure.message);
    fixture.apply("one", 2, &json!({"k": "2"}), true).unwrap();
    assert_eq!(fixture.data(), json!({"k": "2"}));
    assert_eq!(fixture.owners(), ["one Apply .data.k", "human Update .data"]);
}

#[test]
fn a_no_op_keeps_the_time() {
    let mut fixture = Fixture::new();
    fixture.apply("one", 0, &json!({"k": "1"}), false).unwrap();
    let before = fixture.object.clone();
    fixture.apply("one", 100, &json!({"k": "1"}), false).unwrap();
    assert_eq!(fixture.object, before);
}

#[test]
fn fields_of_another_endpoint_have_no_owner() {
    let fixture = Fixture::new();
    let mut object = json!({"metadata": {"name": "a"}, "status": {"x": "1"}});
    on_update(&fixture.kind(), None, &mut object, &writer("one", 0));
    assert_eq!(Entries::of(&object).map(|entries| entries.is_empty()), None);
}

#[test]
fn too_many_updaters_become_one() {
    let mut fixture = Fixture::new();
    let mut data = Map::new();
    for number in 0..14 {
        data.insert(format!("k{number:02}"), "1".into());
        fixture.update(&format!("m{number:02}"), number, &Value::Object(data.clone()));
    }
    let owners = fixture.owners();
    assert_eq!(owners.len(), 10);
    assert_eq!(owners[0], "ancient-changes Update .data .data.k00 .data.k01 .data.k02 .data.k03 .data.k04");
}
