//! Rendering as it is in production: repositories fetched into mirrors, the real kustomize and helm, the real cell.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod bed;
mod cell;
mod change;
mod decryption;
mod helm;
mod hostile;
mod kustomize;
mod plain;
