//! The steps of a sync: which objects are applied together, and what is waited for in between.
//!
//! ```text
//!   objects ─► members (hook? wave? options?) ─► phase ─► wave ─► layers ─► steps
//! ```
//!
//! Without any annotation there is one phase with one wave, and the order is the one that kinds and references give.
//! Annotations put phases and waves on top of it and always win: whoever writes a wave knows why. A program is made of
//! the objects alone, so it can be kept as long as they stay the same.

mod annotations;
mod deletion;
mod steps;

use serde::Serialize;

pub use deletion::deletion_order;

pub use crate::fleet::Prune;
use crate::{object::Sealed, trouble::Trouble};

/// Reason of the [`Trouble`] about an annotation that cannot be read.
pub const INVALID_ANNOTATION: &str = "InvalidAnnotation";

/// The steps of a sync.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Program {
    /// What a sync does, in order: `PreSync`, `Sync`, `PostSync`. The steps of `SyncFail` come last; they are taken
    /// only after one of the others failed.
    pub steps: Vec<Step>,
    /// What deleting the Application does besides deleting: `PreDelete` before, `PostDelete` after.
    pub deletion: Vec<Step>,
    /// What the annotations of each object say, at the same index as the object.
    pub members: Vec<Member>,
    /// Annotations that cannot be read. Their objects have the default instead.
    pub problems: Vec<Trouble>,
}

impl Program {
    /// Steps of one phase, in order.
    pub fn of(&self, phase: SyncPhase) -> impl Iterator<Item = &Step> {
        self.steps.iter().chain(&self.deletion).filter(move |step| step.phase == phase)
    }
}

/// Objects that are applied together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Step {
    /// The phase.
    pub phase: SyncPhase,
    /// The wave within the phase.
    pub wave: i32,
    /// The place within the wave, from 0: what others of the wave refer to has a lower one.
    pub layer: usize,
    /// Indexes of the objects, by name. A hook with several phases is in several steps.
    pub objects: Vec<usize>,
    /// What has to be true before the next step.
    pub wait: Wait,
}

/// What has to be true before the next step begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Wait {
    /// It is enough that the objects were accepted.
    Nothing,
    /// The definitions of this step are established, so that objects of their kinds are accepted.
    Established,
    /// Every object of the whole wave is healthy, and every hook of it ended well.
    Healthy,
    /// Every hook of the whole wave ended well.
    Completed,
}

/// A part of a sync, or of a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum SyncPhase {
    /// Before anything else is applied.
    PreSync,
    /// Everything that is no hook, and the hooks that want to be among it.
    Sync,
    /// After everything is applied and healthy.
    PostSync,
    /// After a sync that failed.
    SyncFail,
    /// Before the Application's objects are deleted.
    PreDelete,
    /// After they are.
    PostDelete,
}

/// What an object's annotations say.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Member {
    /// It is a hook; `None` for an ordinary object.
    pub hook: Option<Hook>,
    /// How it is treated.
    pub options: Options,
    /// Its wave.
    pub wave: i32,
}

impl Member {
    /// It is applied by the steps of a sync, and not only by those of a deletion or by none.
    pub fn takes_part(&self) -> bool {
        self.hook.as_ref().is_none_or(|hook| {
            hook.phases.iter().any(|phase| {
                matches!(
                    phase,
                    HookPhase::PreSync | HookPhase::Sync | HookPhase::PostSync | HookPhase::SyncFail
                )
            })
        })
    }

    /// It is a hook that has its turn when the Application is deleted.
    pub fn runs_at_deletion(&self) -> bool {
        self.hook.as_ref().is_some_and(|hook| {
            hook.phases.iter().any(|phase| matches!(phase, HookPhase::PreDelete | HookPhase::PostDelete))
        })
    }
}

/// An object that does something at a point of a sync and ends, such as a Job that moves a database on.
///
/// A hook is never part of the inventory that drift and prune look at: it comes and goes with each sync.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Hook {
    /// When it runs, in order, each once; never empty.
    pub phases: Vec<HookPhase>,
    /// When it is deleted, each once; never empty.
    pub delete: Vec<HookDelete>,
}

impl Hook {
    /// It is never applied.
    pub fn is_skipped(&self) -> bool {
        self.phases == [HookPhase::Skip]
    }
}

/// When a hook runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum HookPhase {
    /// Before anything else is applied.
    PreSync,
    /// Among the ordinary objects.
    Sync,
    /// After everything is healthy.
    PostSync,
    /// After a sync that failed.
    SyncFail,
    /// Before the Application's objects are deleted.
    PreDelete,
    /// After they are.
    PostDelete,
    /// Never.
    Skip,
}

/// When a hook is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum HookDelete {
    /// Before it is created the next time.
    BeforeHookCreation,
    /// When it succeeded.
    HookSucceeded,
    /// When it failed.
    HookFailed,
}

/// How an object is treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[allow(clippy::struct_excessive_bools, reason = "each is an option of its own that people write")]
pub struct Options {
    /// May it be deleted when it is no longer in the source?
    pub prune: Prune,
    /// May it be deleted together with the Application?
    pub delete: Prune,
    /// It is created or replaced whole, without server-side apply.
    pub replace: bool,
    /// When it cannot be changed in place it is deleted and made anew.
    pub force: bool,
    /// A kind that is not served yet is no reason to stop: the object is not tried before it is its turn.
    pub skip_dry_run_on_missing: bool,
    /// It is deleted after everything else is applied and healthy.
    pub prune_last: bool,
    /// It does not make the Application `OutOfSync` when it is in the cluster but no longer in the source.
    pub ignore_extraneous: bool,
    /// Unknown fields are refused.
    pub validate: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            prune: Prune::Yes,
            delete: Prune::Yes,
            replace: false,
            force: false,
            skip_dry_run_on_missing: false,
            prune_last: false,
            ignore_extraneous: false,
            validate: true,
        }
    }
}

/// The steps of a sync of these objects.
///
/// Guarantees: every ordinary object is in exactly one step; a hook is in one step for each of its phases, and in none
/// when it is skipped; steps are sorted by phase, wave and layer and are never empty; the same objects give the same
/// program, whatever order they come in (only the indexes follow it).
pub fn program(objects: &[Sealed]) -> Program {
    let mut problems: Vec<Trouble> = Vec::new();
    let members: Vec<Member> =
        objects.iter().map(|object| annotations::read(object, &mut problems)).collect();
    let steps = steps::of(
        objects,
        &members,
        &[SyncPhase::PreSync, SyncPhase::Sync, SyncPhase::PostSync, SyncPhase::SyncFail],
    );
    let deletion = steps::of(objects, &members, &[SyncPhase::PreDelete, SyncPhase::PostDelete]);
    problems.sort_by(|a, b| (&a.what, &a.remedy).cmp(&(&b.what, &b.remedy)));
    problems.dedup();
    Program { steps, deletion, members, problems }
}

/// Whether an object is a hook that has its turn when the Application is deleted.
pub fn runs_at_deletion(object: &Sealed) -> bool {
    annotations::read(object, &mut Vec::new()).runs_at_deletion()
}

#[cfg(test)]
mod tests;
