//! Bodies that pass slowly, break off or arrive corrupted.

use std::error::Error;
use std::time::Duration;

use bytes::Bytes;
use futures::{Stream, StreamExt, TryStreamExt};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyDataStream, BodyExt, Full, StreamBody};

use super::{Active, Fault};

/// Any error, as bodies carry it.
pub(crate) type BoxError = Box<dyn Error + Send + Sync>;

/// The one body type of all testbed servers.
pub(crate) type Body = UnsyncBoxBody<Bytes, BoxError>;

/// How long a cut waits, so that what came before it leaves the server's buffers. The cut is right without it, but
/// the client would see fewer bytes than the test asked for.
const FLUSH: Duration = Duration::from_millis(50);

/// Slow bodies pass in about this many pieces a second.
const PIECES_PER_SEC: u64 = 10;

/// A body that is known in full.
pub(crate) fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

/// A body from a stream of pieces.
pub(crate) fn streamed<S, E>(stream: S) -> Body
where
    S: Stream<Item = Result<Bytes, E>> + Send + 'static,
    E: Into<BoxError> + 'static,
{
    StreamBody::new(stream.map_ok(Frame::data).map_err(Into::into)).boxed_unsync()
}

/// A request body as the fault lets it through.
pub(crate) fn request_through(body: Body, active: &Active) -> Body {
    match active.fault {
        Fault::Slow { bytes_per_sec } => slow(body, bytes_per_sec, active.clone()),
        Fault::DropMidTransfer { after_bytes } => cut(body, after_bytes),
        _ => body,
    }
}

/// A response body as the fault lets it through.
pub(crate) fn response_through(body: Body, active: &Active) -> Body {
    match active.fault {
        Fault::Corrupt { at_byte } => corrupt(body, at_byte),
        _ => request_through(body, active),
    }
}

fn slow(body: Body, bytes_per_sec: u64, active: Active) -> Body {
    let rate = bytes_per_sec.max(1);
    let piece = usize::try_from((rate / PIECES_PER_SEC).max(1)).unwrap_or(usize::MAX);
    let start = (BodyDataStream::new(body), Bytes::new());
    streamed(futures::stream::try_unfold(start, move |(mut rest, mut ready)| {
        let active = active.clone();
        async move {
            while ready.is_empty() {
                match rest.next().await {
                    Some(bytes) => ready = bytes?,
                    None => return Ok::<_, BoxError>(None),
                }
            }
            if !active.is_set() {
                return Ok(Some((std::mem::take(&mut ready), (rest, ready))));
            }
            let next = ready.split_to(piece.min(ready.len()));
            let pause = Duration::from_micros((next.len() as u64).saturating_mul(1_000_000) / rate);
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = active.cleared() => {}
            }
            Ok(Some((next, (rest, ready))))
        }
    }))
}

fn cut(body: Body, after_bytes: u64) -> Body {
    let start = (BodyDataStream::new(body), after_bytes, false);
    streamed(futures::stream::try_unfold(start, |(mut rest, left, over)| async move {
        if over {
            tokio::time::sleep(FLUSH).await;
            return Err(BoxError::from("fault: the transfer is cut here"));
        }
        let Some(bytes) = rest.next().await else { return Ok(None) };
        let mut bytes = bytes?;
        let length = bytes.len() as u64;
        if length <= left {
            return Ok(Some((bytes, (rest, left - length, false))));
        }
        bytes.truncate(usize::try_from(left).unwrap_or(usize::MAX));
        Ok(Some((bytes, (rest, 0, true))))
    }))
}

fn corrupt(body: Body, at_byte: u64) -> Body {
    let start = (BodyDataStream::new(body), Some(at_byte));
    streamed(futures::stream::try_unfold(start, |(mut rest, at)| async move {
        let Some(bytes) = rest.next().await else { return Ok::<_, BoxError>(None) };
        let bytes = bytes?;
        let Some(at) = at else { return Ok(Some((bytes, (rest, None)))) };
        let length = bytes.len() as u64;
        if length <= at {
            return Ok(Some((bytes, (rest, Some(at - length)))));
        }
        let mut bytes = Vec::from(bytes);
        if let Some(byte) = usize::try_from(at).ok().and_then(|at| bytes.get_mut(at)) {
            *byte = !*byte;
        }
        Ok(Some((Bytes::from(bytes), (rest, None))))
    }))
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::super::{Described, Faults, Scope};
    use super::*;

    fn pieces(pieces: &[&'static str]) -> Body {
        let pieces: Vec<_> =
            pieces.iter().map(|piece| Ok::<_, BoxError>(Bytes::from_static(piece.as_bytes()))).collect();
        streamed(futures::stream::iter(pieces))
    }

    async fn received(body: Body) -> (Vec<u8>, bool) {
        let mut stream = BodyDataStream::new(body);
        let mut all = Vec::new();
        while let Some(piece) = stream.next().await {
            match piece {
                Ok(bytes) => all.extend_from_slice(&bytes),
                Err(_) => return (all, false),
            }
        }
        (all, true)
    }

    #[tokio::test(start_paused = true)]
    async fn a_cut_lets_exactly_so_many_bytes_through() {
        assert_eq!(received(cut(pieces(&["abc", "def"]), 4)).await, (b"abcd".to_vec(), false));
        assert_eq!(received(cut(pieces(&["abc", "def"]), 3)).await, (b"abc".to_vec(), false));
        assert_eq!(received(cut(pieces(&["abc", "def"]), 6)).await, (b"abcdef".to_vec(), true));
        assert_eq!(received(cut(pieces(&["abc"]), 0)).await, (Vec::new(), false));
    }

    #[tokio::test]
    async fn corruption_flips_one_byte() {
        assert_eq!(
            received(corrupt(pieces(&["abc", "def"]), 4)).await,
            (vec![b'a', b'b', b'c', b'd', !b'e', b'f'], true)
        );
        assert_eq!(received(corrupt(pieces(&["abc"]), 3)).await, (b"abc".to_vec(), true));
    }

    #[tokio::test(start_paused = true)]
    async fn slow_takes_its_time_until_cleared() {
        let faults = Faults::default();
        faults.set(Scope::all(), Fault::Slow { bytes_per_sec: 2 });
        let request = Described { subject: String::new(), kind: "x", rest: String::new() };
        let active = faults.take(&request).expect("set");
        let begin = Instant::now();
        assert_eq!(received(response_through(pieces(&["abcd"]), &active)).await, (b"abcd".to_vec(), true));
        assert!(begin.elapsed() >= Duration::from_secs(2), "{:?}", begin.elapsed());

        faults.clear_all();
        let begin = Instant::now();
        assert_eq!(received(response_through(pieces(&["abcd"]), &active)).await, (b"abcd".to_vec(), true));
        assert_eq!(begin.elapsed(), Duration::ZERO);
    }
}
