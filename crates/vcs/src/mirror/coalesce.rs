//! Many callers, little work: at most one round runs and one waits.

use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use futures::FutureExt;
use futures::future::{BoxFuture, Shared, WeakShared};
use tokio_util::task::AbortOnDropHandle;

type Round<T> = Shared<BoxFuture<'static, Option<T>>>;

/// A round that may still be joined, held weakly: it ends with the last who waits for it.
#[derive(Debug)]
struct Slot<T: Clone> {
    round: WeakShared<BoxFuture<'static, Option<T>>>,
    /// Set by the work itself when it begins to look at the world: who comes later wants to see more.
    begun: Arc<AtomicBool>,
}

impl<T: Clone> Slot<T> {
    /// The round, when it has not yet looked at the world.
    fn joinable(&self) -> Option<Round<T>> {
        if self.begun.load(Ordering::SeqCst) { None } else { self.round.upgrade() }
    }
}

/// The one that can be joined. The one that runs is no concern of those who come later.
#[derive(Debug)]
pub(super) struct Rounds<T: Clone> {
    slot: Mutex<Option<Slot<T>>>,
}

impl<T: Clone> Default for Rounds<T> {
    fn default() -> Self {
        Self { slot: Mutex::new(None) }
    }
}

impl<T: Clone + Send + Sync + 'static> Rounds<T> {
    /// Joins the round that has not begun yet, or starts one. Rounds run in the order in which they were started only if
    /// the work itself waits for its turn before it says that it has begun.
    ///
    /// The result is `None` when the work was aborted. Must be called within a tokio runtime.
    pub(super) fn join<F>(&self, work: impl FnOnce(Arc<AtomicBool>) -> F) -> Round<T>
    where
        F: Future<Output = T> + Send + 'static,
    {
        let mut slot = self.slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(round) = slot.as_ref().and_then(Slot::joinable) {
            return round;
        }
        let begun = Arc::new(AtomicBool::new(false));
        // A task of its own: a caller that holds its future without polling it must not stop the others.
        let task = AbortOnDropHandle::new(tokio::spawn(work(begun.clone())));
        let round = task.map(Result::ok).boxed().shared();
        *slot = round.downgrade().map(|round| Slot { round, begun });
        round
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::time::Duration;

    use super::*;

    struct World {
        rounds: Rounds<usize>,
        turn: Arc<tokio::sync::Mutex<()>>,
        begun: Arc<AtomicUsize>,
        done: Arc<AtomicUsize>,
    }

    impl World {
        fn new() -> Self {
            Self {
                rounds: Rounds::default(),
                turn: Arc::default(),
                begun: Arc::default(),
                done: Arc::default(),
            }
        }

        fn join(&self) -> Round<usize> {
            let (turn, begun, done) = (self.turn.clone(), self.begun.clone(), self.done.clone());
            self.rounds.join(move |flag| async move {
                let _turn = turn.lock().await;
                flag.store(true, Ordering::SeqCst);
                let number = begun.fetch_add(1, Ordering::SeqCst) + 1;
                tokio::time::sleep(Duration::from_secs(1)).await;
                done.fetch_add(1, Ordering::SeqCst);
                number
            })
        }
    }

    #[tokio::test(start_paused = true)]
    async fn any_number_of_callers_share_one_running_and_one_waiting_round() {
        let world = World::new();
        let first: Vec<_> = (0..10).map(|_| world.join()).collect();
        tokio::time::sleep(Duration::from_millis(500)).await;
        let later: Vec<_> = (0..10).map(|_| world.join()).collect();
        for round in first {
            assert_eq!(round.await, Some(1));
        }
        for round in later {
            assert_eq!(round.await, Some(2), "who came after it had begun must see a later one");
        }
        assert_eq!(world.done.load(Ordering::SeqCst), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_that_leaves_does_not_disturb_the_others_and_the_last_ends_it() {
        let world = World::new();
        let (one, other) = (world.join(), world.join());
        tokio::time::sleep(Duration::from_millis(500)).await;
        drop(one);
        assert_eq!(other.await, Some(1));
        let alone = world.join();
        tokio::time::sleep(Duration::from_millis(500)).await;
        drop(alone);
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!((world.begun.load(Ordering::SeqCst), world.done.load(Ordering::SeqCst)), (2, 1));
        assert_eq!(world.join().await, Some(3), "the next one is not held up");
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_that_does_not_poll_stops_nobody() {
        let world = World::new();
        let lazy = world.join();
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert_eq!(world.join().await, Some(2));
        assert_eq!(lazy.await, Some(1));
    }
}
