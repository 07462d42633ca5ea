//! A world of plain values: a repository with one folder, clusters that hold objects, and rounds of the planner.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::{Value, json};
use windlass_api::{
    ApplicationSpec, ApplicationStatus,
    application::{
        Deletion,
        status::{DeploymentResult, Revert},
    },
    condition,
};
use windlass_cluster::drive::{Key, Plan, Wake};
use windlass_manifest::{
    digest,
    health::{Health, Status},
};

use crate::{
    application::{
        depends::Blocked,
        ledger::Ledger,
        observed::{
            Action, Desired, FailedRollout, Observed, Part, PartKind, Requests, SourceFacts, Target, Want,
        },
        plan::{inventory, kept, plan},
        program,
        waves::{self, Assignment},
    },
    fleet::{Done, Extra, Fate, Found, Live, Member, Prune, State, Work},
    gate::{Ruling, Verdict},
    object::{ObjectId, Sealed},
    origin::{RevertOrder, Seen},
    tracking,
    trouble::Trouble,
};

/// An object as a cluster holds it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Held {
    pub(super) object: Value,
    pub(super) uid: String,
    pub(super) version: u64,
    pub(super) health: Status,
}

/// A cluster.
#[derive(Clone, Debug, Default)]
pub(super) struct Place {
    pub(super) objects: BTreeMap<ObjectId, Held>,
    pub(super) away: bool,
    pub(super) labels: BTreeMap<String, String>,
}

pub(super) struct World {
    pub(super) spec: ApplicationSpec,
    pub(super) status: ApplicationStatus,
    pub(super) generation: i64,
    pub(super) requests: Requests,
    pub(super) deleting: bool,
    pub(super) released: bool,
    /// What the branch holds, and the name of the commit.
    pub(super) head: (String, Vec<Value>),
    /// Every commit that there ever was.
    pub(super) commits: BTreeMap<String, Vec<Value>>,
    pub(super) broken: Option<Trouble>,
    pub(super) clusters: BTreeMap<String, Place>,
    /// Names of objects that policy refuses, also as `cluster/name`.
    pub(super) deny: BTreeSet<String>,
    /// What makes the head unfit for every cluster.
    pub(super) problem: Option<Trouble>,
    /// Another Application has to be ready first.
    pub(super) blocked: Option<Blocked>,
    /// What a newly applied object is like.
    pub(super) born: Status,
    pub(super) now: Timestamp,
    /// Rollouts that failed.
    pub(super) failed: Vec<FailedRollout>,
    /// How pushes of reverts end.
    pub(super) pushes: Result<(), Trouble>,
    /// What was to be reverted.
    pub(super) orders: Vec<RevertOrder>,
    pub(super) ledger: Ledger,
    pub(super) log: Vec<String>,
    counter: u64,
}

pub(super) fn app() -> Key {
    Key { namespace: Some("shop".into()), name: "web".into() }
}

pub(super) fn config(name: &str, value: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name, "namespace": "shop" }, "data": { "v": value } })
}

/// What an object's sync options say about its end.
fn fate(object: &Value) -> Fate {
    let annotations = &object["metadata"]["annotations"];
    if annotations["windlass.dev/prune"] == "disabled" {
        return Fate::KEPT;
    }
    let options = annotations["argocd.argoproj.io/sync-options"].as_str().unwrap_or_default();
    let said = |name: &str| {
        let value = options.split(',').find_map(|one| one.trim().strip_prefix(name)?.strip_prefix('='));
        value.and_then(Prune::read).unwrap_or_default()
    };
    Fate { prune: said("Prune"), delete: said("Delete") }
}

impl World {
    pub(super) fn new(clusters: &[&str]) -> Self {
        let destinations: Vec<Value> = clusters.iter().map(|name| json!({ "cluster": name })).collect();
        let spec = json!({ "source": { "repoURL": "https://git.example/a" }, "destinations": destinations });
        Self {
            spec: serde_json::from_value(spec).unwrap(),
            status: ApplicationStatus::default(),
            generation: 1,
            requests: Requests::default(),
            deleting: false,
            released: false,
            head: (String::new(), Vec::new()),
            commits: BTreeMap::new(),
            broken: None,
            clusters: clusters.iter().map(|name| ((*name).to_owned(), Place::default())).collect(),
            deny: BTreeSet::new(),
            problem: None,
            blocked: None,
            born: Status::Healthy,
            now: Timestamp::from_second(1_700_000_000).unwrap(),
            failed: Vec::new(),
            pushes: Ok(()),
            orders: Vec::new(),
            ledger: Ledger::default(),
            log: Vec::new(),
            counter: 0,
        }
    }

    pub(super) fn commit(&mut self, objects: Vec<Value>) -> String {
        self.counter += 1;
        let name = format!("{:040x}", self.counter);
        self.commits.insert(name.clone(), objects.clone());
        self.head = (name.clone(), objects);
        name
    }

    pub(super) fn wait(&mut self, seconds: i64) {
        self.now = self.now.checked_add(jiff::SignedDuration::from_secs(seconds)).unwrap();
    }

    pub(super) fn place(&mut self, cluster: &str) -> &mut Place {
        self.clusters.get_mut(cluster).unwrap()
    }

    /// Somebody else writes an object.
    pub(super) fn edit(&mut self, cluster: &str, name: &str, change: impl FnOnce(&mut Value)) {
        self.counter += 1;
        let version = self.counter;
        let id: ObjectId = format!("v1/ConfigMap/shop/{name}").parse().unwrap();
        let held = self.place(cluster).objects.entry(id).or_insert_with(|| Held {
            object: config(name, "foreign"),
            uid: format!("uid-{version}"),
            version,
            health: Status::Healthy,
        });
        held.version = version;
        change(&mut held.object);
    }

    fn sealed(objects: &[Value]) -> Vec<Sealed> {
        let seal = |object: &Value| {
            let mut object = object.clone();
            tracking::mark(&mut object, &app());
            Sealed::new(object).unwrap()
        };
        objects.iter().map(seal).collect()
    }

    fn live(held: &Held) -> Live {
        Live {
            uid: held.uid.clone(),
            version: held.version.to_string(),
            owned: digest::digest(&held.object),
            health: Health { status: held.health, message: String::new() },
            owner: tracking::owner(&held.object).map(str::to_owned),
            operation: held.object["metadata"]["annotations"]["windlass.dev/operation"]
                .as_str()
                .map(str::to_owned),
            deleting: false,
            fate: fate(&held.object),
        }
    }

    fn found(&self, cluster: &str, wanted: &Sealed) -> Found {
        let held = self.clusters[cluster].objects.get(wanted.id());
        let state = match held {
            None => State::Missing,
            Some(held) => match tracking::owner(&held.object) {
                Some(owner) if owner != app().to_string() => State::Foreign(owner.to_owned()),
                _ if held.object == *wanted.object() => State::Same,
                _ => State::Differs(Vec::new()),
            },
        };
        let name = &wanted.id().name;
        let refused = self.deny.contains(name) || self.deny.contains(&format!("{cluster}/{name}"));
        let ruling = if refused { Ruling::Refused("denied".into()) } else { Ruling::Pass };
        let judged = matches!(state, State::Missing | State::Differs(_));
        let verdict = judged.then(|| Verdict {
            object: wanted.id().clone(),
            cluster: Some(cluster.into()),
            policy: "test".into(),
            ruling,
        });
        Found { wanted: wanted.clone(), state, live: held.map(Self::live), verdict }
    }

    fn target(&self, name: &str, place: &Place, want: Want) -> Target {
        let known = inventory::by_cluster(&self.status.inventory).remove(name).unwrap_or_default();
        let commit = match &want {
            Want::New { .. } => Some(self.desired().0),
            Want::Keep { commit, .. } => Some(commit.clone()),
            Want::Nothing => None,
        };
        let problems: Vec<Trouble> =
            self.problem.iter().filter(|_| matches!(want, Want::New { .. })).cloned().collect();
        let commit = commit.filter(|_| problems.is_empty()).or_else(|| self.runs_last_hooks(name));
        let mut sealed = commit.map(|commit| Self::sealed(&self.commits[&commit])).unwrap_or_default();
        if self.deleting {
            sealed.retain(program::runs_at_deletion);
        }
        let book = self.ledger.book(&app());
        let leaving = !self.spec.destinations.iter().any(|one| one.cluster.as_deref() == Some(name));
        let wanted: BTreeSet<&ObjectId> = sealed.iter().map(Sealed::id).collect();
        let skip = want == Want::Nothing && !leaving && !self.deleting;
        let extra = known
            .iter()
            .filter(|id| !skip && !wanted.contains(id))
            .map(|id| Extra { id: id.clone(), live: place.objects.get(id).map(Self::live) });
        let away = place.away.then(|| Trouble::passing("Unreachable", "it does not answer", "wait"));
        let found: Vec<Found> = sealed.iter().map(|wanted| self.found(name, wanted)).collect();
        Target {
            member: Member { name: name.into(), labels: place.labels.clone(), version: None, trouble: away },
            leaving,
            want,
            namespace: "shop".into(),
            extra: extra.collect(),
            parts: vec![Part { kind: PartKind::Main, program: program::program(&sealed), found }],
            problems,
            unseen: None,
            missing_secrets: Vec::new(),
            applied: book.applied.get(name).cloned().unwrap_or_default(),
            attempts: book.attempts.get(name).cloned().unwrap_or_default(),
            kept: None,
            ahead: None,
        }
    }

    /// The commit whose hooks have their turn now that the Application goes.
    fn runs_last_hooks(&self, cluster: &str) -> Option<String> {
        let wanted =
            self.deleting && self.spec.deletion == Deletion::Delete && !self.requests.skip_deletion_hooks;
        let line = self.status.clusters.iter().find(|line| line.name == cluster && wanted)?;
        line.revision.clone().filter(|_| line.deletion_hooks.is_some())
    }

    /// Which cluster gets what, wave by wave.
    fn rollout(&self, commit: &str, digest: &str) -> Option<Assignment> {
        let progressive = self.spec.progressive.as_ref()?;
        let proven =
            self.status.history.iter().any(|one| {
                one.result == DeploymentResult::Succeeded && one.digest.as_deref() == Some(digest)
            });
        let new = waves::Revision { commit: commit.into(), digest: digest.into(), proven };
        let state = |(name, place): (&String, &Place)| {
            let line =
                self.status.clusters.iter().find(|line| line.name == *name).cloned().unwrap_or_default();
            waves::ClusterState {
                name: name.clone(),
                labels: place.labels.clone(),
                reachable: !place.away,
                revision: line.revision,
                digest: line.digest,
                target: line.target,
                sync: line.sync,
                health: line.health,
                message: line.message,
                healthy_since: line.healthy_since.map(|at| at.0),
                failed: None,
            }
        };
        let clusters: Vec<waves::ClusterState> = self.clusters.iter().map(state).collect();
        Some(waves::assign(progressive, &new, &clusters, &[], self.now).unwrap())
    }

    /// The looks besides the first one, as the controller takes them.
    fn look_again(&self, observed: &mut Observed, digest: &str) {
        let rollout = observed.rollout.clone();
        let waits = |name: &str| rollout.as_ref().is_some_and(|rollout| !rollout.gets_new(name));
        for target in observed.targets.iter_mut().filter(|target| !target.leaving && !self.deleting) {
            let name = target.member.name.clone();
            if waits(&name) && target.member.trouble.is_none() {
                let want = Want::New { digest: digest.to_owned() };
                target.ahead = Some(Box::new(self.target(&name, &self.clusters[&name], want)));
            }
        }
        for name in kept(observed, self.now) {
            let line = self.status.clusters.iter().find(|line| line.name == name).unwrap();
            let want =
                Want::Keep { commit: line.revision.clone().unwrap(), digest: line.digest.clone().unwrap() };
            let mut look = self.target(&name, &self.clusters[&name], want);
            look.extra = Vec::new();
            let target = observed.targets.iter_mut().find(|target| target.member.name == name).unwrap();
            target.kept = Some(Box::new(look));
        }
        for target in &observed.targets {
            self.ledger.found(&app(), &target.member.name, target.running().found(), self.now);
        }
    }

    /// What should run: the head, or what a pin says.
    fn desired(&self) -> (String, Option<windlass_api::application::status::Pin>) {
        let pin = self.status.pin.clone().filter(|pin| pin.excludes == self.head.0);
        let to = pin.as_ref().and_then(|pin| pin.to.clone()).unwrap_or_else(|| self.head.0.clone());
        (to, pin)
    }

    pub(super) fn observe(&self) -> Observed {
        let (commit, pin) = self.desired();
        let objects = self.commits.get(&commit).cloned().unwrap_or_default();
        let digest = format!("{:?}", &digest::digest(&Value::Array(objects.clone()))[..8]);
        let usable = self.broken.is_none() && !objects.is_empty();
        let desired = Desired {
            commit: commit.clone(),
            change_id: None,
            pin,
            digest: Ok(digest.clone()),
            empty: objects.is_empty(),
        };
        let rollout = self.rollout(&commit, &digest).filter(|_| usable && !self.deleting);
        let waits = |name: &str| rollout.as_ref().is_some_and(|rollout| !rollout.gets_new(name));
        let targets: Vec<Target> = self
            .clusters
            .iter()
            .filter_map(|(name, place)| {
                let line = self.status.clusters.iter().find(|line| line.name == *name);
                let meant = self.spec.destinations.iter().any(|one| one.cluster.as_deref() == Some(name));
                let want = if self.deleting || !meant {
                    Want::Nothing
                } else if usable && !waits(name) {
                    Want::New { digest: digest.clone() }
                } else {
                    match line.and_then(|line| Some((line.revision.clone()?, line.digest.clone()?))) {
                        Some((commit, digest)) => Want::Keep { commit, digest },
                        None => Want::Nothing,
                    }
                };
                let known = inventory::by_cluster(&self.status.inventory).contains_key(name);
                (meant || known).then(|| self.target(name, place, want))
            })
            .collect();
        let source = match &self.broken {
            Some(trouble) => SourceFacts::Trouble(trouble.clone()),
            None => SourceFacts::Seen(Seen {
                commit,
                change_id: None,
                name: Some("main".into()),
                movements: Vec::new(),
                before: None,
                stale: None,
            }),
        };
        let mut observed = Observed {
            key: app(),
            generation: Some(self.generation),
            spec: self.spec.clone(),
            status: self.status.clone(),
            requests: self.requests.clone(),
            account: None,
            deleting: self.deleting,
            deleted_at: self.deleting.then(|| Timestamp::from_second(1_800_000_000).unwrap()),
            invalid: Vec::new(),
            source,
            desired: self.broken.is_none().then_some(desired),
            blocked: self.blocked.clone(),
            targets,
            lost: Vec::new(),
            rollout,
            analysis: None,
            reverts: self.ledger.book(&app()).reverts,
            failed: self.failed.clone(),
            unsure: false,
            revert: self.ledger.book(&app()).revert,
        };
        self.look_again(&mut observed, &digest);
        observed
    }

    /// One round; `crash` ends it before its status is written.
    pub(super) fn round(&mut self, crash: bool) -> Plan<Action, ApplicationStatus> {
        let plan = plan(&self.observe(), self.now);
        for action in &plan.actions {
            if let Action::Revert(order) = action {
                self.orders.push((**order).clone());
                let revert = Revert { commit: "f".repeat(40), branch: order.branch.clone() };
                let result = self.pushes.clone().map(|()| revert);
                self.ledger.reverted(&app(), &order.bad, result, self.now);
            }
            let Action::Work { batches, .. } = action else { continue };
            for batch in batches {
                let done: Vec<Done> = batch
                    .steps
                    .iter()
                    .flatten()
                    .map(|work| {
                        self.work(&batch.cluster, work);
                        Done { object: work.object(), result: Ok(()) }
                    })
                    .collect();
                self.ledger.record(&app(), batch, &done, self.now);
            }
        }
        if crash {
            self.ledger = Ledger::default();
            return plan;
        }
        if let Some(status) = &plan.status {
            self.status = status.clone();
        }
        self.released |= plan.released;
        plan
    }

    fn work(&mut self, cluster: &str, work: &Work) {
        self.log.push(format!("{cluster}: {work}"));
        self.counter += 1;
        let (version, born) = (self.counter, self.born);
        let known = inventory::by_cluster(&self.status.inventory).remove(cluster).unwrap_or_default();
        let place = self.clusters.get_mut(cluster).unwrap();
        assert!(!place.away, "work on a cluster that is away");
        match work {
            Work::Apply(wanted) => {
                assert!(
                    known.contains(wanted.id()),
                    "{} is applied before the inventory names it",
                    wanted.id()
                );
                let before = place.objects.get(wanted.id());
                let foreign = before
                    .and_then(|held| tracking::owner(&held.object))
                    .is_some_and(|owner| owner != app().to_string());
                assert!(!foreign, "{} of somebody else is taken", wanted.id());
                let uid = before.map_or_else(|| format!("uid-{version}"), |held| held.uid.clone());
                let held = Held { object: wanted.object().clone(), uid, version, health: born };
                place.objects.insert(wanted.id().clone(), held);
            }
            Work::Delete { id, uid } => {
                assert!(known.contains(id), "{id} is deleted though the inventory does not name it");
                let held = place.objects.get(id).expect("it is there");
                assert_eq!(held.uid, *uid);
                assert_eq!(
                    tracking::owner(&held.object),
                    Some(app().to_string().as_str()),
                    "{id} is not ours"
                );
                place.objects.remove(id);
            }
            Work::Release { id, .. } => {
                let held = place.objects.get_mut(id).expect("it is there");
                held.object["metadata"]["annotations"].as_object_mut().unwrap().remove(tracking::OWNER);
            }
            other => panic!("{other}"),
        }
    }

    /// Rounds until nothing is left to do; how many it took.
    pub(super) fn settle(&mut self) -> usize {
        for count in 1..200 {
            let before = self.status.clone();
            let plan = self.round(false);
            let done = plan.actions.is_empty() && self.status == before;
            match plan.wake {
                Wake::After(wait) if wait.is_zero() => {}
                _ if done || self.released => return count,
                _ => {}
            }
        }
        panic!(
            "it never comes to rest: {:#?}\n{:#?}",
            self.log.iter().rev().take(20).collect::<Vec<_>>(),
            self.status
        );
    }

    pub(super) fn names(&self, cluster: &str) -> Vec<String> {
        self.clusters[cluster].objects.keys().map(|id| id.name.clone()).collect()
    }

    /// The value that a `ConfigMap` holds.
    pub(super) fn value(&self, cluster: &str, name: &str) -> Option<String> {
        let id: ObjectId = format!("v1/ConfigMap/shop/{name}").parse().unwrap();
        let held = self.clusters[cluster].objects.get(&id)?;
        held.object["data"]["v"].as_str().map(str::to_owned)
    }

    /// What Ready says.
    pub(super) fn message(&self) -> String {
        condition::get(&self.status.conditions, condition::READY)
            .map(|ready| ready.message.clone())
            .unwrap_or_default()
    }

    pub(super) fn reason(&self) -> String {
        condition::get(&self.status.conditions, condition::READY)
            .map(|ready| ready.reason.clone())
            .unwrap_or_default()
    }
}
