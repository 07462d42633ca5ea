//! Makes `src/schema/built_in.txt` from the descriptions that the API server gives of its kinds.

use std::collections::{BTreeMap, BTreeSet};

use kube::Client;
use serde_json::{Map, Value};

const HEADER: &str = "# The fields of the built-in kinds, from the API server's OpenAPI. Made by a test: WINDLASS_UPDATE=1 writes it anew.\n";

/// All schemas of the server, by name.
pub async fn schemas(client: &Client) -> BTreeMap<String, Value> {
    let get = async |path: &str| -> Value {
        let request = http::Request::get(path).body(Vec::new()).unwrap();
        client.request(request).await.unwrap()
    };
    let index = get("/openapi/v3").await;
    let mut all = BTreeMap::new();
    for path in index["paths"].as_object().unwrap().keys() {
        let built_in = path == "api/v1" || path.strip_prefix("apis/").is_some_and(|rest| rest.contains('/'));
        // Groups of their own are the custom resources of other tests.
        let custom = path.contains("example");
        if built_in && !custom {
            let document = get(&format!("/openapi/v3/{path}")).await;
            let schemas = document["components"]["schemas"].as_object().cloned().unwrap_or_default();
            all.extend(schemas);
        }
    }
    all
}

/// The text of the file.
pub fn text(schemas: &BTreeMap<String, Value>) -> String {
    let mut kinds = BTreeSet::new();
    let mut wanted = Vec::new();
    for (name, schema) in schemas {
        let gvk = schema.get("x-kubernetes-group-version-kind").and_then(Value::as_array);
        let [gvk] = gvk.map_or(&[][..], Vec::as_slice) else { continue };
        let properties = schema["properties"].as_object().cloned().unwrap_or_default();
        if !properties.contains_key("metadata") || properties.contains_key("items") {
            continue;
        }
        let text = |key: &str| gvk[key].as_str().unwrap();
        let api_version = if text("group").is_empty() {
            text("version").to_owned()
        } else {
            format!("{}/{}", text("group"), text("version"))
        };
        kinds.insert(format!("kind {api_version} {} {}", text("kind"), short(name)));
        wanted.push(name.clone());
    }
    let roots: BTreeSet<String> = wanted.iter().cloned().collect();
    let mut types = BTreeMap::new();
    while let Some(name) = wanted.pop() {
        if types.contains_key(&name) {
            continue;
        }
        let schema = &schemas[&name];
        let mut line = String::new();
        for (field, property) in sorted(&schema["properties"]) {
            // Nobody applies a status.
            if field == "status" && roots.contains(&name) {
                continue;
            }
            line.push(' ');
            line.push_str(field);
            let shape = shape(property, schemas, &mut wanted);
            if shape != "s" {
                line.push(':');
                line.push_str(&shape);
            }
            let default = property.get("default").filter(|default| !is_zero(default));
            if let Some(default) = default {
                let default = default.to_string();
                assert!(!default.contains(' '), "{name}.{field}: {default}");
                line.push('=');
                line.push_str(&default);
            }
        }
        let mark = if schema["x-kubernetes-map-type"] == "atomic" { "!" } else { "" };
        types.insert(name.clone(), format!("type {mark}{}{line}", short(&name)));
    }
    let mut out = HEADER.to_owned();
    for line in kinds.into_iter().chain(types.into_values()) {
        out.push_str(&line);
        out.push('\n');
    }
    out
}

fn sorted(properties: &Value) -> BTreeMap<&String, &Value> {
    properties.as_object().map(Map::iter).into_iter().flatten().collect()
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(value) => value.as_f64() == Some(0.0),
        Value::String(value) => value.is_empty(),
        Value::Array(value) => value.is_empty(),
        Value::Object(value) => value.is_empty(),
    }
}

fn short(name: &str) -> String {
    let prefixes = [
        "io.k8s.api.",
        "io.k8s.apimachinery.pkg.apis.",
        "io.k8s.apiextensions-apiserver.pkg.apis.",
        "io.k8s.kube-aggregator.pkg.apis.",
    ];
    prefixes.iter().find_map(|prefix| name.strip_prefix(prefix)).unwrap_or(name).to_owned()
}

fn shape(property: &Value, schemas: &BTreeMap<String, Value>, wanted: &mut Vec<String>) -> String {
    let reference =
        property.get("$ref").or_else(|| property.pointer("/allOf/0/$ref")).and_then(Value::as_str);
    if let Some(reference) = reference {
        let name = reference.rsplit('/').next().unwrap().to_owned();
        return match name.rsplit('.').next().unwrap() {
            "Quantity" => "q".into(),
            "IntOrString" => "i".into(),
            "Time" | "MicroTime" => "t".into(),
            _ if schemas[&name].get("properties").is_some() => {
                let text = format!("@{}", short(&name));
                wanted.push(name);
                text
            }
            _ if schemas[&name]["type"] == "string" => "s".into(),
            _ => "*".into(),
        };
    }
    let mark = if property["x-kubernetes-map-type"] == "atomic" { "!" } else { "" };
    match property["type"].as_str() {
        Some("array") => {
            let item = shape(&property["items"], schemas, wanted);
            match property["x-kubernetes-list-type"].as_str() {
                Some("set") => format!("<{item}>"),
                Some("map") => {
                    let keys = property["x-kubernetes-list-map-keys"].as_array().unwrap();
                    let keys: Vec<&str> = keys.iter().map(|key| key.as_str().unwrap()).collect();
                    format!("({}){item}", keys.join(","))
                }
                _ => format!("[{item}]"),
            }
        }
        Some("object") if property.get("additionalProperties").is_some() => {
            format!("{mark}{{{}}}", shape(&property["additionalProperties"], schemas, wanted))
        }
        Some("string") if property["format"] == "byte" => "b".into(),
        Some("string") if property["format"] == "date-time" => "t".into(),
        Some("string" | "integer" | "number" | "boolean") => "s".into(),
        _ => "*".into(),
    }
}
