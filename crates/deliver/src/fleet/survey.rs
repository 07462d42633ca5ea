//! How the objects of an Application stand on a cluster.
//!
//! ```text
//!   wanted ─► index: digest of our fields is the same ──────────────────────────► Same, without a request
//!          ─► memory: found out before, and nothing changed since ──────────────► as before, without a request
//!          ─► not in the index ─► dry run: would be new ────────────────────────► Missing
//!          └► read ─► another Application's · as wanted · differs ─► dry run ───► Foreign · Same · Differs
//! ```
//!
//! An object that is there without our marks (made by kubectl, Helm, Argo CD, Flux) can be adopted: it [`State::Differs`],
//! for it lacks the marks. An apply adds them and takes the fields that are wanted; what others own besides stays.

use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    sync::Arc,
    time::Duration,
};

use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client, api::GroupVersionKind};
use serde_json::Value;
use windlass_api::application::sync::IgnoreDifference;
use windlass_cluster::{
    apply::{ApplyError, Endpoint, Retries, retrying},
    discover::{Lookup, Served},
    drive::Key,
};
use windlass_manifest::{
    diff,
    digest::{self, Digest},
    health::{Health, Status, waits_for_any_status},
    identity::ObjectKey,
    schema::Schema,
};

use super::{
    Extra, Found, Link, Live, State, answers,
    dry_run::Judges,
    ignore,
    memory::{self, KindSchema, Memory, Question},
    mute,
};
use crate::{
    gate::Verdict,
    object::{ObjectId, Sealed},
    tracking::{self, MANAGER},
    trouble::Trouble,
};

/// Objects of one cluster that are asked about at the same time.
pub(super) const AT_ONCE: usize = 8;

/// How long a kind may take to be listed for the first time.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why [`super::Index::ensure`] fails for a kind that can only be read object by object.
const WATCH_FORBIDDEN: &str = "WatchForbidden";

/// Which objects are tried out on the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judge {
    /// Every one that would change.
    All,
    /// None.
    None,
}

/// What is looked at.
#[derive(Clone, Copy, Debug)]
pub struct Survey<'a> {
    /// The Application.
    pub app: &'a Key,
    /// What is wanted, by [`super::prepare`].
    pub wanted: &'a [Sealed],
    /// What is known to be there from before.
    pub inventory: &'a [ObjectId],
    /// Differences that do not count.
    pub ignore: &'a [IgnoreDifference],
    /// Which objects are tried out.
    pub judge: Judge,
    /// Whom the objects are tried out as; the controller itself for `None`.
    pub as_user: Option<&'a str>,
    /// A namespace that is made before anything is applied (`createNamespace`), though it is not among `wanted`.
    pub makes_namespace: Option<&'a str>,
    /// What was found out about this cluster before.
    pub memory: &'a Memory,
}

/// What a survey found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Surveyed {
    /// The wanted objects, in their order.
    pub objects: Vec<Found>,
    /// What is in the inventory and no longer wanted, in the order of the inventory.
    pub extra: Vec<Extra>,
}

/// Looks how the objects of an Application stand on a cluster.
///
/// Guarantees: no request at all when nothing changed since the last look; with [`Judge::All`] every object that would
/// change has a verdict, unless it waits for a namespace or a kind of the same change. Fails only when the cluster does
/// not answer: an object that is not found is told as missing only by an API server that said so.
pub async fn survey(link: &Link, survey: &Survey<'_>) -> Result<Surveyed, Trouble> {
    answers::check_identity(survey.as_user)?;
    let wanted: BTreeSet<ObjectKey> = survey.wanted.iter().map(|sealed| sealed.id().key()).collect();
    let extra: Vec<&ObjectId> = survey.inventory.iter().filter(|id| !wanted.contains(&id.key())).collect();
    let kinds = Kinds::of(link, survey.wanted, &extra).await?;
    match link.index().ensure(&kinds.watched(), PATIENCE).await {
        Ok(()) => {}
        // Its objects are read one by one.
        Err(trouble) if trouble.reason == WATCH_FORBIDDEN => {}
        Err(trouble) => return Err(trouble),
    }
    let brought = memory::namespaces_of(survey.wanted, survey.makes_namespace);
    let (reader, applier) = (link.client(), link.acting_as(survey.as_user));
    let judges = Judges { link, client: &applier, brought: &brought };
    let round = Round { link, survey, kinds: &kinds, client: &reader, judges };
    let mut objects = round.look(survey.wanted).await?;
    round.listen(&mut objects).await?;
    // Made first and polled later: a closure that makes them in the stream would tie the future to one thread.
    let left: Vec<_> = extra.into_iter().map(|id| round.left(id)).collect();
    let extra = stream::iter(left).buffered(AT_ONCE).try_collect().await?;
    Ok(Surveyed { objects, extra })
}

/// Whether a Secret is there. Its content is not read.
pub async fn secret_exists(link: &Link, namespace: &str, name: &str) -> Result<bool, Trouble> {
    let api: Api<Secret> = Api::namespaced(link.client(), namespace);
    match api.get_metadata_opt(name).await {
        Ok(found) => Ok(found.is_some()),
        Err(error) => Err(Trouble::passing(
            "SecretUnknown",
            format!(
                "whether Secret {namespace}/{name} is on cluster {} could not be told: {error}",
                link.name()
            ),
            "It is asked again; the controller needs the right to get Secrets there.",
        )),
    }
}

/// The kinds that a survey is about, each looked up once.
struct Kinds(BTreeMap<Kind, Lookup>);

/// Group, version, kind.
type Kind = (String, String, String);

impl Kinds {
    async fn of(link: &Link, wanted: &[Sealed], extra: &[&ObjectId]) -> Result<Self, Trouble> {
        let undiscovered = |error| answers::undiscovered(link.name(), &error);
        let mut kinds = BTreeMap::new();
        for id in wanted.iter().map(Sealed::id) {
            if let Entry::Vacant(entry) = kinds.entry(kind(id)) {
                entry.insert(link.discovery().lookup(&gvk(id)).await.map_err(undiscovered)?);
            }
        }
        for id in extra {
            if let Entry::Vacant(entry) = kinds.entry(kind(id)) {
                // The version that it was applied in may be gone: any other shows the same object.
                entry.insert(match link.discovery().lookup(&gvk(id)).await.map_err(undiscovered)? {
                    Lookup::Found(served) => Lookup::Found(served),
                    _ => link.discovery().preferred(&id.group, &id.kind).await.map_err(undiscovered)?,
                });
            }
        }
        Ok(Self(kinds))
    }

    fn get(&self, id: &ObjectId) -> &Lookup {
        self.0.get(&kind(id)).unwrap_or(&Lookup::Absent)
    }

    fn watched(&self) -> Vec<GroupVersionKind> {
        self.0
            .values()
            .filter_map(|lookup| match lookup {
                Lookup::Found(served) => Some(served.gvk()),
                Lookup::Absent | Lookup::Unknown(_) => None,
            })
            .collect()
    }
}

fn kind(id: &ObjectId) -> Kind {
    (id.group.clone(), id.version.clone(), id.kind.clone())
}

pub(super) fn gvk(id: &ObjectId) -> GroupVersionKind {
    GroupVersionKind::gvk(&id.group, &id.version, &id.kind)
}

struct Round<'a> {
    link: &'a Link,
    survey: &'a Survey<'a>,
    kinds: &'a Kinds,
    client: &'a Client,
    judges: Judges<'a>,
}

/// What is known of an object without asking.
enum Known<'a> {
    Told(Box<Found>),
    Open(Box<Open<'a>>),
}

/// An object that has to be asked about.
struct Open<'a> {
    wanted: &'a Sealed,
    key: ObjectKey,
    served: &'a Served,
    known: Option<Arc<Live>>,
    rules: Vec<&'a IgnoreDifference>,
    /// What is remembered, when only the verdict is missing.
    recalled: Option<Found>,
}

impl<'a> Round<'a> {
    async fn look(&self, wanted: &'a [Sealed]) -> Result<Vec<Found>, Trouble> {
        let mut all = Vec::with_capacity(wanted.len());
        let mut open = Vec::new();
        for wanted in wanted {
            match self.known(wanted) {
                Known::Told(found) => all.push(Some(*found)),
                Known::Open(asked) => {
                    all.push(None);
                    open.push(self.ask(*asked));
                }
            }
        }
        let answers: Vec<Found> = stream::iter(open).buffered(AT_ONCE).try_collect().await?;
        let mut answers = answers.into_iter();
        Ok(all.into_iter().filter_map(|found| found.or_else(|| answers.next())).collect())
    }

    /// What can be told without asking the cluster.
    fn known(&self, wanted: &'a Sealed) -> Known<'a> {
        let told = |state, live| Known::Told(Box::new(found(wanted, state, live)));
        let id = wanted.id();
        let served = match self.kinds.get(id) {
            Lookup::Found(served) => served,
            Lookup::Absent => return told(State::UnknownKind, None),
            Lookup::Unknown(reason) => {
                return told(State::Unknown(answers::uncertain(self.link.name(), id, reason)), None);
            }
        };
        let key = id.key();
        let known = self.link.index().get(&key);
        if let Some(live) = &known {
            let other = self.other(live);
            if let Some(owner) = other.clone().filter(|_| self.survey.judge != Judge::All) {
                return told(State::Foreign(owner), Some(Live::clone(live)));
            }
            if other.is_none() && live.owned == self.survey.memory.comparable(wanted) {
                return told(State::Same, Some(Live::clone(live)));
            }
        }
        let rules = ignore::rules_for(self.survey.ignore, id);
        let mut open = Open { wanted, key, served, known, rules, recalled: None };
        match self.survey.memory.recall(&self.question(&open)) {
            Some(found) if !self.needs_verdict(&found) => Known::Told(Box::new(found)),
            recalled => {
                open.recalled = recalled;
                Known::Open(Box::new(open))
            }
        }
    }

    fn question<'q>(&'q self, open: &'q Open<'_>) -> Question<'q> {
        Question {
            app: self.survey.app,
            key: &open.key,
            wanted: open.wanted,
            rules: digest_of(&open.rules),
            as_user: self.survey.as_user,
            known: open.known.as_deref(),
        }
    }

    async fn ask(&self, mut open: Open<'a>) -> Result<Found, Trouble> {
        let judges = self.survey.judge == Judge::All;
        let found = match open.recalled.take() {
            Some(found) => self.judged(open.served, found).await?,
            None if open.known.is_none() && judges && open.rules.is_empty() => {
                self.try_first(open.served, open.wanted).await?
            }
            None => {
                let known = open.known.as_deref();
                let found = self.read(open.served, open.wanted, &open.rules, known).await?;
                if self.needs_verdict(&found) { self.judged(open.served, found).await? } else { found }
            }
        };
        self.survey.memory.keep(&self.question(&open), &found);
        Ok(found)
    }

    /// The dry run of an object that is probably new tells whether it is: nothing needs to be read then.
    async fn try_first(&self, served: &Served, wanted: &Sealed) -> Result<Found, Trouble> {
        let told = self.judges.ask(served, wanted).await?;
        if told.created == Some(true) {
            return Ok(Found { verdict: told.verdict, ..found(wanted, State::Missing, None) });
        }
        let mut found = self.read(served, wanted, &[], None).await?;
        if self.needs_verdict(&found) {
            found.verdict = told.verdict;
        }
        Ok(found)
    }

    async fn judged(&self, served: &Served, found: Found) -> Result<Found, Trouble> {
        let verdict: Option<Verdict> = self.judges.ask(served, &found.wanted).await?.verdict;
        Ok(Found { verdict, ..found })
    }

    /// Also what belongs to another Application is judged: a change is refused as a whole, whoever has the object now.
    fn needs_verdict(&self, found: &Found) -> bool {
        self.survey.judge == Judge::All
            && found.verdict.is_none()
            && matches!(found.state, State::Missing | State::Differs(_) | State::Foreign(_))
    }

    /// Reads an object in the version that is wanted, and compares.
    async fn read(
        &self,
        served: &Served,
        wanted: &Sealed,
        rules: &[&IgnoreDifference],
        known: Option<&Live>,
    ) -> Result<Found, Trouble> {
        let object = match self.get(served, wanted.id()).await {
            Ok(Some(object)) => object,
            Ok(None) => return Ok(found(wanted, State::Missing, None)),
            Err(error) => {
                let trouble = answers::trouble(self.link.name(), wanted.id(), &error);
                if answers::is_away(&error) {
                    return Err(trouble);
                }
                return Ok(found(wanted, State::Unknown(trouble), known.cloned()));
            }
        };
        let live = self.live(wanted.id(), &object)?;
        if let Some(owner) = self.other(&live) {
            return Ok(found(wanted, State::Foreign(owner), Some(live)));
        }
        let kind = self.schema(served).await?;
        let schema = kind.as_ref().and_then(|kind| kind.schema.as_deref());
        let schema = schema.unwrap_or(Schema::built_in());
        let (wanted, differences) = compare(schema, wanted, &object, rules);
        let state = if differences.is_empty() { State::Same } else { State::Differs(differences) };
        Ok(found(&wanted, state, Some(live)))
    }

    /// What became of an object that is no longer wanted. One without our label is not in the index and still there.
    async fn left(&self, id: &ObjectId) -> Result<Extra, Trouble> {
        let live = match self.kinds.get(id) {
            Lookup::Absent => None,
            Lookup::Unknown(reason) => return Err(answers::uncertain(self.link.name(), id, reason)),
            Lookup::Found(served) => {
                if let Some(live) = self.link.index().get(&id.key()) {
                    Some(Live::clone(&live))
                } else {
                    let object = self.get(served, id).await;
                    let object = object.map_err(|error| answers::trouble(self.link.name(), id, &error))?;
                    object.map(|object| self.live(id, &object)).transpose()?
                }
            }
        };
        Ok(Extra { id: id.clone(), live })
    }

    async fn get(&self, served: &Served, id: &ObjectId) -> Result<Option<Value>, ApplyError> {
        let namespace = served.namespaced.then_some(id.namespace.as_str());
        let endpoint = Endpoint::new(self.client, &served.resource, namespace)?;
        retrying(Retries::default(), || endpoint.get(&id.name)).await
    }

    /// Does not wait for a status that cannot come: that of a kind which has none.
    async fn listen(&self, objects: &mut [Found]) -> Result<(), Trouble> {
        for found in objects {
            let Lookup::Found(served) = self.kinds.get(found.wanted.id()) else { continue };
            let silent = found.live.as_mut().filter(|live| waits_for_any_status(&live.health));
            let Some(live) = silent.filter(|_| !served.subresources.contains_key("status")) else { continue };
            let kind = self.schema(served).await?;
            if kind.is_some_and(|kind| kind.mute.contains(&found.wanted.id().version)) {
                live.health = Health { status: Status::Healthy, message: String::new() };
            }
        }
        Ok(())
    }

    /// What the definition of a custom kind on the cluster says; `None` for built-in kinds. Empty where it cannot be
    /// read.
    async fn schema(&self, served: &Served) -> Result<Option<KindSchema>, Trouble> {
        let resource = &served.resource;
        // Groups of the API server itself that have no dot, and those that it has all the same.
        if !resource.group.contains('.') || Schema::built_in().knows(&resource.api_version, &resource.kind) {
            return Ok(None);
        }
        if let Some(remembered) = self.survey.memory.schema(&resource.group, &resource.kind) {
            return Ok(Some(remembered));
        }
        let id = definition_of(&resource.plural, &resource.group);
        let definition = match self.link.discovery().lookup(&gvk(&id)).await {
            Ok(Lookup::Found(definitions)) => self.get(&definitions, &id).await,
            _ => Ok(None),
        };
        let (schema, mute) = match definition {
            Ok(Some(definition)) => {
                let schema = Arc::new(Schema::default().with_definitions([&definition]));
                (Some(schema), mute::versions(&definition))
            }
            Err(error) if answers::is_away(&error) => return Err(answers::away(self.link.name(), &error)),
            Ok(None) | Err(_) => (None, BTreeSet::new()),
        };
        Ok(Some(self.survey.memory.keep_schema(&resource.group, &resource.kind, schema, mute)))
    }

    fn live(&self, id: &ObjectId, object: &Value) -> Result<Live, Trouble> {
        self.link.index().read(object).ok_or_else(|| {
            let what = format!("cluster {} answers with no object for {}", self.link.name(), id.short());
            Trouble::passing("UnreadableAnswer", what, "It is asked again.")
        })
    }

    /// The other Application that a live object belongs to.
    fn other(&self, live: &Live) -> Option<String> {
        live.owner.clone().filter(|owner| *owner != self.survey.app.to_string())
    }
}

/// The object to apply, with live values where differences are ignored, and the differences that count.
fn compare(
    schema: &Schema,
    wanted: &Sealed,
    live: &Value,
    rules: &[&IgnoreDifference],
) -> (Sealed, Vec<diff::Difference>) {
    let differences = |object: &Value| diff::diff_with(schema, object, live, MANAGER);
    if rules.is_empty() {
        return (wanted.clone(), differences(wanted.object()));
    }
    let owned = diff::owned(live, MANAGER);
    let rebuilt = ignore::at_pointers(wanted.object(), live, owned.as_ref(), rules);
    let rebuilt = ignore::of_managers(&rebuilt, live, &differences(&rebuilt), rules);
    // It has the name and kind of the wanted one, so sealing it cannot fail.
    let sealed = if rebuilt == *wanted.object() { None } else { Sealed::new(rebuilt).ok() };
    let sealed = sealed.unwrap_or_else(|| wanted.clone());
    let differences = differences(sealed.object());
    (sealed, differences)
}

fn definition_of(plural: &str, group: &str) -> ObjectId {
    ObjectId {
        group: "apiextensions.k8s.io".into(),
        version: "v1".into(),
        kind: "CustomResourceDefinition".into(),
        namespace: String::new(),
        name: format!("{plural}.{group}"),
    }
}

fn digest_of(rules: &[&IgnoreDifference]) -> Digest {
    if rules.is_empty() {
        return [0; 32];
    }
    digest::digest(&serde_json::to_value(rules).unwrap_or_default())
}

fn found(wanted: &Sealed, state: State, live: Option<Live>) -> Found {
    Found { wanted: wanted.clone(), state, live, verdict: None }
}

/// Whether an object says that it belongs to an Application.
pub(super) fn is_of(object: &Value, app: &Key) -> bool {
    tracking::owner(object) == Some(app.to_string().as_str())
}
