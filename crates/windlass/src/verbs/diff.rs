//! `windlass diff`: what differs between the objects of two files, or what a revision would do to clusters.

use std::{collections::BTreeMap, fmt::Write as _, path::PathBuf};

use serde::Serialize;
use serde_json::Value;
use windlass_manifest::{
    diff::{self, Difference},
    identity::ObjectKey,
};

use super::{Format, diff_app};
use crate::{
    cli,
    error::CommandError,
    input::{self, Manifests},
};

const EXAMPLES: &str = "\
Examples:
  windlass diff -f before.yaml -f after.yaml
  windlass diff app web -n shop --revision feature-x
  kubectl get deployment web -o yaml --show-managed-fields | windlass diff -f web.yaml -f - --manager windlass";

/// Compare the objects of two files by what they mean, or a revision of an Application with all its clusters
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    of: Option<Of>,

    /// The two files, the wanted one first; `-` is standard input
    #[arg(short = 'f', long = "file", value_name = "FILE", required = true)]
    files: Vec<PathBuf>,

    /// Leave out of both what nobody wrote: status, bookkeeping and what the cluster filled in
    #[arg(long, conflicts_with = "manager")]
    sanitize: bool,

    /// Take the second file as live objects and compare only what this field manager wants or owns
    #[arg(long, value_name = "NAME")]
    manager: Option<String>,

    /// Print in this format instead of lines for people
    #[arg(short, long, value_name = "FORMAT")]
    output: Option<Format>,
}

#[derive(clap::Subcommand, Debug)]
enum Of {
    App(Box<diff_app::Args>),
}

/// What is told about one object that is not the same in both files.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Changed {
    object: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    only_in: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    differences: Vec<Difference>,
}

/// Prints the differences.
pub(crate) fn run(args: &Args) -> Result<(), CommandError> {
    if let Some(Of::App(args)) = &args.of {
        return diff_app::run(args);
    }
    if args.files.len() != 2 {
        return Err(CommandError::usage(format!("two files are needed, {} given", args.files.len()))
            .hint("Name the wanted one first: windlass diff -f A -f B"));
    }
    let mut manifests = input::read_all(&args.files)?;
    if args.sanitize {
        input::sanitize_all(&mut manifests);
    }
    let [a, b] = manifests.as_slice() else {
        return Err(CommandError::failure("two files were read as another number of files"));
    };
    let (wanted, live) = (by_key(a)?, by_key(b)?);
    let mut changed = Vec::new();
    for (key, object) in &wanted {
        let Some(other) = live.get(key) else {
            changed.push(Changed::only(key, &a.name));
            continue;
        };
        let differences = match &args.manager {
            Some(manager) => diff::diff(object, other, manager),
            None => diff::compare(object, other),
        };
        if !differences.is_empty() {
            changed.push(Changed { object: key.to_string(), only_in: None, differences });
        }
    }
    changed
        .extend(live.keys().filter(|key| !wanted.contains_key(key)).map(|key| Changed::only(key, &b.name)));
    cli::print(&match args.output {
        Some(Format::Json) => cli::to_json(&changed)?,
        None => lines(&changed, a, b, args.manager.is_some()),
    })
}

/// The objects of a file by name. One that stands there twice cannot be compared.
fn by_key(file: &Manifests) -> Result<BTreeMap<ObjectKey, &Value>, CommandError> {
    let mut objects = BTreeMap::new();
    for object in &file.objects {
        let place = || format!("{}, {}", file.name, object.position);
        let key = ObjectKey::of(&object.value).map_err(|error| {
            CommandError::failure(format!("{}: not a Kubernetes object", place())).because(error)
        })?;
        let name = key.to_string();
        if objects.insert(key, &object.value).is_some() {
            return Err(CommandError::failure(format!("{}: {name} stands in this file twice", place())));
        }
    }
    Ok(objects)
}

fn lines(changed: &[Changed], a: &Manifests, b: &Manifests, live: bool) -> String {
    let mut text = String::new();
    for changed in changed {
        let _ = writeln!(text, "{}", changed.object);
        if let Some(file) = &changed.only_in {
            let _ = writeln!(text, "  only in {file}");
        }
        for difference in &changed.differences {
            let line = if live { difference.to_string() } else { difference.between(&a.name, &b.name) };
            let _ = writeln!(text, "  {line}");
        }
    }
    if text.is_empty() { "no difference\n".to_owned() } else { text }
}

impl Changed {
    fn only(key: &ObjectKey, file: &str) -> Self {
        Self { object: key.to_string(), only_in: Some(file.to_owned()), differences: Vec::new() }
    }
}
