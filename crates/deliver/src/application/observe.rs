//! Gathers the facts about an `Application`. All reads are here.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use futures::future::join_all;
use jiff::Timestamp;
use kube::{Api, ResourceExt};
use sha2::{Digest as _, Sha256};
use windlass_api::{
    Application, ApplicationSpec, ApplicationStatus,
    application::{
        APPROVE_ANNOTATION, DELETION_HOOKS_ANNOTATION, Destination, LIFT_ANNOTATION, PIN_ANNOTATION,
        SYNC_ANNOTATION,
        status::{ClusterLine, DeploymentResult, Pin},
        sync::Drift,
    },
    condition,
};
use windlass_cluster::drive::Key;

use super::{
    controller::{ApplicationController, Error},
    depends,
    destinations::{Meant, meant},
    history,
    ledger::Book,
    observed::{Desired, Observed, Part, PartKind, Requests, SourceFacts, Target, Want},
    plan::inventory,
    program, waves,
};
use crate::{
    fleet::{self, Connector, Judge, Prepare, Survey, Surveyed},
    object::{ObjectId, Sealed},
    origin::{Follow, Origin, Seen, Sighting, Wanted},
    render::Rendered,
    trouble::Trouble,
};

/// How often a repository is asked for news, if the spec says nothing.
const INTERVAL: Duration = Duration::from_secs(30);

/// Applications that are followed from one to the next.
const MOST_DEPENDENCIES: usize = 256;

/// What a revision renders to, with its infrastructure.
#[derive(Clone)]
pub(super) struct Rendering {
    main: Arc<Rendered>,
    infrastructure: Option<Arc<Rendered>>,
    pub(super) digest: String,
}

/// What every look of a round needs.
#[derive(Clone, Copy)]
pub(super) struct Round<'a> {
    /// What is desired, if it could be rendered.
    pub(super) rendering: Option<&'a Rendering>,
    /// What the inventory names, by cluster.
    pub(super) known: &'a BTreeMap<String, BTreeSet<ObjectId>>,
    /// What was tried before.
    pub(super) book: &'a Book,
    /// The Kubernetes version that charts are told.
    pub(super) version: Option<&'a str>,
}

impl Rendering {
    pub(super) fn is_empty(&self) -> bool {
        self.main.objects.is_empty()
            && self.infrastructure.as_ref().is_none_or(|infrastructure| infrastructure.objects.is_empty())
    }
}

impl<O: Origin, C: Connector> ApplicationController<O, C> {
    pub(super) async fn facts(&self, app: &Application) -> Result<Observed, Error> {
        let key = Key::of(app);
        let book = self.ledger.book(&key);
        let mut observed = self.outline(app, &key, &book);
        let members = self.fleet.members();
        if observed.deleting || observed.spec.suspend {
            if observed.deleting {
                self.leave_everything(&mut observed, &members, &book).await;
            } else {
                self.origin.forget(&key);
            }
            return Ok(observed);
        }
        if let Err(trouble) = self.fleet.judge_by(&key, &observed.spec.health) {
            observed.invalid.push(trouble);
        }
        let meant = match meant(&app.spec, &observed.status, &members) {
            Ok(meant) => meant,
            Err(trouble) => {
                observed.invalid.push(trouble);
                return Ok(observed);
            }
        };
        if !observed.invalid.is_empty() {
            return Ok(observed);
        }
        let known = inventory::by_cluster(&observed.status.inventory);
        observed.lost =
            known.keys().filter(|name| !meant.iter().any(|one| one.member.name == **name)).cloned().collect();
        self.freshen(&mut observed);
        observed.source = self.source(&observed).await;
        if observed.waits_for_fetch() {
            return Ok(observed);
        }
        let version = meant.iter().find_map(|one| one.member.version.clone());
        let rendering = self.desired(app, &mut observed, version.as_deref()).await;
        self.roll_out(app, &mut observed, &meant).await?;
        let round =
            Round { rendering: rendering.as_ref(), known: &known, book: &book, version: version.as_deref() };
        let targets = join_all(meant.iter().map(|one| self.target(&observed, one, round))).await;
        observed.targets = targets;
        observed.blocked = self.blocked(app, &observed).await?;
        self.look_ahead(&mut observed, &meant, round).await;
        self.look_back(&mut observed, &meant, round).await;
        self.failures(&mut observed).await;
        self.note(&observed);
        Ok(observed)
    }

    /// What the object itself says.
    fn outline(&self, app: &Application, key: &Key, book: &Book) -> Observed {
        let annotation = |name: &str| app.annotations().get(name).cloned();
        let sync = &app.spec.sync;
        Observed {
            key: key.clone(),
            generation: app.metadata.generation,
            account: sync
                .service_account_name
                .clone()
                .or_else(|| self.settings.default_service_account.clone()),
            spec: app.spec.clone(),
            status: app.status.clone().unwrap_or_default(),
            requests: Requests {
                sync: annotation(SYNC_ANNOTATION),
                approve: annotation(APPROVE_ANNOTATION),
                lift: annotation(LIFT_ANNOTATION),
                skip_deletion_hooks: annotation(DELETION_HOOKS_ANNOTATION)
                    .is_some_and(|value| value.trim() == "skip"),
            },
            deleting: app.metadata.deletion_timestamp.is_some(),
            deleted_at: app.metadata.deletion_timestamp.as_ref().map(|at| at.0),
            invalid: Vec::new(),
            source: SourceFacts::NotLooked,
            desired: None,
            blocked: None,
            targets: Vec::new(),
            lost: Vec::new(),
            rollout: None,
            analysis: None,
            reverts: book.reverts.clone(),
            failed: Vec::new(),
            unsure: false,
            revert: book.revert.clone(),
        }
    }

    /// Somebody asked for a sync: it is one of what the repository has now. Until it was fetched, nobody asked.
    fn freshen(&self, observed: &mut Observed) {
        let asked = observed.requests.sync.as_ref();
        let open = asked.filter(|asked| observed.status.last_sync_request.as_ref() != Some(asked));
        if open.is_some_and(|request| !self.origin.refresh(&observed.key, request)) {
            observed.requests.sync = None;
        }
    }

    pub(super) async fn source(&self, observed: &Observed) -> SourceFacts {
        let follow = Follow {
            app: observed.key.clone(),
            source: observed.spec.source.clone(),
            interval: observed.spec.sync.interval.map_or(INTERVAL, Into::into),
        };
        match self.origin.look(&follow).await {
            Sighting::NotYet => SourceFacts::NotYet,
            Sighting::Trouble(trouble) => SourceFacts::Trouble(trouble),
            Sighting::Found(seen) => match behind(&observed.status, &seen) {
                Some(trouble) => SourceFacts::Trouble(trouble.clone()),
                None => SourceFacts::Seen(seen),
            },
        }
    }

    /// The revision that should run, rendered.
    async fn desired(
        &self,
        app: &Application,
        observed: &mut Observed,
        version: Option<&str>,
    ) -> Option<Rendering> {
        let SourceFacts::Seen(seen) = &observed.source else { return None };
        let pin = match Self::pin(app, observed, seen) {
            Ok(pin) => pin,
            Err(trouble) => {
                observed.invalid.push(trouble);
                return None;
            }
        };
        let commit = pin.as_ref().and_then(|pin| pin.to.clone()).unwrap_or_else(|| seen.commit.clone());
        let change_id = (commit == seen.commit).then(|| seen.change_id.clone()).flatten();
        let rendered = self.rendering(observed, &commit, version).await;
        let (digest, empty, rendering) = match rendered {
            Ok(rendering) => (Ok(rendering.digest.clone()), rendering.is_empty(), Some(rendering)),
            Err(trouble) => (Err(trouble), false, None),
        };
        observed.desired = Some(Desired { commit, change_id, pin, digest, empty });
        rendering.filter(|_| !empty)
    }

    fn pin(app: &Application, observed: &Observed, seen: &Seen) -> Result<Option<Pin>, Trouble> {
        history::pin_in_force(
            app.annotations().get(PIN_ANNOTATION).map(String::as_str),
            observed.status.pin.as_ref(),
            &seen.commit,
            seen.before.as_deref(),
            &observed.status.history,
        )
    }

    pub(super) async fn rendering(
        &self,
        observed: &Observed,
        commit: &str,
        kube_version: Option<&str>,
    ) -> Result<Rendering, Trouble> {
        let wanted = |path| Wanted {
            app: &observed.key,
            source: &observed.spec.source,
            commit,
            path,
            namespace: observed.spec.destinations.first().and_then(|first| first.namespace.as_deref()),
            kube_version,
        };
        let main = self.origin.render(wanted(None)).await?;
        let infrastructure = match &observed.spec.infrastructure {
            Some(infrastructure) => Some(self.origin.render(wanted(Some(&infrastructure.path))).await?),
            None => None,
        };
        let digest = digest(&observed.spec, &main, infrastructure.as_deref());
        Ok(Rendering { main, infrastructure, digest })
    }

    /// Which cluster gets what, wave by wave.
    async fn roll_out(
        &self,
        app: &Application,
        observed: &mut Observed,
        meant: &[Meant<'_>],
    ) -> Result<(), Error> {
        let Some(progressive) = &observed.spec.progressive else { return Ok(()) };
        let Some(desired) =
            observed.desired.as_ref().filter(|desired| desired.pin.is_none() && !desired.empty)
        else {
            return Ok(());
        };
        let Ok(digest) = &desired.digest else { return Ok(()) };
        let now = self.clock.now();
        let proven = observed.status.history.iter().any(|known| {
            known.result == DeploymentResult::Succeeded && known.digest.as_ref() == Some(digest)
        });
        let revision = waves::Revision { commit: desired.commit.clone(), digest: digest.clone(), proven };
        let clusters: Vec<waves::ClusterState> = meant
            .iter()
            .filter(|one| !one.leaving && one.destination.is_some())
            .map(|one| cluster_state(observed, one, now))
            .collect();
        let analyses = self.analyses(&observed.key, progressive, &revision).await?;
        let mut assignment = match waves::assign(progressive, &revision, &clusters, &analyses, now) {
            Ok(assignment) => assignment,
            Err(trouble) => {
                observed.invalid.push(trouble);
                return Ok(());
            }
        };
        let wanted =
            assignment.analyse.and_then(|at| Some((at, progressive.waves.get(at)?.analysis.as_ref()?)));
        if let Some((at, analysis)) = wanted {
            let name = waves::analysis_name(&observed.key.name, at, &revision.digest);
            match self.analysis(app, name, analysis).await? {
                Ok(run) => observed.analysis = Some(Box::new(run)),
                Err(error) => assignment.cannot_analyse(at, &error.to_string(), now),
            }
        }
        observed.rollout = Some(assignment);
        Ok(())
    }

    /// One cluster: what is wanted there and what is there.
    async fn target(&self, observed: &Observed, meant: &Meant<'_>, round: Round<'_>) -> Target {
        let Round { rendering, known, book, version } = round;
        let name = &meant.member.name;
        let line = observed.status.clusters.iter().find(|line| line.name == *name);
        let want = if meant.leaving { Want::Nothing } else { want(observed, meant, line, rendering) };
        let mut target = blank(meant, want, book);
        if meant.member.trouble.is_some() || (target.want == Want::Nothing && !meant.leaving) {
            return target;
        }
        let held: Vec<ObjectId> = known.get(name).into_iter().flatten().cloned().collect();
        let old;
        let rendering = match (target.want.clone(), rendering) {
            (Want::New { .. }, Some(rendering)) => Some(rendering),
            (Want::Keep { commit, .. }, _) => match self.rendering(observed, &commit, version).await {
                Ok(rendering) if !rendering.is_empty() => {
                    old = rendering;
                    Some(&old)
                }
                Ok(_) => return unseen(target, &nothing_to_keep(&commit)),
                Err(trouble) => return unseen(target, &trouble),
            },
            _ => None,
        };
        match self.fill(observed, meant, rendering, &held, &mut target).await {
            Ok(()) => target,
            Err(trouble) => {
                if !trouble.waits_for_change {
                    self.fleet.suspect(name, &trouble);
                }
                unseen(target, &trouble)
            }
        }
    }

    /// Prepares and surveys.
    pub(super) async fn fill(
        &self,
        observed: &Observed,
        meant: &Meant<'_>,
        rendering: Option<&Rendering>,
        held: &[ObjectId],
        target: &mut Target,
    ) -> Result<(), Trouble> {
        let link = self.fleet.link(&meant.member.name)?;
        let mut parts: Vec<(PartKind, Vec<Sealed>)> = Vec::new();
        if let Some(rendering) = rendering {
            let default = Destination::default();
            let destination = meant.bounds.unwrap_or(&default);
            let how = Prepare {
                app: &observed.key,
                namespace: &target.namespace.clone(),
                allowed_namespaces: &destination.allowed_namespaces,
                allow_cluster_scoped: destination.allow_cluster_scoped,
            };
            let infrastructure = rendering.infrastructure.as_ref().filter(|_| meant.infrastructure);
            let main = Some(&rendering.main).filter(|_| meant.destination.is_some());
            let all = infrastructure
                .map(|rendered| (PartKind::Infrastructure, rendered))
                .into_iter()
                .chain(main.map(|rendered| (PartKind::Main, rendered)));
            for (kind, rendered) in all {
                let prepared = self.preparations.prepare(&link, rendered, &how).await?;
                target.problems.extend(prepared.problems.iter().cloned());
                let mut objects = prepared.objects.clone();
                if observed.deleting {
                    // Nothing else of it is wanted any more.
                    objects.retain(program::runs_at_deletion);
                }
                parts.push((kind, objects));
            }
        }
        if !target.problems.is_empty() {
            return Ok(());
        }
        let wanted: Vec<Sealed> = parts.iter().flat_map(|(_, objects)| objects.iter().cloned()).collect();
        let quiet = matches!(target.want, Want::Keep { .. }) && observed.spec.sync.drift != Drift::Revert;
        let user = super::plan::as_user(observed);
        let memory = self.memory(&meant.member.name);
        let survey = Survey {
            app: &observed.key,
            wanted: &wanted,
            inventory: held,
            ignore: &observed.spec.sync.ignore_differences,
            judge: if quiet || meant.leaving || observed.deleting { Judge::None } else { Judge::All },
            as_user: user.as_deref(),
            makes_namespace: observed.spec.sync.create_namespace.then_some(target.namespace.as_str()),
            memory: &memory,
        };
        let Surveyed { objects, extra } = fleet::survey(&link, &survey).await?;
        let mut objects = objects.into_iter();
        for (kind, sealed) in parts {
            let program = program::program(&sealed);
            target.problems.extend(program.problems.iter().cloned());
            let found = objects.by_ref().take(sealed.len()).collect();
            target.parts.push(Part { kind, program, found });
        }
        target.extra = extra;
        if meant.infrastructure && !observed.deleting {
            target.missing_secrets = self.missing_secrets(observed, &link, target).await?;
        }
        Ok(())
    }

    /// Whether another Application has to be ready first. Asked only when there is something to apply.
    async fn blocked(
        &self,
        app: &Application,
        observed: &Observed,
    ) -> Result<Option<depends::Blocked>, Error> {
        if app.spec.depends_on.is_empty() {
            return Ok(None);
        }
        let waiting = observed.targets.iter().any(|target| {
            let line = observed.status.clusters.iter().find(|line| line.name == target.member.name);
            matches!(&target.want, Want::New { digest } if line.and_then(|line| line.digest.as_ref()) != Some(digest))
        });
        if !waiting {
            return Ok(None);
        }
        let mut known: BTreeMap<Key, Application> = [(observed.key.clone(), app.clone())].into();
        let mut open = vec![observed.key.clone()];
        while let Some(key) = open.pop() {
            let Some(app) = known.get(&key) else { continue };
            let needed: Vec<Key> = app.spec.depends_on.iter().map(|one| depends::key_of(&key, one)).collect();
            for key in needed {
                if !known.contains_key(&key)
                    && known.len() < MOST_DEPENDENCIES
                    && let Some(found) = self.dependency(&key).await?
                {
                    known.insert(key.clone(), found);
                    open.push(key);
                }
            }
        }
        let graph = depends::Graph {
            facts: &|key| known.get(key).map(dependency_facts),
            object: &|key| known.get(key).and_then(|app| serde_json::to_value(app).ok()),
            across_namespaces: self.settings.cross_namespace_dependencies,
        };
        Ok(depends::blocked(&observed.key, &graph))
    }

    async fn dependency(&self, key: &Key) -> Result<Option<Application>, Error> {
        let namespace = key.namespace.as_deref().unwrap_or_default();
        let api: Api<Application> = Api::namespaced(self.hub.clone(), namespace);
        api.get_opt(&key.name)
            .await
            .map_err(|source| Error::Dependency { key: key.clone(), source: Box::new(source) })
    }
}

/// What an Application says of itself to those who need it.
fn dependency_facts(app: &Application) -> depends::Facts {
    let status = app.status.clone().unwrap_or_default();
    let ready = condition::get(&status.conditions, condition::READY);
    let current = ready.is_some_and(|ready| ready.observed_generation == app.metadata.generation);
    depends::Facts {
        depends_on: app.spec.depends_on.clone(),
        ready: current && ready.is_some_and(|ready| ready.status == "True"),
        why: ready.map(|ready| ready.message.clone()),
    }
}

/// Why what was seen is not to be believed: the repository cannot be asked, and what is left of it on this replica's disk
/// is older than what the status speaks of. Another replica fetched more; to follow the old mirror would be to go back.
fn behind<'a>(status: &ApplicationStatus, seen: &'a Seen) -> Option<&'a Trouble> {
    let trouble = seen.stale.as_ref()?;
    let tip = status.movements.first()?.to.as_ref()?;
    let name = seen.name.as_ref()?;
    let same_name = status
        .sync
        .short_revision
        .as_ref()
        .and_then(|short| short.split_once('@'))
        .is_some_and(|(before, _)| before == name);
    let known = seen.commit == *tip || seen.movements.iter().any(|one| one.to.as_ref() == Some(tip));
    (same_name && !known).then_some(trouble)
}

/// What a cluster should run.
fn want(
    observed: &Observed,
    meant: &Meant<'_>,
    line: Option<&ClusterLine>,
    rendering: Option<&Rendering>,
) -> Want {
    let keep = || match line.map(|line| (line.revision.clone(), line.digest.clone())) {
        Some((Some(commit), Some(digest))) => Want::Keep { commit, digest },
        _ => Want::Nothing,
    };
    let Some(rendering) = rendering else { return keep() };
    let waits = observed
        .rollout
        .as_ref()
        .is_some_and(|rollout| meant.destination.is_some() && !rollout.gets_new(&meant.member.name));
    if waits { keep() } else { Want::New { digest: rendering.digest.clone() } }
}

fn cluster_state(observed: &Observed, meant: &Meant<'_>, now: Timestamp) -> waves::ClusterState {
    let name = &meant.member.name;
    let line = observed.status.clusters.iter().find(|line| line.name == *name).cloned().unwrap_or_default();
    let failed = super::plan::timed_out(observed, &line, now);
    waves::ClusterState {
        name: name.clone(),
        labels: meant.member.labels.clone(),
        reachable: meant.member.trouble.is_none(),
        revision: line.revision,
        digest: line.digest,
        target: line.target,
        sync: line.sync,
        health: line.health,
        message: line.message,
        healthy_since: line.healthy_since.map(|at| at.0),
        failed,
    }
}

pub(super) fn blank(meant: &Meant<'_>, want: Want, book: &Book) -> Target {
    let name = &meant.member.name;
    Target {
        member: meant.member.clone(),
        leaving: meant.leaving,
        want,
        namespace: meant.namespace(),
        parts: Vec::new(),
        extra: Vec::new(),
        problems: Vec::new(),
        unseen: None,
        missing_secrets: Vec::new(),
        applied: book.applied.get(name).cloned().unwrap_or_default(),
        attempts: book.attempts.get(name).cloned().unwrap_or_default(),
        kept: None,
        ahead: None,
    }
}

fn unseen(mut target: Target, trouble: &Trouble) -> Target {
    target.unseen = Some(trouble.clone());
    target
}

fn nothing_to_keep(commit: &str) -> Trouble {
    Trouble::standing(
        "NothingRendered",
        format!("the revision that runs, {commit}, renders to nothing any more"),
        "What runs is left as it is until there is a revision that renders",
    )
}

/// Digest of all that decides what is applied: the objects, and the namespaces that they are put into.
fn digest(spec: &ApplicationSpec, main: &Rendered, infrastructure: Option<&Rendered>) -> String {
    let mut hash = Sha256::new();
    hash.update(main.digest.as_bytes());
    hash.update(infrastructure.map_or("", |infrastructure| &infrastructure.digest).as_bytes());
    for destination in &spec.destinations {
        hash.update([0]);
        hash.update(destination.namespace.as_deref().unwrap_or_default().as_bytes());
    }
    hash.finalize().iter().take(16).fold(String::with_capacity(32), |mut text, byte| {
        use std::fmt::Write as _;
        let _ = write!(text, "{byte:02x}");
        text
    })
}
