//! The settings of the controller.
//!
//! ```text
//!   flags ──┐
//!   WINDLASS_* ──► Layer ──┐
//!   --config FILE ► Layer ─┴─► merged Layer ──► Settings::resolve(surroundings) ──► Settings, checked as a whole
//! ```
//!
//! Every setting has one name in three spellings: `--lease-renew`, `WINDLASS_LEASE_RENEW`, `leaseRenew`. A flag wins
//! over the environment, the environment over the file, the file over the default. No setting holds a secret.

mod file;
mod layer;
mod settings;
mod values;

use std::path::Path;

pub(crate) use layer::Layer;
pub(crate) use settings::{Settings, Surroundings};
pub(crate) use values::{Listen, LogFormat};

use crate::error::CommandError;

/// Reads the file, if there is one, puts the flags (and with them the environment) on top, and checks the whole.
pub(crate) fn load(flags: Layer, file: Option<&Path>) -> Result<Settings, CommandError> {
    let layer = match file {
        Some(path) => flags.over(file::read(path)?),
        None => flags,
    };
    Settings::resolve(layer, &Surroundings::of_this_process())
}
