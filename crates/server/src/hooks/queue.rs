//! Pushes between the answer to a hook and whoever works on them.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::Push;

/// A bounded queue in which pushes to one branch take each other's place: only the last one says where it is now.
#[derive(Debug)]
pub(super) struct Queue {
    most: usize,
    waiting: Mutex<VecDeque<Push>>,
    arrived: Notify,
}

/// The queue holds as many different branches as it may.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Full;

impl Queue {
    pub(super) fn new(most: usize) -> Self {
        Self { most, waiting: Mutex::new(VecDeque::new()), arrived: Notify::new() }
    }

    /// Adds pushes, all or none of them.
    pub(super) fn put(&self, pushes: Vec<Push>) -> Result<(), Full> {
        let mut waiting = self.lock();
        let new = pushes.iter().filter(|push| !waiting.iter().any(|other| other.same_branch(push))).count();
        if waiting.len() + new > self.most {
            return Err(Full);
        }
        for push in pushes {
            match waiting.iter_mut().find(|other| other.same_branch(&push)) {
                Some(older) => *older = push,
                None => waiting.push_back(push),
            }
        }
        drop(waiting);
        self.arrived.notify_one();
        Ok(())
    }

    /// The oldest one, as soon as there is one.
    pub(super) async fn take(&self) -> Push {
        loop {
            let arrived = self.arrived.notified();
            if let Some(push) = self.lock().pop_front() {
                return push;
            }
            arrived.await;
        }
    }

    pub(super) fn len(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Push>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(url: &str, commit: &str) -> Push {
        Push {
            urls: vec![url.to_owned()],
            reference: Some("refs/heads/main".to_owned()),
            commit: Some(commit.to_owned()),
            pusher: None,
        }
    }

    #[tokio::test]
    async fn the_last_push_to_a_branch_counts_and_keeps_its_place() {
        let queue = Queue::new(2);
        queue.put(vec![push("a", "1"), push("b", "1")]).unwrap();
        queue.put(vec![push("a", "2")]).unwrap();
        assert_eq!(queue.put(vec![push("a", "3"), push("c", "1")]), Err(Full), "all or none");
        assert_eq!(queue.take().await, push("a", "2"));
        queue.put(vec![push("c", "1")]).unwrap();
        assert_eq!(queue.take().await, push("b", "1"));
        assert_eq!(queue.take().await, push("c", "1"));
        assert_eq!(queue.len(), 0);
    }
}
