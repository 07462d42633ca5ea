//! `windlass rollout lint`: what the controller would say, before anything is applied.

use std::{fmt::Write as _, path::PathBuf};

use serde::Serialize;
use windlass_rollout::{
    analysis::check,
    lint,
    simulate::{Absent, Objects},
};

use super::words::title;
use crate::{cli, error::CommandError, input, verbs::Format};

const EXAMPLES: &str = "\
Examples:
  windlass rollout lint -f rollout.yaml
  windlass rollout lint -f rollout.yaml -f services.yaml -f analysis.yaml
  kustomize build . | windlass rollout lint -f -

The findings are those of the controller's InvalidSpec condition. Services, routes, Deployments and analysis templates are
looked up in the given files; what is not among them is not judged. No cluster is needed.";

/// Say what is wrong in Rollouts and analysis templates, without a cluster
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// File with objects, `-` for standard input; may be repeated
    #[arg(short = 'f', long = "file", value_name = "FILE", required = true)]
    files: Vec<PathBuf>,

    /// What a Rollout names and the files do not hold is a finding
    #[arg(long)]
    strict: bool,

    /// Print in this format instead of lines
    #[arg(short, long, value_name = "FORMAT")]
    output: Option<Format>,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Entry {
    object: String,
    field: String,
    reason: String,
    what: String,
    remedy: String,
}

/// Says it.
pub(super) fn run(args: &Args) -> Result<(), CommandError> {
    let mut found = Vec::new();
    let objects = read(&args.files, &mut found)?;
    if objects.rollouts.is_empty() && objects.templates().next().is_none() && found.is_empty() {
        return Err(CommandError::failure("there is no Rollout and no analysis template in the files"));
    }
    for template in objects.templates() {
        found.extend(of_template(&template.0, template.1));
    }
    let absent = if args.strict { Absent::Missing } else { Absent::Assumed };
    for rollout in &objects.rollouts {
        let (observed, assumed) = objects.observed(rollout, absent);
        for what in assumed {
            cli::note(&format!("{}: not judged, not among the files: {what}", title(rollout)));
        }
        found.extend(lint::lint(&observed).into_iter().map(|finding| Entry {
            object: format!("Rollout {}", title(rollout).trim_start_matches('/')),
            field: finding.field,
            reason: finding.reason.to_owned(),
            what: finding.what,
            remedy: finding.remedy,
        }));
    }
    let judged = objects.rollouts.len() + objects.templates().count();
    cli::print(&match args.output {
        Some(Format::Json) => cli::to_json(&found)?,
        None => page(&found, judged),
    })?;
    if found.is_empty() { Ok(()) } else { Err(CommandError::told()) }
}

/// The objects of all files. One that cannot be read is a finding of its own.
fn read(files: &[PathBuf], found: &mut Vec<Entry>) -> Result<Objects, CommandError> {
    let mut objects = Objects::default();
    for file in input::read_all(files)? {
        for object in file.objects {
            if let Err(error) = objects.take(object.value) {
                found.push(Entry {
                    object: file.name.clone(),
                    field: object.position.to_string(),
                    reason: "Unreadable".to_owned(),
                    what: error.to_string(),
                    remedy: "correct the manifest".to_owned(),
                });
            }
        }
    }
    Ok(objects)
}

/// What is wrong in a template. Arguments have no values yet: what they would fill is not judged.
fn of_template(title: &str, template: &windlass_api::analysis::AnalysisTemplateSpec) -> Vec<Entry> {
    let open = |text: &Option<String>| text.as_deref().is_some_and(|text| text.contains("{{"));
    let mut metrics = template.metrics.clone();
    for metric in &mut metrics {
        for text in [
            &mut metric.interval,
            &mut metric.initial_delay,
            &mut metric.success_condition,
            &mut metric.failure_condition,
        ] {
            if open(text) {
                *text = None;
            }
        }
        for number in [
            &mut metric.count,
            &mut metric.failure_limit,
            &mut metric.inconclusive_limit,
            &mut metric.consecutive_error_limit,
            &mut metric.consecutive_success_limit,
        ] {
            let is_open = matches!(number,
                Some(k8s_openapi::apimachinery::pkg::util::intstr::IntOrString::String(text)) if text.contains("{{"));
            if is_open {
                *number = None;
            }
        }
    }
    // A template may hold nothing but references to others.
    if metrics.is_empty() && !template.templates.is_empty() {
        return Vec::new();
    }
    let problems = check::problems(&metrics).into_iter();
    problems
        .map(|problem| Entry {
            object: title.to_owned(),
            field: format!("spec.{}", problem.field),
            reason: "InvalidMetric".to_owned(),
            what: problem.what,
            remedy: problem.remedy,
        })
        .collect()
}

fn page(found: &[Entry], judged: usize) -> String {
    let mut text = String::new();
    let mut last = "";
    for entry in found {
        if entry.object != last {
            let _ = writeln!(text, "{}", entry.object);
            last = &entry.object;
        }
        let _ = writeln!(text, "  {}: {} ({})", entry.field, entry.what.trim_end_matches('.'), entry.reason);
        let _ = writeln!(text, "    → {}", entry.remedy.trim_end_matches('.'));
    }
    if found.is_empty() {
        let _ = writeln!(text, "{}: nothing is wrong", crate::show::count(judged, "object"));
    }
    text
}
