//! The built-in kinds that controllers need, with schemas made from the Kubernetes types.

use std::sync::{Arc, LazyLock};

use k8s_openapi::api::{
    admissionregistration::v1::ValidatingWebhookConfiguration,
    apps::v1::{Deployment, ReplicaSet},
    batch::v1::Job,
    coordination::v1::Lease,
    core::v1::{ConfigMap, Event, Namespace, Pod, Secret, Service, ServiceAccount},
    events::v1::Event as RegardingEvent,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Value, json};

use super::super::schema::Schema;
use super::lists::{ATOMIC_MAPS, ATOMIC_TYPES, DEFAULTS, LISTS};
use super::{Generation, Registry, Resource, ResourceKey, Scale, Version};

static REGISTRY: LazyLock<Registry> = LazyLock::new(build);
static OBJECT_META: LazyLock<Arc<Schema>> = LazyLock::new(|| Arc::new(schema_of::<ObjectMeta>()));

/// The built-in kinds; made once.
pub(super) fn registry() -> &'static Registry {
    &REGISTRY
}

/// The schema of `metadata`, the same for all kinds.
pub(crate) fn object_meta() -> Arc<Schema> {
    OBJECT_META.clone()
}

/// The schema of a Kubernetes type, with what its own one leaves out.
fn schema_of<T: JsonSchema>() -> Schema {
    let root = SchemaGenerator::default().into_root_schema_for::<T>();
    let mut root = root.to_value();
    let mut definitions = root
        .as_object_mut()
        .and_then(|root| root.remove("$defs").or_else(|| root.remove("definitions")))
        .and_then(|found| match found {
            Value::Object(found) => Some(found),
            _ => None,
        })
        .unwrap_or_default();
    for (name, definition) in &mut definitions {
        annotate(name, definition);
    }
    annotate(&T::schema_name(), &mut root);
    Schema::parse(&root, &definitions)
}

/// Adds list kinds, atomic maps and defaults to the schema of the type `name`.
fn annotate(name: &str, schema: &mut Value) {
    let is = |suffix: &str| name.strip_suffix(suffix).is_some_and(|rest| rest.ends_with('.'));
    let mut note = |field: &str, key: &str, value: Value| {
        let field = schema.pointer_mut(&format!("/properties/{field}")).and_then(Value::as_object_mut);
        if let Some(field) = field {
            field.insert(key.into(), value);
        }
    };
    for (_, field, keys) in LISTS.iter().filter(|(owner, ..)| is(owner)) {
        note(field, "x-kubernetes-list-type", if keys.is_empty() { "set" } else { "map" }.into());
        note(field, "x-kubernetes-list-map-keys", json!(keys));
    }
    for (_, field) in ATOMIC_MAPS.iter().filter(|(owner, _)| is(owner)) {
        note(field, "x-kubernetes-map-type", "atomic".into());
    }
    for (_, field, default) in DEFAULTS.iter().filter(|(owner, ..)| is(owner)) {
        note(field, "default", serde_json::from_str(default).unwrap_or_default());
    }
    if let Some(schema) = schema.as_object_mut() {
        if ATOMIC_TYPES.iter().any(|owner| is(owner)) {
            schema.insert("x-kubernetes-map-type".into(), "atomic".into());
        }
        if is("meta.v1.FieldsV1") || is("runtime.RawExtension") {
            schema.insert("x-kubernetes-preserve-unknown-fields".into(), true.into());
        }
    }
}

struct Spec {
    group: &'static str,
    plural: &'static str,
    kind: &'static str,
    short: &'static [&'static str],
    namespaced: bool,
    status: bool,
    generation: Generation,
    schema: Schema,
}

fn build() -> Registry {
    let mut registry = Registry::new();
    for spec in specs() {
        let resource = resource(spec);
        registry.insert(resource.key.clone(), Arc::new(resource));
    }
    registry
}

fn specs() -> Vec<Spec> {
    let core = |plural, kind, short, namespaced, status, generation, schema| Spec {
        group: "",
        plural,
        kind,
        short,
        namespaced,
        status,
        generation,
        schema,
    };
    let grouped = |group, plural, kind, short, status, generation, schema| Spec {
        group,
        plural,
        kind,
        short,
        namespaced: true,
        status,
        generation,
        schema,
    };
    let none = Generation::None;
    let content = Generation::Content;
    vec![
        core("namespaces", "Namespace", &["ns"], false, true, none, schema_of::<Namespace>()),
        core("secrets", "Secret", &[], true, false, none, schema_of::<Secret>()),
        core("configmaps", "ConfigMap", &["cm"], true, false, none, schema_of::<ConfigMap>()),
        core("serviceaccounts", "ServiceAccount", &["sa"], true, false, none, schema_of::<ServiceAccount>()),
        core("events", "Event", &["ev"], true, false, none, schema_of::<Event>()),
        core("pods", "Pod", &["po"], true, true, content, schema_of::<Pod>()),
        core("services", "Service", &["svc"], true, true, none, schema_of::<Service>()),
        grouped("events.k8s.io", "events", "Event", &["ev"], false, none, schema_of::<RegardingEvent>()),
        grouped("apps", "deployments", "Deployment", &["deploy"], true, content, schema_of::<Deployment>()),
        grouped("apps", "replicasets", "ReplicaSet", &["rs"], true, content, schema_of::<ReplicaSet>()),
        grouped("batch", "jobs", "Job", &[], true, content, schema_of::<Job>()),
        grouped("coordination.k8s.io", "leases", "Lease", &[], false, none, schema_of::<Lease>()),
        Spec {
            namespaced: false,
            ..grouped(
                "admissionregistration.k8s.io",
                "validatingwebhookconfigurations",
                "ValidatingWebhookConfiguration",
                &[],
                false,
                content,
                schema_of::<ValidatingWebhookConfiguration>(),
            )
        },
        Spec {
            namespaced: false,
            ..grouped(
                "apiextensions.k8s.io",
                "customresourcedefinitions",
                "CustomResourceDefinition",
                &["crd", "crds"],
                true,
                content,
                schema_of::<CustomResourceDefinition>(),
            )
        },
    ]
}

fn resource(spec: Spec) -> Resource {
    let scalable = matches!(spec.kind, "Deployment" | "ReplicaSet");
    let scale = scalable.then(|| Scale {
        spec_replicas: ".spec.replicas".into(),
        status_replicas: ".status.replicas".into(),
        selector: Some(".spec.selector".into()),
    });
    let key = ResourceKey::new(spec.group, spec.plural);
    Resource {
        stored_as: if spec.plural == "events" { ResourceKey::new("", "events") } else { key.clone() },
        key,
        kind: spec.kind.into(),
        list_kind: format!("{}List", spec.kind),
        singular: spec.kind.to_lowercase(),
        short_names: spec.short.iter().map(ToString::to_string).collect(),
        categories: if scalable || matches!(spec.kind, "Pod" | "Service" | "Job") {
            vec!["all".into()]
        } else {
            vec![]
        },
        namespaced: spec.namespaced,
        custom: false,
        storage_version: "v1".into(),
        versions: vec![Version {
            name: "v1".into(),
            served: true,
            schema: Arc::new(spec.schema),
            status: spec.status,
            scale,
        }],
        generation: spec.generation,
        needs_version: matches!(
            spec.kind,
            "Lease" | "CustomResourceDefinition" | "ValidatingWebhookConfiguration"
        ),
        create_on_update: matches!(spec.kind, "Lease" | "Event"),
        blank: blank(spec.kind),
        selectable: match spec.kind {
            "Secret" => vec!["type"],
            "Pod" => vec![
                "spec.nodeName",
                "spec.restartPolicy",
                "spec.schedulerName",
                "spec.serviceAccountName",
                "status.phase",
            ],
            "Namespace" => vec!["status.phase"],
            "Job" => vec!["status.successful"],
            "Event" => vec![
                "involvedObject.kind",
                "involvedObject.namespace",
                "involvedObject.name",
                "involvedObject.uid",
                "reason",
                "type",
            ],
            _ => vec![],
        },
    }
}

/// The fields that typed objects always have.
fn blank(kind: &str) -> Value {
    let template = json!({"metadata": {}, "spec": {"containers": null}});
    match kind {
        "Deployment" => {
            json!({"metadata": {}, "spec": {"selector": null, "template": template, "strategy": {}}, "status": {}})
        }
        "ReplicaSet" => {
            json!({"metadata": {}, "spec": {"selector": null, "template": template}, "status": {"replicas": 0}})
        }
        "Job" => json!({"metadata": {}, "spec": {"template": template}, "status": {}}),
        "Pod" => json!({"metadata": {}, "spec": {"containers": null}, "status": {}}),
        "Service" => json!({"metadata": {}, "spec": {}, "status": {"loadBalancer": {}}}),
        "Namespace" => json!({"metadata": {}, "spec": {}, "status": {}}),
        "Lease" => json!({"metadata": {}, "spec": {}}),
        "CustomResourceDefinition" => json!({
            "metadata": {},
            "spec": {"group": "", "names": {"plural": "", "kind": ""}, "scope": "", "versions": null},
            "status": {"conditions": null, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": null},
        }),
        _ => json!({"metadata": {}}),
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::schema::{ListKind, Type};
    use super::*;

    fn at<'a>(schema: &'a Schema, path: &[&str]) -> &'a Schema {
        path.iter().fold(schema, |schema, step| {
            if *step == "[]" { schema.item().unwrap() } else { schema.field(step).unwrap() }
        })
    }

    #[test]
    fn schemas_know_fields_lists_and_defaults() {
        let registry = registry();
        let deployment = &registry[&ResourceKey::new("apps", "deployments")].versions[0].schema;
        let containers = at(deployment, &["spec", "template", "spec", "containers"]);
        assert_eq!(containers.list, ListKind::Map(vec!["name".into()]));
        let ports = at(containers, &["[]", "ports"]);
        assert_eq!(ports.list, ListKind::Map(vec!["containerPort".into(), "protocol".into()]));
        assert_eq!(ports.key_default("protocol"), Some(&json!("TCP")));
        assert!(at(deployment, &["spec", "selector"]).atomic);
        assert_eq!(at(deployment, &["spec", "replicas"]).default, Some(json!(1)));
        assert_eq!(at(deployment, &["metadata", "finalizers"]).list, ListKind::Set);
        let cpu = at(containers, &["[]", "resources", "limits", "cpu"]);
        assert_eq!(cpu.kind, Type::IntOrString);
    }

    #[test]
    fn every_line_of_the_tables_hits_a_field() {
        // A type that is renamed upstream would silently lose its list keys.
        let mut generator = SchemaGenerator::default();
        generator.subschema_for::<Deployment>();
        generator.subschema_for::<ReplicaSet>();
        generator.subschema_for::<Pod>();
        generator.subschema_for::<Job>();
        generator.subschema_for::<Service>();
        generator.subschema_for::<Secret>();
        generator.subschema_for::<ServiceAccount>();
        generator.subschema_for::<Namespace>();
        generator.subschema_for::<ValidatingWebhookConfiguration>();
        generator.subschema_for::<CustomResourceDefinition>();
        let definitions = generator.take_definitions(false);
        let has = |owner: &str, field: &str| {
            definitions.iter().any(|(name, schema)| {
                name.ends_with(&format!(".{owner}"))
                    && schema.pointer(&format!("/properties/{field}")).is_some()
            })
        };
        for (owner, field, _) in LISTS {
            assert!(has(owner, field), "{owner}.{field}");
        }
        for (owner, field) in ATOMIC_MAPS {
            assert!(has(owner, field), "{owner}.{field}");
        }
        for (owner, field, default) in DEFAULTS {
            assert!(has(owner, field), "{owner}.{field}");
            assert!(serde_json::from_str::<Value>(default).is_ok(), "{default}");
        }
        for owner in ATOMIC_TYPES {
            assert!(definitions.keys().any(|name| name.ends_with(&format!(".{owner}"))), "{owner}");
        }
    }
}
