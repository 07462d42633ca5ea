//! The command line as a whole: verbs, names, help, exit codes.

use std::{
    ffi::{OsStr, OsString},
    io::{self, Write as _},
    path::Path,
    process::ExitCode,
};

use clap::{Args as _, Command, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use crate::{error::CommandError, terminal::Paint, verbs};

const ABOUT: &str = "GitOps for Kubernetes that hauls both ways: Git to clusters, clusters to Git";

const AFTER_HELP: &str = "\
Exit codes:
  0  done
  1  failed
  2  wrong usage: command line, environment or config file
A verb that has others says so in its own help.

As a kubectl plug-in: put it on PATH as kubectl-windlass, then `kubectl windlass …`.";

/// The command line.
#[derive(Parser, Debug)]
#[command(name = "windlass", version, about = ABOUT, after_help = AFTER_HELP, max_term_width = 100)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand, Debug)]
enum Verb {
    Controller(Box<verbs::controller::Args>),
    Get(verbs::get::Args),
    Describe(verbs::describe::Args),
    Why(verbs::why::Args),
    Tree(verbs::tree::Args),
    Sync(verbs::sync::Args),
    History(verbs::history::Args),
    Undo(verbs::undo::Args),
    Rollback(verbs::rollback::Args),
    Rollout(verbs::rollout::Args),
    Approve(verbs::approve::Args),
    Health(verbs::health::Args),
    Canonical(verbs::canonical::Args),
    Diff(verbs::diff::Args),
    Migrate(verbs::migrate::Args),
    Crds(verbs::crds::Args),
    Version(verbs::version::Args),
    Completion(verbs::completion::Args),
    Sandbox(verbs::sandbox::Args),
}

/// Runs the command and says how it ended.
pub(crate) fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args: Vec<OsString> = args.into_iter().collect();
    let cli = command(args.first().map(OsString::as_os_str))
        .try_get_matches_from(&args)
        .and_then(|matches| Cli::from_arg_matches(&matches));
    let cli = match cli {
        Ok(cli) => cli,
        // Help and version end here as well, with 0; everything else with 2.
        Err(error) => {
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    match cli.verb.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = io::stderr().write_all(error.render(Paint::stderr()).as_bytes());
            error.exit_code()
        }
    }
}

impl Verb {
    fn run(self) -> Result<(), CommandError> {
        match self {
            Self::Controller(args) => verbs::controller::run(*args),
            Self::Get(args) => verbs::get::run(&args),
            Self::Describe(args) => verbs::describe::run(&args),
            Self::Why(args) => verbs::why::run(&args),
            Self::Tree(args) => verbs::tree::run(&args),
            Self::Sync(args) => verbs::sync::run(&args),
            Self::History(args) => verbs::history::run(&args),
            Self::Undo(args) => verbs::undo::run(&args),
            Self::Rollback(args) => verbs::rollback::run(&args),
            Self::Rollout(args) => verbs::rollout::run(&args),
            Self::Approve(args) => verbs::approve::run(&args),
            Self::Health(args) => verbs::health::run(&args),
            Self::Canonical(args) => verbs::canonical::run(&args),
            Self::Diff(args) => verbs::diff::run(&args),
            Self::Migrate(args) => verbs::migrate::run(&args),
            Self::Crds(args) => verbs::crds::run(&args),
            Self::Version(args) => verbs::version::run(&args),
            Self::Completion(args) => verbs::completion::run(&args),
            Self::Sandbox(args) => verbs::sandbox::run(args),
        }
    }
}

/// The command under the name that it was called by.
pub(crate) fn command(program: Option<&OsStr>) -> Command {
    let command = Cli::command();
    if is_plugin(program) {
        command.bin_name("kubectl windlass").display_name("kubectl-windlass")
    } else {
        command.bin_name("windlass")
    }
}

/// kubectl runs `kubectl-windlass` for `kubectl windlass`.
fn is_plugin(program: Option<&OsStr>) -> bool {
    program.and_then(|program| Path::new(program).file_stem()).is_some_and(|name| name == "kubectl-windlass")
}

/// Keys of the config file: the ids of the controller's settings, as Kubernetes writes field names.
pub(crate) fn setting_keys() -> Vec<String> {
    let command = crate::config::Layer::augment_args(Command::new("settings"));
    let mut keys: Vec<String> =
        command.get_arguments().map(|arg| camel_case(arg.get_id().as_str())).collect();
    keys.sort();
    keys
}

fn camel_case(id: &str) -> String {
    let mut words = id.split('_');
    let mut text = words.next().unwrap_or_default().to_owned();
    for word in words {
        let mut letters = word.chars();
        text.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        text.push_str(letters.as_str());
    }
    text
}

/// Writes to standard output. A reader that went away, as `head` does, is no failure.
pub(crate) fn print(text: &str) -> Result<(), CommandError> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(CommandError::failure("cannot write to standard output").because(error))
        }
        _ => Ok(()),
    }
}

/// Says something beside the output, on standard error.
pub(crate) fn note(text: &str) {
    let _ = writeln!(io::stderr(), "{} {text}", Paint::stderr().label("note:"));
}

/// A value as YAML for programs, with a line end.
pub(crate) fn to_yaml(value: &impl serde::Serialize) -> Result<String, CommandError> {
    serde_saphyr::to_string(value)
        .map(|text| format!("{}\n", text.trim_end()))
        .map_err(|error| CommandError::failure("cannot write this as YAML").because(error))
}

/// A value as JSON for programs, with a line end.
pub(crate) fn to_json(value: &impl serde::Serialize) -> Result<String, CommandError> {
    serde_json::to_string_pretty(value)
        .map(|text| format!("{text}\n"))
        .map_err(|error| CommandError::failure("cannot write this as JSON").because(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_plug_in_is_known_by_its_name() {
        for (program, plugin) in [
            ("kubectl-windlass", true),
            ("/opt/bin/kubectl-windlass", true),
            ("windlass", false),
            ("kubectl", false),
        ] {
            assert_eq!(is_plugin(Some(OsStr::new(program))), plugin, "{program}");
        }
        assert!(!is_plugin(None));
    }

    #[test]
    fn keys_are_camel_case() {
        assert_eq!(camel_case("allow_kubeconfig_insecure_tls"), "allowKubeconfigInsecureTls");
        assert!(setting_keys().contains(&"leaderElect".to_owned()));
    }
}
