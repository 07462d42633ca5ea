//! Rules of the spec itself.

use std::collections::BTreeMap;

use serde_json::Value;
use windlass_api::rollout::{AbTest, BlueGreen, POD_TEMPLATE_HASH, Rollout, RolloutSpec};

use super::{Findings, canary, common, unknown};
use crate::{
    observed::{Observed, WorkloadFacts},
    plan::{as_canary, scene::resolved},
    revision::claim::matches,
};

const STRATEGY: &str = "spec.strategy";

pub(super) fn check(rollout: &Rollout, observed: Option<&Observed>, findings: &mut Findings) {
    let spec = &rollout.spec;
    unknown::check("spec", &spec.other, findings);
    workload(spec, observed, findings);
    let resolved = observed.and_then(resolved);
    match (&resolved, spec.workload_ref.is_some()) {
        (Some((template, selector)), _) => pods(template, selector, findings),
        (None, false) => own_pods(spec, findings),
        (None, true) => {}
    }
    numbers(spec, findings);
    strategy(rollout, findings);
}

fn workload(spec: &RolloutSpec, observed: Option<&Observed>, findings: &mut Findings) {
    let Some(reference) = &spec.workload_ref else { return };
    let at = "spec.workloadRef";
    let has_template = spec.template.as_ref().is_some_and(|template| {
        template.pointer("/spec/containers").and_then(Value::as_array).is_some_and(|list| !list.is_empty())
    });
    if has_template {
        findings.add(
            "spec.template",
            "TemplateAndWorkload",
            "there is a template beside workloadRef, and only one of them can count",
            "take one of the two away",
        );
    }
    if reference.name.is_empty() {
        findings.add(
            format!("{at}.name"),
            "MissingField",
            "no workload is named",
            "set the name of a Deployment",
        );
        return;
    }
    let kind = reference.kind.as_str();
    let known = kind == "Deployment" && matches!(reference.api_version.as_str(), "apps/v1" | "");
    if !known {
        let what = format!("{} {kind} is not a workload that a template is read from", reference.api_version);
        findings.add(at, "UnsupportedWorkload", what, "name an apps/v1 Deployment");
    } else if let Some(observed) = observed
        && !matches!(observed.workload, Some(WorkloadFacts::Found { .. }))
    {
        let what = format!("Deployment {} is not there", reference.name);
        findings.add(at, "WorkloadNotFound", what, "make it, or correct the name");
    }
}

fn own_pods(spec: &RolloutSpec, findings: &mut Findings) {
    if spec.template.is_none() {
        findings.add(
            "spec.template",
            "MissingField",
            "there is no pod template",
            "set template, or workloadRef",
        );
    }
    if spec.selector.is_none() {
        findings.add(
            "spec.selector",
            "MissingField",
            "there is no selector",
            "set matchLabels to labels of the template",
        );
    }
    if let (Some(template), Some(selector)) = (&spec.template, &spec.selector) {
        pods(template, selector, findings);
    }
}

fn pods(
    template: &Value,
    selector: &k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector,
    findings: &mut Findings,
) {
    let members = template.pointer("/metadata/labels").and_then(Value::as_object).into_iter().flatten();
    let labels: BTreeMap<String, String> =
        members.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned()))).collect();
    let empty = selector.match_labels.as_ref().is_none_or(BTreeMap::is_empty)
        && selector.match_expressions.as_ref().is_none_or(Vec::is_empty);
    if empty {
        let what = "an empty selector would take every pod of the namespace";
        findings.add("spec.selector", "EmptySelector", what, "set matchLabels to labels of the template");
    } else if !matches(selector, &labels) {
        findings.add(
            "spec.template.metadata.labels",
            "SelectorMismatch",
            "the selector does not match the labels of the template",
            "give the template the labels that spec.selector asks for",
        );
    }
    if labels.contains_key(POD_TEMPLATE_HASH) {
        let what = format!("the label {POD_TEMPLATE_HASH} is set by the controller");
        findings.add("spec.template.metadata.labels", "ReservedLabel", what, "take it away");
    }
    let containers = template.pointer("/spec/containers").and_then(Value::as_array);
    if containers.is_none_or(Vec::is_empty) {
        findings.add(
            "spec.template.spec.containers",
            "MissingField",
            "there are no containers",
            "add a container",
        );
    }
    for (index, container) in containers.into_iter().flatten().enumerate() {
        for field in ["name", "image"] {
            if container.get(field).and_then(Value::as_str).is_none_or(str::is_empty) {
                let at = format!("spec.template.spec.containers[{index}].{field}");
                findings.add(
                    at,
                    "MissingField",
                    format!("the container has no {field}"),
                    format!("set its {field}"),
                );
            }
        }
    }
    let policy = template.pointer("/spec/restartPolicy").and_then(Value::as_str);
    if policy.is_some_and(|policy| policy != "Always") {
        let at = "spec.template.spec.restartPolicy";
        findings.add(
            at,
            "InvalidTemplate",
            "pods of a ReplicaSet always restart",
            "take it away, or write Always",
        );
    }
}

fn numbers(spec: &RolloutSpec, findings: &mut Findings) {
    let negative = [
        ("spec.replicas", spec.replicas),
        ("spec.minReadySeconds", spec.min_ready_seconds),
        ("spec.revisionHistoryLimit", spec.revision_history_limit.unwrap_or(0)),
        ("spec.progressDeadlineSeconds", spec.progress_deadline_seconds.unwrap_or(0)),
    ];
    for (field, _) in negative.into_iter().filter(|(_, number)| *number < 0) {
        findings.add(field, "InvalidAmount", "it is less than 0", "write 0 or more");
    }
    if spec.progress_deadline_seconds.unwrap_or(600) <= spec.min_ready_seconds {
        findings.add(
            "spec.progressDeadlineSeconds",
            "InvalidDeadline",
            "it is not larger than minReadySeconds, so that every update would be late",
            "raise it above minReadySeconds",
        );
    }
}

fn strategy(rollout: &Rollout, findings: &mut Findings) {
    let strategy = &rollout.spec.strategy;
    unknown::check(STRATEGY, &strategy.other, findings);
    let set = [
        strategy.simple.is_some(),
        strategy.canary.is_some(),
        strategy.blue_green.is_some(),
        strategy.ab_test.is_some(),
    ];
    let count = set.into_iter().filter(|set| *set).count();
    if count != 1 {
        let what = format!("{count} strategies are set");
        findings.add(
            STRATEGY,
            "InvalidStrategy",
            what,
            "set exactly one of simple, canary, blueGreen and abTest",
        );
    }
    if let Some(simple) = &strategy.simple {
        let at = format!("{STRATEGY}.simple");
        unknown::check(&at, &simple.other, findings);
        common::limits(&at, simple.max_surge.as_ref(), simple.max_unavailable.as_ref(), findings);
    }
    if let Some(canary) = &strategy.canary {
        canary::check(&format!("{STRATEGY}.canary"), canary, rollout, findings);
    }
    if let Some(blue_green) = &strategy.blue_green {
        self::blue_green(blue_green, rollout, findings);
    }
    if let Some(test) = &strategy.ab_test {
        ab_test(test, rollout, findings);
    }
}

fn blue_green(blue_green: &BlueGreen, rollout: &Rollout, findings: &mut Findings) {
    let at = format!("{STRATEGY}.blueGreen");
    unknown::check(&at, &blue_green.other, findings);
    let field = format!("{at}.activeService");
    if blue_green.active_service.is_empty() {
        findings.add(field, "MissingService", "no active Service is named", "set activeService");
    } else if blue_green.preview_service.as_ref() == Some(&blue_green.active_service) {
        let what = "activeService and previewService are the same Service";
        findings.add(field, "DuplicateService", what, "make a Service for each of the two versions");
    }
    common::amount(&format!("{at}.maxUnavailable"), blue_green.max_unavailable.as_ref(), findings);
    common::anti_affinity(&at, blue_green.anti_affinity.as_ref(), findings);
    common::delay_limit(&at, blue_green.scale_down_delay_revision_limit, rollout, findings);
    let pre = blue_green.pre_promotion_analysis.as_ref();
    common::analysis(&format!("{at}.prePromotionAnalysis"), pre, rollout, findings);
    let post = blue_green.post_promotion_analysis.as_ref();
    common::analysis(&format!("{at}.postPromotionAnalysis"), post, rollout, findings);
}

fn ab_test(test: &AbTest, rollout: &Rollout, findings: &mut Findings) {
    let at = format!("{STRATEGY}.abTest");
    if test.variant.matches.is_empty() {
        findings.add(
            format!("{at}.variant.match"),
            "NoVariant",
            "no request would ever get variant B",
            "add a header or a cookie to match",
        );
    }
    for (index, rule) in test.variant.matches.iter().enumerate() {
        let field = format!("{at}.variant.match[{index}]");
        if rule.header.is_some() == rule.cookie.is_some() {
            let what = "not exactly one of header and cookie is set";
            findings.add(&field, "InvalidMatch", what, "set exactly one of them");
        }
        for named in rule.header.iter().chain(&rule.cookie) {
            common::text_match(&field, &named.value, findings);
        }
    }
    if test.duration.as_ref().is_some_and(|duration| duration.length().is_none()) {
        let what = "it is not a length of time";
        findings.add(format!("{at}.duration"), "InvalidDuration", what, "write it like 30s, 5m or 1h");
    }
    canary::check(&at, &as_canary(test), rollout, findings);
}
