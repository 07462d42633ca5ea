//! `windlass why`: why an Application is not as it should be.

use kube::Api;
use windlass_api::Application;

use super::hub::{Hub, HubArgs, failed, now};
use crate::{
    cli,
    error::CommandError,
    show::why::{AppName, Facts, depends_on, why},
};

/// Applications that are looked at: a chain longer than that is a mistake of its own.
const MOST: usize = 200;

const EXAMPLES: &str = "\
Examples:
  windlass why web -n shop
  windlass why web && echo 'all is well'

Ends with 0 if the Application is synced and healthy, else with 1.";

/// Tell why an Application is not synced or not healthy, and what to do about it
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The Application
    name: String,

    #[command(flatten)]
    hub: HubArgs,
}

/// Tells it.
pub(crate) fn run(args: &Args) -> Result<(), CommandError> {
    args.hub.run(async |hub| {
        let app = hub.application(&args.name).await?;
        let answer = why(&app, &facts(&hub, &app).await?, now());
        cli::print(&answer.text)?;
        if answer.well { Ok(()) } else { Err(CommandError::told()) }
    })
}

/// What it depends on, down to the root, and the clusters it goes to.
async fn facts(hub: &Hub, app: &Application) -> Result<Facts, CommandError> {
    let mut facts = Facts::default();
    let mut open: Vec<AppName> = depends_on(app);
    while let Some(name) = open.pop() {
        if facts.apps.contains_key(&name) || facts.apps.len() >= MOST {
            continue;
        }
        let api: Api<Application> = Api::namespaced(hub.client.clone(), &name.0);
        match api.get_opt(&name.1).await {
            Ok(found) => {
                open.extend(found.iter().flat_map(depends_on));
                facts.apps.insert(name, found);
            }
            // Another namespace may be closed to this user: the rest of the page is still of use.
            Err(kube::Error::Api(status)) if status.code == 403 => {
                cli::note(&format!("you may not read Application {}/{}", name.0, name.1));
            }
            Err(error) => {
                return Err(failed(&format!("cannot read Application {}/{}", name.0, name.1), error));
            }
        }
    }
    for cluster in app.status.iter().flat_map(|status| &status.clusters) {
        match hub.clusters().get_opt(&cluster.name).await {
            Ok(found) => {
                facts.clusters.insert(cluster.name.clone(), found);
            }
            Err(kube::Error::Api(status)) if status.code == 403 => {
                cli::note("you may not read Clusters");
                break;
            }
            Err(error) => return Err(failed(&format!("cannot read Cluster {}", cluster.name), error)),
        }
    }
    Ok(facts)
}
