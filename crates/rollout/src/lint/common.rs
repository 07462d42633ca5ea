//! Rules that several strategies share.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use windlass_api::rollout::{AntiAffinity, Rollout, RolloutAnalysis, traffic::StringMatch};

use super::Findings;
use crate::{plan::runs::at_path, replicas::limits::number_or_percent};

/// A number or a percentage.
pub(super) fn amount(at: &str, value: Option<&IntOrString>, findings: &mut Findings) -> Option<i64> {
    let value = value?;
    match number_or_percent(value) {
        Some((number, _)) if number >= 0 => Some(number),
        _ => {
            findings.add(
                at,
                "InvalidAmount",
                "it is neither a number of pods nor a percentage",
                "write it like 1 or 25%",
            );
            None
        }
    }
}

/// Surge and unavailability must not both be nothing.
pub(super) fn limits(
    at: &str,
    surge: Option<&IntOrString>,
    unavailable: Option<&IntOrString>,
    findings: &mut Findings,
) {
    let surge = amount(&format!("{at}.maxSurge"), surge, findings);
    let unavailable = amount(&format!("{at}.maxUnavailable"), unavailable, findings);
    if surge == Some(0) && unavailable == Some(0) {
        findings.add(
            format!("{at}.maxSurge"),
            "NoRoomToMove",
            "maxSurge and maxUnavailable are both 0, so that no pod could ever be replaced",
            "raise one of them",
        );
    }
}

pub(super) fn anti_affinity(at: &str, affinity: Option<&AntiAffinity>, findings: &mut Findings) {
    let Some(affinity) = affinity else { return };
    let at = format!("{at}.antiAffinity");
    let preferred = affinity.preferred_during_scheduling_ignored_during_execution.as_ref();
    let required = affinity.required_during_scheduling_ignored_during_execution.is_some();
    if preferred.is_some() == required {
        findings.add(
            &at,
            "InvalidAntiAffinity",
            "exactly one of preferred and required has to be set",
            "take one away, or set one",
        );
    }
    if preferred.is_some_and(|preferred| !(1..=100).contains(&preferred.weight)) {
        let what = "the weight is not between 1 and 100";
        findings.add(format!("{at}.weight"), "InvalidAntiAffinity", what, "write a weight from 1 to 100");
    }
}

/// Exactly one way to match a text.
pub(super) fn text_match(at: &str, value: &StringMatch, findings: &mut Findings) {
    let set = [&value.exact, &value.prefix, &value.regex].iter().filter(|text| !text.is_empty()).count();
    if set != 1 {
        let what = format!("{set} of exact, prefix and regex are set");
        findings.add(at, "InvalidMatch", what, "set exactly one of them");
    }
}

/// Arguments name fields that are there.
pub(super) fn analysis(
    at: &str,
    analysis: Option<&RolloutAnalysis>,
    rollout: &Rollout,
    findings: &mut Findings,
) {
    let Some(analysis) = analysis else { return };
    if analysis.templates.is_empty() {
        findings.add(
            format!("{at}.templates"),
            "NoTemplate",
            "the analysis names no template",
            "name an AnalysisTemplate, or take the analysis away",
        );
    }
    let object = serde_json::to_value(rollout).unwrap_or_default();
    for (index, arg) in analysis.args.iter().enumerate() {
        let path =
            arg.value_from.as_ref().and_then(|from| from.field_ref.as_ref()).map(|field| &field.field_path);
        // What is in the status comes later.
        if let Some(path) =
            path.filter(|path| path.starts_with("metadata") && at_path(&object, path).is_none())
        {
            let what = format!("the Rollout has no {path}");
            findings.add(format!("{at}.args[{index}]"), "UnknownFieldPath", what, "name a field that it has");
        }
    }
}

/// Limits of delays and history.
pub(super) fn delay_limit(at: &str, limit: Option<i32>, rollout: &Rollout, findings: &mut Findings) {
    let history = rollout.spec.revision_history_limit.unwrap_or(10);
    if limit.is_some_and(|limit| limit > history) {
        findings.add(
            format!("{at}.scaleDownDelayRevisionLimit"),
            "InvalidLimit",
            "it is larger than spec.revisionHistoryLimit",
            "lower it, or keep more revisions",
        );
    }
}
