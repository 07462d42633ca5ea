//! `testbed`: the real parts of the testbed for people.

mod commands;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Real parts for tests and demos: tools, control planes, nodes.
#[derive(Parser)]
#[command(name = "testbed", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Find or build the programs, and list them with path and version.
    Tools(commands::tools::Args),
    /// Start control planes with simulated nodes and leave them running.
    Up(commands::up::Args),
    /// End what `testbed up` started.
    Down,
    /// Show the product at work, on a control plane of its own or on your cluster.
    Demo(commands::demo::Args),
    /// What runs in the background after `testbed up`.
    #[command(hide = true)]
    Serve(commands::serve::Args),
    /// Starts something, says what it is, and waits without end: for tests of what is left after a kill.
    #[command(hide = true)]
    Hold(commands::hold::Args),
}

#[tokio::main]
async fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Tools(args) => commands::tools::run(&args),
        Command::Up(args) => commands::up::run(&args),
        Command::Down => commands::down::run(),
        Command::Demo(args) => commands::demo::run(&args).await,
        Command::Serve(args) => commands::serve::run(&args).await,
        Command::Hold(args) => commands::hold::run(&args).await,
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
