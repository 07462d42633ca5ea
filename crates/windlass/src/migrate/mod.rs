//! Applications of Argo CD and Flux → Applications of Windlass; Rollouts of Argo Rollouts → Rollouts. Objects in, objects and a report out; only `files` and
//! `live`, which fetch the objects, touch the world.
//!
//! ```text
//!   objects ─► sorted by kind ─► Fields (taken one by one) ─► typed specs ─► objects
//!                                     │ what nobody took
//!                                     └────────────────────► Report
//! ```
//!
//! Nothing is dropped without a word: a field is either taken by the converter that knows it, or it is in the
//! [`Report`] with what to do about it. A converter never fails and never panics, whatever the objects hold.

mod argo_rollouts;
mod argocd;
mod fields;
pub(crate) mod files;
mod flux;
mod kubeconfig;
pub(crate) mod live;
mod names;
mod objects;
mod report;
mod shared;
mod takeover;
#[cfg(test)]
mod tests;

use serde_json::Value;

pub(crate) use self::report::Report;

/// Where the objects come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tool {
    /// Argo CD.
    ArgoCd,
    /// Flux.
    Flux,
    /// Argo Rollouts.
    ArgoRollouts,
}

/// What the user wants.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    /// The namespace of everything that is produced. Default: where it was before.
    pub(crate) into: Option<String>,
}

/// What came out.
#[derive(Debug)]
pub(crate) struct Converted {
    /// Secrets, Clusters and Applications, or templates and Rollouts, in the order in which they are best applied.
    pub(crate) objects: Vec<Value>,
    /// What was left behind, and what to do.
    pub(crate) report: Report,
}

/// Converts all that is given together: objects refer to each other.
pub(crate) fn convert(tool: Tool, given: Vec<Value>, options: &Options) -> Converted {
    let mut report = Report::default();
    let objects = match tool {
        Tool::ArgoCd => argocd::convert(given, options, &mut report).into_values(),
        Tool::Flux => flux::convert(given, options, &mut report).into_values(),
        Tool::ArgoRollouts => argo_rollouts::convert(given, options, &mut report),
    };
    report.steps = takeover::steps(tool, &report, &objects);
    Converted { objects, report }
}

/// A namespace that the user names.
pub(crate) fn namespace(text: &str) -> Result<String, String> {
    if names::is_namespace(text) { Ok(text.to_owned()) } else { Err("can be no namespace".to_owned()) }
}
