//! Watch streams: every event takes its turn in the queue, in order within its stream.

use std::{collections::VecDeque, sync::Arc};

use bytes::{Bytes, BytesMut};
use http::Response;
use http_body::Frame as HttpFrame;
use http_body_util::{BodyExt, StreamBody};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tower::BoxError;

use super::{
    call::Call,
    fault::StreamFault,
    hub::{AnyBody, Frame, Hub, Stream, Submission},
    life::Life,
    release::broken,
};

impl Hub {
    /// Puts a watch under the scheduler and gives the instance its end of it.
    pub(crate) fn open_stream(
        self: &Arc<Self>,
        life: &Arc<Life>,
        call: Call,
        subject: String,
        response: Response<AnyBody>,
    ) -> Response<AnyBody> {
        let (out, receiver) = mpsc::unbounded_channel::<Result<Bytes, BoxError>>();
        let (parts, upstream) = response.into_parts();
        // Cancelled when either end lets go: the scheduler's stream or the instance's body.
        let closed = CancellationToken::new();
        let id = {
            let mut state = self.lock();
            state.next_stream += 1;
            let id = state.next_stream;
            let stream = Stream {
                life: Arc::clone(life),
                call,
                subject,
                frames: VecDeque::new(),
                delivered: 0,
                out,
                hung: false,
                owed: 0,
                _open: closed.clone().drop_guard(),
            };
            state.streams.insert(id, stream);
            id
        };
        tokio::spawn(Arc::clone(self).pump(id, Arc::clone(life), upstream, closed.clone()));
        let events =
            futures::stream::unfold((receiver, closed.drop_guard()), |(mut receiver, open)| async move {
                receiver.recv().await.map(|item| (item.map(HttpFrame::data), (receiver, open)))
            });
        Response::from_parts(parts, StreamBody::new(events).boxed_unsync())
    }

    /// Cuts what the API sends into lines and queues them, until either end closes.
    async fn pump(
        self: Arc<Self>,
        id: u64,
        life: Arc<Life>,
        mut upstream: AnyBody,
        closed: CancellationToken,
    ) {
        let mut buffer = BytesMut::new();
        loop {
            let frame = tokio::select! {
                biased;
                () = life.dead.cancelled() => break,
                () = closed.cancelled() => break,
                frame = upstream.frame() => frame,
            };
            match frame {
                Some(Ok(frame)) => {
                    if let Ok(piece) = frame.into_data() {
                        buffer.extend_from_slice(&piece);
                    }
                    while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
                        let event = buffer.split_to(end + 1).freeze();
                        self.queue_frame(id, Frame::Line(event));
                    }
                }
                Some(Err(error)) => {
                    self.queue_frame(id, Frame::Broken(error.to_string()));
                    return;
                }
                None => {
                    self.queue_frame(id, Frame::End);
                    return;
                }
            }
        }
        self.lock().streams.remove(&id);
    }

    fn queue_frame(&self, id: u64, frame: Frame) {
        if let Some(stream) = self.lock().streams.get_mut(&id) {
            stream.frames.push_back(frame);
        }
        self.submit(Submission::Frame { stream: id });
    }

    pub(crate) fn release_frame(&self, id: u64) {
        let now = self.clock.elapsed();
        let mut guard = self.lock();
        let state = &mut *guard;
        let Some(stream) = state.streams.get_mut(&id) else { return };
        let held = state.freezes.iter().any(|freeze| freeze.holds(&stream.call));
        let away = state.away.contains_key(&stream.call.cluster);
        if stream.life.is_paused() || held || away || stream.hung {
            stream.owed += 1;
            return;
        }
        let Some(frame) = stream.frames.pop_front() else { return };
        let who = stream.life.who();
        let line = match frame {
            Frame::Line(line) => line,
            Frame::End => {
                state.trace.push(now, &who, format!("end of {}", stream.call));
                state.streams.remove(&id);
                return;
            }
            Frame::Broken(error) => {
                state.trace.push(now, &who, format!("break of {}: {error}", stream.call));
                let _gone = stream.out.send(Err(broken(&error)));
                state.streams.remove(&id);
                return;
            }
        };
        stream.delivered += 1;
        let subject = format!("{} event {}", stream.subject, stream.delivered);
        let fault = state.strikes.on_event(self.dice, &stream.call, &subject, now);
        state.trace.push(now, &who, format!("event {} on {}", describe(&line), stream.call));
        let Some(fault) = fault else {
            let _gone = stream.out.send(Ok(line));
            return;
        };
        state.trace.push(now, &who, format!("fault {fault:?} on that event"));
        if misdeliver(stream, fault, line) {
            state.streams.remove(&id);
        }
    }

    /// Ends every matching watch of an instance with 410, or its next one when none is open.
    pub(crate) fn forget(&self, instance: &str, resource: Option<&str>) {
        let mut guard = self.lock();
        let state = &mut *guard;
        let hit: Vec<u64> = state
            .streams
            .iter()
            .filter(|(_, stream)| {
                stream.call.instance == instance
                    && resource.is_none_or(|resource| resource == stream.call.resource)
            })
            .map(|(id, _)| *id)
            .collect();
        if hit.is_empty() {
            // Between two watches: the next one asks for what is gone.
            state.forgotten.push((instance.to_owned(), resource.map(str::to_owned)));
        }
        for id in hit {
            if let Some(stream) = state.streams.remove(&id) {
                let _gone = stream.out.send(Ok(gone_event()));
            }
        }
    }

    /// Breaks every hung watch: what kept it open is over.
    pub(crate) fn break_hung(&self) {
        let mut state = self.lock();
        state.streams.retain(|_, stream| {
            if stream.hung {
                let _gone = stream.out.send(Err(broken("connection reset by fault")));
            }
            !stream.hung
        });
    }
}

/// Sends an event in a faulty way; true when that ends the stream.
fn misdeliver(stream: &mut Stream, fault: StreamFault, line: Bytes) -> bool {
    let send = |bytes: Bytes| {
        let _gone = stream.out.send(Ok(bytes));
    };
    match fault {
        StreamFault::Hang => {
            stream.frames.push_front(Frame::Line(line));
            stream.hung = true;
            stream.owed += 1;
            false
        }
        StreamFault::Cut => true,
        StreamFault::Truncate => {
            send(line.slice(..line.len() / 2));
            true
        }
        StreamFault::Oversize(bytes) => {
            let mut long = vec![b' '; bytes.saturating_sub(line.len())];
            long.extend_from_slice(&line);
            send(Bytes::from(long));
            false
        }
        StreamFault::Tear => {
            let piece = (line.len() / 7).max(1);
            for start in (0..line.len()).step_by(piece) {
                send(line.slice(start..line.len().min(start + piece)));
            }
            false
        }
        StreamFault::Expire => {
            send(gone_event());
            true
        }
    }
}

fn gone_event() -> Bytes {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "too old resource version", "reason": "Expired", "code": 410,
    });
    let mut line = json!({ "type": "ERROR", "object": status }).to_string();
    line.push('\n');
    Bytes::from(line)
}

/// Kind of event, object and version, for the trace.
fn describe(line: &[u8]) -> String {
    let Ok(event) = serde_json::from_slice::<Value>(line) else { return "(not JSON)".to_owned() };
    let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    format!(
        "{} {}/{} rv={} uid={}",
        text("/type"),
        text("/object/metadata/namespace"),
        text("/object/metadata/name"),
        text("/object/metadata/resourceVersion"),
        text("/object/metadata/uid"),
    )
}
