//! `windlass health`: how objects fare, judged from what is in their manifests.

use std::path::PathBuf;

use serde::Serialize;
use serde_json::Value;
use windlass_manifest::health::{Health, Rules};

use super::Format;
use crate::{cli, error::CommandError, input};

const EXAMPLES: &str = "\
Examples:
  kubectl get deployment web -o yaml | windlass health -f -
  windlass health -f live.yaml -o json
  windlass health -f database.yaml --rules our-rules.yaml";

/// Judge the health of objects in files
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// File with objects as the cluster shows them, `-` for standard input; may be repeated
    #[arg(short = 'f', long = "file", value_name = "FILE", required = true)]
    files: Vec<PathBuf>,

    /// File with health rules of your own, which come before those that are built in; may be repeated
    #[arg(long, value_name = "FILE")]
    rules: Vec<PathBuf>,

    /// Print in this format instead of one line for each object; a single object is printed by itself, several as a list
    #[arg(short, long, value_name = "FORMAT")]
    output: Option<Format>,
}

/// What is told about one object.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Judged {
    #[serde(flatten)]
    health: Health,
    #[serde(skip_serializing_if = "Option::is_none")]
    api_version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
}

/// Prints a judgement for each object.
pub(crate) fn run(args: &Args) -> Result<(), CommandError> {
    let own;
    let rules = if args.rules.is_empty() {
        Rules::builtin()
    } else {
        own = with_rules(&args.rules)?;
        &own
    };
    let manifests = input::read_all(&args.files)?;
    let objects = manifests.iter().flat_map(|file| &file.objects);
    let judged: Vec<Judged> = objects.map(|object| judge(rules, &object.value)).collect();
    let text = match (args.output, judged.as_slice()) {
        (None, judged) => table(judged),
        (Some(Format::Json), [one]) => cli::to_json(one)?,
        (Some(Format::Json), several) => cli::to_json(&several)?,
    };
    cli::print(&text)
}

fn with_rules(files: &[PathBuf]) -> Result<Rules, CommandError> {
    let mut text = String::new();
    for path in files {
        let more = std::fs::read_to_string(path).map_err(|error| {
            CommandError::failure(format!("cannot read {}", path.display())).because(error)
        })?;
        text.push_str("---\n");
        text.push_str(&more);
        text.push('\n');
    }
    Rules::with(&text).map_err(|error| {
        CommandError::usage("the health rules cannot be used")
            .because(error)
            .hint("docs/health.md shows the form of a rule.")
    })
}

fn judge(rules: &Rules, object: &Value) -> Judged {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    Judged {
        health: rules.health(object),
        api_version: text("/apiVersion"),
        kind: text("/kind"),
        namespace: text("/metadata/namespace"),
        name: text("/metadata/name"),
    }
}

fn table(judged: &[Judged]) -> String {
    let names: Vec<String> = judged.iter().map(Judged::title).collect();
    let width = names.iter().map(|name| name.chars().count()).max().unwrap_or_default();
    let lines = judged.iter().zip(&names).map(|(judged, name)| {
        let message = judged.health.message.split_whitespace().collect::<Vec<_>>().join(" ");
        let line = format!("{:<11}  {name:<width$}  {message}", judged.health.status);
        format!("{}\n", line.trim_end())
    });
    lines.collect()
}

impl Judged {
    /// `Deployment shop/web`
    fn title(&self) -> String {
        let kind = self.kind.as_deref().unwrap_or("(no kind)");
        let name = self.name.as_deref().unwrap_or("(no name)");
        match &self.namespace {
            Some(namespace) => format!("{kind} {namespace}/{name}"),
            None => format!("{kind} {name}"),
        }
    }
}
