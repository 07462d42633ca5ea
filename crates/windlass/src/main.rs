//! The `windlass` binary: arguments, settings, wiring, one file per verb.
//!
//! ```text
//!   argv ──► cli ──► verbs/<verb> ──► stdout, exit code
//!                        │
//!                        └─ controller ─► config (flags > environment > file > defaults) ─► Settings
//!                                                                                             │
//!       SIGTERM ─► controller::run ◄──────────────────────────────────────────────────────────┘
//!                     hub client · lease keeper · one drive per controller · probes, metrics, webhooks
//! ```
//!
//! Nothing is decided here that a part could decide: this crate reads what the user wants, starts the parts in the
//! right order and ends them in the right order.

mod admit;
mod cli;
mod config;
mod controller;
mod error;
mod input;
mod logs;
mod migrate;
mod show;
mod suggest;
mod terminal;
mod verbs;

use std::process::ExitCode;

/// Objects come and go all day: glibc's allocator keeps nearly half of what they take as holes, this one does not.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    // Before anything can open a connection: rustls wants exactly one provider per process. It is refused only when
    // there is one already, and then there is nothing left to do.
    let _ = rustls::crypto::ring::default_provider().install_default();
    cli::main(std::env::args_os())
}
