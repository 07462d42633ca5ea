//! One file per verb.

pub(crate) mod demo;
pub(crate) mod down;
pub(crate) mod hold;
pub(crate) mod serve;
mod state;
pub(crate) mod tools;
pub(crate) mod up;
