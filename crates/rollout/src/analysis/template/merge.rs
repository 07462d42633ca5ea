//! Several templates, and those that they refer to, as one.

use std::collections::{BTreeMap, BTreeSet};

use windlass_api::analysis::{
    AnalysisRunSpec, AnalysisTemplateSpec, Argument, DryRun, MeasurementRetention, TemplateRef,
};

use super::TemplateError;

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
pub fn run_spec(request: Request<'_>, library: &Library) -> Result<AnalysisRunSpec, TemplateError> {
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
        return Err(TemplateError::ArgumentMissing(arg.name.clone()));
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
    ) -> Result<(), TemplateError> {
        if path.contains(name) {
            let circle = path.iter().chain([name]).map(|step| step.template_name.as_str());
            return Err(TemplateError::Circle(circle.collect::<Vec<_>>().join(" → ")));
        }
        if !self.taken.insert(name.clone()) {
            return Ok(());
        }
        let spec = library.get(name).ok_or_else(|| TemplateError::Missing(title(name)))?;
        path.push(name.clone());
        self.add(spec)?;
        for nested in &spec.templates {
            if name.cluster_scope && !nested.cluster_scope {
                return Err(TemplateError::Scope(title(name), nested.template_name.clone()));
            }
            self.take(nested, library, path)?;
        }
        path.pop();
        Ok(())
    }

    fn add(&mut self, spec: &AnalysisTemplateSpec) -> Result<(), TemplateError> {
        for metric in &spec.metrics {
            if self.spec.metrics.iter().any(|known| known.name == metric.name) {
                return Err(TemplateError::MetricTwice(metric.name.clone()));
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
                        return Err(TemplateError::ArgumentTwice(arg.name.clone()));
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
pub(crate) fn title(name: &TemplateRef) -> String {
    let kind = if name.cluster_scope { "ClusterAnalysisTemplate" } else { "AnalysisTemplate" };
    format!("{kind} {}", name.template_name)
}
