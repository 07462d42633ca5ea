//! What is wrong in a Rollout and in what it names. The controller's `InvalidSpec` and `windlass rollout lint` are this.
//!
//! Nothing is corrected or guessed: a finding names the field, says what is wrong and what to do.

mod canary;
mod common;
mod spec;
mod unknown;
pub mod world;

use serde::Serialize;
use windlass_api::rollout::Rollout;

use crate::observed::Observed;

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The field, like `spec.strategy.canary.steps[2].setWeight`.
    pub field: String,
    /// For the condition, in `CamelCase`, from a fixed set.
    pub reason: &'static str,
    /// What is wrong.
    pub what: String,
    /// What to do about it.
    pub remedy: String,
}

impl Finding {
    /// Both sentences, with the field before them.
    pub fn message(&self) -> String {
        format!("{}: {}. {}.", self.field, self.what, self.remedy)
    }
}

/// Findings while they are being gathered.
#[derive(Debug, Default)]
pub(crate) struct Findings(Vec<Finding>);

impl Findings {
    pub(crate) fn add(
        &mut self,
        field: impl Into<String>,
        reason: &'static str,
        what: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        self.0.push(Finding { field: field.into(), reason, what: what.into(), remedy: remedy.into() });
    }
}

/// What is wrong in the object alone, without a look at a cluster.
pub fn lint_spec(rollout: &Rollout) -> Vec<Finding> {
    let mut findings = Findings::default();
    spec::check(rollout, None, &mut findings);
    findings.0
}

/// What is wrong in the object and in what it names.
pub fn lint(observed: &Observed) -> Vec<Finding> {
    let mut findings = Findings::default();
    spec::check(&observed.rollout, Some(observed), &mut findings);
    if findings.0.is_empty() {
        world::check(observed, &mut findings);
    }
    findings.0
}
