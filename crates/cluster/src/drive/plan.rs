//! What a planner hands to the loop: a plain value that can be printed, compared and stored.

use std::time::Duration;

use serde::Serialize;

use crate::events::Note;

/// The whole decision about one object.
///
/// The loop carries it out in this order: actions, status (if it differs), notes, finalizer, wake. An action that
/// fails ends the round: what follows is not done, and the object is tried again after a back-off.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plan<A, S> {
    /// What to do, in order. Each must be safe to repeat.
    pub actions: Vec<A>,
    /// The status the object should have; `None` leaves it as it is.
    pub status: Option<S>,
    /// What to tell people. A planner derives notes from the difference between the old and the new status, so that
    /// a repeated round repeats none.
    pub notes: Vec<Note>,
    /// When to look again without being told to.
    pub wake: Wake,
    /// The object is being deleted and nothing of ours is left: the finalizer may go.
    pub released: bool,
}

impl<A, S> Plan<A, S> {
    /// Nothing to do, and nothing to wait for.
    pub fn rest() -> Self {
        Self { actions: Vec::new(), status: None, notes: Vec::new(), wake: Wake::OnChange, released: false }
    }
}

/// When an object is looked at again, apart from changes of it and of what it reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Wake {
    /// Only on a change (and at the loop's slow resync).
    OnChange,
    /// After this time.
    After(Duration),
    /// Something outside is in trouble: after the loop's back-off for repeated failures, at most this long.
    ///
    /// Such objects share half of the workers at most, so that they never delay the healthy ones.
    Retry {
        /// The longest wait between two tries.
        longest: Duration,
    },
}
