//! One file per verb: its arguments and what it does.

pub(crate) mod approve;
pub(crate) mod canonical;
pub(crate) mod completion;
pub(crate) mod controller;
pub(crate) mod crds;
pub(crate) mod describe;
pub(crate) mod diff;
pub(crate) mod diff_app;
pub(crate) mod get;
pub(crate) mod health;
pub(crate) mod history;
pub(crate) mod hub;
mod live;
pub(crate) mod migrate;
pub(crate) mod rollback;
pub(crate) mod rollout;
pub(crate) mod sandbox;
pub(crate) mod sync;
pub(crate) mod tree;
pub(crate) mod undo;
pub(crate) mod version;
pub(crate) mod why;

/// How a verb can print for programs.
#[derive(clap::ValueEnum, Clone, Copy, Debug)]
pub(crate) enum Format {
    /// One JSON document.
    Json,
}
