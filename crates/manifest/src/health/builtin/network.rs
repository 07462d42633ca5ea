//! Service and Ingress.

use serde_json::Value;

use crate::health::object::{list, text};
use crate::health::{Health, Status};

pub(super) fn service(object: &Value) -> Health {
    if text(object, &["spec", "type"]) != "LoadBalancer" {
        return Health::new(Status::Healthy, "The service needs no load balancer");
    }
    if list(object, &["status", "loadBalancer", "ingress"]).is_empty() {
        return Health::new(Status::Progressing, "Waiting for the load balancer to get an address");
    }
    Health::new(Status::Healthy, "The load balancer has an address")
}

/// Many controllers never write an address into the status of an Ingress, so that to wait for one is to wait for ever.
pub(super) fn ingress(object: &Value) -> Health {
    if list(object, &["status", "loadBalancer", "ingress"]).is_empty() {
        return Health::new(Status::Healthy, "The ingress exists; no address is published for it");
    }
    Health::new(Status::Healthy, "The ingress has an address")
}
