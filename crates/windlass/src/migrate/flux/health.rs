//! `healthCheckExprs` → rules.

use windlass_api::application::{HealthRule, HealthRules, status::HealthWord};

use crate::migrate::{fields::Fields, report::Report};

/// One set of rules for each entry. Flux asks for progress first, then for failure, then for success, and waits when
/// none of them holds.
pub(super) fn rules(spec: &mut Fields, report: &mut Report) -> Vec<HealthRules> {
    let parts = spec.parts("healthCheckExprs", report);
    parts.into_iter().filter_map(|part| entry(part, report)).collect()
}

fn entry(mut part: Fields, report: &mut Report) -> Option<HealthRules> {
    let version = part.text("apiVersion", report).unwrap_or_default();
    let kind = part.text("kind", report);
    let mut rules = Vec::new();
    for (field, status) in [
        ("inProgress", HealthWord::Progressing),
        ("failed", HealthWord::Degraded),
        ("current", HealthWord::Healthy),
    ] {
        if let Some(when) = part.text(field, report) {
            foreign_words(&part.at(field), &when, report);
            rules.push(HealthRule { when: Some(when), status, message: None });
        }
    }
    let path = part.at("kind");
    part.finish(report);
    let Some(kind) = kind else {
        report.left(path, "is missing: the entry was not carried over", "Correct the object");
        return None;
    };
    if rules.is_empty() {
        return None;
    }
    rules.push(HealthRule { when: None, status: HealthWord::Progressing, message: None });
    let group = version.split_once('/').map(|(group, _)| group.to_owned()).unwrap_or_default();
    Some(HealthRules { group, kinds: vec![kind], rules })
}

/// An expression over `data` can be written in Flux, but not here.
fn foreign_words(field: &str, expression: &str, report: &mut Report) {
    let known = ["metadata", "spec", "status", "conditions"];
    let head: String = expression.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
    let path = expression[head.len()..].starts_with('.');
    if path && !known.contains(&head.as_str()) {
        report.left(
            field,
            format!("asks for {head}, but rules see only metadata, spec, status and conditions"),
            "Write the rule in spec.health anew",
        );
    }
}
