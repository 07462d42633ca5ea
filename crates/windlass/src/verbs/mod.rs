//! One file per verb: its arguments and what it does.

pub(crate) mod canonical;
pub(crate) mod completion;
pub(crate) mod controller;
pub(crate) mod crds;
pub(crate) mod diff;
pub(crate) mod health;
pub(crate) mod version;

/// How a verb can print for programs.
#[derive(clap::ValueEnum, Clone, Copy, Debug)]
pub(crate) enum Format {
    /// One JSON document.
    Json,
}
