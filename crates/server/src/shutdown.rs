//! One token for the end of the process.

use std::io;

use tokio::signal::unix::{SignalKind, signal as listen};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

/// What a shell reports for a process that a signal ended: 128 + its number.
const INTERRUPTED: i32 = 130;
const TERMINATED: i32 = 143;

/// A token that the first SIGTERM or SIGINT cancels; a second one ends the process at once, for people whose
/// patience is shorter than the grace period.
///
/// Has to be called inside a tokio runtime, and from then on the signals no longer end the process by
/// themselves: whoever calls this has to end by the token.
///
/// # Errors
/// When the signal handlers cannot be installed.
pub fn signal() -> io::Result<CancellationToken> {
    let mut terminate = listen(SignalKind::terminate())?;
    let mut interrupt = listen(SignalKind::interrupt())?;
    let token = CancellationToken::new();
    let cancel = token.clone();
    tokio::spawn(async move {
        let mut seen = 0_u8;
        loop {
            let (name, code) = tokio::select! {
                Some(()) = terminate.recv() => ("SIGTERM", TERMINATED),
                Some(()) = interrupt.recv() => ("SIGINT", INTERRUPTED),
                else => return,
            };
            seen += 1;
            if seen > 1 {
                warn!(signal = name, "second signal, ending at once");
                std::process::exit(code);
            }
            info!(signal = name, "shutting down; a second signal ends at once");
            cancel.cancel();
        }
    });
    Ok(token)
}
