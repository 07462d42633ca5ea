//! `windlass sync`: asks for a sync now.

use std::time::Duration as StdDuration;

use futures::StreamExt;
use jiff::Timestamp;
use kube::{ResourceExt, runtime::WatchStreamExt};
use windlass_api::{
    Application,
    application::{SYNC_ANNOTATION, status::Phase},
    condition,
    duration::Duration,
};

use super::{
    approve,
    hub::{Hub, HubArgs, status, title},
};
use crate::{
    cli,
    error::CommandError,
    show::{self, line, short},
};

const EXAMPLES: &str = "\
Examples:
  windlass sync web -n shop
  windlass sync web --wait --timeout 5m
  windlass sync web --force             # also if its revision is quarantined";

/// Ask for a sync now, whatever sync.automated says
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The Application
    name: String,

    /// Let a quarantined revision pass
    #[arg(long)]
    force: bool,

    /// Wait until it is done, and fail if it fails
    #[arg(long)]
    wait: bool,

    /// Longest wait
    #[arg(long, value_name = "DURATION", default_value = "10m", requires = "wait")]
    timeout: Duration,

    #[command(flatten)]
    hub: HubArgs,
}

/// Asks for it.
pub(crate) fn run(args: &Args) -> Result<(), CommandError> {
    args.hub.run(async |hub| {
        let app = hub.application(&args.name).await?;
        if app.spec.suspend {
            return Err(CommandError::failure(format!("Application {} is suspended", title(&app)))
                .hint("Set spec.suspend to false first: nothing is applied while it is true."));
        }
        if let Some(held) = approve::quarantined(&app) {
            if args.force {
                approve::lift(&hub, &app, held).await?;
            } else {
                // The source may be past it by now: that is what a sync finds out.
                cli::note(&format!(
                    "{} is quarantined and not applied ({} on {}: {}); let it pass with --force",
                    short(&held.revision),
                    held.object,
                    held.cluster,
                    line(&held.reason)
                ));
            }
        }
        let request = format!("{} by {}", moment(), hub.user().await);
        hub.annotate(&app, SYNC_ANNOTATION, Some(&request)).await?;
        if !args.wait {
            return cli::print(&format!("application.windlass.dev/{}: sync asked for\n", app.name_any()));
        }
        wait(&hub, &app, &request, args.timeout.0).await
    })
}

/// This moment to the millisecond: two requests within a second are two requests.
fn moment() -> Timestamp {
    let now = Timestamp::now();
    Timestamp::from_millisecond(now.as_millisecond()).unwrap_or(now)
}

async fn wait(hub: &Hub, app: &Application, request: &str, longest: StdDuration) -> Result<(), CommandError> {
    let name = app.name_any();
    let mut last = String::new();
    let followed = async {
        let watch = kube::runtime::watcher::watch_object(hub.applications(), &name).default_backoff();
        let mut changes = Box::pin(watch);
        while let Some(change) = changes.next().await {
            match change {
                Ok(Some(app)) => {
                    let progress = progress(&app);
                    if progress != last {
                        cli::note(&progress);
                        last.clone_from(&progress);
                    }
                    if let Some(verdict) = verdict(&app, request) {
                        return verdict;
                    }
                }
                Ok(None) => return Err(CommandError::failure(format!("Application {name} was deleted"))),
                Err(error) => cli::note(&format!("the watch was interrupted and begins anew: {error}")),
            }
        }
        Err(CommandError::failure("the watch ended by itself"))
    };
    match tokio::time::timeout(longest, followed).await {
        Ok(Ok(text)) => cli::print(&text),
        Ok(Err(error)) => Err(error),
        Err(_) => Err(CommandError::failure(format!(
            "Application {} is not synced within {}",
            title(app),
            Duration(longest)
        ))
        .hint(format!("The sync goes on; look at it with: windlass why {name} -n {}", hub.namespace))),
    }
}

/// What is going on, on one line.
fn progress(app: &Application) -> String {
    let status = status(app);
    let step = status.operation.and_then(|operation| operation.step).map(|step| format!(": {}", line(&step)));
    let clusters = status.cluster_summary.map(|summary| format!(", clusters {summary}")).unwrap_or_default();
    format!("{}{clusters}{}", show::application::phase(app), step.unwrap_or_default())
}

/// How it ended, once it has.
fn verdict(app: &Application, request: &str) -> Option<Result<String, CommandError>> {
    let status = app.status.as_ref()?;
    if status.observed_generation != app.metadata.generation {
        return None;
    }
    if let Some(approval) = &status.approval {
        return Some(Err(CommandError::failure(format!(
            "{} deletions wait for an approval",
            approval.deletions
        ))
        .hint(format!("See and approve them with: windlass approve {}", app.name_any()))));
    }
    let taken = status.last_sync_request.as_deref() == Some(request);
    if !taken || status.operation.is_some() {
        return None;
    }
    if show::application::is_ready(app) {
        let revision = status.sync.revision.as_deref().map_or("it", short);
        return Some(Ok(format!(
            "application.windlass.dev/{}: {revision} is applied and healthy\n",
            app.name_any()
        )));
    }
    if !matches!(status.phase, Some(Phase::Failed | Phase::Degraded)) {
        return None;
    }
    let ready = condition::get(&status.conditions, condition::READY);
    let why = ready.map(|ready| format!("{}: {}", ready.reason, line(&ready.message))).unwrap_or_default();
    Some(Err(CommandError::failure(format!("Application {} is not ready: {why}", title(app))).hint(format!(
        "More with: windlass why {} -n {}",
        app.name_any(),
        app.namespace().unwrap_or_default()
    ))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{show::fixtures, terminal::Paint};

    #[test]
    fn a_sync_is_done_when_the_request_was_taken_and_nothing_runs_any_more() {
        let told = |app: &Application| match verdict(app, "me") {
            None => "goes on".to_owned(),
            Some(Ok(text)) => text,
            Some(Err(error)) => error.render(Paint::plain()),
        };
        let mut app = fixtures::healthy("api");
        assert_eq!(told(&app), "goes on", "another request was the last");
        app.status.as_mut().unwrap().last_sync_request = Some("me".into());
        assert!(told(&app).contains("aa11000000 is applied and healthy"), "{}", told(&app));
        app.metadata.generation = Some(3);
        assert_eq!(told(&app), "goes on", "the status is of an earlier spec");
        let mut app = fixtures::troubled();
        assert!(told(&app).contains("12 deletions wait for an approval"), "{}", told(&app));
        let status = app.status.as_mut().unwrap();
        (status.approval, status.last_sync_request) = (None, Some("me".into()));
        assert_eq!(told(&app), "goes on", "it is being applied");
        app.status.as_mut().unwrap().operation = None;
        assert!(told(&app).contains("is not ready: DependencyNotReady"), "{}", told(&app));
    }

    #[test]
    fn progress_is_one_line() {
        assert_eq!(progress(&fixtures::troubled()), "Degraded, clusters 0/2: applying wave 1 on east");
    }
}
