//! What happens to a request when its turn comes: faults, the API itself, the record.

use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use kube::client::Body;
use serde_json::Value;
use tower::BoxError;

use super::{
    call::{Call, Verb},
    clusters::Unreachable,
    fault::{Effect, Fault, Refusal},
    hub::{Answer, AnyBody, Hub, Item, Sent},
    outsider::Outsider,
    writes::Write,
};

/// What becomes of a request once meddlers have had their say.
#[derive(Default)]
struct Fate {
    refused: Option<Refusal>,
    connection: Connection,
    crash: Option<Crash>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Connection {
    #[default]
    Whole,
    BrokenBefore,
    BrokenAfter,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Crash {
    Before,
    After,
}

impl Hub {
    pub(crate) async fn release(self: &Arc<Self>, item: Item) {
        match item {
            Item::Request(mut sent) if sent.is_held() && !sent.life.is_dead() => {
                sent.made_in_pause = true;
                self.lock().parked.push(Item::Request(sent));
            }
            Item::Request(sent) => self.release_request(*sent).await,
            Item::Reply { life, cluster, reply, mut answer, line } => {
                if life.is_dead() {
                    return;
                }
                let away = self.lock().away.get(&cluster).copied();
                if life.is_paused() || away == Some(Unreachable::Hangs) {
                    self.lock().parked.push(Item::Reply { life, cluster, reply, answer, line });
                    return;
                }
                if away == Some(Unreachable::Refuses) {
                    self.note(&life.who(), format!("lost: {line}"));
                    *answer = Err(broken("connection reset: the cluster is away"));
                } else {
                    self.note(&life.who(), line);
                }
                // The caller may have given up waiting: its loss.
                let _gone = reply.send(*answer);
            }
            Item::Frame { stream } => self.release_frame(stream),
        }
    }

    async fn release_request(self: &Arc<Self>, sent: Sent) {
        let Some(mut sent) = self.reach(sent) else { return };
        let who = sent.life.who();
        let mut fate = Fate::default();
        if !sent.life.is_dead() {
            let struck =
                self.lock().strikes.on_request(self.dice, &sent.call, &sent.subject, self.clock.elapsed());
            for fault in struck {
                if let Effect::Delay(by) = fault.effect {
                    if !sent.delayed {
                        sent.delayed = true;
                        self.note(&who, format!("fault {} on {}", fault.name, sent.call));
                        let extra = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
                        let subject = format!("{} delayed", sent.subject);
                        self.enqueue(Item::Request(Box::new(sent)), &subject, extra);
                        return;
                    }
                } else {
                    self.settle_fate(&mut fate, &fault, &sent).await;
                }
            }
            if let Some(refusal) = self.forgotten(&sent.call) {
                fate.refused.get_or_insert(refusal);
            }
        }
        if fate.crash == Some(Crash::Before) {
            self.crash(&sent.life.name);
            return;
        }
        let answer = self.answer(&fate, &mut sent).await;
        if fate.crash == Some(Crash::After) {
            self.crash(&sent.life.name);
            return;
        }
        if sent.life.is_dead() {
            return;
        }
        self.reply(sent, answer);
    }

    async fn settle_fate(self: &Arc<Self>, fate: &mut Fate, fault: &Fault, sent: &Sent) {
        self.note(&sent.life.who(), format!("fault {} on {}", fault.name, sent.call));
        match &fault.effect {
            Effect::Refuse(refusal) => {
                fate.refused.get_or_insert_with(|| refusal.clone());
            }
            Effect::Disconnect => fate.connection = Connection::BrokenBefore,
            Effect::LoseResponse if fate.connection == Connection::Whole => {
                fate.connection = Connection::BrokenAfter;
            }
            Effect::CrashBefore => fate.crash = Some(Crash::Before),
            Effect::CrashAfter => {
                fate.crash.get_or_insert(Crash::After);
            }
            Effect::Meddle(act) => {
                act(Outsider::new(self, &sent.call.cluster, fault.name), sent.call.clone()).await;
            }
            Effect::LoseResponse | Effect::Delay(_) | Effect::Stream(_) => {}
        }
    }

    async fn answer(self: &Arc<Self>, fate: &Fate, sent: &mut Sent) -> Answer {
        if fate.connection == Connection::BrokenBefore {
            return Err(broken("connection refused by fault"));
        }
        if let Some(refusal) = &fate.refused {
            return refuse(refusal, &sent.call);
        }
        self.show_the_past(sent);
        let (mut parts, body) = (sent.parts.clone(), sent.body.clone());
        parts.headers.entry("user-agent").or_insert(http::HeaderValue::from_static("windlass-sim/1"));
        let request = Request::from_parts(parts, Body::from(body));
        let answer = self.perform(&sent.call, request).await;
        if fate.connection == Connection::BrokenAfter {
            Err(broken("connection reset by fault"))
        } else {
            answer
        }
    }

    /// A list that accepts any version shows a frozen view's past.
    fn show_the_past(&self, sent: &mut Sent) {
        let query = |key: &str| sent.call.query.get(key).map(String::as_str);
        let any_version = query("resourceVersion") == Some("0")
            && matches!(query("resourceVersionMatch"), None | Some("NotOlderThan"));
        if sent.call.verb != Verb::List || !any_version {
            return;
        }
        let version = {
            let state = self.lock();
            state
                .freezes
                .iter()
                .filter(|freeze| freeze.holds(&sent.call))
                .find_map(|freeze| freeze.versions.get(&sent.call.cluster).cloned())
        };
        let Some(version) = version else { return };
        let query: Vec<String> = sent
            .parts
            .uri
            .query()
            .unwrap_or_default()
            .split('&')
            .filter(|pair| !pair.is_empty() && !pair.starts_with("resourceVersion"))
            .map(str::to_owned)
            .chain([format!("resourceVersion={version}"), "resourceVersionMatch=Exact".to_owned()])
            .collect();
        if let Ok(uri) = format!("{}?{}", sent.parts.uri.path(), query.join("&")).parse() {
            self.note(&sent.life.who(), format!("fault stale-list at {version} on {}", sent.call));
            sent.parts.uri = uri;
        }
    }

    /// The 410 that follows a lost history, once for each watch that asks for it.
    fn forgotten(&self, call: &Call) -> Option<Refusal> {
        let Effect::Refuse(refusal) = Fault::expired().effect else { return None };
        if !Effect::Refuse(refusal.clone()).may_happen_to(call) {
            return None;
        }
        let mut state = self.lock();
        let index = state.forgotten.iter().position(|(instance, resource)| {
            *instance == call.instance && resource.as_ref().is_none_or(|resource| *resource == call.resource)
        })?;
        state.forgotten.remove(index);
        Some(refusal)
    }

    /// Performs a request on the API, and keeps a record when it is a write.
    pub(crate) async fn perform(&self, call: &Call, request: Request<Body>) -> Answer {
        let before = if call.is_write() { self.look(call) } else { None };
        let answer = self.upstream(&call.cluster, request).await;
        let code = answer.as_ref().map_or(0, |response| response.status().as_u16());
        self.note(&call.who(), format!("{call} → {code}"));
        if !call.is_write() {
            return answer;
        }
        let (parts, body) = answer?.into_parts();
        let bytes = body.collect().await?.to_bytes();
        let after: Option<Value> = serde_json::from_slice(&bytes).ok();
        let after = after.filter(|value: &Value| value["kind"] != "Status" && code < 300);
        let at = self.clock.elapsed();
        let mut state = self.lock();
        let seq = state.writes.len() as u64;
        let call = Arc::new(call.clone());
        state.writes.push(Write { seq, at, call, code, before, after: after.map(Arc::new) });
        drop(state);
        Ok(Response::from_parts(parts, whole(bytes)))
    }

    /// The object that a request is about, as it is now.
    fn look(&self, call: &Call) -> Option<Arc<Value>> {
        let name = call.name.as_deref().filter(|_| call.verb != Verb::Other)?;
        let namespace = call.namespace.as_deref().unwrap_or_default();
        let found =
            self.api(&call.cluster)?.find((&call.group, &call.version, &call.resource), namespace, name);
        found.map(Arc::new)
    }

    pub(crate) fn reply(self: &Arc<Self>, sent: Sent, answer: Answer) {
        let Sent { life, call, reply, subject, .. } = sent;
        let subject_of_reply = format!("{subject} reply");
        let line = match &answer {
            Ok(response) => format!("answer {} to {call}", response.status().as_u16()),
            Err(error) => format!("no answer to {call}: {error}"),
        };
        let watching = call.verb == Verb::Watch;
        let cluster = call.cluster.clone();
        let answer = match answer {
            Ok(response) if watching && response.status().is_success() => {
                Ok(self.open_stream(&life, call, subject, response))
            }
            other => other,
        };
        let item = Item::Reply { life, cluster, reply, answer: Box::new(answer), line };
        self.enqueue(item, &subject_of_reply, 0);
    }
}

pub(crate) fn whole(bytes: Bytes) -> AnyBody {
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}

fn refuse(refusal: &Refusal, call: &Call) -> Answer {
    let kind = if refusal.reason.is_empty() { "text/plain; charset=utf-8" } else { "application/json" };
    let mut response = Response::builder().status(refusal.status()).header("content-type", kind);
    if let Some(seconds) = refusal.retry_after {
        response = response.header("retry-after", seconds.to_string());
    }
    response.body(whole(Bytes::from(refusal.body(call)))).map_err(Into::into)
}

pub(crate) fn broken(why: &str) -> BoxError {
    std::io::Error::new(std::io::ErrorKind::ConnectionReset, why.to_owned()).into()
}
