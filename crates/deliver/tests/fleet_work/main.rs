//! Prepare, survey, dry run and carry out on a real control plane.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod adoption;
mod house;
mod judged;
mod looked;
mod worked;
