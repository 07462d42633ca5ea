//! The `CustomResourceDefinition`s, generated from the types.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kube::CustomResourceExt;

use crate::{
    Application, Cluster, Rollout,
    analysis::{AnalysisRun, AnalysisTemplate, ClusterAnalysisTemplate},
    experiment::Experiment,
};

/// All kinds, in the order of their names.
pub fn all() -> Vec<CustomResourceDefinition> {
    let mut all = vec![
        AnalysisRun::crd(),
        AnalysisTemplate::crd(),
        Application::crd(),
        Cluster::crd(),
        ClusterAnalysisTemplate::crd(),
        Experiment::crd(),
        Rollout::crd(),
    ];
    for version in all.iter_mut().flat_map(|definition| &mut definition.spec.versions) {
        if let Some(schema) = version.schema.as_mut().and_then(|schema| schema.open_api_v3_schema.as_mut()) {
            known_formats(schema);
        }
    }
    all
}

/// Takes formats away that Kubernetes does not know and warns of: Rust has unsigned numbers, OpenAPI has not. The schema
/// holds their lower bound besides.
fn known_formats(schema: &mut JSONSchemaProps) {
    if schema.format.as_deref().is_some_and(|format| format.starts_with("uint")) {
        schema.format = None;
    }
    let lists = [&mut schema.all_of, &mut schema.any_of, &mut schema.one_of];
    let listed = lists.into_iter().flatten().flatten();
    let named = schema.properties.iter_mut().flat_map(|properties| properties.values_mut());
    let boxed = schema.not.iter_mut().map(|schema| &mut **schema);
    listed.chain(named).chain(boxed).for_each(known_formats);
    if let Some(JSONSchemaPropsOrBool::Schema(schema)) = &mut schema.additional_properties {
        known_formats(schema);
    }
    match &mut schema.items {
        Some(JSONSchemaPropsOrArray::Schema(schema)) => known_formats(schema),
        Some(JSONSchemaPropsOrArray::Schemas(schemas)) => schemas.iter_mut().for_each(known_formats),
        None => {}
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn no_kind_has_a_format_that_kubectl_warns_of() {
        let text = serde_json::to_string(&all()).unwrap();
        assert!(text.contains(r#""format":"int64""#) && !text.contains(r#""format":"uint"#));
    }
}
