//! `ReplicaSet`s and Services of the templates.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use windlass_api::{
    condition::whole_seconds,
    experiment::{ExperimentStatus, ExperimentTemplate, TemplatePhase, TemplateStatus},
};

use super::{Action, Round, SetFacts, TemplateFacts, after, seconds};

/// Seconds from the end to the removal of pods where nothing is said.
const SCALE_DOWN_DELAY: i32 = 30;
/// Seconds that a template may take to become available where nothing is said.
const PROGRESS_DEADLINE: i32 = 600;

/// What the API server does not take is told at a look soon after.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

impl Round<'_> {
    /// Looks after one template.
    pub(super) fn template(&mut self, template: &ExperimentTemplate, status: &mut ExperimentStatus) {
        let facts = self.observed.templates.get(&template.name).cloned().unwrap_or_default();
        let ended = status.completed_at.clone();
        let old = status.template_statuses.iter().find(|it| it.name == template.name).cloned();
        let mut new = old
            .clone()
            .unwrap_or_else(|| TemplateStatus { name: template.name.clone(), ..TemplateStatus::default() });
        let replicas = template.replicas.unwrap_or(1);
        if self.is_taken(&facts, &mut new) {
            // Nothing of ours can be made.
        } else if let Some(set) = facts.set {
            self.service(template, &facts, set, &mut new);
            self.scale(&facts, set, replicas, ended.as_ref());
        } else if !self.terminating {
            let experiment = self.key();
            self.actions.push(Action::CreateSet { experiment, template: template.name.clone(), replicas });
            self.wakes.push(after(self.now, LOOK_AGAIN));
        }
        let set = facts.set.unwrap_or_default();
        let counts = (set.replicas, set.replicas, set.ready, set.available);
        if counts != (new.replicas, new.updated_replicas, new.ready_replicas, new.available_replicas)
            || old.is_none()
        {
            new.last_transition_time = Some(Time(whole_seconds(self.now)));
        }
        (new.replicas, new.updated_replicas, new.ready_replicas, new.available_replicas) = counts;
        new.pod_template_hash = Some(facts.hash.clone());
        if !new.status.completed() {
            self.progress(template, facts.set.is_some() && set.available == replicas, status, &mut new);
        }
        match status.template_statuses.iter_mut().find(|it| it.name == template.name) {
            Some(place) => *place = new,
            None => status.template_statuses.push(new),
        }
    }

    /// Whether a name that is needed is taken, or the API server does not take what is made.
    fn is_taken(&self, facts: &TemplateFacts, new: &mut TemplateStatus) -> bool {
        let why = if facts.set_is_foreign {
            format!(
                "ReplicaSet {} belongs to somebody else. Rename the template or delete it",
                facts.set_name
            )
        } else if facts.service_is_foreign && !self.terminating {
            let name = facts.service_name.as_deref().unwrap_or_default();
            format!("Service {name} belongs to somebody else. Name another one")
        } else if let Some(refused) = &facts.refused {
            refused.clone()
        } else {
            return false;
        };
        if !new.status.completed() {
            (new.status, new.message) = (TemplatePhase::Error, why);
        }
        facts.set_is_foreign
    }

    fn service(
        &mut self,
        template: &ExperimentTemplate,
        facts: &TemplateFacts,
        set: SetFacts,
        new: &mut TemplateStatus,
    ) {
        let Some(name) = facts.service_name.clone() else { return };
        let experiment = self.key();
        if !self.terminating && !facts.service_is_foreign {
            if !facts.service {
                self.actions.push(Action::CreateService {
                    experiment,
                    template: template.name.clone(),
                    name: name.clone(),
                });
                self.wakes.push(after(self.now, LOOK_AGAIN));
            }
            new.service_name = Some(name);
        } else if self.terminating && set.wanted == 0 && set.available == 0 {
            if facts.service {
                self.actions.push(Action::DeleteService { experiment, name });
            }
            new.service_name = None;
        }
    }

    /// Keeps the number of pods; after the end they go, with some delay.
    fn scale(&mut self, facts: &TemplateFacts, set: SetFacts, replicas: i32, ended: Option<&Time>) {
        let wanted = match (self.terminating, ended) {
            (false, _) => replicas,
            // The end is written down first: the delay counts from there.
            (true, None) => return,
            (true, Some(ended)) => {
                let delay = self.observed.spec.scale_down_delay_seconds.unwrap_or(SCALE_DOWN_DELAY);
                let due = after(ended.0, seconds(delay));
                if due > self.now {
                    if set.wanted != 0 {
                        self.wakes.push(due);
                    }
                    return;
                }
                0
            }
        };
        if set.wanted != wanted {
            let experiment = self.key();
            self.actions.push(Action::Scale { experiment, name: facts.set_name.clone(), replicas: wanted });
        }
    }

    /// How far the template is. What has ended stays so.
    fn progress(
        &mut self,
        template: &ExperimentTemplate,
        available: bool,
        status: &ExperimentStatus,
        new: &mut TemplateStatus,
    ) {
        let deadline = self.observed.spec.progress_deadline_seconds.unwrap_or(PROGRESS_DEADLINE);
        let since = new.last_transition_time.as_ref().map_or(self.now, |time| time.0);
        let due = after(since, seconds(deadline));
        let passed = self.end(status).is_some_and(|end| end <= self.now);
        new.status = match (available, self.terminating) {
            (_, true) => TemplatePhase::Successful,
            (true, false) if passed => TemplatePhase::Successful,
            (true, false) => TemplatePhase::Running,
            (false, false) if due <= self.now => {
                new.message =
                    format!("Template '{}' exceeded its progressDeadlineSeconds ({deadline})", template.name);
                TemplatePhase::Failed
            }
            (false, false) => {
                self.wakes.push(due);
                TemplatePhase::Progressing
            }
        };
    }
}
