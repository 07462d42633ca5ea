//! `windlass rollout simulate`: how would this rollout have gone?

mod recorded;

use std::{fs, path::PathBuf, time::Duration as StdDuration};

use jiff::Timestamp;
use windlass_api::duration::Duration;
use windlass_rollout::simulate::{
    Absent, Objects, Scenario, Series, SimulateError, Simulation, Source, chart, series::STALE_AFTER,
    simulate, svg, table,
};

use crate::{cli, error::CommandError, input};

const EXAMPLES: &str = "\
Examples:
  windlass rollout simulate -f rollout.yaml
  windlass rollout simulate -f rollout.yaml -f analysis.yaml --series errors.csv
  windlass rollout simulate -f rollout.yaml --prometheus http://localhost:9090 --start 2026-03-01T10:00:00Z \\
      --end 2026-03-01T11:00:00Z -o svg > rollout.svg

The planners of the controller go through the rollout with simulated pods and a clock that jumps. Measurements come from:
  --series      comma-separated values: a column of times (seconds, 1m30s or 2026-03-01T10:00:00Z) and a column for each
                metric, named like the metric or its query. A cell is a number, several with ; between them, NaN, a phase
                such as Failed, or empty for a gap.
  --prometheus  each query of a prometheus metric, asked over the range from --start to --end
  neither       every measurement is good

Metrics that judge by themselves take from a series: sloBurnRate the burn rate as a share of its limit, compare the
p-value, job 0 for a failure.";

/// When nothing says when it begins: any time is as good as another, but always the same.
const SOME_TIME: i64 = 946_684_800;

/// Play a rollout through, with given or recorded metrics
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// File with the Rollout, its analysis templates, Services and routes; may be repeated
    #[arg(short = 'f', long = "file", value_name = "FILE", required = true)]
    files: Vec<PathBuf>,

    /// The Rollout, if there are several
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// Table of measurements
    #[arg(long, value_name = "FILE", conflicts_with = "prometheus")]
    series: Option<PathBuf>,

    /// Address of a Prometheus that has recorded the metrics
    #[arg(long, value_name = "URL", requires = "start", requires = "end")]
    prometheus: Option<String>,

    /// When the new version is applied [default: the first time of the series]
    #[arg(long, value_name = "TIME")]
    start: Option<Timestamp>,

    /// End of what is recorded
    #[arg(long, value_name = "TIME", requires = "prometheus")]
    end: Option<Timestamp>,

    /// Value of an argument of the analyses, in place of what the Rollout gives; may be repeated
    #[arg(long = "arg", value_name = "NAME=VALUE", value_parser = pair)]
    arguments: Vec<(String, String)>,

    /// How long a pod takes to become ready
    #[arg(long, value_name = "DURATION", default_value = "10s")]
    ready_after: Duration,

    /// A person promotes a pause without a length after so long [default: nobody does]
    #[arg(long, value_name = "DURATION")]
    promote_after: Option<Duration>,

    /// How long a value of a series holds
    #[arg(long, value_name = "DURATION", default_value_t = Duration(STALE_AFTER))]
    stale_after: Duration,

    /// The end, if the rollout does not come to one
    #[arg(long, value_name = "DURATION", default_value = "6h")]
    longest: Duration,

    /// Print in this format
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: Output,

    /// Columns of the chart
    #[arg(long, value_name = "NUMBER", default_value_t = 72)]
    width: usize,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Output {
    /// What happened, line by line
    Table,
    /// The weight and the metrics over time, for a terminal
    Chart,
    /// The same as a drawing
    Svg,
    /// Everything, for programs
    Json,
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write it like name=value".to_owned()),
    }
}

/// Simulates and shows it.
pub(super) fn run(args: &Args) -> Result<(), CommandError> {
    let mut scenario = scenario(args)?;
    if let Some(file) = &args.series {
        let (series, first) = series(file, &scenario, args)?;
        scenario.start = args.start.unwrap_or(first);
        scenario.source = Source::Series(series);
    } else if let (Some(address), Some(end)) = (&args.prometheus, args.end) {
        scenario.source = Source::Series(recorded::fetch(address, &scenario, end)?);
        if let Source::Series(series) = &mut scenario.source {
            series.stale_after = args.stale_after.0;
        }
    } else {
        scenario
            .assumed
            .push("every measurement is good: no --series and no --prometheus was given".to_owned());
    }
    let simulation = simulate(&scenario).map_err(|error| refused(&error))?;
    show(&simulation, args)
}

fn show(simulation: &Simulation, args: &Args) -> Result<(), CommandError> {
    cli::print(&match args.output {
        Output::Table => table(simulation),
        Output::Chart => chart(simulation, args.width),
        Output::Svg => svg(simulation).map_err(|error| CommandError::failure(error.to_string()))?,
        Output::Json => cli::to_json(simulation)?,
    })
}

fn scenario(args: &Args) -> Result<Scenario, CommandError> {
    let files = input::read_all(&args.files)?;
    let values = files.into_iter().flat_map(|file| file.objects).map(|object| object.value);
    let objects = Objects::sort(values)
        .map_err(|error| CommandError::failure("cannot read the objects").because(error))?;
    let names: Vec<String> =
        objects.rollouts.iter().filter_map(|rollout| rollout.metadata.name.clone()).collect();
    let chosen = match (&args.name, objects.rollouts.as_slice()) {
        (Some(name), all) => all.iter().find(|rollout| rollout.metadata.name.as_ref() == Some(name)),
        (None, [one]) => Some(one),
        (None, _) => None,
    };
    let Some(rollout) = chosen else {
        let error = CommandError::failure(match &args.name {
            Some(name) => format!("there is no Rollout {name} in the files"),
            None if names.is_empty() => "there is no Rollout in the files".to_owned(),
            None => "there is more than one Rollout in the files".to_owned(),
        });
        return Err(if names.is_empty() {
            error
        } else {
            error.hint(format!("Name one with --name: {}", names.join(", ")))
        });
    };
    let (world, mut assumed) = objects.observed(rollout, Absent::Assumed);
    assumed.push(format!("pods are ready after {}", args.ready_after));
    if let Some(patience) = args.promote_after {
        assumed.push(format!("somebody promotes after {patience}"));
    }
    Ok(Scenario {
        rollout: rollout.clone(),
        world,
        library: objects.library(rollout),
        before: None,
        source: Source::Good,
        args: args.arguments.iter().cloned().collect(),
        start: args.start.unwrap_or_else(|| Timestamp::from_second(SOME_TIME).unwrap_or_default()),
        ready_after: args.ready_after.0,
        promote_after: args.promote_after.map(StdDuration::from),
        longest: args.longest.0,
        assumed,
    })
}

fn series(file: &PathBuf, scenario: &Scenario, args: &Args) -> Result<(Series, Timestamp), CommandError> {
    let text = fs::read_to_string(file)
        .map_err(|error| CommandError::failure(format!("cannot read {}", file.display())).because(error))?;
    let (mut series, first) = Series::parse(&text, scenario.start).map_err(|error| {
        CommandError::failure(format!("{} is no table of series", file.display())).because(error)
    })?;
    series.stale_after = args.stale_after.0;
    Ok((series, first))
}

fn refused(error: &SimulateError) -> CommandError {
    let failure = CommandError::failure(error.to_string());
    match error {
        SimulateError::Invalid(_) => failure.hint("windlass rollout lint says the same, field by field."),
        SimulateError::NoSeries { .. } => {
            failure.hint("Name a column like the metric or like its query, or leave the series out.")
        }
        _ => failure,
    }
}
