//! What can be done with objects.

mod create;
mod delete;
mod intake;
mod read;
mod scale;
mod write;

pub(crate) use create::create;
pub(crate) use delete::{delete, delete_collection, remove_object};
pub(crate) use read::{Selection, get, list, metadata_only};
pub(crate) use scale::{read_scale, write_scale};
pub(crate) use write::{patch, replace};
