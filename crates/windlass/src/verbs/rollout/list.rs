//! `windlass rollout list`: Rollouts in rows.

use std::{
    collections::BTreeMap,
    io::{self, Write as _},
};

use futures::StreamExt;
use jiff::Timestamp;
use kube::{
    Api, ResourceExt,
    api::ListParams,
    runtime::{
        WatchStreamExt,
        watcher::{self, Event},
    },
};
use serde_json::json;
use windlass_api::rollout::Rollout;

use super::{
    control,
    words::{phase, set_weight, status, step_count, step_index, strategy},
};
use crate::{
    cli,
    error::CommandError,
    show::{age, table::Table},
    verbs::{
        Format,
        hub::{HubArgs, failed, now},
    },
};

const EXAMPLES: &str = "\
Examples:
  windlass rollout list -n shop
  windlass rollout list -A --watch";

/// Show Rollouts
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Rollouts of all namespaces
    #[arg(long, short = 'A', conflicts_with = "namespace")]
    all_namespaces: bool,

    /// Only those with these labels, such as `tier=edge`
    #[arg(long, short = 'l', value_name = "LABELS")]
    selector: Option<String>,

    /// Print in this format instead of a table
    #[arg(short, long, value_name = "FORMAT", conflicts_with = "watch")]
    output: Option<Format>,

    /// Go on and show every change
    #[arg(long, short)]
    watch: bool,

    #[command(flatten)]
    hub: HubArgs,
}

/// Shows them.
pub(super) fn run(args: &Args) -> Result<(), CommandError> {
    args.hub.run(async |hub| {
        let api = if args.all_namespaces { Api::all(hub.client.clone()) } else { control::rollouts(&hub) };
        let mut params = ListParams::default();
        params.label_selector.clone_from(&args.selector);
        let list = api.list(&params).await.map_err(|error| failed("cannot list Rollouts", error))?;
        let mut found = list.items;
        found.sort_by_key(|rollout| (rollout.namespace(), rollout.name_any()));
        if let Some(Format::Json) = args.output {
            for rollout in &mut found {
                rollout.metadata.managed_fields = None;
            }
            return cli::print(&cli::to_json(
                &json!({ "apiVersion": "v1", "kind": "List", "items": found }),
            )?);
        }
        let mut table = table(args.all_namespaces);
        for rollout in &found {
            table.push(row(rollout, args.all_namespaces, now()));
        }
        if !table.is_empty() {
            cli::print(&table.render(0))?;
        } else if !args.watch {
            let place =
                if args.all_namespaces { String::new() } else { format!(" in {} namespace", hub.namespace) };
            cli::note(&format!("no resources found{place}"));
        }
        if args.watch { follow(args, api, &found, table).await } else { Ok(()) }
    })
}

/// Prints every change until the reader goes away or somebody interrupts.
async fn follow(
    args: &Args,
    api: Api<Rollout>,
    found: &[Rollout],
    mut table: Table,
) -> Result<(), CommandError> {
    let mut config = watcher::Config::default();
    config.label_selector.clone_from(&args.selector);
    let mut seen: BTreeMap<_, _> =
        found.iter().map(|one| ((one.namespace(), one.name_any()), one.resource_version())).collect();
    let mut changes = Box::pin(watcher::watcher(api, config).default_backoff());
    while let Some(change) = changes.next().await {
        let rollout = match change {
            Ok(Event::Apply(object) | Event::InitApply(object) | Event::Delete(object)) => object,
            Ok(Event::Init | Event::InitDone) => continue,
            Err(error) => {
                cli::note(&format!("the watch was interrupted and begins anew: {error}"));
                continue;
            }
        };
        // What a re-list repeats is no news.
        let version = rollout.resource_version();
        if seen.insert((rollout.namespace(), rollout.name_any()), version.clone()) == Some(version) {
            continue;
        }
        let row = row(&rollout, args.all_namespaces, now());
        let text = if table.is_empty() {
            table.push(row);
            table.render(0)
        } else {
            table.render_rows(vec![row])
        };
        let mut out = io::stdout().lock();
        if out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_err() {
            return Ok(());
        }
    }
    Ok(())
}

fn table(namespaces: bool) -> Table {
    let mut headings = vec![
        "NAME",
        "STRATEGY",
        "STATUS",
        "STEP",
        "SET-WEIGHT",
        "READY",
        "DESIRED",
        "UP-TO-DATE",
        "AVAILABLE",
        "AGE",
    ];
    if namespaces {
        headings.insert(0, "NAMESPACE");
    }
    Table::new(headings)
}

fn row(rollout: &Rollout, namespaces: bool, now: Timestamp) -> Vec<String> {
    let status = status(rollout);
    let steps = step_count(rollout);
    let mut row = vec![
        rollout.name_any(),
        strategy(rollout).to_owned(),
        phase(rollout).to_owned(),
        if steps > 0 { format!("{}/{steps}", step_index(rollout)) } else { "-".to_owned() },
        set_weight(rollout).map_or_else(|| "-".to_owned(), |weight| weight.to_string()),
        format!("{}/{}", status.ready_replicas, status.replicas),
        rollout.spec.replicas.to_string(),
        status.updated_replicas.to_string(),
        status.available_replicas.to_string(),
        age(rollout.metadata.creation_timestamp.as_ref(), now),
    ];
    if namespaces {
        row.insert(0, rollout.namespace().unwrap_or_default());
    }
    row
}

#[cfg(test)]
mod tests {
    use super::{super::fixtures, *};

    #[test]
    fn rollouts_are_shown_in_rows() {
        let mut shown = table(true);
        for rollout in
            [fixtures::paused(), fixtures::completed(), fixtures::aborted(), fixtures::blue_green()]
        {
            shown.push(row(&rollout, true, fixtures::now()));
        }
        let text = shown.render(0);
        let lines: Vec<String> = text.lines().skip(1).map(crate::show::line).collect();
        let wanted = [
            "shop web Canary Paused 1/4 20 6/6 5 1 6 120m",
            "shop web Canary Completed 4/4 100 6/5 5 5 6 120m",
            "shop web Canary Failed 0/4 0 6/6 5 1 6 120m",
            "shop web BlueGreen Preview - - 6/6 5 1 6 120m",
        ];
        assert_eq!(lines, wanted, "{text}");
    }
}
