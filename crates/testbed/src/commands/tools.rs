//! `testbed tools`

use std::io::Write;

use anyhow::Context;
use windlass_testbed::tools::{self, Tool};

/// Arguments of `testbed tools`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Names of the programs; all when none is given.
    #[arg(value_parser = parse)]
    names: Vec<Tool>,
    /// Only show what is there, build nothing.
    #[arg(long)]
    list: bool,
}

fn parse(name: &str) -> Result<Tool, String> {
    let names = || Tool::ALL.map(Tool::name).join(", ");
    Tool::ALL.into_iter().find(|tool| tool.name() == name).ok_or_else(|| format!("not one of {}", names()))
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let wanted = if args.names.is_empty() { Tool::ALL.to_vec() } else { args.names.clone() };
    let mut out = std::io::stdout().lock();
    for tool in wanted {
        let path = if args.list { tools::locate(tool)? } else { Some(tools::path(tool)?) };
        let line = match path {
            Some(path) => {
                let version =
                    tools::version_of(tool, &path).map_or_else(|| "unknown".into(), |v| v.to_string());
                format!("{:<24} {version:<10} {}", tool.name(), path.display())
            }
            None => {
                format!("{:<24} {:<10} not there yet; `testbed tools {tool}` builds it", tool.name(), "-")
            }
        };
        writeln!(out, "{line}").context("cannot write to standard output")?;
    }
    Ok(())
}
