//! One life of an instance: from its start to its crash or end.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, Waker},
};

use futures::future::BoxFuture;
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;

use super::{clock::Clock, instance::Instance};

/// Starts a controller; called again for every restart.
pub(crate) type Passenger = Arc<dyn Fn(Instance) -> BoxFuture<'static, ()> + Send + Sync>;

/// A life, shared by everything that belongs to it.
#[derive(Debug)]
pub(crate) struct Life {
    pub(crate) name: String,
    pub(crate) incarnation: u32,
    /// Cancelled by a crash: whatever is left of this life no longer reaches anything.
    pub(crate) dead: CancellationToken,
    /// Cancelled to ask for an orderly end.
    pub(crate) shutdown: CancellationToken,
    paused: Mutex<Pause>,
}

#[derive(Debug, Default)]
struct Pause {
    /// The tick at which the pause began.
    since: Option<u64>,
    waker: Option<Waker>,
}

impl Life {
    pub(crate) fn new(name: &str, incarnation: u32) -> Arc<Self> {
        Arc::new(Self {
            name: name.to_owned(),
            incarnation,
            dead: CancellationToken::new(),
            shutdown: CancellationToken::new(),
            paused: Mutex::default(),
        })
    }

    pub(crate) fn who(&self) -> String {
        format!("{}#{}", self.name, self.incarnation)
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.dead.is_cancelled()
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.paused_since().is_some()
    }

    pub(crate) fn paused_since(&self) -> Option<u64> {
        self.paused.lock().unwrap_or_else(PoisonError::into_inner).since
    }

    /// Pauses from a tick on, or goes on.
    pub(crate) fn set_paused(&self, since: Option<u64>) {
        let mut pause = self.paused.lock().unwrap_or_else(PoisonError::into_inner);
        pause.since = since;
        if since.is_none()
            && let Some(waker) = pause.waker.take()
        {
            waker.wake();
        }
    }
}

/// An instance over its lives.
pub(crate) struct Slot {
    pub(crate) life: Arc<Life>,
    pub(crate) passenger: Passenger,
    pub(crate) clock: Clock,
    pub(crate) task: Option<AbortHandle>,
    /// Up: its root future has not ended and it was not crashed.
    pub(crate) up: bool,
    /// Whether it is started again after a crash or when it ends by itself.
    pub(crate) restarts: bool,
    /// A restart is on its way.
    pub(crate) restarting: bool,
}

/// The root future of an instance: stands still while the instance is paused.
pub(crate) struct Pausable {
    pub(crate) life: Arc<Life>,
    pub(crate) inner: BoxFuture<'static, ()>,
}

impl Future for Pausable {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        {
            let mut pause = self.life.paused.lock().unwrap_or_else(PoisonError::into_inner);
            if pause.since.is_some() {
                pause.waker = Some(context.waker().clone());
                return Poll::Pending;
            }
        }
        self.inner.as_mut().poll(context)
    }
}
