//! One cluster's way through the steps of a sync: what to do now, and what is waited for.
//!
//! Nothing of the way is stored but the hooks that ended: how far it has come follows from what is applied and healthy.

use std::collections::BTreeSet;

use jiff::Timestamp;
use windlass_api::application::status::{Contested, HookResult, Operation};
use windlass_manifest::health::Status;

use crate::{
    application::{
        contest::{Decision, Reverts},
        observed::{Part, PartKind, Reverting, Target},
        program::{Hook, HookDelete, Step, SyncPhase, Wait},
    },
    fleet::{Found, State, Work},
    object::ObjectId,
    tracking::OPERATION,
    trouble::Trouble,
};

/// Where a cluster stands on the way.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Progress {
    /// All is in place.
    Done,
    /// There is work in this round.
    Working(String),
    /// It waits for this.
    Waiting(String),
    /// It failed, and is tried again at this time.
    Failing(Trouble, Option<Timestamp>),
    /// A hook failed: it is not tried again.
    Failed(Trouble),
}

/// What to do on a cluster now.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Walked {
    /// One after the other.
    pub(super) steps: Vec<Vec<Work>>,
    /// Where it stands after that.
    pub(super) progress: Progress,
    /// Hooks that ended, and are to be remembered.
    pub(super) hooks: Vec<HookResult>,
    /// Work that was done before and came undone.
    pub(super) reverting: Vec<Reverting>,
    /// What came undone too often: it is left as it is.
    pub(super) contested: Vec<Contested>,
}

/// What the way is walked by.
pub(super) struct Rules<'a> {
    /// The operation, with the hooks that ended before.
    pub(super) operation: &'a Operation,
    /// What policy leaves out.
    pub(super) left_out: &'a BTreeSet<ObjectId>,
    /// The next try of what failed: after the attempt at `at`, the `count`th in a row.
    pub(super) retry_at: &'a dyn Fn(Timestamp, u32) -> Timestamp,
    /// How often what was done again.
    pub(super) reverts: &'a Reverts,
    /// Now.
    pub(super) now: Timestamp,
}

/// Names an operation: the same work begun anew has another name.
pub(super) fn operation_id(operation: &Operation) -> String {
    let began = operation.started_at.as_ref().map_or(0, |at| at.0.as_second());
    format!("{}-{began}", operation.digest.get(..12).unwrap_or(&operation.digest))
}

struct Walker<'a> {
    target: &'a Target,
    rules: &'a Rules<'a>,
    id: String,
    steps: Vec<Vec<Work>>,
    hooks: Vec<HookResult>,
    reverting: Vec<Reverting>,
    contested: Vec<Contested>,
}

/// Walks the phases before and with the sync (`PreSync`, `Sync`).
pub(super) fn sync(target: &Target, rules: &Rules<'_>) -> Walked {
    let mut walker = Walker::new(target, rules);
    let mut stop = None;
    for part in &target.parts {
        stop = walker.phase(part, SyncPhase::PreSync).or_else(|| walker.phase(part, SyncPhase::Sync));
        if stop.is_none() && part.kind == PartKind::Infrastructure {
            stop = walker.infrastructure(part);
        }
        if stop.is_some() {
            break;
        }
    }
    walker.end(stop)
}

/// Walks what comes after the sync: `PostSync`, once everything is healthy.
pub(super) fn after(target: &Target, rules: &Rules<'_>) -> Walked {
    let mut walker = Walker::new(target, rules);
    let mut stop = None;
    for part in &target.parts {
        let hooks = part.program.steps.iter().any(|step| step.phase == SyncPhase::PostSync);
        if hooks {
            stop = walker.unhealthy(part).or_else(|| walker.phase(part, SyncPhase::PostSync));
        }
        if stop.is_some() {
            break;
        }
    }
    walker.tidy();
    walker.end(stop)
}

/// Walks what is done after a failure: `SyncFail`.
pub(super) fn failed(target: &Target, rules: &Rules<'_>) -> Walked {
    let mut walker = Walker::new(target, rules);
    let stop = target.parts.iter().find_map(|part| walker.phase(part, SyncPhase::SyncFail));
    walker.tidy();
    walker.end(stop)
}

/// Walks the hooks of a deletion: `PreDelete` before anything goes, `PostDelete` after.
pub(super) fn deletion(target: &Target, rules: &Rules<'_>, phase: SyncPhase) -> Walked {
    let mut walker = Walker::new(target, rules);
    let stop = target.parts.iter().find_map(|part| walker.phase(part, phase));
    walker.end(stop)
}

impl<'a> Walker<'a> {
    fn new(target: &'a Target, rules: &'a Rules<'a>) -> Self {
        Self {
            target,
            rules,
            id: operation_id(rules.operation),
            steps: Vec::new(),
            hooks: Vec::new(),
            reverting: Vec::new(),
            contested: Vec::new(),
        }
    }

    fn end(self, stop: Option<Progress>) -> Walked {
        let progress = match stop {
            Some(progress) => progress,
            None if self.steps.is_empty() => Progress::Done,
            None => Progress::Working("applying".into()),
        };
        Walked {
            steps: self.steps,
            progress,
            hooks: self.hooks,
            reverting: self.reverting,
            contested: self.contested,
        }
    }

    fn phase(&mut self, part: &Part, phase: SyncPhase) -> Option<Progress> {
        let steps: Vec<&Step> = part.program.of(phase).collect();
        steps.iter().find_map(|step| self.step(part, step, &steps))
    }

    /// One step; what stops the way after it.
    fn step(&mut self, part: &Part, step: &Step, all: &[&Step]) -> Option<Progress> {
        let mut work = Vec::new();
        let mut waits: Option<Progress> = None;
        for &place in &step.objects {
            let (found, member) = (part.found.get(place)?, part.program.members.get(place)?);
            if self.rules.left_out.contains(found.wanted.id()) {
                continue;
            }
            let next = match &member.hook {
                Some(hook) => self.hook(found, hook),
                None => self.object(found, member.options.replace, member.options.force),
            };
            match next {
                Next::Nothing => {}
                Next::Do(one) => work.push(one),
                Next::Stop(progress) => waits = Some(worse(waits, progress)),
            }
        }
        let dirty = !work.is_empty();
        if dirty {
            self.steps.push(work);
        }
        if let Some(progress) = waits {
            return Some(progress);
        }
        let pending = !self.steps.is_empty();
        match step.wait {
            Wait::Nothing => None,
            _ if pending => Some(Progress::Working(format!("applying {}", name_of(part, step)))),
            Wait::Established | Wait::Completed => self.not_healthy(part, &step.objects),
            Wait::Healthy => {
                let wave: Vec<usize> = all
                    .iter()
                    .filter(|other| other.wave == step.wave)
                    .flat_map(|other| other.objects.iter().copied())
                    .collect();
                self.not_healthy(part, &wave)
            }
        }
    }

    fn object(&mut self, found: &Found, replace: bool, force: bool) -> Next {
        let id = found.wanted.id();
        match &found.state {
            State::Same => return Next::Nothing,
            State::Foreign(owner) => {
                return Next::Stop(Progress::Failing(
                    Trouble::standing(
                        "OwnedByAnother",
                        format!("{} belongs to Application {owner}", id.short()),
                        "Remove it from one of the two, or delete the other Application with deletion: Orphan",
                    ),
                    None,
                ));
            }
            State::Unknown(trouble) => return Next::Stop(Progress::Failing(trouble.clone(), None)),
            State::UnknownKind => {
                return Next::Stop(Progress::Waiting(format!("{} waits for its definition", id.short())));
            }
            State::Missing | State::Differs(_) => {}
        }
        if found.verdict.is_none() {
            return Next::Stop(Progress::Waiting(format!("{} cannot be judged yet", id.short())));
        }
        if let Some(held) = self.held(found) {
            return Next::Stop(held);
        }
        if let Some(next) = self.again(found) {
            return next;
        }
        let wanted = found.wanted.clone();
        Next::Do(match &found.live {
            Some(live) if live.deleting => {
                return Next::Stop(Progress::Waiting(format!("{} is still being deleted", id.short())));
            }
            Some(live) if force => Work::Replace { wanted, uid: live.uid.clone() },
            _ if replace => Work::Put(wanted),
            _ => Work::Apply(wanted),
        })
    }

    /// What was applied already and is not as wanted all the same: somebody else changes it back.
    fn again(&mut self, found: &Found) -> Option<Next> {
        let (cluster, id) = (&self.target.member.name, found.wanted.id());
        if self.target.applied.get(id) != Some(found.wanted.digest()) {
            return None;
        }
        let one = Reverting::of(found);
        match self.rules.reverts.decide(cluster, id, found.wanted.digest(), one.manager(), self.rules.now) {
            Decision::Revert => {
                self.reverting.push(one);
                None
            }
            Decision::Wait(until) => {
                let trouble = Trouble::passing(
                    "Contested",
                    format!(
                        "{} was applied and changed back by {}",
                        id.short(),
                        one.manager.as_deref().unwrap_or("somebody")
                    ),
                    "It is tried again; find out who else writes it",
                );
                Some(Next::Stop(Progress::Failing(trouble, Some(until))))
            }
            Decision::Contested { manager, rounds } => {
                self.contested.push(Contested { object: id.short(), manager, rounds });
                Some(Next::Nothing)
            }
        }
    }

    /// What failed the last time is not tried again at once.
    fn held(&self, found: &Found) -> Option<Progress> {
        let wanted = &found.wanted;
        let held = self.target.held(wanted.id(), Some(wanted.digest()), self.rules.retry_at, self.rules.now);
        held.map(|(trouble, next)| Progress::Failing(trouble, Some(next)))
    }

    fn hook(&mut self, found: &Found, hook: &Hook) -> Next {
        let id = found.wanted.id();
        match self.ended(id) {
            Some(true) => return Next::Nothing,
            Some(false) => return Next::Stop(Progress::Failed(hook_failed(found))),
            None => {}
        }
        let Some(live) = &found.live else {
            let Ok(wanted) = found.wanted.with_annotation(OPERATION, &self.id) else { return Next::Nothing };
            return self.held(found).map_or(Next::Do(Work::Apply(wanted)), Next::Stop);
        };
        if live.deleting {
            return Next::Stop(Progress::Waiting(format!("{} of before is being deleted", id.short())));
        }
        if live.operation.as_deref() != Some(&self.id) {
            return if hook.delete.contains(&HookDelete::BeforeHookCreation) {
                Next::Do(Work::Delete { id: id.clone(), uid: live.uid.clone() })
            } else {
                // It is kept from sync to sync, so it is brought up to date and not run again.
                let Ok(wanted) = found.wanted.with_annotation(OPERATION, &self.id) else {
                    return Next::Nothing;
                };
                self.held(found).map_or(Next::Do(Work::Apply(wanted)), Next::Stop)
            };
        }
        let succeeded = match live.health.status {
            Status::Healthy => true,
            Status::Degraded => false,
            _ => return Next::Stop(Progress::Waiting(format!("hook {} runs", id.short()))),
        };
        self.hooks.push(HookResult {
            cluster: self.target.member.name.clone(),
            object: id.to_string(),
            succeeded,
        });
        if succeeded { Next::Nothing } else { Next::Stop(Progress::Failed(hook_failed(found))) }
    }

    /// Whether a hook ended in this operation, and how.
    fn ended(&self, id: &ObjectId) -> Option<bool> {
        let name = id.to_string();
        self.rules
            .operation
            .hooks
            .iter()
            .find(|hook| hook.cluster == self.target.member.name && hook.object == name)
            .map(|hook| hook.succeeded)
    }

    /// Hooks that ended and should not stay.
    fn tidy(&mut self) {
        let mut work = Vec::new();
        for part in &self.target.parts {
            for (found, member) in part.found.iter().zip(&part.program.members) {
                let (Some(hook), Some(live)) = (&member.hook, &found.live) else { continue };
                let policy = match self.ended(found.wanted.id()) {
                    Some(true) => HookDelete::HookSucceeded,
                    Some(false) => HookDelete::HookFailed,
                    None => continue,
                };
                if hook.delete.contains(&policy) && !live.deleting {
                    work.push(Work::Delete { id: found.wanted.id().clone(), uid: live.uid.clone() });
                }
            }
        }
        if !work.is_empty() {
            self.steps.push(work);
        }
    }

    /// Infrastructure has to be ready, with its secrets written, before anything else is applied.
    fn infrastructure(&self, part: &Part) -> Option<Progress> {
        if !self.steps.is_empty() {
            return Some(Progress::Working("applying infrastructure".into()));
        }
        self.unhealthy(part).or_else(|| {
            let secret = self.target.missing_secrets.first()?;
            Some(Progress::Waiting(format!("connection secret {secret} is not there yet")))
        })
    }

    fn unhealthy(&self, part: &Part) -> Option<Progress> {
        let all: Vec<usize> = (0..part.found.len())
            .filter(|place| part.program.members.get(*place).is_some_and(|member| member.hook.is_none()))
            .collect();
        self.not_healthy(part, &all)
    }

    fn not_healthy(&self, part: &Part, places: &[usize]) -> Option<Progress> {
        places.iter().find_map(|place| {
            let found = part.found.get(*place)?;
            let hook = part.program.members.get(*place).is_some_and(|member| member.hook.is_some());
            if hook || self.rules.left_out.contains(found.wanted.id()) {
                return None;
            }
            let short = found.wanted.id().short();
            match &found.live {
                None => Some(Progress::Waiting(format!("{short} is not there yet"))),
                Some(live) if live.health.status == Status::Healthy => None,
                Some(live) => {
                    let said = live.health.message.trim();
                    let said = if said.is_empty() { live.health.status.as_str() } else { said };
                    Some(Progress::Waiting(format!("{short}: {said}")))
                }
            }
        })
    }
}

enum Next {
    Nothing,
    Do(Work),
    Stop(Progress),
}

/// The graver of two.
fn worse(a: Option<Progress>, b: Progress) -> Progress {
    let rank = |progress: &Progress| match progress {
        Progress::Done => 0,
        Progress::Working(_) => 1,
        Progress::Waiting(_) => 2,
        Progress::Failing(..) => 3,
        Progress::Failed(_) => 4,
    };
    match a {
        Some(a) if rank(&a) >= rank(&b) => a,
        _ => b,
    }
}

fn hook_failed(found: &Found) -> Trouble {
    let said = found.live.as_ref().map(|live| live.health.message.clone()).unwrap_or_default();
    Trouble::standing(
        "HookFailed",
        format!(
            "hook {} failed: {}",
            found.wanted.id().short(),
            if said.is_empty() { "no reason given" } else { &said }
        ),
        "Look at its logs, mend it in the source, or ask for the sync again",
    )
}

fn name_of(part: &Part, step: &Step) -> String {
    match (part.kind, step.phase, step.wave) {
        (PartKind::Infrastructure, ..) => "infrastructure".into(),
        (_, SyncPhase::Sync, 0) => "objects".into(),
        (_, SyncPhase::Sync, wave) => format!("wave {wave}"),
        (_, phase, _) => format!("{phase:?} hooks"),
    }
}
