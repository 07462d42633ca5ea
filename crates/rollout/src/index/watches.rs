//! The watches that feed the index.

use std::fmt::Debug;

use futures::{Stream, StreamExt, stream};
use k8s_openapi::api::{
    apps::v1::{Deployment, ReplicaSet},
    core::v1::Service,
};
use kube::{
    Api, Client, Resource,
    core::{DynamicObject, PartialObjectMeta},
};
use serde::de::DeserializeOwned;
use windlass_api::{
    AnalysisRun, AnalysisTemplate, ClusterAnalysisTemplate, Experiment, GROUP, rollout::POD_TEMPLATE_HASH,
};
use windlass_cluster::{
    drive::{Controller, Drive, Reference},
    watch::{ABSENT, Event, FORBIDDEN, Seen, Selection, objects, references},
};

use super::{
    GATEWAY, Index, State, myself,
    record::{ExperimentRecord, Record, ReplicaSetRecord, RouteRecord, RunRecord, ServiceRecord},
    reference, route_resource,
    shelf::{Place, Shelf, place},
};
use crate::observed::{RouteKind, TemplateFacts};

/// What is followed, and who hears of it.
struct Followed<K, R> {
    api: Api<K>,
    selection: Selection,
    name: &'static str,
    /// A cluster may do without this kind: not served, or not for us to read, it counts as empty.
    optional: bool,
    shelf: fn(&mut State) -> &mut Shelf<R>,
    cut: fn(&K) -> R,
    readers: fn(&Place, &R) -> Vec<Reference>,
}

impl<K, R> Followed<K, R> {
    fn new(
        api: Api<K>,
        name: &'static str,
        shelf: fn(&mut State) -> &mut Shelf<R>,
        cut: fn(&K) -> R,
        readers: fn(&Place, &R) -> Vec<Reference>,
    ) -> Self {
        Self { api, selection: Selection::default(), name, optional: false, shelf, cut, readers }
    }

    fn optional(mut self) -> Self {
        self.optional = true;
        self
    }
}

/// The Rollout that owns an object, or that an orphan's name speaks of.
fn parent<R: Record>((namespace, name): &Place, record: &R) -> Vec<Reference> {
    let owner = record.owner().or_else(|| name.rsplit_once('-').map(|(owner, _)| owner));
    owner.map(|owner| myself(namespace, owner)).into_iter().collect()
}

impl Index {
    /// Puts all watches on a loop.
    pub(crate) fn feed<C: Controller>(&self, client: &Client, drive: Drive<C>) -> Drive<C> {
        let drive = self.children(client, drive);
        let drive = self.traffic(client, drive);
        self.templates(client, drive)
    }

    /// What Rollouts make.
    fn children<C: Controller>(&self, client: &Client, drive: Drive<C>) -> Drive<C> {
        let sets = Followed {
            selection: Selection::labels(POD_TEMPLATE_HASH),
            ..Followed::new(
                Api::<ReplicaSet>::all(client.clone()),
                "replicasets",
                |state| &mut state.replica_sets,
                ReplicaSetRecord::new,
                parent,
            )
        };
        let runs = Followed::new(
            Api::<AnalysisRun>::all(client.clone()),
            "analysisruns",
            |state| &mut state.runs,
            RunRecord::new,
            parent,
        );
        let experiments = Followed::new(
            Api::<Experiment>::all(client.clone()),
            "experiments",
            |state| &mut state.experiments,
            ExperimentRecord::new,
            parent,
        );
        drive
            .related(self.follow(sets))
            .related(self.follow(runs.optional()))
            .related(self.follow(experiments.optional()))
    }

    /// What Rollouts send traffic with.
    fn traffic<C: Controller>(&self, client: &Client, drive: Drive<C>) -> Drive<C> {
        let services = Followed::new(
            Api::<Service>::all(client.clone()),
            "services",
            |state| &mut state.services,
            ServiceRecord::new,
            |(namespace, name), _| vec![reference("", "Service", namespace, name)],
        );
        let routes = |kind| Api::<DynamicObject>::all_with(client.clone(), &route_resource(kind));
        let http = Followed::new(
            routes(RouteKind::Http),
            "httproutes",
            |state| &mut state.http_routes,
            RouteRecord::new,
            |(namespace, name), _| vec![reference(GATEWAY, "HTTPRoute", namespace, name)],
        );
        let grpc = Followed::new(
            routes(RouteKind::Grpc),
            "grpcroutes",
            |state| &mut state.grpc_routes,
            RouteRecord::new,
            |(namespace, name), _| vec![reference(GATEWAY, "GRPCRoute", namespace, name)],
        );
        drive
            .related(self.follow(services))
            .related(self.follow(http.optional()))
            .related(self.follow(grpc.optional()))
    }

    /// What Rollouts take from others.
    fn templates<C: Controller>(&self, client: &Client, drive: Drive<C>) -> Drive<C> {
        let templates = Followed::new(
            Api::<AnalysisTemplate>::all(client.clone()),
            "analysistemplates",
            |state| &mut state.templates,
            |template| TemplateFacts::of(&template.spec),
            |(namespace, name), _| vec![reference(GROUP, "AnalysisTemplate", namespace, name)],
        );
        let cluster = Followed::new(
            Api::<ClusterAnalysisTemplate>::all(client.clone()),
            "clusteranalysistemplates",
            |state| &mut state.cluster_templates,
            |template| TemplateFacts::of(&template.spec.template),
            |(namespace, name), _| vec![reference(GROUP, "ClusterAnalysisTemplate", namespace, name)],
        );
        let deployments = Api::<PartialObjectMeta<Deployment>>::all(client.clone());
        drive
            .related(self.follow(templates.optional()))
            .related(self.follow(cluster.optional()))
            .related(references(deployments, &Selection::default(), "deployments"))
    }

    /// One watch: into its shelf, then to those who read it.
    fn follow<K, R>(&self, followed: Followed<K, R>) -> impl Stream<Item = Seen> + Send + use<K, R>
    where
        K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
        R: Send + 'static,
    {
        let Followed { api, selection, name, optional, shelf, cut, readers } = followed;
        let index = self.clone();
        let mut counted = false;
        objects(api, &selection, name).flat_map(move |event| {
            let (mut woken, mut whole) = (Vec::new(), false);
            {
                let mut state = index.state();
                let shelf = shelf(&mut state);
                match event {
                    Event::ListBegins => shelf.begin(),
                    Event::Listed(object) | Event::Changed(object) => {
                        let (record, at) = (cut(&object), place(object.meta()));
                        let heard = readers(&at, &record);
                        if shelf.put(object.meta(), record) {
                            woken = heard;
                        }
                    }
                    Event::Gone(object) => {
                        let at = place(object.meta());
                        shelf.remove(&at, object.meta().uid.as_deref());
                        woken = readers(&at, &cut(&object));
                    }
                    Event::ListEnds => {
                        let gone = shelf.end();
                        (woken, whole) =
                            (gone.iter().flat_map(|(at, gone)| readers(at, gone)).collect(), true);
                    }
                    Event::Broken { category: ABSENT | FORBIDDEN, .. } if optional => {
                        let gone = shelf.absent();
                        (woken, whole) =
                            (gone.iter().flat_map(|(at, gone)| readers(at, gone)).collect(), true);
                    }
                    Event::Broken { category, message } => {
                        return stream::iter(vec![Seen::Broken { category, message }]);
                    }
                }
            }
            let mut out: Vec<Seen> = woken.into_iter().map(Seen::Changed).collect();
            if whole && !std::mem::replace(&mut counted, true) {
                index.whole.send_modify(|shelves| *shelves += 1);
                out.push(Seen::Whole);
            }
            stream::iter(out)
        })
    }
}
