//! `windlass undo`: goes back to where the source was before, until it moves on.

use kube::ResourceExt;
use windlass_api::{
    Application,
    application::{
        PIN_ANNOTATION,
        status::{DeploymentResult, Pin},
    },
};

use super::hub::{Hub, HubArgs, now, status, title};
use crate::{cli, error::CommandError, show::short};

const EXAMPLES: &str = "\
Examples:
  windlass undo web -n shop
  windlass undo web --reason 'checkout is broken'
  windlass undo web --off

The Application is pinned to where its branch was before the last movement. The pin is shown in its status and ends by
itself when the branch moves past the revision that was taken back. It works while the Git server is down.";

/// Go back to where the source was before its last movement
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The Application
    name: String,

    /// Why, for whoever looks at the status
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,

    /// End the pin: go on with what the source says
    #[arg(long, conflicts_with = "reason")]
    off: bool,

    #[command(flatten)]
    hub: HubArgs,
}

/// Goes back.
pub(crate) fn run(args: &Args) -> Result<(), CommandError> {
    args.hub.run(async |hub| {
        let app = hub.application(&args.name).await?;
        if args.off {
            return unpin(&hub, &app).await;
        }
        let (head, to) = back(&app)?;
        let pin = Pin { to: None, excludes: head.clone(), ..Pin::default() };
        set(&hub, &app, pin, args.reason.clone()).await?;
        cli::print(&format!(
            "application.windlass.dev/{}: {} is taken back, it goes to {}\n",
            app.name_any(),
            short(&head),
            short(&to)
        ))
    })
}

/// Where the source is, and where an undo goes back to.
fn back(app: &Application) -> Result<(String, String), CommandError> {
    let status = status(app);
    if let Some(pin) = pinned(app) {
        let to = pin.to.as_deref().map_or("where the source was before", short);
        return Err(CommandError::failure(format!("Application {} is pinned already, to {to}", title(app)))
            .hint("End that pin with --off, or choose a deployment with: windlass rollback"));
    }
    let Some(head) = status.sync.revision.clone() else {
        return Err(CommandError::failure(format!("no revision of Application {} is known yet", title(app))));
    };
    let moved = status.movements.iter().find(|movement| movement.to.as_deref() == Some(&head));
    let before = moved.and_then(|movement| movement.from.clone());
    let deployed = status
        .history
        .iter()
        .find(|one| one.revision != head && one.result == DeploymentResult::Succeeded)
        .map(|one| one.revision.clone());
    match before.or(deployed) {
        Some(before) => Ok((head, before)),
        None => Err(CommandError::failure(format!(
            "there is nothing to go back to: {} is the first revision of Application {} that was seen",
            short(&head),
            title(app)
        ))),
    }
}

/// The pin that is in force or asked for.
pub(super) fn pinned(app: &Application) -> Option<Pin> {
    let asked = app.annotations().get(PIN_ANNOTATION).and_then(|text| serde_json::from_str(text).ok());
    app.status.as_ref().and_then(|status| status.pin.clone()).or(asked)
}

/// Asks for a pin, with who and when.
pub(super) async fn set(
    hub: &Hub,
    app: &Application,
    pin: Pin,
    reason: Option<String>,
) -> Result<(), CommandError> {
    let at = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now());
    let pin = Pin { by: Some(hub.user().await), at: Some(at), reason, ..pin };
    let text = serde_json::to_string(&pin)
        .map_err(|error| CommandError::failure("cannot write the pin as JSON").because(error))?;
    hub.annotate(app, PIN_ANNOTATION, Some(&text)).await.map(drop)
}

/// Takes a pin away.
pub(super) async fn unpin(hub: &Hub, app: &Application) -> Result<(), CommandError> {
    if !app.annotations().contains_key(PIN_ANNOTATION) {
        let error = CommandError::failure(format!("Application {} is not pinned by anybody", title(app)));
        return Err(match app.status.as_ref().and_then(|status| status.pin.as_ref()) {
            Some(pin) => error.hint(format!(
                "The controller pinned it itself; that ends when the source moves past {}.",
                short(&pin.excludes)
            )),
            None => error,
        });
    }
    hub.annotate(app, PIN_ANNOTATION, None).await?;
    cli::print(&format!("application.windlass.dev/{}: no longer pinned\n", app.name_any()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{show::fixtures, terminal::Paint};

    #[test]
    fn an_undo_goes_to_where_the_branch_was() {
        let app = fixtures::healthy("api");
        assert_eq!(back(&app).unwrap(), (fixtures::commit("aa11"), fixtures::commit("bb22")));
        // Without a memory of movements: the last deployment that was good.
        let mut app = app;
        app.status.as_mut().unwrap().movements.clear();
        assert_eq!(back(&app).unwrap(), (fixtures::commit("aa11"), fixtures::commit("cc33")));
    }

    #[test]
    fn an_undo_without_anything_to_go_back_to_is_refused() {
        let refused = |app: &Application| back(app).unwrap_err().render(Paint::plain());
        let mut app = fixtures::healthy("api");
        let status = app.status.as_mut().unwrap();
        status.movements.clear();
        status.history.truncate(1);
        assert!(refused(&app).contains("nothing to go back to"), "{}", refused(&app));
        app.status = None;
        assert!(refused(&app).contains("no revision"), "{}", refused(&app));
        let told = refused(&fixtures::troubled());
        assert!(told.contains("is pinned already, to bb22000000") && told.contains("--off"), "{told}");
    }
}
