//! Argo Rollouts: `Rollout`, `AnalysisTemplate` and `ClusterAnalysisTemplate`.
//!
//! Names and shapes are the same, so that most of it is another apiVersion. What is different is turned, what is not
//! known is told. A field that the controller refuses by name, such as another traffic router, stays in what is produced:
//! without it the Rollout would be carried out in another way than before.

mod prune;

use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};
use windlass_api::{
    analysis::AnalysisTemplateSpec,
    rollout::{Rollout, RolloutSpec},
};
use windlass_rollout::{
    analysis::{check, condition},
    lint,
};

use super::{
    Options,
    fields::Fields,
    objects::{Head, Marks},
    report::Report,
    shared,
};

/// The API group of Argo Rollouts.
pub(super) const GROUP: &str = "argoproj.io";

/// Key of the Gateway API plug-in's settings.
const PLUGIN: &str = "argoproj-labs/gatewayAPI";

/// The label that pods carry there, in manifests and as Prometheus writes it.
const HASH_LABELS: [&str; 2] = ["rollouts-pod-template-hash", "rollouts_pod_template_hash"];

const KEPT: &str = "it stays in what is produced, and the controller refuses it by name";

/// Converts all of them.
pub(super) fn convert(objects: Vec<Value>, options: &Options, report: &mut Report) -> Vec<Value> {
    let (mut templates, mut rollouts) = (Vec::new(), Vec::new());
    for object in objects {
        let head = Head::of(&object);
        report.about(&head.title());
        match (head.group.as_str(), head.kind.as_str()) {
            (GROUP, "Rollout") => rollouts.extend(rollout(&head, object, options, report)),
            (GROUP, "AnalysisTemplate" | "ClusterAnalysisTemplate") => {
                templates.extend(template(&head, object, options, report));
            }
            (GROUP, "AnalysisRun" | "Experiment") => {
                report.note("", "tells what was measured once, and is not needed any more");
            }
            ("", "Service") => service(&object, report),
            _ => report.passed_over(if head.kind.is_empty() { "object without a kind" } else { &head.kind }),
        }
    }
    // What a Rollout names is best there before it.
    templates.extend(rollouts);
    templates
}

fn rollout(head: &Head, object: Value, options: &Options, report: &mut Report) -> Option<Value> {
    let (marks, mut spec) = taken_apart(head, object, report)?;
    gateway(&mut spec, head, report);
    readable::<RolloutSpec>(&mut spec, report)?;
    let object = produced(head, &marks, &spec, options);
    match serde_json::from_value::<Rollout>(object.clone()) {
        Ok(rollout) => {
            for finding in lint::lint_spec(&rollout) {
                report.left(finding.field, format!("{}: {KEPT}", finding.what), finding.remedy);
            }
        }
        Err(error) => {
            report.refused(format!("it cannot be read: {error}"), "Correct the object");
            return None;
        }
    }
    report.converted();
    Some(object)
}

fn template(head: &Head, object: Value, options: &Options, report: &mut Report) -> Option<Value> {
    let (marks, mut spec) = taken_apart(head, object, report)?;
    conditions(&mut spec, report);
    let typed = readable::<AnalysisTemplateSpec>(&mut spec, report)?;
    for problem in check::problems(&typed.metrics) {
        // An argument has its value only in a run.
        let open = |text: &str| text.contains("{{");
        let of_others = typed.metrics.is_empty() && !typed.templates.is_empty();
        if !open(&problem.what) && !of_others {
            report.left(
                format!("spec.{}", problem.field),
                format!("{}: {KEPT}", problem.what),
                problem.remedy,
            );
        }
    }
    report.converted();
    Some(produced(head, &marks, &spec, options))
}

/// Labels and annotations, and the spec.
fn taken_apart(head: &Head, object: Value, report: &mut Report) -> Option<(Marks, Value)> {
    if !head.usable(report) {
        return None;
    }
    let mut fields = Fields::of("", object, report);
    for key in ["apiVersion", "kind", "status"] {
        fields.pass(key);
    }
    let marks = fields
        .part("metadata", report)
        .map(|mut metadata| shared::marks(&mut metadata, report, own))
        .unwrap_or_default();
    let spec = fields.map("spec", report).unwrap_or_default();
    fields.finish(report);
    Some((marks, Value::Object(spec)))
}

/// Labels and annotations of Argo's own: bookkeeping goes, notifications are told.
fn own(key: &str, _value: &str, report: &mut Report) -> bool {
    if key.starts_with("notifications.argoproj.io/") {
        report.left(
            format!("metadata.annotations[{key}]"),
            "notifications are not sent from annotations",
            "Subscribe to Kubernetes Events or CDEvents instead",
        );
        return false;
    }
    !key.starts_with("rollout.argoproj.io/") && !key.starts_with("rollouts.argoproj.io/")
}

fn produced(head: &Head, marks: &Marks, spec: &Value, options: &Options) -> Value {
    let mut metadata = Map::new();
    metadata.insert("name".to_owned(), head.name.clone().into());
    if head.kind != "ClusterAnalysisTemplate" {
        let namespace = options.into.clone().unwrap_or_else(|| head.namespace.clone());
        if !namespace.is_empty() {
            metadata.insert("namespace".to_owned(), namespace.into());
        }
    }
    for (field, pairs) in [("labels", &marks.labels), ("annotations", &marks.annotations)] {
        if !pairs.is_empty() {
            metadata.insert(field.to_owned(), json!(pairs));
        }
    }
    json!({
        "apiVersion": format!("{}/{}", windlass_api::GROUP, windlass_api::VERSION),
        "kind": head.kind,
        "metadata": metadata,
        "spec": spec,
    })
}

/// Reads the spec as ours, and takes away what was not read. The user gets to know.
fn readable<T: Serialize + DeserializeOwned>(spec: &mut Value, report: &mut Report) -> Option<T> {
    let typed: T = match serde_json::from_value(spec.clone()) {
        Ok(typed) => typed,
        Err(error) => {
            report.refused(format!("its spec cannot be read: {error}"), "Correct the object");
            return None;
        }
    };
    let known = serde_json::to_value(&typed).unwrap_or_default();
    prune::unknown(spec, &known, "spec", report);
    Some(typed)
}

/// The settings of the Gateway API plug-in become `gatewayAPI`.
fn gateway(spec: &mut Value, head: &Head, report: &mut Report) {
    const ROUTING: &str = "/strategy/canary/trafficRouting";
    let Some(routing) = spec.pointer_mut(ROUTING).and_then(Value::as_object_mut) else { return };
    let Some(plugins) = routing.get_mut("plugins").and_then(Value::as_object_mut) else { return };
    let Some(settings) = plugins.shift_remove(PLUGIN) else { return };
    if plugins.is_empty() {
        routing.shift_remove("plugins");
    }
    let path = format!("spec.strategy.canary.trafficRouting.plugins[{PLUGIN}]");
    let mut settings = Fields::of(&path, settings, report);
    let mut gateway = Map::new();
    for key in ["httpRoute", "httpRoutes", "grpcRoute", "grpcRoutes"] {
        if let Some(value) = settings.value(key) {
            gateway.insert(key.to_owned(), value);
        }
    }
    if let Some(namespace) = settings.text("namespace", report)
        && !head.namespace.is_empty()
        && namespace != head.namespace
    {
        report.left(
            settings.at("namespace"),
            "routes are looked up in the namespace of the Rollout only",
            "Move the route, or the Rollout, so that both are in one namespace",
        );
    }
    for key in ["tcpRoute", "tcpRoutes", "tlsRoute", "tlsRoutes"] {
        settings.left(key, "only HTTPRoute and GRPCRoute are known", "Use one of them", report);
    }
    for key in ["inProgressLabelKey", "inProgressLabelValue", "disableInProgressLabel"] {
        settings.note(key, "routes get no label while a rollout goes on", report);
    }
    settings.finish(report);
    routing.insert("gatewayAPI".to_owned(), Value::Object(gateway));
    report.note(path, "is gatewayAPI now");
}

/// Conditions in CEL, and labels in queries that pods do not have here.
fn conditions(spec: &mut Value, report: &mut Report) {
    let Some(metrics) = spec.get_mut("metrics").and_then(Value::as_array_mut) else { return };
    for (index, metric) in metrics.iter_mut().enumerate() {
        for key in ["successCondition", "failureCondition"] {
            let Some(text) = metric.get(key).and_then(Value::as_str).map(str::to_owned) else { continue };
            let field = format!("spec.metrics[{index}].{key}");
            // What arguments put in is known only in a run; there it is turned as well.
            if text.contains("{{") {
                continue;
            }
            match condition::in_cel(&text) {
                Ok(cel) if cel != text => {
                    report.note(field, format!("`{text}` is `{cel}` in CEL"));
                    metric[key] = cel.into();
                }
                Ok(_) | Err(_) => {}
            }
        }
        let query = metric.pointer("/provider/prometheus/query").and_then(Value::as_str).unwrap_or_default();
        if HASH_LABELS.iter().any(|label| query.contains(label)) {
            report.left(
                format!("spec.metrics[{index}].provider.prometheus.query"),
                "it asks for the label rollouts-pod-template-hash, which pods do not have here",
                "Ask for windlass_dev_pod_template_hash, or as your scrape rules name windlass.dev/pod-template-hash",
            );
        }
    }
}

/// A Service is not converted, but its selector can hold on to pods of the old Rollout.
fn service(object: &Value, report: &mut Report) {
    let selector = object.pointer("/spec/selector").and_then(Value::as_object);
    if selector.is_some_and(|selector| selector.contains_key(HASH_LABELS[0])) {
        report
            .note("spec.selector", "rollouts-pod-template-hash has to go before the new Rollout is applied");
    }
}
