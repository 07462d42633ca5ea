//! The form rules are written in.
//!
//! ```yaml
//! group: cert-manager.io          # or _.crossplane.io: every group that ends so
//! kinds: [Certificate]            # or ["*"]: every kind of the group
//! rules:                          # the first that holds decides
//!   - when: conditions.Issuing.isTrue
//!     status: Progressing
//!     message: ${conditions.Issuing.message}
//! otherwise:                      # what none of them knows; without it the generic rule decides
//!   status: Progressing
//!   message: Waiting for the certificate
//! ```

use serde::Deserialize;

use crate::health::Status;

/// One file of rules.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct File {
    /// The API group; `_.` in front stands for every group with that ending; the core group is empty.
    #[serde(default)]
    pub group: Option<String>,
    /// More groups with the same kinds and meaning.
    #[serde(default)]
    pub groups: Vec<String>,
    /// The kinds; `*` stands for every kind of the group that has no rule of its own.
    pub kinds: Vec<String>,
    /// Judge also what is being deleted. Without it deletion comes first and nothing else is asked.
    #[serde(default)]
    pub while_deleting: bool,
    /// Judge also what the controller has not read yet, for controllers that report the generation wrongly.
    #[serde(default)]
    pub any_generation: bool,
    /// The rules, in order.
    #[serde(default)]
    pub rules: Vec<Rule>,
    /// What to say when no rule holds.
    #[serde(default)]
    pub otherwise: Option<Verdict>,
}

/// One rule.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Rule {
    /// A CEL expression.
    pub when: String,
    /// What it means when it holds.
    pub status: Status,
    /// Why, with `${…}` for CEL expressions.
    #[serde(default)]
    pub message: String,
}

/// What to say without a condition.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Verdict {
    /// The status.
    pub status: Status,
    /// Why, with `${…}` for CEL expressions.
    #[serde(default)]
    pub message: String,
}
