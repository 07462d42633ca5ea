//! Repositories: mirrors of Git and Jujutsu remotes, revisions, trees, commits, pushes and the journal of movements.
//!
//! What comes in are remotes with their credentials and edits to make; what goes out are commits, trees, files and the
//! moves of refs. Objects are read with gix, the network is the `git` program, jj-lib knows change ids, conflicts and
//! operations. Nothing in here knows of a cluster.

pub mod command;
pub mod id;
pub mod journal;
pub mod jujutsu;
pub mod mirror;
mod openssh;
pub mod push;
pub mod remote;
pub mod repo;
pub mod repositories;
pub mod revision;
pub mod tree;
pub mod write;
