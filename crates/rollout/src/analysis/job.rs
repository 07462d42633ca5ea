//! Jobs that measure: making them, and telling how they are.

use std::collections::BTreeMap;

use k8s_openapi::api::{
    batch::v1::{Job, JobStatus},
    core::v1::{ContainerStatus, Pod},
};
use kube::{
    Resource, ResourceExt,
    api::{ApiResource, DynamicObject},
};
use serde_json::{Value, json};
use windlass_api::analysis::{AnalysisRun, Metric};

use super::plan::JobFact;

/// Label on Jobs and their pods: identity of the run that they measure for.
pub const RUN_UID: &str = "windlass.dev/analysis-run-uid";
/// Annotation on Jobs: name of the run.
pub const RUN_NAME: &str = "windlass.dev/analysis-run";
/// Annotation on Jobs: name of the metric.
pub const METRIC: &str = "windlass.dev/metric";

/// Pods that wait for one of these wait for ever.
const HOPELESS: [&str; 3] = ["ErrImagePull", "ImagePullBackOff", "InvalidImageName"];

/// The Job for a metric whose arguments are put in. The error says what is wrong with the metric.
pub(super) fn object(run: &AnalysisRun, metric: &Metric, name: &str) -> Result<DynamicObject, String> {
    let job = metric.provider.job.as_ref().ok_or("the metric has no Job")?;
    let uid = run.uid().unwrap_or_default();
    let metadata = job.metadata.clone().unwrap_or_default();
    let (mut labels, mut annotations) = (metadata.labels, metadata.annotations);
    labels.insert(RUN_UID.to_owned(), uid.clone());
    annotations.insert(RUN_NAME.to_owned(), run.name_any());
    annotations.insert(METRIC.to_owned(), metric.name.clone());
    let mut spec = job.spec.clone();
    let pod_labels = labels_of(&mut spec).ok_or("the Job has no spec.template. Write it as in a Job")?;
    pod_labels.insert(RUN_UID.to_owned(), Value::String(uid));
    let owner = run.controller_owner_ref(&()).ok_or("the run has no name")?;
    let object = json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {
            "name": name, "namespace": run.namespace(), "labels": labels, "annotations": annotations,
            "ownerReferences": [owner],
        },
        "spec": spec,
    });
    serde_json::from_value(object).map_err(|_| "the Job cannot be written".to_owned())
}

/// Jobs as the API knows them.
pub(super) fn resource() -> ApiResource {
    ApiResource::erase::<Job>(&())
}

fn labels_of(spec: &mut Value) -> Option<&mut serde_json::Map<String, Value>> {
    let template = spec.as_object_mut()?.get_mut("template")?.as_object_mut()?;
    let metadata = template.entry("metadata").or_insert_with(|| json!({}));
    if metadata.is_null() {
        *metadata = json!({});
    }
    let labels = metadata.as_object_mut()?.entry("labels").or_insert_with(|| json!({}));
    if labels.is_null() {
        *labels = json!({});
    }
    labels.as_object_mut()
}

/// How a Job is, by its conditions alone. `None` while it runs.
pub(super) fn ended(status: Option<&JobStatus>) -> Option<JobFact> {
    let conditions = status.and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    conditions.iter().filter(|condition| condition.status == "True").find_map(|condition| {
        match condition.type_.as_str() {
            "Complete" => Some(JobFact::Complete),
            "Failed" => {
                let told = [&condition.reason, &condition.message].into_iter().flatten().cloned();
                Some(JobFact::Failed(told.collect::<Vec<_>>().join(": ")))
            }
            _ => None,
        }
    })
}

/// Why pods of a Job will never start, if so.
pub(super) fn stuck(pods: &[Pod]) -> Option<String> {
    pods.iter().find_map(|pod| {
        let status = pod.status.as_ref()?;
        let containers = status.init_container_statuses.iter().chain(&status.container_statuses).flatten();
        let waits = |container: &ContainerStatus| {
            let waiting = container.state.as_ref()?.waiting.as_ref()?;
            let reason = waiting.reason.as_deref()?;
            HOPELESS.contains(&reason).then(|| {
                let message = waiting.message.as_deref().unwrap_or_default();
                format!(
                    "Pod {}, container {} cannot start ({reason}): {message}",
                    pod.name_any(),
                    container.name
                )
            })
        };
        containers.into_iter().find_map(waits)
    })
}

/// Jobs by name, for the planner.
pub(super) type Facts = BTreeMap<String, JobFact>;
