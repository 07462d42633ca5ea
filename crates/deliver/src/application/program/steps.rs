//! From what annotations say to steps.

use std::collections::BTreeMap;

use serde_json::Value;
use windlass_manifest::order;

use super::{HookPhase, Member, Step, SyncPhase, Wait};
use crate::object::Sealed;

/// The steps of some phases, which are given in order.
pub(super) fn of(objects: &[Sealed], members: &[Member], phases: &[SyncPhase]) -> Vec<Step> {
    let mut steps = Vec::new();
    for phase in phases {
        let mut waves: BTreeMap<i32, Vec<usize>> = BTreeMap::new();
        for (at, member) in members.iter().enumerate() {
            if runs_in(member, *phase) {
                waves.entry(member.wave).or_default().push(at);
            }
        }
        for (wave, places) in waves {
            steps.extend(of_wave(objects, *phase, wave, &places));
        }
    }
    for at in 0..steps.len() {
        steps[at].wait = wait(objects, members, &steps, at);
    }
    steps
}

/// Whether an object has its turn in a phase.
fn runs_in(member: &Member, phase: SyncPhase) -> bool {
    let Some(hook) = &member.hook else { return phase == SyncPhase::Sync };
    let wanted = match phase {
        SyncPhase::PreSync => HookPhase::PreSync,
        SyncPhase::Sync => HookPhase::Sync,
        SyncPhase::PostSync => HookPhase::PostSync,
        SyncPhase::SyncFail => HookPhase::SyncFail,
        SyncPhase::PreDelete => HookPhase::PreDelete,
        SyncPhase::PostDelete => HookPhase::PostDelete,
    };
    hook.phases.contains(&wanted)
}

/// The layers of one wave. What the wave is to wait for is found out later.
fn of_wave(objects: &[Sealed], phase: SyncPhase, wave: i32, places: &[usize]) -> Vec<Step> {
    let values: Vec<Value> = places.iter().map(|at| objects[*at].object().clone()).collect();
    let layers = order::layers(&values).layers;
    let step = |(layer, within): (usize, Vec<usize>)| Step {
        phase,
        wave,
        layer,
        objects: within.into_iter().map(|at| places[at]).collect(),
        wait: Wait::Nothing,
    };
    layers.into_iter().enumerate().map(step).collect()
}

/// What the step at a place has to wait for before the next one begins.
fn wait(objects: &[Sealed], members: &[Member], steps: &[Step], at: usize) -> Wait {
    let step = &steps[at];
    let next = steps.get(at + 1);
    let wave_ends = next.is_none_or(|next| (next.phase, next.wave) != (step.phase, step.wave));
    if !wave_ends {
        let definitions = step.objects.iter().any(|object| is_definition(&objects[*object]));
        return if definitions { Wait::Established } else { Wait::Nothing };
    }
    let same_wave = |other: &&Step| (other.phase, other.wave) == (step.phase, step.wave);
    let has_hooks = steps
        .iter()
        .filter(same_wave)
        .flat_map(|step| &step.objects)
        .any(|object| members[*object].hook.is_some());
    match step.phase {
        // What follows is taken only after a failure: nobody waits for health to get there.
        SyncPhase::Sync
            if next.is_some_and(|next| matches!(next.phase, SyncPhase::Sync | SyncPhase::PostSync)) =>
        {
            Wait::Healthy
        }
        _ if has_hooks => Wait::Completed,
        _ => Wait::Nothing,
    }
}

fn is_definition(object: &Sealed) -> bool {
    let id = object.id();
    id.group == "apiextensions.k8s.io" && id.kind == "CustomResourceDefinition"
}
