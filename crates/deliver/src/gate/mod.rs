//! The gate: verdicts in, decision out.
//!
//! Whoever judges (a dry run on the cluster, later the policy engines in this process) gives [`Verdict`]s; [`decide`]
//! turns them into what may be applied. Nothing else in this part looks at a verdict.

use std::collections::BTreeSet;

use serde::Serialize;
use windlass_api::application::{PolicyMode, status::Violation};

use crate::object::ObjectId;

/// What one judge says about one object on one cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Verdict {
    /// The object.
    pub object: ObjectId,
    /// The cluster; `None` when it holds for all.
    pub cluster: Option<String>,
    /// The policy, webhook or rule that judged.
    pub policy: String,
    /// What it said.
    pub ruling: Ruling,
}

/// What a judge says.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Ruling {
    /// It may pass.
    Pass,
    /// It may not, and why.
    Refused(String),
    /// It could not be judged, and why: as good as a refusal.
    Error(String),
    /// It may pass, but somebody should know.
    Warned(String),
}

/// What may be applied.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Decision {
    /// Nothing may.
    pub blocked: bool,
    /// All but these may.
    pub left_out: BTreeSet<ObjectId>,
    /// For status, Events and metrics.
    pub violations: Vec<Violation>,
}

impl Decision {
    /// Everything may be applied, and nothing is to be told.
    pub fn pass() -> Self {
        Self { blocked: false, left_out: BTreeSet::new(), violations: Vec::new() }
    }
}

/// Decides over one cluster's verdicts.
///
/// Guarantees: with `strict` one refusal or error blocks everything; with `permissive` exactly the refused objects are
/// left out; with `audit` nothing is; every refusal, error and warning is a violation whatever the mode.
pub fn decide(mode: PolicyMode, verdicts: &[Verdict]) -> Decision {
    let mut decision = Decision::pass();
    for verdict in verdicts {
        let (message, against) = match &verdict.ruling {
            Ruling::Pass => continue,
            Ruling::Refused(message) | Ruling::Error(message) => (message, true),
            Ruling::Warned(message) => (message, false),
        };
        decision.violations.push(Violation {
            cluster: verdict.cluster.clone(),
            object: verdict.object.short(),
            policy: verdict.policy.clone(),
            message: message.clone(),
        });
        match mode {
            PolicyMode::Strict => decision.blocked |= against,
            PolicyMode::Permissive if against => {
                decision.left_out.insert(verdict.object.clone());
            }
            PolicyMode::Permissive | PolicyMode::Audit => {}
        }
    }
    decision
        .violations
        .sort_by(|a, b| (&a.cluster, &a.object, &a.policy).cmp(&(&b.cluster, &b.object, &b.policy)));
    decision
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn verdict(name: &str, ruling: Ruling) -> Verdict {
        Verdict {
            object: format!("v1/ConfigMap/a/{name}").parse().unwrap(),
            cluster: Some("east".into()),
            policy: "no-latest".into(),
            ruling,
        }
    }

    #[test]
    fn each_mode_decides_as_it_promises() {
        let verdicts = [
            verdict("good", Ruling::Pass),
            verdict("bad", Ruling::Refused("no".into())),
            verdict("odd", Ruling::Error("time-out".into())),
            verdict("meh", Ruling::Warned("old API".into())),
        ];
        let decide = |mode| super::decide(mode, &verdicts);
        for mode in [PolicyMode::Strict, PolicyMode::Permissive, PolicyMode::Audit] {
            assert_eq!(decide(mode).violations.len(), 3, "{mode:?}");
        }
        assert!(decide(PolicyMode::Strict).blocked);
        let permissive = decide(PolicyMode::Permissive);
        assert!(!permissive.blocked);
        let left: Vec<&str> = permissive.left_out.iter().map(|id| id.name.as_str()).collect();
        assert_eq!(left, ["bad", "odd"]);
        let audit = decide(PolicyMode::Audit);
        assert!(!audit.blocked && audit.left_out.is_empty());
    }

    #[test]
    fn a_warning_alone_blocks_nothing() {
        let decision = decide(PolicyMode::Strict, &[verdict("meh", Ruling::Warned("old API".into()))]);
        assert!(!decision.blocked && decision.violations.len() == 1);
    }
}
