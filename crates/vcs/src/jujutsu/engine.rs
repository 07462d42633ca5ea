//! The thread that owns jj-lib.
//!
//! jj-lib's transactions and several of its futures cannot move between threads. Closures go in and replies come out;
//! the thread ends when the last handle is dropped. A panic in jj-lib (it meets bytes that a stranger pushed) is caught:
//! the question fails, the store is opened again for the next one.

use std::{
    future::Future,
    path::{Path, PathBuf},
    pin::Pin,
    sync::{Arc, mpsc},
    task::{Context, Poll},
    thread,
};

use futures::{channel::oneshot, executor::block_on};

use super::{
    change::{self, ChangeState},
    error::EngineError,
    import::Imported,
    operations::{self, Operation, OperationId, Positions},
    store::{self, Opened},
    tidy::Tidied,
    worker::Worker,
};
use crate::id::ChangePrefix;

type Job = Box<dyn FnOnce(&mut Worker) + Send>;

/// A handle on the Jujutsu store beside a mirror. Clones share it.
///
/// There must be one engine per mirror: whoever holds the mirror's lock opens it. When the mirror is cloned anew, drop
/// the engine first and open it again afterwards.
#[derive(Clone)]
pub struct Engine {
    handle: Arc<Handle>,
}

struct Handle {
    jobs: mpsc::Sender<Job>,
    thread: thread::JoinHandle<()>,
    mirror: PathBuf,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("mirror", &self.handle.mirror).finish_non_exhaustive()
    }
}

/// An answer that is on its way. Await it, or [wait](Self::wait) for it on a blocking thread.
#[must_use = "the question is asked at once, but its answer and its error are only here"]
pub struct Reply<T>(oneshot::Receiver<Result<T, EngineError>>);

impl<T> Future for Reply<T> {
    type Output = Result<T, EngineError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx).map(|answer| answer.unwrap_or(Err(EngineError::Ended)))
    }
}

impl<T> Reply<T> {
    /// Blocks until the answer is there. Not for async code.
    pub fn wait(self) -> Result<T, EngineError> {
        block_on(self)
    }
}

impl Engine {
    /// Whether there is a store beside a mirror.
    pub fn exists(mirror: &Path) -> bool {
        store::exists(mirror)
    }

    /// Opens the store in `jj/` beside the bare repository in `git/`, creates it when there is none and builds it again
    /// when it cannot be read. The refs are imported, so that the store knows what the mirror knows.
    ///
    /// Blocks: the first import reads every commit.
    pub fn open(mirror: &Path) -> Result<(Self, Opened), EngineError> {
        let (jobs, queue) = mpsc::channel::<Job>();
        let folder = mirror.to_owned();
        let thread = thread::Builder::new()
            .name("jujutsu".to_owned())
            .spawn(move || {
                let mut worker = Worker::new(folder);
                for job in queue {
                    job(&mut worker);
                }
            })
            .map_err(|source| EngineError::Disk {
                doing: "start a thread for",
                path: mirror.to_owned(),
                source,
            })?;
        let engine = Self { handle: Arc::new(Handle { jobs, thread, mirror: mirror.to_owned() }) };
        let opened = engine.ask(Worker::open).wait()?;
        Ok((engine, opened))
    }

    /// The folder that holds `git/` and `jj/`.
    pub fn mirror(&self) -> &Path {
        &self.handle.mirror
    }

    /// Takes over what moved in the mirror since the last time, as one operation with this description. Call it after
    /// every fetch. A store that cannot take it is opened again, then built again.
    pub fn import(&self, description: impl Into<String>) -> Reply<Imported> {
        let description = description.into();
        self.ask(move |worker| worker.import(&description))
    }

    /// What a change id, or the first letters of one, stands for now.
    pub fn change(&self, change: impl Into<ChangePrefix>) -> Reply<ChangeState> {
        let change = change.into();
        self.ask(move |worker| worker.answer("look up a change", |repo| change::look_up(repo, &change)))
    }

    /// The last operations, the newest first, with the bookmarks and tags that each of them moved.
    pub fn operations(&self, limit: usize) -> Reply<Vec<Operation>> {
        self.ask(move |worker| worker.answer("read the operation log", |repo| operations::list(repo, limit)))
    }

    /// Where every bookmark and tag was before an operation: what an undo of it would go back to.
    pub fn before(&self, operation: OperationId) -> Reply<Positions> {
        self.ask(move |worker| {
            worker.answer("read an operation", |repo| operations::before(repo, &operation))
        })
    }

    /// Where every bookmark and tag is by the last import.
    pub fn positions(&self) -> Reply<Positions> {
        self.ask(move |worker| worker.answer("read the last operation", |repo| Ok(operations::now(repo))))
    }

    /// Gives up all but the last operations, and the refs that nothing needs any more. Changes that were abandoned
    /// before the operations that are left are unknown afterwards. Call it before `git gc`.
    pub fn tidy(&self, operations: usize) -> Reply<Tidied> {
        self.ask(move |worker| worker.tidy(operations))
    }

    /// Ends the engine, if this is the last handle, and waits until its thread is gone: the mirror's folder may be
    /// replaced then. Says whether it was the last. Blocks until what was asked before is answered.
    pub fn close(self) -> bool {
        let Some(Handle { jobs, thread, .. }) = Arc::into_inner(self.handle) else { return false };
        drop(jobs);
        // Panics are caught where they happen; were there one more, the thread would have ended all the same.
        let _ = thread.join();
        true
    }

    fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut Worker) -> Result<T, EngineError> + Send + 'static,
    ) -> Reply<T> {
        let (reply, answer) = oneshot::channel();
        let job: Job = Box::new(move |worker| {
            // Whoever asked may have gone; then nobody wants the answer.
            let _ = reply.send(question(worker));
        });
        // When the thread has ended, the job is dropped here and with it the reply: the answer is `Ended`.
        let _ = self.handle.jobs.send(job);
        Reply(answer)
    }
}
