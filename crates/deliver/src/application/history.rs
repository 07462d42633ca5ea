//! What was deployed, and the revision that an Application is kept at.

use windlass_api::application::{
    PIN_ANNOTATION,
    status::{Deployment, DeploymentResult, HISTORY, Pin},
};

use crate::trouble::Trouble;

/// Reason of the [`Trouble`] about a pin that cannot be followed.
pub const INVALID_PIN: &str = "InvalidPin";

/// Who asked for a pin that says nothing about it.
const SOMEBODY: &str = "somebody";

/// Remembers a deployment, newest first. Its number is given here.
///
/// The same revision with the same content twice in a row is one deployment that went on: it keeps its number and its
/// beginning and ends as it does now. So a sync that is tried again and again does not drive out what was before.
pub fn record(history: &mut Vec<Deployment>, mut deployment: Deployment) {
    let same =
        |known: &&mut Deployment| known.revision == deployment.revision && known.digest == deployment.digest;
    if let Some(known) = history.first_mut().filter(same) {
        deployment.id = known.id;
        deployment.started_at = known.started_at.take().or(deployment.started_at);
        deployment.change_id = deployment.change_id.or_else(|| known.change_id.take());
        deployment.by = deployment.by.or_else(|| known.by.take());
        *known = deployment;
    } else {
        let newest = history.iter().map(|known| known.id).max().unwrap_or(0);
        deployment.id = newest.saturating_add(1);
        history.insert(0, deployment);
    }
    history.truncate(HISTORY);
}

/// The last deployment before the current revision that succeeded and was something else.
///
/// Another commit with the same content is not something else: going back to it would change nothing.
pub fn previous_good<'h>(history: &'h [Deployment], current: &str) -> Option<&'h Deployment> {
    let at = history.iter().position(|known| known.revision == current);
    let digest = at.and_then(|at| history[at].digest.as_deref());
    history[at.map_or(0, |at| at + 1)..].iter().find(|known| {
        known.result == DeploymentResult::Succeeded
            && known.revision != current
            && (digest.is_none() || known.digest.as_deref() != digest)
    })
}

/// The newest deployment that succeeded and was something else than this content.
pub fn last_good<'h>(history: &'h [Deployment], digest: &str) -> Option<&'h Deployment> {
    history.iter().find(|known| {
        known.result == DeploymentResult::Succeeded
            && known.digest.as_deref().is_some_and(|known| known != digest)
    })
}

/// The pin that is in force, with the commit that it leads to.
///
/// A pin that somebody asked for is in the annotation; one in the status without a name of who asked is automatic. Both
/// are in force while the source is at the commit that they exclude, and end by themselves when it is not; one that was
/// asked for also ends with its annotation. A request without `to` means where the source was `before`, or else the
/// last deployment that succeeded; once found it stays the same, because the status has it.
pub fn pin_in_force(
    annotation: Option<&str>,
    status: Option<&Pin>,
    head: &str,
    before: Option<&str>,
    history: &[Deployment],
) -> Result<Option<Pin>, Trouble> {
    let asked = annotation.map(parse).transpose()?.filter(|pin| pin.excludes == head);
    let Some(mut pin) = asked else {
        return Ok(status
            .filter(|pin| pin.by.is_none() && pin.to.is_some() && pin.excludes == head)
            .cloned());
    };
    if pin.by.is_none() {
        // Without a name it would be taken for an automatic one as soon as it is in the status.
        pin.by = Some(SOMEBODY.to_owned());
    }
    let found = status.filter(|known| known.excludes == pin.excludes).and_then(|known| known.to.clone());
    let to = pin.to.take().or(found).or_else(|| {
        let before = before.filter(|before| *before != head).map(str::to_owned);
        before.or_else(|| previous_good(history, head).map(|known| known.revision.clone()))
    });
    let Some(to) = to else {
        return Err(Trouble::standing(
            INVALID_PIN,
            format!("The pin excludes {head}, and there is nothing before it to go back to"),
            format!("Name a commit in `to` of the annotation {PIN_ANNOTATION}, or take the annotation away"),
        ));
    };
    if to == pin.excludes {
        return Err(Trouble::standing(
            INVALID_PIN,
            format!("The pin leads to {to}, which is the commit that it excludes"),
            format!("Name another commit in `to` of the annotation {PIN_ANNOTATION}"),
        ));
    }
    pin.to = Some(to);
    Ok(Some(pin))
}

fn parse(text: &str) -> Result<Pin, Trouble> {
    let wrong = |what: String| {
        Trouble::standing(
            INVALID_PIN,
            format!("The annotation {PIN_ANNOTATION} cannot be read: {what}"),
            r#"Write it like {"excludes":"<commit>","to":"<commit>"}, or use windlass undo or windlass rollback"#,
        )
    };
    let pin: Pin = serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
    let blank = |commit: &String| commit.trim().is_empty();
    if blank(&pin.excludes) || pin.to.as_ref().is_some_and(blank) {
        return Err(wrong("a commit in it is empty".to_owned()));
    }
    Ok(pin)
}

#[cfg(test)]
mod tests;
