//! What was deployed, and how the branch moved.

use std::fmt::Write as _;

use jiff::Timestamp;
use windlass_api::{
    ApplicationStatus,
    application::status::{Deployment, DeploymentResult},
};

use super::{NONE, age, cut, short, span, table::Table};

/// The whole page: deployments, then movements.
pub(crate) fn page(status: &ApplicationStatus, now: Timestamp) -> String {
    let mut text = String::new();
    let deployments = deployments(status, usize::MAX, now);
    if deployments.is_empty() {
        text.push_str("Nothing was deployed yet.\n");
    } else {
        text.push_str(&deployments.render(0));
    }
    let movements = movements(status, now);
    if !movements.is_empty() {
        text.push_str("\nThe source moved:\n");
        text.push_str(&movements.render(0));
    }
    if let Some(pin) = &status.pin {
        let to = pin.to.as_deref().map_or("where the source was before", short);
        let _ = writeln!(text, "\nPinned to {to}; {} is not deployed.", short(&pin.excludes));
    }
    text
}

/// The newest deployments.
pub(crate) fn deployments(status: &ApplicationStatus, most: usize, now: Timestamp) -> Table {
    let mut table = Table::new(["ID", "REVISION", "CHANGE", "RESULT", "STARTED", "TOOK", "BY", "MESSAGE"]);
    for deployment in status.history.iter().take(most) {
        table.push(vec![
            deployment.id.to_string(),
            short(&deployment.revision).to_owned(),
            deployment.change_id.as_deref().map_or_else(|| NONE.to_owned(), |id| cut(id, 12)),
            result(deployment.result).to_owned(),
            age(deployment.started_at.as_ref(), now),
            took(deployment),
            deployment.by.clone().unwrap_or_else(|| "automatic".to_owned()),
            cut(deployment.message.as_deref().unwrap_or_default(), 100),
        ]);
    }
    table
}

fn movements(status: &ApplicationStatus, now: Timestamp) -> Table {
    let mut table = Table::new(["SEEN", "FROM", "TO", "BY", "HOW"]);
    for movement in &status.movements {
        let how = match (&movement.from, &movement.to) {
            (None, _) => "new",
            (_, None) => "deleted",
            _ if movement.forced => "forced",
            _ => "forward",
        };
        table.push(vec![
            age(movement.at.as_ref(), now),
            movement.from.as_deref().map_or("-", short).to_owned(),
            movement.to.as_deref().map_or("-", short).to_owned(),
            movement.by.clone().unwrap_or_else(|| "<unknown>".to_owned()),
            how.to_owned(),
        ]);
    }
    table
}

/// The word as status has it.
pub(crate) const fn result(result: DeploymentResult) -> &'static str {
    match result {
        DeploymentResult::Succeeded => "Succeeded",
        DeploymentResult::Failed => "Failed",
        DeploymentResult::Superseded => "Superseded",
        DeploymentResult::RolledBack => "RolledBack",
    }
}

fn took(deployment: &Deployment) -> String {
    match (&deployment.started_at, &deployment.finished_at) {
        (Some(start), Some(end)) => span(end.0.as_second() - start.0.as_second()),
        _ => "-".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show::fixtures;

    #[test]
    fn deployments_and_movements_are_shown_newest_first() {
        let mut status = fixtures::healthy("api").status.unwrap();
        status.pin = fixtures::troubled().status.unwrap().pin;
        insta::assert_snapshot!(page(&status, fixtures::now()), @r"
        ID   REVISION     CHANGE     RESULT      STARTED   TOOK   BY          MESSAGE
        8    aa11000000   qpvuntsm   Succeeded   60m       10s    automatic
        7    bb22000000   <none>     Failed      24h       65s    dev-a       Deployment shop/web did not become healthy within 10m.
        6    cc33000000   <none>     Succeeded   47h       -      automatic

        The source moved:
        SEEN   FROM         TO           BY          HOW
        60m    bb22000000   aa11000000   dev-b       forward
        24h    cc33000000   bb22000000   dev-a       forced
        47h    -            cc33000000   <unknown>   new

        Pinned to bb22000000; dd44000000 is not deployed.
        ");
        assert_eq!(page(&ApplicationStatus::default(), fixtures::now()), "Nothing was deployed yet.\n");
    }
}
