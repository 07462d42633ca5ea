//! The keeper of repositories against a real git server: one fetch for all, hooks, trouble that comes and goes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod bed;
mod credentials;
mod follow;
mod hooks;
mod jujutsu;
mod outage;
mod rendering;
