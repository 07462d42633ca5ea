//! Real repositories for tests: plain ones made with the `git` program, Jujutsu ones made with jj-lib.

pub mod git;
pub mod jj;
