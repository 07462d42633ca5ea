//! From requests to calls, and back.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt as _;
use http::{HeaderMap, Method, Response, StatusCode, request::Parts};
use http_body::Frame;
use http_body_util::{BodyExt as _, Full, StreamBody, combinators::UnsyncBoxBody};
use serde_json::Value;
use tower::BoxError;

use super::call::{Answer, Call};
use super::kinds::Resource;
use super::log::Write;
use super::state::{State, meta};
use super::status::{About, Failure};
use super::verbs;
use super::watch::Watch;
use super::{Shared, discovery, gc, lock};

/// The body of an answer: JSON, or the stream of a watch.
pub type ResponseBody = UnsyncBoxBody<Bytes, BoxError>;

/// What a path names.
#[derive(Debug, Default, PartialEq, Eq)]
struct Path {
    group: String,
    version: String,
    namespace: String,
    plural: String,
    name: String,
    subresource: String,
}

impl Path {
    /// Parses `/api/v1/…` and `/apis/<group>/<version>/…`.
    fn parse(path: &str) -> Option<Self> {
        let steps: Vec<String> = path.split('/').filter(|step| !step.is_empty()).map(decode).collect();
        let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
        let (group, version, rest) = match steps.as_slice() {
            ["api", version, rest @ ..] => ("", *version, rest),
            ["apis", group, version, rest @ ..] => (*group, *version, rest),
            _ => return None,
        };
        let (namespace, rest) = match rest {
            ["namespaces", namespace, rest @ ..]
                if !rest.is_empty() && !matches!(rest, ["status" | "finalize"]) =>
            {
                (*namespace, rest)
            }
            rest => ("", rest),
        };
        let step = |index: usize| rest.get(index).map(ToString::to_string).unwrap_or_default();
        (!rest.is_empty() && rest.len() <= 3).then(|| Self {
            group: group.to_owned(),
            version: version.to_owned(),
            namespace: namespace.to_owned(),
            plural: step(0),
            name: step(1),
            subresource: step(2),
        })
    }
}

/// Undoes percent-encoding.
fn decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let code = tail.get(..2).and_then(|code| std::str::from_utf8(code).ok());
        if let (b'%', Some(byte)) = (first, code.and_then(|code| u8::from_str_radix(code, 16).ok())) {
            bytes.push(byte);
            rest = &tail[2..];
        } else {
            bytes.push(*first);
            rest = tail;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn parse_query(query: &str) -> BTreeMap<String, String> {
    query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(&key.replace('+', " ")), decode(&value.replace('+', " ")))
        })
        .collect()
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// Answers one request.
pub(super) fn handle(shared: &Shared, parts: &Parts, body: &[u8]) -> Response<ResponseBody> {
    let accept = header(&parts.headers, "accept");
    let mut state = lock(shared);
    if let Some(answer) = without_resource(&state, parts, accept) {
        return answer;
    }
    let call = match call(&state, parts, body) {
        Ok(call) => call,
        Err(response) => return *response,
    };
    let partial = accept.contains("as=PartialObjectMetadata");
    if parts.method == Method::GET && call.flag("watch") {
        return match Watch::start(&mut state, &call, partial) {
            Ok(watch) => {
                let shared = Arc::downgrade(shared);
                // A watch must not keep the API alive.
                let current = move || shared.upgrade().map_or(0, |shared| lock(&shared).version());
                stream(watch, Arc::new(current))
            }
            Err(failure) => json(failure.code, &failure.to_json(), &[]),
        };
    }
    match dispatch(&mut state, &parts.method, &call) {
        Ok(answer) => {
            let body = if partial { verbs::metadata_only(answer.body) } else { answer.body };
            json(answer.code, &body, &answer.warnings)
        }
        Err(failure) => json(failure.code, &failure.to_json(), &failure.warnings),
    }
}

/// Discovery, health and version.
fn without_resource(state: &State, parts: &Parts, accept: &str) -> Option<Response<ResponseBody>> {
    let path = parts.uri.path().trim_end_matches('/');
    let aggregate = accept.contains("as=APIGroupDiscoveryList");
    let steps: Vec<&str> = path.split('/').filter(|step| !step.is_empty()).collect();
    let found = match steps.as_slice() {
        ["healthz" | "readyz" | "livez", ..] => return Some(text(StatusCode::OK, "ok")),
        ["version"] => Some(discovery::server_version()),
        ["api" | "apis"] if aggregate => Some(discovery::aggregated(&state.registry, steps[0] == "api")),
        ["api"] => Some(discovery::core_versions()),
        ["apis"] => Some(discovery::group_list(&state.registry)),
        ["api", version] => discovery::resources(&state.registry, "", version),
        ["apis", group] => discovery::group(&state.registry, group),
        ["apis", group, version] => discovery::resources(&state.registry, group, version),
        _ => return None,
    };
    Some(found.map_or_else(no_page, |body| json(StatusCode::OK, &body, &[])))
}

fn call(state: &State, parts: &Parts, body: &[u8]) -> Result<Call, Box<Response<ResponseBody>>> {
    let path = Path::parse(parts.uri.path()).ok_or_else(|| Box::new(no_page()))?;
    let Some(resource) = state.resource(&path.group, &path.plural) else {
        // Groups that are built in answer with a status, anything else with a plain page.
        let built_in =
            state.registry.values().any(|resource| resource.key.group == path.group && !resource.custom);
        let failure = Failure::no_route();
        return Err(Box::new(if built_in { json(failure.code, &failure.to_json(), &[]) } else { no_page() }));
    };
    let missing = |resource: &Resource| {
        let failure = Failure::no_route();
        Box::new(if resource.custom { no_page() } else { json(failure.code, &failure.to_json(), &[]) })
    };
    let Some(version) = resource.version(&path.version).cloned() else {
        return Err(missing(&resource));
    };
    let known = match path.subresource.as_str() {
        "" => true,
        "status" => version.status,
        "scale" => version.scale.is_some(),
        _ => false,
    };
    if !known && resource.custom {
        let about = About { group: &path.group, kind: &path.plural, name: &path.name };
        let failure = Failure::not_found(about);
        return Err(Box::new(json(failure.code, &failure.to_json(), &[])));
    }
    if !known || (!path.namespace.is_empty() && !resource.namespaced) {
        return Err(missing(&resource));
    }
    Ok(Call {
        version,
        namespace: path.namespace,
        name: path.name,
        subresource: path.subresource,
        query: parse_query(parts.uri.query().unwrap_or_default()),
        body: body.to_vec(),
        content_type: header(&parts.headers, "content-type").to_owned(),
        user_agent: header(&parts.headers, "user-agent").to_owned(),
        user: Some(header(&parts.headers, "impersonate-user").to_owned()).filter(|user| !user.is_empty()),
        resource,
    })
}

/// Carries a call out, logs it when it is a write, and collects garbage when that is automatic.
pub(super) fn dispatch(state: &mut State, method: &Method, call: &Call) -> Result<Answer, Failure> {
    let one = !call.name.is_empty();
    let scale = call.subresource == "scale";
    if *method == Method::GET {
        return match (one, scale) {
            (true, true) => verbs::read_scale(state, call),
            (true, false) => verbs::get(state, call),
            (false, _) => verbs::list(state, call),
        };
    }
    let before = state.version();
    let uid = state.get(&call.key()).map(|object| meta(&object, "uid").to_owned()).unwrap_or_default();
    let placed = !call.namespace.is_empty() || !call.resource.namespaced;
    let result = match *method {
        Method::POST if !one && placed => verbs::create(state, call),
        Method::PUT | Method::PATCH if one && placed && scale => {
            verbs::write_scale(state, call, *method == Method::PATCH)
        }
        Method::PUT if one && placed => verbs::replace(state, call),
        Method::PATCH if one && placed => verbs::patch(state, call),
        Method::DELETE if one && placed => verbs::delete(state, call),
        Method::DELETE if !one && placed => verbs::delete_collection(state, call),
        _ => Err(Failure::method_not_allowed()),
    };
    log(state, method, call, &uid, &result, before);
    if state.automatic_gc && state.collectable {
        gc::collect(state);
    }
    result
}

fn log(
    state: &mut State,
    method: &Method,
    call: &Call,
    uid: &str,
    result: &Result<Answer, Failure>,
    before: u64,
) {
    let body = result.as_ref().ok().map(|answer| &answer.body);
    let is_object = |body: &&Value| body.get("kind").and_then(Value::as_str) != Some("Status");
    let of_body = |field: &str| body.filter(is_object).map(|body| meta(body, field).to_owned());
    let precondition = |field: &str| {
        let options: Value = serde_json::from_slice(&call.body).unwrap_or_default();
        options.pointer(&format!("/preconditions/{field}")).and_then(Value::as_str).map(str::to_owned)
    };
    let is_delete = *method == Method::DELETE;
    let write = Write {
        seq: state.writes.len() as u64 + 1,
        at: state.now(),
        user_agent: call.user_agent.clone(),
        manager: call.manager(),
        user: call.user.clone(),
        verb: match *method {
            Method::POST => "create",
            Method::PUT => "update",
            Method::PATCH if call.content_type.starts_with("application/apply-patch") => "apply",
            Method::DELETE if call.name.is_empty() => "deletecollection",
            Method::DELETE => "delete",
            _ => "patch",
        }
        .into(),
        group: call.resource.key.group.clone(),
        version: call.version.name.clone(),
        resource: call.resource.key.plural.clone(),
        namespace: call.namespace.clone(),
        name: if call.name.is_empty() && !is_delete {
            of_body("name").unwrap_or_default()
        } else {
            call.name.clone()
        },
        uid: if uid.is_empty() { of_body("uid").unwrap_or_default() } else { uid.to_owned() },
        subresource: call.subresource.clone(),
        code: result.as_ref().map_or_else(|failure| failure.code, |answer| answer.code).as_u16(),
        dry_run: call.dry_run().unwrap_or_default(),
        changed: state.version() != before,
        resource_version: of_body("resourceVersion").unwrap_or_default(),
        preconditions: if is_delete {
            (precondition("uid"), precondition("resourceVersion"))
        } else {
            (None, None)
        },
    };
    state.writes.push(write);
}

fn respond(
    code: StatusCode,
    media: &'static str,
    body: ResponseBody,
    warnings: &[String],
) -> Response<ResponseBody> {
    let mut response = Response::new(body);
    *response.status_mut() = code;
    response.headers_mut().insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static(media));
    for warning in warnings {
        if let Ok(value) = http::HeaderValue::from_str(&format!("299 - {warning:?}")) {
            response.headers_mut().append(http::header::WARNING, value);
        }
    }
    response
}

fn whole(bytes: impl Into<Bytes>) -> ResponseBody {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

fn json(code: StatusCode, body: &Value, warnings: &[String]) -> Response<ResponseBody> {
    respond(code, "application/json", whole(body.to_string()), warnings)
}

fn text(code: StatusCode, body: &'static str) -> Response<ResponseBody> {
    respond(code, "text/plain; charset=utf-8", whole(body), &[])
}

fn no_page() -> Response<ResponseBody> {
    text(StatusCode::NOT_FOUND, "404 page not found\n")
}

fn stream(watch: Watch, current: Arc<dyn Fn() -> u64 + Send + Sync>) -> Response<ResponseBody> {
    let frames = watch.lines(current).map(|line| Ok::<_, BoxError>(Frame::data(line)));
    respond(StatusCode::OK, "application/json", StreamBody::new(frames).boxed_unsync(), &[])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths() {
        let parse = |path: &str| Path::parse(path).unwrap();
        let pod = parse("/api/v1/namespaces/a/pods/b/status");
        assert_eq!((pod.namespace.as_str(), pod.plural.as_str(), pod.name.as_str()), ("a", "pods", "b"));
        assert_eq!(pod.subresource, "status");
        let namespace = parse("/api/v1/namespaces/a");
        assert_eq!((namespace.plural.as_str(), namespace.name.as_str()), ("namespaces", "a"));
        let status = parse("/api/v1/namespaces/a/status");
        assert_eq!((status.plural.as_str(), status.subresource.as_str()), ("namespaces", "status"));
        let all = parse("/apis/apps/v1/deployments");
        assert_eq!((all.group.as_str(), all.plural.as_str(), all.name.as_str()), ("apps", "deployments", ""));
        assert_eq!(Path::parse("/metrics"), None);
    }

    #[test]
    fn queries_are_decoded() {
        let query = parse_query("labelSelector=a+in+%28b%2Cc%29&watch=true&");
        assert_eq!(query["labelSelector"], "a in (b,c)");
        assert_eq!(query["watch"], "true");
        assert_eq!(decode("a%2"), "a%2");
    }
}
