//! `windlass get`: Applications and Clusters, as a table or for programs.

use std::{
    fmt::Debug,
    io::{self, Write as _},
};

use futures::{Stream, StreamExt};
use jiff::Timestamp;
use kube::{
    Api, Resource, ResourceExt,
    api::ListParams,
    runtime::{
        WatchStreamExt,
        watcher::{self, Event},
    },
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::json;
use windlass_api::{Application, Cluster};

use super::hub::{HubArgs, failed, now};
use crate::{
    cli,
    error::CommandError,
    show::{self, table::Table},
};

const EXAMPLES: &str = "\
Examples:
  windlass get apps
  windlass get apps -A -o wide
  windlass get app web -n shop -o yaml
  windlass get apps --watch
  windlass get clusters";

/// Show Applications or Clusters
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// What to show
    kind: Kind,

    /// Only the one of this name
    name: Option<String>,

    /// Applications of all namespaces
    #[arg(long, short = 'A', conflicts_with_all = ["namespace", "name"])]
    all_namespaces: bool,

    /// Only those with these labels, such as `tier=edge`
    #[arg(long, short = 'l', value_name = "LABELS", conflicts_with = "name")]
    selector: Option<String>,

    /// Print in this format
    #[arg(short, long, value_name = "FORMAT")]
    output: Option<Output>,

    /// Go on and show every change
    #[arg(long, short)]
    watch: bool,

    #[command(flatten)]
    hub: HubArgs,
}

/// What can be shown.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Applications.
    #[value(name = "apps", aliases = ["app", "application", "applications", "wapp"])]
    Applications,
    /// Clusters.
    #[value(name = "clusters", aliases = ["cluster", "wcl"])]
    Clusters,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Output {
    Wide,
    Json,
    Yaml,
    Name,
}

/// A kind that can be shown in rows.
trait Shown: Resource<DynamicType = ()> + Clone + DeserializeOwned + Serialize + Debug + Send + 'static {
    fn table(view: View) -> Table;
    fn row(&self, view: View, now: Timestamp) -> Vec<String>;
}

#[derive(Clone, Copy)]
struct View {
    wide: bool,
    namespaces: bool,
}

impl Shown for Application {
    fn table(view: View) -> Table {
        show::application::table(view.wide, view.namespaces)
    }

    fn row(&self, view: View, now: Timestamp) -> Vec<String> {
        show::application::row(self, view.wide, view.namespaces, now)
    }
}

impl Shown for Cluster {
    fn table(view: View) -> Table {
        show::cluster::table(view.wide)
    }

    fn row(&self, view: View, now: Timestamp) -> Vec<String> {
        show::cluster::row(self, view.wide, now)
    }
}

/// Shows them.
pub(crate) fn run(args: &Args) -> Result<(), CommandError> {
    args.hub.run(async |hub| match args.kind {
        Kind::Applications => {
            let all = || Api::all(hub.client.clone());
            let api: Api<Application> = if args.all_namespaces { all() } else { hub.applications() };
            let found = match &args.name {
                Some(name) => vec![hub.application(name).await?],
                None => list(&api, args, "Applications").await?,
            };
            let place =
                if args.all_namespaces { String::new() } else { format!(" in {} namespace", hub.namespace) };
            show(args, api, found, &place).await
        }
        Kind::Clusters => {
            let found = match &args.name {
                Some(name) => vec![hub.cluster(name).await?],
                None => list(&hub.clusters(), args, "Clusters").await?,
            };
            show(args, hub.clusters(), found, "").await
        }
    })
}

async fn list<K: Shown>(api: &Api<K>, args: &Args, what: &str) -> Result<Vec<K>, CommandError> {
    let mut params = ListParams::default();
    params.label_selector.clone_from(&args.selector);
    let list = api.list(&params).await.map_err(|error| failed(&format!("cannot list {what}"), error))?;
    let mut items = list.items;
    items.sort_by_key(|item| (item.namespace(), item.name_any()));
    Ok(items)
}

async fn show<K: Shown>(args: &Args, api: Api<K>, found: Vec<K>, place: &str) -> Result<(), CommandError> {
    let view = View { wide: args.output == Some(Output::Wide), namespaces: args.all_namespaces };
    let mut table = K::table(view);
    let is_table = matches!(args.output, None | Some(Output::Wide));
    if is_table {
        for one in &found {
            table.push(one.row(view, now()));
        }
        if !table.is_empty() {
            cli::print(&table.render(0))?;
        } else if !args.watch {
            cli::note(&format!("no resources found{place}"));
        }
    } else {
        cli::print(&encode(args, &found)?)?;
    }
    if !args.watch {
        return Ok(());
    }
    follow(args, api, found, |changed| {
        if is_table {
            let first = table.is_empty();
            let row = changed.row(view, now());
            if first {
                table.push(row);
                return Ok(table.render(0));
            }
            return Ok(table.render_rows(vec![row]));
        }
        encode(args, std::slice::from_ref(changed))
    })
    .await
}

/// Prints every change until the reader goes away or somebody interrupts.
async fn follow<K: Shown>(
    args: &Args,
    api: Api<K>,
    found: Vec<K>,
    mut print: impl FnMut(&K) -> Result<String, CommandError>,
) -> Result<(), CommandError> {
    let mut config = watcher::Config::default();
    config.label_selector.clone_from(&args.selector);
    config.field_selector = args.name.as_ref().map(|name| format!("metadata.name={name}"));
    let mut seen: std::collections::BTreeMap<(Option<String>, String), Option<String>> =
        found.iter().map(|one| ((one.namespace(), one.name_any()), one.resource_version())).collect();
    let mut changes = Box::pin(objects(watcher::watcher(api, config).default_backoff()));
    while let Some(changed) = changes.next().await {
        // What a re-list repeats is no news.
        let key = (changed.namespace(), changed.name_any());
        let version = changed.resource_version();
        if seen.insert(key, version.clone()) == Some(version) {
            continue;
        }
        let text = print(&changed)?;
        let mut out = io::stdout().lock();
        if out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_err() {
            return Ok(());
        }
    }
    Ok(())
}

fn objects<K: Shown>(events: impl Stream<Item = Result<Event<K>, watcher::Error>>) -> impl Stream<Item = K> {
    events.filter_map(|event| {
        std::future::ready(match event {
            Ok(Event::Apply(object) | Event::InitApply(object) | Event::Delete(object)) => Some(object),
            Ok(Event::Init | Event::InitDone) => None,
            Err(error) => {
                cli::note(&format!("the watch was interrupted and begins anew: {error}"));
                None
            }
        })
    })
}

/// For programs: a single object that was asked for by itself, everything else as a list.
fn encode<K: Shown>(args: &Args, found: &[K]) -> Result<String, CommandError> {
    let mut found = found.to_vec();
    // Bookkeeping of the server that nobody asked for, as kubectl sees it.
    for one in &mut found {
        one.meta_mut().managed_fields = None;
    }
    let name = |one: &K| {
        let kind = K::kind(&()).to_lowercase();
        format!("{kind}.{}/{}\n", K::group(&()), one.name_any())
    };
    let single = args.name.is_some() || (args.watch && found.len() == 1);
    match (args.output, found.as_slice()) {
        (Some(Output::Name), found) => Ok(found.iter().map(name).collect()),
        (Some(Output::Yaml), [one]) if single => Ok(format!("---\n{}", cli::to_yaml(one)?)),
        (Some(Output::Yaml), _) => {
            cli::to_yaml(&json!({ "apiVersion": "v1", "kind": "List", "items": found }))
        }
        (_, [one]) if single => cli::to_json(one),
        _ => cli::to_json(&json!({ "apiVersion": "v1", "kind": "List", "items": found })),
    }
}
