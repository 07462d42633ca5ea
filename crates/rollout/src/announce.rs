//! From the transitions in a status to `CDEvents`, and back to how far they were announced. Pure but for the queue.

use windlass_api::{
    Rollout,
    rollout::status::{RolloutStatus, Transition, TransitionKind},
};
use windlass_cluster::drive::Key;

use crate::{
    act::Whose,
    cdevents::{self, Happening, Occurrence, Origin, Outbox},
};

fn occurrence(whose: &Whose, transition: &Transition) -> Occurrence {
    let happening = match transition.kind {
        TransitionKind::Deployed => Happening::Deployed,
        TransitionKind::Upgraded => Happening::Upgraded,
        TransitionKind::Published => Happening::Published,
        TransitionKind::RolledBack => Happening::RolledBack,
        TransitionKind::Removed => Happening::Removed,
    };
    Occurrence {
        happening,
        namespace: whose.namespace.clone(),
        name: whose.name.clone(),
        uid: whose.uid.clone(),
        revision: transition.revision,
        number: transition.number,
        image: transition.image.clone(),
        at: transition.at.0,
    }
}

/// Hands one transition to the queue; gives the event's id.
pub(crate) fn offer(
    outbox: &Outbox,
    origin: &Origin,
    whose: &Whose,
    transition: &Transition,
) -> Option<String> {
    match cdevents::build(&occurrence(whose, transition), origin) {
        Ok(message) => {
            let id = message.id.clone();
            let key =
                Key { namespace: Some(whose.namespace.as_str().into()), name: whose.name.as_str().into() };
            outbox.offer(&key, message);
            Some(id)
        }
        Err(error) => {
            tracing::warn!(error = &error as &dyn std::error::Error, "a CDEvent cannot be made");
            None
        }
    }
}

/// Hands every transition to the queue that the stored status has and that was not announced.
pub(crate) fn offer_stored(outbox: &Outbox, origin: &Origin, rollout: &Rollout) {
    let Some(status) = &rollout.status else { return };
    let whose = Whose::of(rollout);
    for transition in open(status) {
        offer(outbox, origin, &whose, transition);
    }
}

fn open(status: &RolloutStatus) -> impl Iterator<Item = &Transition> {
    let announced = status.announced.unwrap_or(0);
    status.transitions.iter().filter(move |transition| transition.number > announced)
}

/// Number of the last transition up to which all are settled.
pub(crate) fn announced(outbox: &Outbox, rollout: &Rollout) -> Option<i64> {
    let status = rollout.status.as_ref()?;
    let whose = Whose::of(rollout);
    let settled = |transition: &&Transition| {
        let happening = occurrence(&whose, transition).happening;
        outbox.settled(&cdevents::id(&whose.uid, transition.revision, transition.number, happening))
    };
    open(status).take_while(settled).map(|transition| transition.number).last().or(status.announced)
}
