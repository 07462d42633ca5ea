//! `Job` and `CronJob`.

use serde_json::Value;

use super::condition;
use crate::health::conditions::Truth;
use crate::health::object::{flag, list, text};
use crate::health::{Health, Status};

pub(super) fn job(object: &Value) -> Health {
    for (kind, status) in
        [("Failed", Status::Degraded), ("Complete", Status::Healthy), ("Suspended", Status::Suspended)]
    {
        if let Some(found) = condition(object, kind).filter(|found| found.truth == Truth::True) {
            return Health::new(status, found.says());
        }
    }
    if flag(object, &["spec", "suspend"]) {
        return Health::new(Status::Suspended, "Job is suspended");
    }
    // A job on its way to failure says so before its pods are gone.
    if let Some(target) = condition(object, "FailureTarget").filter(|target| target.truth == Truth::True) {
        return Health::new(Status::Degraded, target.says());
    }
    Health::new(Status::Progressing, "Job is running")
}

pub(super) fn cron_job(object: &Value) -> Health {
    let healthy = |message: &'static str| Health::new(Status::Healthy, message);
    if flag(object, &["spec", "suspend"]) {
        return healthy("The schedule is suspended");
    }
    if !list(object, &["status", "active"]).is_empty() {
        return healthy("A job is running; how the last one ended is not asked");
    }
    let scheduled = text(object, &["status", "lastScheduleTime"]);
    let succeeded = text(object, &["status", "lastSuccessfulTime"]);
    // Both are written by the same controller in the same form, in which text sorts as time does.
    match (scheduled, succeeded) {
        ("", _) => healthy("Nothing was scheduled yet"),
        (_, "") => healthy("No job has succeeded yet"),
        (scheduled, succeeded) if succeeded >= scheduled => healthy("The last job succeeded"),
        _ => Health::new(Status::Degraded, "The last job did not succeed"),
    }
}
