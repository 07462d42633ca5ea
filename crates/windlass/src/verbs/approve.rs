//! `windlass approve`: allows what waits for somebody to look at it: deletions, or a revision that is quarantined.

use std::{
    fmt::Write as _,
    io::{self, BufRead as _, IsTerminal as _, Write as _},
};

use kube::ResourceExt;
use windlass_api::{
    Application,
    application::{
        APPROVE_ANNOTATION, LIFT_ANNOTATION,
        status::{Approval, Quarantine},
    },
};

use super::hub::{Hub, HubArgs, title};
use crate::{
    cli,
    error::CommandError,
    show::{line, short},
};

const EXAMPLES: &str = "\
Examples:
  windlass approve web -n shop
  windlass approve web --yes

What is approved is exactly the set of deletions that is shown: another set needs another approval.
Without deletions that wait, a quarantined revision is let pass: it is applied again, and your name is recorded.";

/// Allow deletions that exceed the budget, or a quarantined revision
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The Application
    name: String,

    /// Do not ask
    #[arg(long, short)]
    yes: bool,

    #[command(flatten)]
    hub: HubArgs,
}

/// Shows them, asks, and approves.
pub(crate) fn run(args: &Args) -> Result<(), CommandError> {
    args.hub.run(async |hub| {
        let app = hub.application(&args.name).await?;
        let Some(approval) = app.status.as_ref().and_then(|status| status.approval.as_ref()) else {
            if let Some(held) = quarantined(&app) {
                cli::print(&told(&title(&app), held))?;
                if !args.yes && !confirmed("Let it pass?")? {
                    return Err(CommandError::failure("not approved: the revision stays quarantined"));
                }
                return lift(&hub, &app, held).await;
            }
            return Err(CommandError::failure(format!(
                "nothing of Application {} waits for an approval",
                title(&app)
            )));
        };
        cli::print(&shown(&title(&app), approval))?;
        if app.annotations().get(APPROVE_ANNOTATION) == Some(&approval.id) {
            return cli::print("They are approved already; the controller will delete them.\n");
        }
        if !args.yes && !confirmed("Delete them?")? {
            return Err(CommandError::failure("not approved: nothing is deleted"));
        }
        hub.annotate(&app, APPROVE_ANNOTATION, Some(&approval.id)).await?;
        cli::print(&format!(
            "application.windlass.dev/{}: {} deletions approved\n",
            app.name_any(),
            approval.deletions
        ))
    })
}

fn shown(title: &str, approval: &Approval) -> String {
    let mut text =
        format!("{} of {} objects of {title} would be deleted:\n", approval.deletions, approval.of);
    for object in &approval.objects {
        let _ = writeln!(text, "  {object}");
    }
    let named = u32::try_from(approval.objects.len()).unwrap_or(u32::MAX);
    if approval.deletions > named {
        let _ = writeln!(text, "  and {} more", approval.deletions - named);
    }
    text
}

/// The quarantine that holds something back.
pub(super) fn quarantined(app: &Application) -> Option<&Quarantine> {
    app.status.as_ref()?.quarantine.as_ref().filter(|held| held.lifted.is_none())
}

/// Lets the revision pass, with who said so.
pub(super) async fn lift(hub: &Hub, app: &Application, held: &Quarantine) -> Result<(), CommandError> {
    let value = format!("{} by {}", held.revision, hub.user().await);
    hub.annotate(app, LIFT_ANNOTATION, Some(&value)).await?;
    cli::print(&format!(
        "application.windlass.dev/{}: {} is no longer quarantined\n",
        app.name_any(),
        short(&held.revision)
    ))
}

fn told(title: &str, held: &Quarantine) -> String {
    format!(
        "{} of {title} is quarantined:\n  {} on {}: {}\n",
        short(&held.revision),
        held.object,
        held.cluster,
        line(&held.reason)
    )
}

fn confirmed(question: &str) -> Result<bool, CommandError> {
    if !io::stdin().is_terminal() {
        return Err(CommandError::usage("nobody is there to be asked")
            .hint("Approve without being asked with --yes."));
    }
    let mut err = io::stderr();
    let _ = write!(err, "{question} [y/N] ").and_then(|()| err.flush());
    let mut answer = String::new();
    io::stdin()
        .lock()
        .read_line(&mut answer)
        .map_err(|error| CommandError::failure("cannot read the answer").because(error))?;
    Ok(["y", "yes"].contains(&answer.trim().to_lowercase().as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show::fixtures;

    #[test]
    fn the_deletions_are_shown_with_how_many_there_are() {
        let approval = fixtures::troubled().status.unwrap().approval.unwrap();
        insta::assert_snapshot!(shown("shop/web", &approval), @r"
        12 of 20 objects of shop/web would be deleted:
          Service shop/old
          ConfigMap shop/old
          and 10 more
        ");
    }
}
