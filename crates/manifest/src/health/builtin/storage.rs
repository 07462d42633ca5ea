//! `PersistentVolumeClaim`, `PersistentVolume`, `VolumeAttachment`.

use serde_json::Value;

use crate::health::object::{at, flag, text};
use crate::health::{Health, Status};

pub(super) fn claim(object: &Value) -> Health {
    match text(object, &["status", "phase"]) {
        "Bound" => Health::new(Status::Healthy, "The claim is bound"),
        "Pending" | "" => Health::new(Status::Progressing, "The claim waits for a volume"),
        "Lost" => Health::new(Status::Degraded, "The volume of the claim is lost"),
        other => Health::new(Status::Unknown, format!("The phase of the claim is {other}")),
    }
}

pub(super) fn volume(object: &Value) -> Health {
    let said = text(object, &["status", "message"]);
    match text(object, &["status", "phase"]) {
        phase @ ("Available" | "Bound" | "Released") => {
            Health::new(Status::Healthy, format!("The volume is {phase}"))
        }
        "Pending" | "" => Health::new(Status::Progressing, "The volume is not available yet"),
        "Failed" => Health::new(Status::Degraded, format!("The volume failed: {said}")),
        other => Health::new(Status::Unknown, format!("The phase of the volume is {other}")),
    }
}

pub(super) fn attachment(object: &Value) -> Health {
    if let Some(error) =
        at(object, &["status", "attachError"]).or_else(|| at(object, &["status", "detachError"]))
    {
        return Health::new(Status::Degraded, text(error, &["message"]).to_owned());
    }
    if flag(object, &["status", "attached"]) {
        return Health::new(Status::Healthy, "The volume is attached");
    }
    Health::new(Status::Progressing, "Waiting for the volume to be attached")
}
