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
            Item::Request(sent) if sent.is_held() && !sent.life.is_dead() => {
                self.lock().parked.push(Item::Request(sent));
            }
            Item::Request(sent) => self.release_request(*sent).await,
            Item::Reply { life, reply, answer, line } => {
                if life.is_dead() {
                    return;
                }
                if life.is_paused() {
                    self.lock().parked.push(Item::Reply { life, reply, answer, line });
                    return;
                }
                self.note(&life.who(), line);
                // The caller may have given up waiting: its loss.
                let _gone = reply.send(*answer);
            }
            Item::Frame { stream } => self.release_frame(stream),
        }
    }

    async fn release_request(self: &Arc<Self>, mut sent: Sent) {
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
            Effect::Meddle(act) => act(Outsider::new(self, fault.name), sent.call.clone()).await,
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
            state.freezes.iter().find(|freeze| freeze.holds(&sent.call)).map(|freeze| freeze.version.clone())
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
        let before = if call.is_write() { self.look(call).await } else { None };
        let answer = self.upstream(request).await;
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
        state.writes.push(Write { seq, at, call: call.clone(), code, before, after });
        drop(state);
        Ok(Response::from_parts(parts, whole(bytes)))
    }

    /// The object that a request is about, as it is now.
    async fn look(&self, call: &Call) -> Option<Value> {
        let request = Request::get(call.object_path()?).body(Body::empty()).ok()?;
        let response = self.upstream(request).await.ok()?;
        if !response.status().is_success() {
            return None;
        }
        let bytes = response.into_body().collect().await.ok()?.to_bytes();
        serde_json::from_slice(&bytes).ok()
    }

    fn reply(self: &Arc<Self>, sent: Sent, answer: Answer) {
        let Sent { life, call, reply, subject, .. } = sent;
        let subject_of_reply = format!("{subject} reply");
        let line = match &answer {
            Ok(response) => format!("answer {} to {call}", response.status().as_u16()),
            Err(error) => format!("no answer to {call}: {error}"),
        };
        let watching = call.verb == Verb::Watch;
        let answer = match answer {
            Ok(response) if watching && response.status().is_success() => {
                Ok(self.open_stream(&life, call, subject, response))
            }
            other => other,
        };
        self.enqueue(Item::Reply { life, reply, answer: Box::new(answer), line }, &subject_of_reply, 0);
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
