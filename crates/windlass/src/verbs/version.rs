//! `windlass version`: what this binary is.

use serde::Serialize;

use crate::{cli, error::CommandError};

const EXAMPLES: &str = "\
Examples:
  windlass version
  windlass version -o json";

/// Version of the workspace.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The commit, when whoever built the binary said it (`WINDLASS_COMMIT`).
pub(crate) const COMMIT: Option<&str> = option_env!("WINDLASS_COMMIT");

/// Print the version
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Print in this format instead of one line for people
    #[arg(short, long, value_name = "FORMAT")]
    output: Option<Output>,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug)]
enum Output {
    Json,
    Yaml,
}

/// What there is to say.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Build {
    version: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    commit: Option<&'static str>,
    api_version: String,
    platform: String,
}

/// Prints it.
pub(crate) fn run(args: &Args) -> Result<(), CommandError> {
    let build = Build {
        version: VERSION,
        commit: COMMIT,
        api_version: format!("{}/{}", windlass_api::GROUP, windlass_api::VERSION),
        platform: format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
    };
    let text = match args.output {
        None => format!("windlass {}{}", build.version, commit(build.commit)),
        Some(Output::Json) => cli::to_json(&build)?,
        Some(Output::Yaml) => serde_saphyr::to_string(&build).map_err(not_written)?,
    };
    cli::print(&format!("{}\n", text.trim_end()))
}

fn commit(commit: Option<&str>) -> String {
    commit.map(|commit| format!(" ({commit})")).unwrap_or_default()
}

fn not_written(error: impl std::error::Error + Send + Sync + 'static) -> CommandError {
    CommandError::failure("cannot write the version in this format").because(error)
}
