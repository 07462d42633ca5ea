//! `windlass rollback`: goes back to something that was deployed before.

use kube::ResourceExt;
use windlass_api::{
    Application,
    application::status::{Deployment, DeploymentResult, Pin},
};

use super::{
    hub::{HubArgs, status, title},
    undo,
};
use crate::{
    cli,
    error::CommandError,
    show::{history, short},
};

const EXAMPLES: &str = "\
Examples:
  windlass rollback web -n shop
  windlass rollback web 7 --reason 'checkout is broken'
  windlass rollback web --off

`windlass history` shows the ids. Without one it goes to the last deployment that succeeded with another revision than the
present one. The pin ends by itself when the source moves on.";

/// Go back to something that was deployed before
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The Application
    name: String,

    /// The deployment, by its number in the history
    #[arg(conflicts_with = "off")]
    id: Option<u64>,

    /// Why, for whoever looks at the status
    #[arg(long, value_name = "TEXT", conflicts_with = "off")]
    reason: Option<String>,

    /// End the pin: go on with what the source says
    #[arg(long)]
    off: bool,

    #[command(flatten)]
    hub: HubArgs,
}

/// Goes back.
pub(crate) fn run(args: &Args) -> Result<(), CommandError> {
    args.hub.run(async |hub| {
        let app = hub.application(&args.name).await?;
        if args.off {
            return undo::unpin(&hub, &app).await;
        }
        let (head, chosen) = choose(&app, args.id)?;
        if chosen.result != DeploymentResult::Succeeded {
            let ended = history::result(chosen.result);
            cli::note(&format!("deployment {} itself ended as {ended}", chosen.id));
        }
        let pin = Pin { to: Some(chosen.revision.clone()), excludes: head, ..Pin::default() };
        undo::set(&hub, &app, pin, args.reason.clone()).await?;
        let (id, to) = (chosen.id, short(&chosen.revision));
        cli::print(&format!(
            "application.windlass.dev/{}: goes back to {to} (deployment {id})\n",
            app.name_any()
        ))
    })
}

/// Where the source is, and the deployment to go back to.
fn choose(app: &Application, id: Option<u64>) -> Result<(String, Deployment), CommandError> {
    let status = status(app);
    let head = undo::pinned(app).map(|pin| pin.excludes).or_else(|| status.sync.revision.clone());
    let Some(head) = head else {
        return Err(CommandError::failure(format!("no revision of Application {} is known yet", title(app))));
    };
    let chosen = match id {
        Some(id) => status.history.iter().find(|one| one.id == id),
        None => status.history.iter().find(|one| {
            one.result == DeploymentResult::Succeeded && Some(&one.revision) != status.sync.revision.as_ref()
        }),
    };
    let Some(chosen) = chosen else {
        let what = match id {
            Some(id) => format!("Application {} has no deployment {id}", title(app)),
            None => format!("Application {} has no earlier deployment that succeeded", title(app)),
        };
        let ids: Vec<String> = status.history.iter().map(|one| one.id.to_string()).collect();
        let known = if ids.is_empty() {
            "Nothing was deployed yet.".to_owned()
        } else {
            format!("There are: {}", ids.join(", "))
        };
        return Err(CommandError::failure(what).hint(known));
    };
    if chosen.revision == head {
        let error = CommandError::failure(format!("the source is at {} already", short(&head)));
        return Err(if undo::pinned(app).is_some() {
            error.hint("End the pin instead: --off")
        } else {
            error
        });
    }
    Ok((head, chosen.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{show::fixtures, terminal::Paint};

    #[test]
    fn a_rollback_goes_to_the_deployment_that_was_named_or_the_last_good_one() {
        let app = fixtures::healthy("api");
        let chosen = |id| {
            choose(&app, id).map(|(head, one)| (head, one.id)).map_err(|error| error.render(Paint::plain()))
        };
        assert_eq!(chosen(None), Ok((fixtures::commit("aa11"), 6)), "7 failed");
        assert_eq!(chosen(Some(7)), Ok((fixtures::commit("aa11"), 7)), "whoever names it gets it");
        let told = chosen(Some(99)).unwrap_err();
        assert!(told.contains("no deployment 99") && told.contains("There are: 8, 7, 6"), "{told}");
        assert!(chosen(Some(8)).unwrap_err().contains("is at aa11000000 already"));
    }

    #[test]
    fn a_rollback_of_a_pinned_one_still_excludes_where_the_source_is() {
        let mut app = fixtures::troubled();
        app.status.as_mut().unwrap().history = fixtures::healthy("x").status.unwrap().history;
        let (head, chosen) = choose(&app, Some(6)).unwrap();
        assert_eq!((head, chosen.id), (fixtures::commit("dd44"), 6));
    }
}
