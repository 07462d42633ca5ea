//! What an API server's refusal of a dry run says: which rule refused, and why.

use windlass_cluster::apply::ApplyError;

use super::answers;

/// A refusal: the rule, and its words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) policy: String,
    pub(super) message: String,
}

impl Refusal {
    fn new(policy: &str, message: impl Into<String>) -> Self {
        Self { policy: policy.to_owned(), message: message.into() }
    }
}

/// Names the rule behind an error that is about the object. Not for errors that are about the cluster.
pub(super) fn refusal(error: &ApplyError) -> Refusal {
    if answers::is_immutable(error) {
        return Refusal::new(
            "immutable",
            format!("{} {}", sentence(&told(error)), answers::IMMUTABLE_REMEDY),
        );
    }
    match error {
        ApplyError::Denied { message } => denied(message),
        ApplyError::Quota { message } => Refusal::new("quota", message.clone()),
        ApplyError::UnknownField { .. } => Refusal::new("schema", error.to_string()),
        ApplyError::Invalid { causes, .. } => {
            // Without a field it is the shape of the object that is wrong, not a value.
            let policy = if causes.is_empty() { "schema" } else { "validation" };
            Refusal::new(policy, told(error))
        }
        ApplyError::Forbidden { message } => forbidden(message),
        ApplyError::TooLarge { message } => Refusal::new("size", message.clone()),
        ApplyError::Terminating => Refusal::new("namespace", "the namespace is being deleted"),
        ApplyError::NotFound { message } => match answers::missing_namespace(error) {
            Some(namespace) => Refusal::new(
                "namespace",
                format!("Namespace {namespace} does not exist. {}", answers::NAMESPACE_REMEDY),
            ),
            None => Refusal::new("apiserver", message.clone()),
        },
        other => Refusal::new("apiserver", other.to_string()),
    }
}

/// The fields and what is wrong with them, or the message where no field is told.
fn told(error: &ApplyError) -> String {
    match error {
        ApplyError::Invalid { causes, .. } if !causes.is_empty() => {
            let causes: Vec<String> =
                causes.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect();
            causes.join("; ")
        }
        ApplyError::Invalid { message, .. } | ApplyError::Forbidden { message } => message.clone(),
        other => other.to_string(),
    }
}

fn sentence(text: &str) -> String {
    if text.ends_with(['.', '!', '?']) { text.to_owned() } else { format!("{text}.") }
}

/// The policy that a warning names, if it does.
pub(super) fn warner(warning: &str) -> Option<&str> {
    between(warning, "ValidatingAdmissionPolicy '", "'")
}

fn denied(message: &str) -> Refusal {
    if let Some(policy) = between(message, "ValidatingAdmissionPolicy '", "'") {
        let why = message.split_once("denied request: ").map_or(message, |(_, why)| why);
        return Refusal::new(policy, why);
    }
    let webhook = between(message, "admission webhook \"", "\"").unwrap_or("webhook");
    let why = message.split_once("denied the request: ").map_or(message, |(_, why)| why).trim();
    let named = if webhook.ends_with("gatekeeper.sh") {
        gatekeeper(why)
    } else if webhook.contains("kyverno") {
        kyverno(why)
    } else {
        Vec::new()
    };
    let policy = if named.is_empty() { webhook.to_owned() } else { named.join(", ") };
    Refusal { policy, message: why.to_owned() }
}

/// Every line begins with the constraint: `[must-have-owner] you must provide labels: {"owner"}`.
fn gatekeeper(why: &str) -> Vec<&str> {
    let names =
        why.lines().filter_map(|line| line.trim().strip_prefix('[')?.split_once(']')).map(|(name, _)| name);
    distinct(names)
}

/// After the words about policies each policy stands on a line of its own and its rules are indented below it:
/// `require-labels:`, `  check-owner: 'validation error: …'`.
fn kyverno(why: &str) -> Vec<&str> {
    let Some((_, list)) = why.split_once("following policies") else { return Vec::new() };
    let names = list
        .lines()
        .filter(|line| !line.starts_with([' ', '\t']))
        .filter_map(|line| line.trim_end().strip_suffix(':'))
        .filter(|name| !name.is_empty() && !name.contains(' '));
    distinct(names)
}

fn distinct<'t>(names: impl Iterator<Item = &'t str>) -> Vec<&'t str> {
    let mut found: Vec<&str> = Vec::new();
    for name in names {
        if !found.contains(&name) {
            found.push(name);
        }
    }
    found
}

/// An admission plug-in answers 403 just as the authorizer does; only the authorizer says who cannot do what.
fn forbidden(message: &str) -> Refusal {
    if message.contains(" cannot ") && (message.contains("User \"") || message.contains("user \"")) {
        let remedy = "Give the account a Role that allows it.";
        return Refusal::new("rbac", format!("{} {remedy}", sentence(message)));
    }
    if let Some(level) = between(message, "violates PodSecurity \"", "\"") {
        return Refusal::new(&format!("PodSecurity {level}"), message);
    }
    Refusal::new("admission", message)
}

fn between<'t>(text: &'t str, start: &str, end: &str) -> Option<&'t str> {
    let (_, rest) = text.split_once(start)?;
    rest.split_once(end).map(|(found, _)| found)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use windlass_cluster::apply::FieldError;

    use super::*;

    fn said(message: &str) -> Refusal {
        refusal(&ApplyError::Denied { message: message.into() })
    }

    #[test]
    fn the_policy_is_named_in_every_engine_s_words() {
        let vap = said(
            "deployments.apps \"web\" is forbidden: ValidatingAdmissionPolicy 'needs-owner' with binding 'all' denied request: no owner",
        );
        assert_eq!(vap, Refusal::new("needs-owner", "no owner"));
        let gatekeeper = said(
            "admission webhook \"validation.gatekeeper.sh\" denied the request: [must-own] no owner\n[no-latest] tag latest\n[must-own] again",
        );
        assert_eq!(gatekeeper.policy, "must-own, no-latest");
        let kyverno = said(
            "admission webhook \"validate.kyverno.svc-fail\" denied the request: \n\nresource Deployment/a/web was blocked due to the following policies \n\nrequire-labels:\n  check-owner: 'validation error: label owner is required.'\nno-latest:\n  tag: 'no'\n",
        );
        assert_eq!(kyverno.policy, "require-labels, no-latest");
        assert!(kyverno.message.contains("label owner is required"), "{kyverno:?}");
        let other = said("admission webhook \"check.example.org\" denied the request: [x] no");
        assert_eq!(other, Refusal::new("check.example.org", "[x] no"));
    }

    #[test]
    fn an_odd_denial_still_has_a_policy_and_a_message() {
        let odd = said("admission webhook \"validation.gatekeeper.sh\" denied the request: no brackets");
        assert_eq!(odd, Refusal::new("validation.gatekeeper.sh", "no brackets"));
        let silent = said("admission webhook \"validate.kyverno.svc-fail\" denied the request: because");
        assert_eq!(silent.policy, "validate.kyverno.svc-fail");
    }

    #[test]
    fn other_refusals_are_named_by_what_refused() {
        let forbidden = |message: &str| refusal(&ApplyError::Forbidden { message: message.into() }).policy;
        assert_eq!(
            forbidden("configmaps \"a\" is forbidden: User \"x\" cannot patch resource \"configmaps\""),
            "rbac"
        );
        assert_eq!(
            forbidden(
                "pods \"a\" is forbidden: violates PodSecurity \"restricted:latest\": runAsNonRoot != true"
            ),
            "PodSecurity restricted:latest"
        );
        assert_eq!(forbidden("pods \"a\" is forbidden: maximum cpu usage per Container is 1"), "admission");
        let invalid = |field: &str, message: &str| ApplyError::Invalid {
            message: "whole".into(),
            causes: vec![FieldError { field: field.into(), message: message.into() }],
        };
        let immutable = refusal(&invalid("spec.selector", "Invalid value: x: field is immutable"));
        assert_eq!(immutable.policy, "immutable");
        assert!(immutable.message.contains("spec.selector") && immutable.message.contains("Force=true"));
        let value = refusal(&invalid("spec.replicas", "must be greater than or equal to 0"));
        assert_eq!(value, Refusal::new("validation", "spec.replicas: must be greater than or equal to 0"));
        let shape = refusal(&ApplyError::Invalid { message: "expected map".into(), causes: Vec::new() });
        assert_eq!(shape.policy, "schema");
        let missing = refusal(&ApplyError::NotFound { message: "namespaces \"shop\" not found".into() });
        assert_eq!(missing.policy, "namespace");
        assert!(missing.message.contains("createNamespace"), "{missing:?}");
    }
}
