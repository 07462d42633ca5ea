//! An action together with the Rollout that it is for.

use std::{fmt, sync::Arc};

use serde::Serialize;
use windlass_api::Rollout;

use crate::{plan::Action, wanted};

/// The Rollout that something is done for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Whose {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// Names of its managed routes, in their order.
    pub order: Vec<String>,
}

impl Whose {
    /// Of this Rollout.
    pub fn of(rollout: &Rollout) -> Self {
        let meta = &rollout.metadata;
        Self {
            namespace: meta.namespace.clone().unwrap_or_default(),
            name: meta.name.clone().unwrap_or_default(),
            uid: meta.uid.clone().unwrap_or_default(),
            order: wanted::managed(&rollout.spec.strategy),
        }
    }
}

/// What is to be done.
#[derive(Clone, PartialEq, Serialize)]
pub enum Task {
    /// What the planner asked for.
    Planned(Action),
    /// Our finalizer goes from a Rollout that is being deleted: it was put there when there were sinks of `CDEvents`,
    /// and there are none any more.
    LetGo {
        /// The version that was read.
        version: String,
        /// The finalizers of others.
        finalizers: Vec<String>,
    },
}

/// One thing to do.
#[derive(Clone, PartialEq, Serialize)]
pub struct Deed {
    /// For whom.
    pub whose: Arc<Whose>,
    /// What.
    pub task: Task,
}

/// Short, for the log: a pod template can be long.
impl fmt::Debug for Deed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let action = match &self.task {
            Task::LetGo { .. } => return f.write_str("let go"),
            Task::Planned(action) => action,
        };
        match action {
            Action::CreateReplicaSet(new) => {
                write!(f, "create ReplicaSet {} with {}", new.name, new.replicas)
            }
            Action::PatchReplicaSet(patch) => {
                write!(f, "change ReplicaSet {}", patch.name)?;
                patch.replicas.map_or(Ok(()), |replicas| write!(f, " to {replicas}"))?;
                let more: Vec<&String> = patch.annotations.keys().collect();
                if more.is_empty() { Ok(()) } else { write!(f, " with {more:?}") }
            }
            Action::CreateRun(new) => write!(f, "create AnalysisRun {}", new.name),
            Action::CreateExperiment(new) => write!(f, "create Experiment {}", new.name),
            other => write!(f, "{other:?}"),
        }
    }
}
