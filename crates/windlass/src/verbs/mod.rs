//! One file per verb: its arguments and what it does.

pub(crate) mod completion;
pub(crate) mod controller;
pub(crate) mod crds;
pub(crate) mod version;
