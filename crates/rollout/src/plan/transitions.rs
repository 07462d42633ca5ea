//! What became of revisions: kept in the status, so that `CDEvents` are made from what is stored and from nothing else.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use windlass_api::{
    condition::whole_seconds,
    rollout::status::{TRANSITIONS, Transition, TransitionKind},
};

use super::{
    draft::Draft,
    scene::{Scene, image},
};

/// The newest revision becomes the stable one, if it is not.
pub(crate) fn stable(scene: &Scene<'_>, draft: &mut Draft, why: &str) {
    if scene.promoted() {
        return;
    }
    let first = scene.status.stable_rs.is_none();
    draft.next.stable_rs = Some(scene.hash.clone());
    let revision = scene.revision();
    draft.note(
        "RolloutPromoted",
        "Promote",
        format!("Revision {revision} ({}) is promoted: {why}", scene.hash),
    );
    if first {
        return;
    }
    record(scene, draft, TransitionKind::Published);
    let kind = if scene.is_rollback() { TransitionKind::RolledBack } else { TransitionKind::Upgraded };
    record(scene, draft, kind);
}

/// Remembers that something happened to the newest revision; once for each revision.
pub(crate) fn record(scene: &Scene<'_>, draft: &mut Draft, kind: TransitionKind) {
    let revision = scene.revision();
    let known = draft.next.transitions.iter().any(|known| known.kind == kind && known.revision == revision);
    if !known {
        push(scene, draft, kind, revision, scene.hash.clone(), scene.image());
    }
}

/// Remembers that the stable revision has all of the traffic again; once for each abort.
pub(crate) fn rolled_back(scene: &Scene<'_>, draft: &mut Draft) {
    let (Some(stable), Some(since)) = (scene.roles.stable, scene.status.aborted_at.as_ref()) else { return };
    let told = draft.next.transitions.iter().any(|known| {
        known.kind == TransitionKind::RolledBack
            && known.at.0 >= since.0
            && Some(known.hash.as_str()) == stable.hash()
    });
    if !told {
        let hash = stable.hash().unwrap_or_default().to_owned();
        let image = image(&stable.plain_template());
        push(scene, draft, TransitionKind::RolledBack, stable.revision(), hash, image);
        draft.note(
            "RolloutRolledBack",
            "Abort",
            format!("Revision {} has all of the traffic again", stable.revision()),
        );
    }
}

fn push(
    scene: &Scene<'_>,
    draft: &mut Draft,
    kind: TransitionKind,
    revision: i64,
    hash: String,
    image: Option<String>,
) {
    let number = draft.next.transitions.last().map_or(0, |last| last.number) + 1;
    let at = Time(whole_seconds(scene.now));
    draft.next.transitions.push(Transition { number, kind, revision, hash, image, at });
    let surplus = draft.next.transitions.len().saturating_sub(TRANSITIONS);
    draft.next.transitions.drain(..surplus);
}

/// That the Rollout is gone.
pub(crate) fn removed(scene: &Scene<'_>) -> Transition {
    let number = scene.status.transitions.last().map_or(0, |last| last.number) + 1;
    let (kind, at) = (TransitionKind::Removed, Time(whole_seconds(scene.now)));
    Transition {
        number,
        kind,
        revision: scene.revision(),
        hash: scene.hash.clone(),
        image: scene.image(),
        at,
    }
}
