//! Get and list.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value, json};

use super::super::call::{Answer, Call};
use super::super::selectors::{Fields, Labels};
use super::super::state::{ObjectKey, State};
use super::super::status::Failure;

/// Which objects of a resource a request is about.
#[derive(Clone, Debug)]
pub(crate) struct Selection {
    namespace: Option<String>,
    name: Option<String>,
    labels: Labels,
    fields: Fields,
}

impl Selection {
    pub(crate) fn of(call: &Call) -> Result<Self, Failure> {
        let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        Ok(Self {
            namespace: given(&call.namespace).filter(|_| call.resource.namespaced),
            name: given(&call.name),
            labels: Labels::parse(call.parameter("labelSelector"))?,
            fields: Fields::parse(call.parameter("fieldSelector"), &call.resource.selectable)?,
        })
    }

    /// Whether the request's path covers the key.
    pub(crate) fn covers(&self, key: &ObjectKey) -> bool {
        self.namespace.as_ref().is_none_or(|namespace| *namespace == key.namespace)
            && self.name.as_ref().is_none_or(|name| *name == key.name)
    }

    pub(crate) fn chooses(&self, key: &ObjectKey, object: &Value) -> bool {
        self.covers(key) && self.labels.matches(object) && self.fields.matches(object)
    }

    fn has_selectors(&self) -> bool {
        !self.labels.is_empty() || !self.fields.is_empty()
    }
}

/// GET of one object.
pub(crate) fn get(state: &State, call: &Call) -> Result<Answer, Failure> {
    check_reachable(state, call.parameter("resourceVersion"))?;
    let Some(object) = state.get(&call.key()) else {
        return Err(Failure::not_found(call.about()));
    };
    Ok(Answer::ok(call.resource.present(&object, &call.version.name)))
}

/// A version that the server has not reached cannot be waited for.
pub(crate) fn check_reachable(state: &State, version: &str) -> Result<u64, Failure> {
    let wanted: u64 = match version {
        "" => 0,
        text => {
            text.parse().map_err(|_| Failure::bad_request(format!("invalid resource version \"{text}\"")))?
        }
    };
    if wanted > state.version() {
        return Err(Failure::too_large_version(wanted, state.version()));
    }
    Ok(wanted)
}

/// A place in a list that is read in parts.
#[derive(Debug)]
struct Place {
    /// The version of the list, or `None` to go on without consistency.
    version: Option<u64>,
    namespace: String,
    name: String,
}

impl Place {
    fn encode(&self) -> String {
        let version = self.version.map_or(-1, |version| i64::try_from(version).unwrap_or(i64::MAX));
        let token = json!({"v": "meta.k8s.io/v1", "rv": version, "start": [self.namespace, self.name]});
        URL_SAFE_NO_PAD.encode(token.to_string())
    }

    fn decode(text: &str) -> Result<Self, Failure> {
        let bad = || Failure::bad_request("continue key is not valid");
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| bad())?;
        let token: Value = serde_json::from_slice(&bytes).map_err(|_| bad())?;
        let part = |index: usize| {
            token.pointer(&format!("/start/{index}")).and_then(Value::as_str).map(str::to_owned)
        };
        Ok(Self {
            version: u64::try_from(token.get("rv").and_then(Value::as_i64).ok_or_else(bad)?).ok(),
            namespace: part(0).ok_or_else(bad)?,
            name: part(1).ok_or_else(bad)?,
        })
    }
}

/// GET of a collection.
pub(crate) fn list(state: &State, call: &Call) -> Result<Answer, Failure> {
    let selection = Selection::of(call)?;
    let place = match call.parameter("continue") {
        "" => None,
        text => Some(Place::decode(text)?),
    };
    let (version, objects) = objects_for(state, call, place.as_ref())?;
    let after = place.map(|place| (place.namespace, place.name));
    let chosen: Vec<(ObjectKey, Arc<Value>)> = objects
        .into_iter()
        .filter(|(key, object)| selection.chooses(key, object))
        .filter(|(key, _)| {
            after.as_ref().is_none_or(|(namespace, name)| (&key.namespace, &key.name) > (namespace, name))
        })
        .collect();
    let limit: usize = call.parameter("limit").parse().unwrap_or_default();
    // A list "from any version" comes from a cache, which does not cut it.
    let cached = call.parameter("resourceVersion") == "0" && after.is_none();
    let take = if limit == 0 || cached { chosen.len() } else { limit.min(chosen.len()) };
    let mut metadata = list_metadata(call, version);
    if let Some((last, _)) = chosen.get(take.wrapping_sub(1)).filter(|_| take < chosen.len()) {
        let place =
            Place { version: Some(version), namespace: last.namespace.clone(), name: last.name.clone() };
        metadata.insert("continue".into(), place.encode().into());
        if !selection.has_selectors() {
            metadata.insert("remainingItemCount".into(), (chosen.len() - take).into());
        }
    }
    let items: Vec<Value> = chosen.iter().take(take).map(|(_, object)| list_item(call, object)).collect();
    Ok(Answer::ok(json!({
        "kind": call.resource.list_kind,
        "apiVersion": call.api_version(),
        "metadata": metadata,
        "items": items,
    })))
}

pub(super) fn list_metadata(call: &Call, version: u64) -> Map<String, Value> {
    let mut metadata = Map::new();
    metadata.insert("resourceVersion".into(), version.to_string().into());
    if call.resource.custom {
        // Lists of custom kinds say so when nothing follows, those of built-in kinds leave it out.
        metadata.insert("continue".into(), "".into());
    }
    metadata
}

/// Items of built-in kinds do not repeat their kind.
fn list_item(call: &Call, object: &Value) -> Value {
    let mut item = call.resource.present(object, &call.version.name);
    if let Some(fields) = item.as_object_mut().filter(|_| !call.resource.custom) {
        fields.shift_remove("apiVersion");
        fields.shift_remove("kind");
    }
    item
}

type Objects = BTreeMap<ObjectKey, Arc<Value>>;

/// The objects that a list reads from, and their version.
fn objects_for(state: &State, call: &Call, place: Option<&Place>) -> Result<(u64, Objects), Failure> {
    let resource = &call.resource.stored_as;
    let wanted = call.parameter("resourceVersion");
    if let Some(place) = place {
        if !matches!(wanted, "" | "0") {
            return Err(Failure::bad_request(
                "specifying resource version is not allowed when using continue",
            ));
        }
        let version = place.version.unwrap_or_else(|| state.version());
        let Some(objects) = state.of_resource_at(resource, version) else {
            let open = Place { version: None, namespace: place.namespace.clone(), name: place.name.clone() };
            return Err(Failure::expired_continue(open.encode()));
        };
        return Ok((version, objects));
    }
    let wanted_version = check_reachable(state, wanted)?;
    let version =
        if call.parameter("resourceVersionMatch") == "Exact" { wanted_version } else { state.version() };
    match state.of_resource_at(resource, version) {
        Some(objects) => Ok((version, objects)),
        None => {
            Err(Failure::expired(format!("The resourceVersion for the provided list is too old: {version}")))
        }
    }
}

/// The metadata of an object or of every item of a list.
pub(crate) fn metadata_only(body: Value) -> Value {
    let partial = |object: &Value| {
        json!({
            "kind": "PartialObjectMetadata",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": object.get("metadata").cloned().unwrap_or_default(),
        })
    };
    match body.get("items").and_then(Value::as_array) {
        Some(items) => json!({
            "kind": "PartialObjectMetadataList",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": without_empty_continue(&body),
            "items": items.iter().map(partial).collect::<Vec<_>>(),
        }),
        None if body.get("kind").and_then(Value::as_str) == Some("Status") => body,
        None => partial(&body),
    }
}

fn without_empty_continue(list: &Value) -> Value {
    let mut metadata = list.get("metadata").and_then(Value::as_object).cloned().unwrap_or_default();
    if metadata.get("continue").and_then(Value::as_str) == Some("") {
        metadata.shift_remove("continue");
    }
    Value::Object(metadata)
}
