//! Does what was decided on one cluster.
//!
//! Steps one after the other, the work of a step side by side. Everything here is safe to repeat: a crash at any point
//! leaves something that the next look sees and goes on from.

use std::sync::{Mutex, PoisonError};

use futures::{StreamExt, stream};
use windlass_cluster::drive::Key;

use super::{Done, Link, Work, answers, survey::AT_ONCE, workman::Workman};
use crate::trouble::Trouble;

/// Carries out steps on a cluster, as a user, for an Application.
///
/// What fails stops the steps after it, which are left out of the answer; the rest of its own step is done. When the
/// cluster goes away, or `gate` says stop, each piece of work that remains, in whatever step, is answered with that.
/// `gate` is asked before every piece of work: it says whether we still may, such as whether the lease is ours and no
/// newer revision came.
///
/// Guarantees: an object of another Application is neither taken nor deleted; nothing is deleted but the object with
/// the UID that is named, and only while it says that it is this Application's.
pub async fn carry_out(
    link: &Link,
    app: &Key,
    as_user: Option<&str>,
    steps: &[Vec<Work>],
    gate: impl Fn() -> Result<(), Trouble>,
) -> Vec<Done> {
    let stop = Stop::default();
    if let Err(trouble) = answers::check_identity(as_user) {
        stop.set(trouble);
    }
    let workman = Workman::new(link, app, as_user);
    let mut all = Vec::new();
    for step in steps {
        // Made first and polled later: a closure that makes them in the stream would tie the future to one thread.
        let works: Vec<_> = step.iter().map(|work| one(&workman, work, &gate, &stop)).collect();
        let done: Vec<Done> = stream::iter(works).buffered(AT_ONCE).collect().await;
        let failed = done.iter().any(|done| done.result.is_err());
        all.extend(done);
        if failed && stop.get().is_none() {
            break;
        }
    }
    all
}

async fn one(
    workman: &Workman<'_>,
    work: &Work,
    gate: impl Fn() -> Result<(), Trouble>,
    stop: &Stop,
) -> Done {
    let object = work.object();
    if stop.get().is_none()
        && let Err(trouble) = gate()
    {
        stop.set(trouble);
    }
    if let Some(trouble) = stop.get() {
        return Done { object, result: Err(trouble) };
    }
    let result = match workman.work(work).await {
        Ok(()) => Ok(()),
        Err(failure) => {
            if failure.away {
                stop.set(failure.trouble.clone());
            }
            Err(failure.trouble)
        }
    };
    Done { object, result }
}

/// Why nothing more is done, once there is a reason.
#[derive(Default)]
struct Stop(Mutex<Option<Trouble>>);

impl Stop {
    fn get(&self) -> Option<Trouble> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The first reason stays.
    fn set(&self, trouble: Trouble) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(trouble);
    }
}
