//! What a revision would do, without doing it: any revision against all clusters that it would touch.
//!
//! ```text
//!   Application, revision ─► hypothetical ─► observe (the controller's own) ─► Comparison ─► text, JSON, Markdown
//! ```
//!
//! Guarantees: nothing is written but dry runs; values of Secrets are masked in everything that a [`Comparison`] shows;
//! what the controller would do in the same place is found out by the same code.

use std::{sync::Arc, time::Duration};

use kube::ResourceExt;
use serde::Serialize;
use windlass_api::{
    Application,
    application::{PIN_ANNOTATION, status::Approval},
};
use windlass_cluster::drive::{Controller, Key};
use windlass_manifest::diff::Difference;

use crate::{
    application::{
        ApplicationController, Error,
        observed::{Observed, SourceFacts, Target},
        plan::prune,
    },
    fleet::{Connector, Extra, Found, Prune, State},
    gate::{Ruling, Verdict},
    origin::Origin,
    trouble::Trouble,
};

/// Between two looks at a repository that is being fetched.
const PAUSE: Duration = Duration::from_millis(50);

/// Annotations that make an object a hook.
const HOOKS: [&str; 2] = ["windlass.dev/hook", "argocd.argoproj.io/hook"];

/// What a revision would do.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Comparison {
    /// `namespace/name` of the Application.
    pub application: String,
    /// The commit.
    pub revision: String,
    /// Its Jujutsu change id, if it carries one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change_id: Option<String>,
    /// By name.
    pub clusters: Vec<OnCluster>,
    /// Deletions that would wait for somebody to approve them: more than the budget allows, or those that ask for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval: Option<Approval>,
}

/// What it would do on one cluster.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OnCluster {
    /// Name of the cluster.
    pub cluster: String,
    /// Why it could not be told, or what makes the revision unfit for this cluster.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub trouble: Vec<String>,
    /// Objects that are as wanted already.
    pub same: usize,
    /// The others, in the order of the source; what goes comes last.
    pub changes: Vec<ObjectChange>,
}

/// What it would do to one object.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectChange {
    /// For people: `Deployment shop/web`.
    pub object: String,
    /// What would happen.
    pub action: Deed,
    /// Field by field, for what is there and differs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub differences: Vec<Difference>,
    /// Who would refuse it, and why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<Objection>,
    /// Something that one should know.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// What would happen to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Deed {
    /// It would be made.
    Create,
    /// It would be changed.
    Change,
    /// It would be deleted.
    Delete,
    /// It would be run as a hook.
    Run,
    /// It is no longer in the source and would stay.
    Leave,
    /// It could not be applied.
    Blocked,
}

/// Who would refuse an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Objection {
    /// The policy, webhook or rule.
    pub policy: String,
    /// What it says.
    pub message: String,
}

/// Why nothing can be told.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    /// The source, or what it renders to.
    #[error("{}", .0.what)]
    Trouble(Trouble),
    /// The hub.
    #[error(transparent)]
    Observe(#[from] Error),
}

impl Comparison {
    /// Whether anything would happen anywhere.
    pub fn is_empty(&self) -> bool {
        self.clusters.iter().all(|one| one.changes.is_empty() && one.trouble.is_empty())
    }
}

impl OnCluster {
    /// So many objects would get this.
    pub fn count(&self, deed: Deed) -> usize {
        self.changes.iter().filter(|change| change.action == deed).count()
    }

    /// So many objects would be refused.
    pub fn refused(&self) -> usize {
        self.changes.iter().filter(|change| change.refused.is_some()).count()
    }
}

/// The same Application as if it followed this revision, at once and on all its clusters: no pin, no waves, nothing to
/// wait for. With `None` it is the revision that it follows.
#[must_use]
pub fn hypothetical(mut app: Application, revision: Option<&str>) -> Application {
    app.annotations_mut().remove(PIN_ANNOTATION);
    app.metadata.deletion_timestamp = None;
    if let Some(status) = &mut app.status {
        status.pin = None;
    }
    app.spec.progressive = None;
    app.spec.depends_on = Vec::new();
    app.spec.suspend = false;
    if let Some(revision) = revision {
        app.spec.source.revision = Some(revision.to_owned());
    }
    app
}

/// Finds out what an Application would do. Waits for its repository for at most so long.
///
/// Repositories and fleet of the controller have to run; the controller itself must not.
pub async fn compare<O: Origin, C: Connector>(
    controller: &ApplicationController<O, C>,
    app: Application,
    patience: Duration,
) -> Result<Comparison, CompareError> {
    let prune = app.spec.sync.prune;
    let app = Arc::new(app);
    let begin = tokio::time::Instant::now();
    let observed = loop {
        let observed = controller.observe(Arc::clone(&app)).await?;
        if observed.source != SourceFacts::NotYet {
            break observed;
        }
        if begin.elapsed() > patience {
            return Err(CompareError::Trouble(Trouble::passing(
                "RepositoryNotFetched",
                "the repository does not answer",
                "Check that the address in spec.source.repoURL can be reached from here",
            )));
        }
        tokio::time::sleep(PAUSE).await;
    };
    told(&observed, prune).map_err(CompareError::Trouble)
}

/// What the facts say.
fn told(observed: &Observed, prune: bool) -> Result<Comparison, Trouble> {
    if let Some(trouble) = observed.invalid.first() {
        return Err(trouble.clone());
    }
    if let SourceFacts::Trouble(trouble) = &observed.source {
        return Err(trouble.clone());
    }
    let Some(desired) = &observed.desired else {
        return Err(Trouble::standing("NothingFound", "there is no revision to compare", ""));
    };
    if let Err(trouble) = &desired.digest {
        return Err(trouble.clone());
    }
    if desired.empty {
        return Err(Trouble::standing(
            "NothingRendered",
            format!("revision {} renders to nothing", desired.commit),
            "Check spec.source.path: an empty render is never applied, and nothing is deleted because of it",
        ));
    }
    let clusters = observed.targets.iter().map(|target| on_cluster(&observed.key, target, prune)).collect();
    Ok(Comparison {
        application: observed.key.to_string(),
        revision: desired.commit.clone(),
        change_id: desired.change_id.clone(),
        clusters,
        approval: prune::judge(observed).needs,
    })
}

fn on_cluster(app: &Key, target: &Target, prune: bool) -> OnCluster {
    let standing = target.member.trouble.iter().chain(&target.unseen).chain(&target.problems);
    let trouble = standing.map(Trouble::message).collect();
    let mut same = 0;
    let mut changes = Vec::new();
    let members = target.parts.iter().flat_map(|part| part.found.iter().zip(&part.program.members));
    // Hooks that have their turn when the Application is deleted are no part of a revision's change.
    for (found, _) in members.filter(|(_, member)| member.takes_part()) {
        match change(found) {
            Some(change) => changes.push(change),
            None => same += 1,
        }
    }
    changes.extend(target.extra.iter().filter_map(|extra| gone(app, extra, prune)));
    OnCluster { cluster: target.member.name.clone(), trouble, same, changes }
}

fn change(found: &Found) -> Option<ObjectChange> {
    let is_hook = {
        let annotations = &found.wanted.object()["metadata"]["annotations"];
        HOOKS.iter().any(|name| annotations[name].is_string())
    };
    let (action, differences, note) = match &found.state {
        State::Same => return None,
        State::Missing if is_hook => (Deed::Run, Vec::new(), None),
        State::Missing => (Deed::Create, Vec::new(), None),
        State::Differs(differences) => (Deed::Change, differences.clone(), None),
        State::Foreign(owner) => {
            let note = format!("it belongs to Application {owner}: remove it from one of the two");
            (Deed::Blocked, Vec::new(), Some(note))
        }
        State::UnknownKind => {
            let note = "the cluster does not serve its kind yet: it is judged when the definition is there";
            (Deed::Create, Vec::new(), Some(note.to_owned()))
        }
        State::Unknown(trouble) => (Deed::Blocked, Vec::new(), Some(trouble.message())),
    };
    let (refused, warning) = found.verdict.as_ref().map_or((None, None), objection);
    let object = found.wanted.id().short();
    Some(ObjectChange { object, action, differences, refused, note: note.or(warning) })
}

fn objection(verdict: &Verdict) -> (Option<Objection>, Option<String>) {
    match &verdict.ruling {
        Ruling::Pass => (None, None),
        Ruling::Warned(message) => (None, Some(format!("{}: {message}", verdict.policy))),
        Ruling::Refused(message) | Ruling::Error(message) => {
            (Some(Objection { policy: verdict.policy.clone(), message: message.clone() }), None)
        }
    }
}

/// An object of the inventory that is no longer wanted.
fn gone(app: &Key, extra: &Extra, prune: bool) -> Option<ObjectChange> {
    let live = extra.live.as_ref()?;
    let ours = live.owner.as_deref() == Some(app.to_string().as_str());
    let stays = if !prune {
        Some("spec.sync.prune is off")
    } else if live.fate.prune == Prune::No {
        Some("its annotation says that it is not to be pruned")
    } else if !ours {
        Some("it is not marked as this Application's")
    } else {
        None
    };
    let asks = (live.fate.prune == Prune::Confirm).then_some("it waits to be confirmed: windlass approve");
    Some(ObjectChange {
        object: extra.id.short(),
        action: if stays.is_some() { Deed::Leave } else { Deed::Delete },
        differences: Vec::new(),
        refused: None,
        note: stays.or(asks).map(str::to_owned),
    })
}
