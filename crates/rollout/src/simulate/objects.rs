//! Manifests of a Rollout and of what it names, as the facts that the planner and lint read.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde_json::Value;
use windlass_api::{
    analysis::{
        AnalysisTemplateSpec,
        merge::{Library, title},
    },
    rollout::{MANAGED_BY, Rollout},
};

use crate::{
    lint::world::{routes_of, services_of, templates_of},
    observed::{
        Observed, RouteFacts, RouteKind, RouteName, ServiceFacts, TemplateFacts, TrafficWish, WorkloadFacts,
    },
    route::{self, Pair},
};

/// What becomes of something that a Rollout names and that was not given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absent {
    /// It is there and as it should be.
    Assumed,
    /// It is not there.
    Missing,
}

/// Objects by kind, namespace and name.
#[derive(Clone, Debug, Default)]
pub struct Objects {
    /// The Rollouts, in their order.
    pub rollouts: Vec<Rollout>,
    services: BTreeMap<(String, String), Value>,
    routes: BTreeMap<(RouteKind, String, String), Value>,
    workloads: BTreeMap<(String, String), Value>,
    templates: BTreeMap<(String, String), AnalysisTemplateSpec>,
    cluster_templates: BTreeMap<String, AnalysisTemplateSpec>,
}

/// Why an object cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ObjectError {
    /// It is one of Argo Rollouts.
    #[error(
        "{0} is one of Argo Rollouts: change its apiVersion to windlass.dev/v1alpha1, or run windlass migrate argo-rollouts"
    )]
    Argo(String),
    /// It does not have the shape of its kind.
    #[error("{0} cannot be read: {1}")]
    Shape(String, #[source] serde_json::Error),
}

impl Objects {
    /// Sorts objects. Kinds that have nothing to do with rollouts are passed over.
    pub fn sort(values: impl IntoIterator<Item = Value>) -> Result<Self, ObjectError> {
        let mut objects = Self::default();
        for value in values {
            objects.take(value)?;
        }
        Ok(objects)
    }

    /// Takes one object in.
    pub fn take(&mut self, value: Value) -> Result<(), ObjectError> {
        let text =
            |pointer: &str| value.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (version, kind) = (text("/apiVersion"), text("/kind"));
        let group = version.split_once('/').map_or("", |(group, _)| group);
        let (namespace, name) = (text("/metadata/namespace"), text("/metadata/name"));
        let title = || format!("{kind} {name}");
        let shape = |error| ObjectError::Shape(title(), error);
        match (group, kind.as_str()) {
            ("argoproj.io", "Rollout" | "AnalysisTemplate" | "ClusterAnalysisTemplate") => {
                return Err(ObjectError::Argo(title()));
            }
            (windlass_api::GROUP, "Rollout") => {
                self.rollouts.push(serde_json::from_value(value).map_err(shape)?);
            }
            (windlass_api::GROUP, "AnalysisTemplate") => {
                let spec = serde_json::from_value(value["spec"].clone()).map_err(shape)?;
                self.templates.insert((namespace, name), spec);
            }
            (windlass_api::GROUP, "ClusterAnalysisTemplate") => {
                let spec = serde_json::from_value(value["spec"].clone()).map_err(shape)?;
                self.cluster_templates.insert(name, spec);
            }
            ("", "Service") => {
                self.services.insert((namespace, name), value);
            }
            ("gateway.networking.k8s.io", "HTTPRoute") => {
                self.routes.insert((RouteKind::Http, namespace, name), value);
            }
            ("gateway.networking.k8s.io", "GRPCRoute") => {
                self.routes.insert((RouteKind::Grpc, namespace, name), value);
            }
            ("apps", "Deployment") => {
                self.workloads.insert((namespace, name), value);
            }
            _ => {}
        }
        Ok(())
    }

    /// Templates with their titles.
    pub fn templates(&self) -> impl Iterator<Item = (String, &AnalysisTemplateSpec)> {
        let namespaced =
            self.templates.iter().map(|((_, name), spec)| (format!("AnalysisTemplate {name}"), spec));
        let cluster = self.cluster_templates.iter();
        namespaced.chain(cluster.map(|(name, spec)| (format!("ClusterAnalysisTemplate {name}"), spec)))
    }

    /// The templates that a Rollout can name.
    pub fn library(&self, rollout: &Rollout) -> Library {
        let namespace = rollout.metadata.namespace.as_deref().unwrap_or_default();
        let near = self
            .templates
            .iter()
            .filter(|((of, _), _)| of == namespace || of.is_empty() || namespace.is_empty());
        Library {
            namespaced: near.map(|((_, name), spec)| (name.clone(), spec.clone())).collect(),
            cluster: self.cluster_templates.clone(),
        }
    }

    /// The facts about a Rollout and what it names, and what had to be assumed.
    pub fn observed(&self, rollout: &Rollout, absent: Absent) -> (Observed, Vec<String>) {
        let mut assumed = BTreeSet::new();
        let mut observed = Observed { rollout: Arc::new(rollout.clone()), ..Observed::default() };
        observed.workload = self.workload(rollout);
        let namespace = rollout.metadata.namespace.clone().unwrap_or_default();
        for (_, name) in services_of(&rollout.spec) {
            let found = find(&self.services, &namespace, &name).map(service_facts);
            let facts = match (found, absent) {
                (Some(facts), _) => Some(facts),
                (None, Absent::Missing) => None,
                (None, Absent::Assumed) => {
                    assumed.insert(format!("Service {name} is there and selects the pods"));
                    Some(ServiceFacts { has_port: true, ..ServiceFacts::default() })
                }
            };
            observed.services.insert(name, facts);
        }
        for route in routes_of(&rollout.spec) {
            observed.routes.push(self.route(rollout, &namespace, route, absent, &mut assumed));
        }
        let library = self.library(rollout);
        observed.templates = TemplateFacts::closure(templates_of(&rollout.spec), |name| {
            library.get(name).map(TemplateFacts::of)
        });
        if absent == Absent::Assumed {
            for (template, facts) in observed.templates.iter_mut().filter(|(_, facts)| facts.is_none()) {
                assumed.insert(format!("{} is there", title(template)));
                *facts = Some(TemplateFacts::default());
            }
        }
        (observed, assumed.into_iter().collect())
    }

    fn workload(&self, rollout: &Rollout) -> Option<WorkloadFacts> {
        let wanted = rollout.spec.workload_ref.as_ref()?;
        if wanted.kind != "Deployment" {
            return Some(WorkloadFacts::Unsupported);
        }
        let namespace = rollout.metadata.namespace.as_deref().unwrap_or_default();
        let Some(found) = find(&self.workloads, namespace, &wanted.name) else {
            return Some(WorkloadFacts::Missing);
        };
        let replicas = found.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(1);
        Some(WorkloadFacts::Found {
            generation: 1,
            replicas: i32::try_from(replicas).unwrap_or(1),
            template: Arc::new(found.pointer("/spec/template").cloned().unwrap_or_default()),
            selector: found
                .pointer("/spec/selector")
                .and_then(|selector| serde_json::from_value(selector.clone()).ok())
                .unwrap_or_default(),
        })
    }

    fn route(
        &self,
        rollout: &Rollout,
        namespace: &str,
        route: RouteName,
        absent: Absent,
        assumed: &mut BTreeSet<String>,
    ) -> RouteFacts {
        let found = self.routes.iter().find(|((kind, of, name), _)| {
            *kind == route.kind
                && *name == route.name
                && (of == namespace || of.is_empty() || namespace.is_empty())
        });
        let title = format!("{} {}", route.kind.as_str(), route.name);
        let Some((_, value)) = found else {
            if absent == Absent::Missing {
                let trouble = crate::observed::RouteTrouble {
                    reason: "RouteNotFound",
                    what: format!("{title} is not there"),
                    remedy: "make it, or correct the name".to_owned(),
                };
                return RouteFacts { route, trouble: Some(trouble), seen: None };
            }
            assumed.insert(format!("{title} is there and names both Services"));
            let seen = TrafficWish { stable: 100, ..TrafficWish::default() };
            return RouteFacts { route, trouble: None, seen: Some(seen) };
        };
        let read = pair(rollout, namespace).map(|pair| route::read(value, route.kind, &pair));
        match read {
            Some(Err(trouble)) => RouteFacts { route, trouble: Some(trouble), seen: None },
            Some(Ok(seen)) => RouteFacts { route, trouble: None, seen: Some(seen) },
            None => RouteFacts { route, trouble: None, seen: Some(TrafficWish::default()) },
        }
    }
}

fn find<'a>(among: &'a BTreeMap<(String, String), Value>, namespace: &str, name: &str) -> Option<&'a Value> {
    // A manifest without a namespace goes to wherever it is applied.
    let exact = among.get(&(namespace.to_owned(), name.to_owned()));
    let plain = || among.get(&(String::new(), name.to_owned()));
    let any = || among.iter().find(|((_, known), _)| known == name).map(|(_, value)| value);
    exact.or_else(plain).or_else(|| if namespace.is_empty() { any() } else { None })
}

/// The two Services of the strategy.
fn pair(rollout: &Rollout, namespace: &str) -> Option<Pair> {
    let strategy = &rollout.spec.strategy;
    let (stable, canary) = match (&strategy.canary, &strategy.ab_test) {
        (Some(canary), _) => (canary.stable_service.clone()?, canary.canary_service.clone()?),
        (None, Some(test)) => (test.stable_service.clone(), test.canary_service.clone()),
        (None, None) => return None,
    };
    Some(Pair { namespace: namespace.to_owned(), stable, canary })
}

fn service_facts(value: &Value) -> ServiceFacts {
    let selector = value.pointer("/spec/selector").and_then(Value::as_object).into_iter().flatten();
    let ports = value.pointer("/spec/ports").and_then(Value::as_array);
    let managed = value.pointer("/metadata/annotations").and_then(|annotations| annotations.get(MANAGED_BY));
    ServiceFacts {
        selector: selector
            .filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())))
            .collect(),
        managed_by: managed.and_then(Value::as_str).map(str::to_owned),
        has_port: ports.is_some_and(|ports| !ports.is_empty()),
    }
}
