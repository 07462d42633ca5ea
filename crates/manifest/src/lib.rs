//! Kubernetes objects as values, purely: text and values in, text, values and judgements out.
//!
//! What comes in is what people and API servers write; what goes out is the same everywhere in the house: the same object
//! has the same canonical bytes, the same path, the same differences and the same health, whoever asks. No client, no
//! clock, no file system and no async in here.

pub mod canonical;
pub mod diff;
pub mod digest;
pub mod edit;
pub mod expression;
pub mod health;
pub mod identity;
pub mod order;
pub mod parse;
pub mod path;
pub mod sanitize;
pub mod schema;
