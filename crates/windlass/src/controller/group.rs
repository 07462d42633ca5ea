//! Tasks that begin and end together.

use std::{future::Future, time::Duration};

use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;
use tracing::{debug, error};

/// Tasks that run until they are told to end; one that ends before is a fault.
pub(super) struct Group {
    what: &'static str,
    stop: CancellationToken,
    tasks: JoinSet<()>,
}

impl Group {
    /// An empty group.
    pub(super) fn new(what: &'static str) -> Self {
        Self { what, stop: CancellationToken::new(), tasks: JoinSet::new() }
    }

    /// What its tasks are, for messages.
    pub(super) fn what(&self) -> &'static str {
        self.what
    }

    /// Cancelled when the tasks should end.
    pub(super) fn stop(&self) -> CancellationToken {
        self.stop.clone()
    }

    /// Starts a task.
    pub(super) fn spawn(&mut self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(task);
    }

    /// Waits until a task ends by itself; for ever when there is none.
    pub(super) async fn ended(&mut self) {
        match self.tasks.join_next().await {
            Some(result) => self.log(result),
            None => std::future::pending().await,
        }
    }

    /// Tells the tasks to end and waits for them, at most this long.
    pub(super) async fn end(mut self, patience: Duration) {
        self.stop.cancel();
        let all = async {
            while let Some(result) = self.tasks.join_next().await {
                if let Err(error) = result {
                    panicked(self.what, &error);
                }
            }
        };
        if tokio::time::timeout(patience, all).await.is_err() {
            debug!(what = self.what, left = self.tasks.len(), "not ended in time");
            self.tasks.shutdown().await;
        }
    }

    fn log(&self, result: Result<(), JoinError>) {
        if let Err(error) = result {
            panicked(self.what, &error);
        }
    }
}

fn panicked(what: &str, error: &JoinError) {
    // The panic's own text was printed by the panic hook.
    error!(what, cancelled = error.is_cancelled(), "a task ended badly");
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    };

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn tasks_end_when_told_and_are_cut_off_when_they_do_not() {
        let (tidy, cut) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(true)));
        let mut group = Group::new("test");
        let (stop, ended) = (group.stop(), tidy.clone());
        group.spawn(async move {
            stop.cancelled().await;
            ended.store(true, Ordering::SeqCst);
        });
        let late = cut.clone();
        group.spawn(async move {
            tokio::time::sleep(Duration::from_hours(1)).await;
            late.store(false, Ordering::SeqCst);
        });
        let begin = tokio::time::Instant::now();
        group.end(Duration::from_secs(2)).await;
        assert_eq!(begin.elapsed(), Duration::from_secs(2));
        assert!(tidy.load(Ordering::SeqCst) && cut.load(Ordering::SeqCst));
    }

    #[tokio::test(start_paused = true)]
    async fn an_early_end_is_noticed_and_an_empty_group_never_ends() {
        let mut group = Group::new("test");
        assert!(tokio::time::timeout(Duration::from_secs(9), group.ended()).await.is_err());
        group.spawn(async {});
        assert!(tokio::time::timeout(Duration::from_secs(9), group.ended()).await.is_ok());
    }
}
