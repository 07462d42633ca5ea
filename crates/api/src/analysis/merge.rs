//! Several templates, and those that they refer to, as one run: for whoever makes one.

use std::collections::{BTreeMap, BTreeSet};

use super::{AnalysisRunSpec, AnalysisTemplateSpec, Argument, DryRun, MeasurementRetention, TemplateRef};

/// Why templates do not make a run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MergeError {
    /// A template that somebody names is not there.
    #[error("{0} does not exist: create it, or name another")]
    Missing(String),
    /// Templates refer to each other in a circle.
    #[error("analysis templates refer to each other in a circle: {0}; take one of the references away")]
    Circle(String),
    /// A template for all namespaces refers to one of a namespace.
    #[error(
        "{0} refers to the AnalysisTemplate {1}: it can only refer to cluster ones, with clusterScope: true"
    )]
    Scope(String, String),
    /// Two metrics have the same name.
    #[error("two metrics have the name {0}: give them different names, also across templates")]
    MetricTwice(String),
    /// An argument has two values.
    #[error(
        "the argument {0} has different values in two templates: give it one where the analysis is named"
    )]
    ArgumentTwice(String),
    /// An argument has no value.
    #[error("the argument {0} has no value: give it one where the analysis is named")]
    ArgumentMissing(String),
}

/// The templates that can be named, by their names.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Library {
    /// Those of the namespace.
    pub namespaced: BTreeMap<String, AnalysisTemplateSpec>,
    /// Those of the cluster.
    pub cluster: BTreeMap<String, AnalysisTemplateSpec>,
}

impl Library {
    /// A template.
    pub fn get(&self, name: &TemplateRef) -> Option<&AnalysisTemplateSpec> {
        if name.cluster_scope { &self.cluster } else { &self.namespaced }.get(&name.template_name)
    }

    /// All templates that are needed for these and not there yet: what is to be fetched next.
    pub fn missing(&self, wanted: &[TemplateRef]) -> BTreeSet<TemplateRef> {
        let (mut missing, mut seen) = (BTreeSet::new(), BTreeSet::new());
        let mut open: Vec<TemplateRef> = wanted.to_vec();
        while let Some(next) = open.pop() {
            if !seen.insert(next.clone()) {
                continue;
            }
            match self.get(&next) {
                Some(spec) => open.extend(spec.templates.iter().cloned()),
                None => {
                    missing.insert(next);
                }
            }
        }
        missing
    }
}

/// What a run is made from, beside the templates themselves.
#[derive(Clone, Copy, Debug, Default)]
pub struct Request<'a> {
    /// The templates.
    pub templates: &'a [TemplateRef],
    /// Values for their arguments. One that no template has is passed over.
    pub args: &'a [Argument],
    /// Metrics that do not decide, on top of what templates say.
    pub dry_run: &'a [DryRun],
    /// How many measurements are kept, before what templates say.
    pub measurement_retention: &'a [MeasurementRetention],
}

/// The spec of a run.
///
/// # Errors
/// When a template is missing or they do not go together.
pub fn run_spec(request: Request<'_>, library: &Library) -> Result<AnalysisRunSpec, MergeError> {
    let mut merged = Merged::default();
    for template in request.templates {
        merged.take(template, library, &mut Vec::new())?;
    }
    let mut spec = merged.spec;
    for given in request.args {
        if let Some(arg) = spec.args.iter_mut().find(|arg| arg.name == given.name) {
            if given.value.is_some() {
                (arg.value, arg.value_from) = (given.value.clone(), None);
            } else if given.value_from.is_some() {
                (arg.value, arg.value_from) = (None, given.value_from.clone());
            }
        }
    }
    if let Some(arg) = spec.args.iter().find(|arg| arg.value.is_none() && arg.value_from.is_none()) {
        return Err(MergeError::ArgumentMissing(arg.name.clone()));
    }
    let mut dry_run = request.dry_run.to_vec();
    dry_run.extend(spec.dry_run.into_iter().filter(|rule| !request.dry_run.contains(rule)));
    let mut retention = request.measurement_retention.to_vec();
    for rule in spec.measurement_retention {
        if !retention.iter().any(|known| known.metric_name == rule.metric_name) {
            retention.push(rule);
        }
    }
    Ok(AnalysisRunSpec {
        metrics: spec.metrics,
        args: spec.args,
        dry_run,
        measurement_retention: retention,
        ..AnalysisRunSpec::default()
    })
}

#[derive(Default)]
struct Merged {
    spec: AnalysisTemplateSpec,
    /// Templates that are in: one that is named twice counts once.
    taken: BTreeSet<TemplateRef>,
}

impl Merged {
    fn take(
        &mut self,
        name: &TemplateRef,
        library: &Library,
        path: &mut Vec<TemplateRef>,
    ) -> Result<(), MergeError> {
        if path.contains(name) {
            let circle = path.iter().chain([name]).map(|step| step.template_name.as_str());
            return Err(MergeError::Circle(circle.collect::<Vec<_>>().join(" → ")));
        }
        if !self.taken.insert(name.clone()) {
            return Ok(());
        }
        let spec = library.get(name).ok_or_else(|| MergeError::Missing(title(name)))?;
        path.push(name.clone());
        self.add(spec)?;
        for nested in &spec.templates {
            if name.cluster_scope && !nested.cluster_scope {
                return Err(MergeError::Scope(title(name), nested.template_name.clone()));
            }
            self.take(nested, library, path)?;
        }
        path.pop();
        Ok(())
    }

    fn add(&mut self, spec: &AnalysisTemplateSpec) -> Result<(), MergeError> {
        for metric in &spec.metrics {
            if self.spec.metrics.iter().any(|known| known.name == metric.name) {
                return Err(MergeError::MetricTwice(metric.name.clone()));
            }
            self.spec.metrics.push(metric.clone());
        }
        for arg in &spec.args {
            match self.spec.args.iter_mut().find(|known| known.name == arg.name) {
                None => self.spec.args.push(arg.clone()),
                Some(known) if known.value.is_none() && known.value_from.is_none() => *known = arg.clone(),
                Some(known) => {
                    let given = arg.value.is_some() || arg.value_from.is_some();
                    if given && (known.value != arg.value || known.value_from != arg.value_from) {
                        return Err(MergeError::ArgumentTwice(arg.name.clone()));
                    }
                }
            }
        }
        for rule in &spec.dry_run {
            if !self.spec.dry_run.contains(rule) {
                self.spec.dry_run.push(rule.clone());
            }
        }
        self.spec.measurement_retention.extend(spec.measurement_retention.iter().cloned());
        Ok(())
    }
}

/// Kind and name.
pub fn title(name: &TemplateRef) -> String {
    let kind = if name.cluster_scope { "ClusterAnalysisTemplate" } else { "AnalysisTemplate" };
    format!("{kind} {}", name.template_name)
}
