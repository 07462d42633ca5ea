//! The `CustomResourceDefinition`s, generated from the types.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;

use crate::{Application, Cluster};

/// All kinds, in the order of their names.
pub fn all() -> Vec<CustomResourceDefinition> {
    vec![Application::crd(), Cluster::crd()]
}
