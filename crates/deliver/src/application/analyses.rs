//! The analyses between waves: each is an `AnalysisRun`, made from templates, measured by the controller of runs.

use futures::{Stream, StreamExt as _};
use kube::{
    Api, Client, Resource as _, ResourceExt as _,
    api::PostParams,
    core::{ObjectMeta, PartialObjectMeta},
};
use windlass_api::{
    AnalysisRun, AnalysisTemplate, Application, ClusterAnalysisTemplate,
    analysis::{
        Argument, Phase, TtlStrategy,
        merge::{self, MergeError, Request},
    },
    application::progressive::{AnalysisArg, Progressive, WaveAnalysis},
};
use windlass_cluster::{
    drive::{Controller, Drive, Key, Reference, Waker},
    templates,
    watch::{self, Event, Seen, Selection},
};

use super::{
    controller::{ApplicationController, Error},
    waves,
};
use crate::{
    fleet::Connector,
    origin::Origin,
    tracking::{self, MANAGER},
};

/// How long a run can be looked at after its end.
const KEPT: i32 = 7 * 24 * 3600;

impl<O: Origin, C: Connector> ApplicationController<O, C> {
    fn runs(&self, namespace: Option<&str>) -> Api<AnalysisRun> {
        Api::namespaced(self.hub.clone(), namespace.unwrap_or_default())
    }

    /// How the analyses between waves stand. Nobody is asked about a revision that is through.
    pub(super) async fn analyses(
        &self,
        app: &Key,
        progressive: &Progressive,
        revision: &waves::Revision,
    ) -> Result<Vec<waves::AnalysisState>, Error> {
        let mut all = Vec::new();
        if revision.proven {
            return Ok(all);
        }
        let api = self.runs(app.namespace.as_deref());
        for (wave, _) in progressive.waves.iter().enumerate().filter(|(_, wave)| wave.analysis.is_some()) {
            let name = waves::analysis_name(&app.name, wave, &revision.digest);
            let run = match api.get_opt(&name).await {
                Ok(Some(run)) => run,
                Ok(None) => continue,
                Err(source) => return Err(Error::Analysis { name, source: Box::new(source) }),
            };
            let status = run.status.unwrap_or_default();
            let phase = match status.phase {
                Phase::Pending | Phase::Running => waves::AnalysisPhase::Running,
                Phase::Successful => waves::AnalysisPhase::Successful,
                Phase::Failed | Phase::Error => waves::AnalysisPhase::Failed,
                Phase::Inconclusive => waves::AnalysisPhase::Inconclusive,
            };
            let message = Some(status.message).filter(|message| !message.is_empty());
            all.push(waves::AnalysisState { wave, name, phase, message });
        }
        Ok(all)
    }

    /// The run of a wave, from its templates as they are now.
    pub(super) async fn analysis(
        &self,
        app: &Application,
        name: String,
        analysis: &WaveAnalysis,
    ) -> Result<Result<AnalysisRun, MergeError>, Error> {
        let namespace = app.namespace().unwrap_or_default();
        let library = templates::library(&self.hub, &namespace, &analysis.templates)
            .await
            .map_err(|unread| Error::Analysis { name: name.clone(), source: unread.source })?;
        let value = |arg: &AnalysisArg| Argument {
            name: arg.name.clone(),
            value: Some(arg.value.clone()),
            ..Argument::default()
        };
        let args: Vec<Argument> = analysis.args.iter().map(value).collect();
        let request = Request { templates: &analysis.templates, args: &args, ..Request::default() };
        Ok(merge::run_spec(request, &library).map(|mut spec| {
            spec.ttl_strategy = Some(TtlStrategy { completion: Some(KEPT), ..TtlStrategy::default() });
            let mut run = AnalysisRun::new(&name, spec);
            run.metadata = ObjectMeta {
                name: Some(name),
                namespace: Some(namespace),
                labels: Some([(tracking::LABEL.to_owned(), tracking::label(&Key::of(app)))].into()),
                owner_references: app.controller_owner_ref(&()).map(|owner| vec![owner]),
                ..ObjectMeta::default()
            };
            run
        }))
    }

    /// Makes a run. One of that name is as good: the name tells revision and wave.
    pub(super) async fn analyse(&self, run: &AnalysisRun) -> Result<(), Error> {
        let params = PostParams { field_manager: Some(MANAGER.into()), ..PostParams::default() };
        match self.runs(run.metadata.namespace.as_deref()).create(&params, run).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
            Err(source) => Err(Error::Analysis { name: run.name_any(), source: Box::new(source) }),
        }
    }
}

/// The templates that the waves of an Application name.
pub(super) fn reads(namespace: &str, progressive: &Progressive) -> impl Iterator<Item = Reference> {
    let analyses = progressive.waves.iter().filter_map(|wave| wave.analysis.as_ref());
    analyses.flat_map(|analysis| &analysis.templates).map(move |template| {
        let (group, kind) = if template.cluster_scope {
            (ClusterAnalysisTemplate::group(&()), ClusterAnalysisTemplate::kind(&()))
        } else {
            (AnalysisTemplate::group(&()), AnalysisTemplate::kind(&()))
        };
        let namespace = (!template.cluster_scope).then(|| namespace.to_owned());
        Reference { group, kind, namespace, name: template.template_name.clone() }
    })
}

/// Wakes Applications when a template that they name changes, and when a run that was made for them does.
#[must_use]
pub fn watched<D: Controller>(drive: Drive<D>, client: &Client) -> Drive<D> {
    let all = Selection::default();
    let namespaced: Api<PartialObjectMeta<AnalysisTemplate>> = Api::all(client.clone());
    let everywhere: Api<PartialObjectMeta<ClusterAnalysisTemplate>> = Api::all(client.clone());
    let runs = runs(client, drive.waker());
    drive
        .related(watch::optional(watch::references(namespaced, &all, "analysistemplates")))
        .related(watch::optional(watch::references(everywhere, &all, "clusteranalysistemplates")))
        .related(watch::optional(runs))
}

/// Changes of the runs that were made for Applications, which are woken by it.
fn runs(client: &Client, waker: Waker) -> impl Stream<Item = Seen> + Send + 'static {
    let api: Api<PartialObjectMeta<AnalysisRun>> = Api::all(client.clone());
    let ours = Selection { labels: Some(tracking::LABEL.to_owned()), ..Selection::default() };
    watch::objects(api, &ours, "analysisruns").filter_map(move |event| {
        let seen = match event {
            Event::Listed(run) | Event::Changed(run) | Event::Gone(run) => {
                if let Some(app) = owner(&run.metadata) {
                    waker.wake(app);
                }
                None
            }
            Event::ListBegins => None,
            Event::ListEnds => Some(Seen::Whole),
            Event::Broken { category, message } => Some(Seen::Broken { category, message }),
        };
        std::future::ready(seen)
    })
}

/// The Application that a run was made for.
fn owner(run: &ObjectMeta) -> Option<Key> {
    let owners = run.owner_references.as_deref().unwrap_or_default();
    let app = owners.iter().find(|owner| owner.kind == Application::kind(&()))?;
    Some(Key { namespace: run.namespace.as_deref().map(Into::into), name: app.name.as_str().into() })
}
