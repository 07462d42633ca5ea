//! The workload that a template was taken from loses its pods, if that is asked for, while the first revision comes up.

use windlass_api::rollout::{ScaleDown, status::Phase};

use super::{action::Action, draft::Draft, scene::Scene};
use crate::observed::WorkloadFacts;

/// Scales the referenced workload down: at the end, or as pods of the Rollout become ready.
pub(crate) fn sync(scene: &Scene<'_>, draft: &mut Draft) {
    let (Some(reference), Some(WorkloadFacts::Found { replicas, .. })) =
        (&scene.spec.workload_ref, &scene.observed.workload)
    else {
        return;
    };
    // Later revisions find it scaled down already; somebody who scaled it up again meant it.
    if scene.revision() != 1 {
        return;
    }
    let healthy = draft.next.phase == Some(Phase::Completed);
    let wanted = match reference.scale_down.unwrap_or_default() {
        ScaleDown::Never => return,
        ScaleDown::OnSuccess => healthy.then_some(0),
        ScaleDown::Progressively if healthy => Some(0),
        ScaleDown::Progressively => {
            let ready = draft.next.ready_replicas;
            (ready > 0).then(|| (scene.replicas() - ready).clamp(0, *replicas))
        }
    };
    if let Some(wanted) = wanted.filter(|wanted| wanted != replicas) {
        let name = reference.name.clone();
        draft.note(
            "ScalingWorkload",
            "Scale",
            format!("Scaled {} {name} from {replicas} to {wanted}", reference.kind),
        );
        draft.last(Action::ScaleWorkload { name, replicas: wanted });
    }
}
