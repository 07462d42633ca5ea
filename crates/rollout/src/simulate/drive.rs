//! The loop of a simulation: settle what can be settled now, then jump to the next event.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use jiff::Timestamp;
use serde_json::{Value, json};
use windlass_api::rollout::{
    RolloutStatus,
    status::{PauseReason, Phase},
};
use windlass_cluster::drive::Wake;

use super::{
    Scenario, SimulateError,
    runs::Looked,
    story::{Gap, Moment, Outcome, PodCount, Simulation},
    world::{World, later},
};
use crate::{lint, observed::Observed, plan};

/// Rounds at one moment before it is called restless.
const ROUNDS: usize = 500;

/// The version before is applied so long before the start: everything about it has come to rest by then.
const BEFORE: Duration = Duration::from_secs(86_400);

/// Waits are rounded down to this: the planners wait a little longer than they have to, so that a real clock has passed
/// the time.
const GRAIN: i64 = 10_000;

/// A simulation that goes on.
pub(super) struct Driver<'a> {
    scenario: &'a Scenario,
    world: World,
    now: Timestamp,
    /// When the planner of the Rollout wants to look again.
    wake: Option<Timestamp>,
    story: Simulation,
    /// What was decided and measured at this moment.
    moment: Looked,
    decided: Vec<String>,
    /// When and where it was taken back.
    aborted: Option<(Duration, Option<String>)>,
    completed: Option<Duration>,
}

impl<'a> Driver<'a> {
    /// The cluster with the version before, at rest.
    pub(super) fn new(scenario: &'a Scenario) -> Result<Self, SimulateError> {
        let given = Observed { rollout: Arc::new(scenario.rollout.clone()), ..scenario.world.clone() };
        let findings = lint::lint(&given);
        if !findings.is_empty() {
            return Err(SimulateError::Invalid(findings));
        }
        let mut world = World::new(scenario);
        let before = scenario.before.clone().or_else(|| world.template().map(earlier));
        let template = world.template().unwrap_or_default();
        let paused = std::mem::take(&mut world.rollout.spec.paused);
        world.rollout.spec.restart_at = None;
        world.set_template(before.unwrap_or_default());
        world.ready_after = Duration::ZERO;
        let story = Simulation {
            rollout: world.rollout.metadata.name.clone().unwrap_or_default(),
            start: scenario.start,
            moments: Vec::new(),
            outcome: Outcome::GoesOn { at: Duration::ZERO, why: String::new() },
            gaps: Vec::new(),
            assumed: scenario.assumed.clone(),
            wanted: BTreeMap::new(),
        };
        let now = scenario.start.saturating_sub(BEFORE).unwrap_or(Timestamp::MIN);
        let mut driver = Self {
            scenario,
            world,
            now,
            wake: None,
            story,
            moment: Looked::default(),
            decided: Vec::new(),
            aborted: None,
            completed: None,
        };
        driver.warm_up()?;
        driver.world.rollout.spec.paused = paused;
        driver.world.ready_after = scenario.ready_after;
        driver.world.set_template(template);
        Ok(driver)
    }

    /// Brings the version before up.
    fn warm_up(&mut self) -> Result<(), SimulateError> {
        while self.now < self.scenario.start {
            self.settle()?;
            match self.next() {
                Some(next) if next < self.scenario.start => self.now = next,
                _ => break,
            }
        }
        let status = self.status();
        if status.phase != Some(Phase::Completed) {
            return Err(SimulateError::Before(status.message.unwrap_or_else(|| "it never ends".to_owned())));
        }
        (self.decided, self.moment, self.completed) = (Vec::new(), Looked::default(), None);
        self.now = self.scenario.start;
        Ok(())
    }

    /// Goes on until nothing moves any more, or the time is up.
    pub(super) fn run(mut self) -> Result<Simulation, SimulateError> {
        let end = later(self.scenario.start, self.scenario.longest);
        loop {
            self.settle()?;
            self.tell();
            let next = match (self.next(), self.promotion()) {
                (Some(next), Some(promotion)) => Some(next.min(promotion)),
                (next, promotion) => next.or(promotion),
            };
            match next {
                Some(next) if next <= end => self.now = next,
                _ => break,
            }
            if self.promotion().is_some_and(|at| at <= self.now) {
                self.promote();
            }
        }
        self.story.outcome = self.outcome();
        Ok(self.story)
    }

    fn status(&self) -> RolloutStatus {
        self.world.rollout.status.clone().unwrap_or_default()
    }

    fn since_start(&self) -> Duration {
        Duration::try_from(self.now.duration_since(self.scenario.start)).unwrap_or_default()
    }

    /// Plans and acts until there is nothing to do at this moment.
    fn settle(&mut self) -> Result<(), SimulateError> {
        for _ in 0..ROUNDS {
            let mut changed = self.round();
            let looked = self.world.look_at_runs(self.scenario, self.now)?;
            changed |= looked.changed | self.world.move_experiments(self.scenario, self.now);
            self.take(looked);
            if !changed {
                return Ok(());
            }
        }
        Err(SimulateError::Restless(self.now))
    }

    /// One look at the Rollout.
    fn round(&mut self) -> bool {
        let plan = plan::plan(&self.world.observed(self.now), self.now);
        self.wake = match plan.wake {
            Wake::OnChange => None,
            Wake::After(wait) | Wake::Retry { longest: wait } => {
                Some(coarse(later(self.now, wait), self.now))
            }
        };
        let mut changed = false;
        for action in &plan.actions {
            changed |= self.world.apply(action, self.scenario, self.now);
        }
        let before = self.status();
        if let Some(status) = plan.status
            && self.world.rollout.status.as_ref() != Some(&status)
        {
            if status.abort && !before.abort {
                self.aborted = Some((self.since_start(), before.step.clone()));
            }
            let done = status.phase == Some(Phase::Completed) && status.stable_rs == status.current_pod_hash;
            if done && self.completed.is_none() {
                self.completed = Some(self.since_start());
            }
            self.world.rollout.status = Some(status);
            changed = true;
        }
        self.decided.extend(plan.notes.into_iter().map(|note| note.message));
        changed
    }

    fn take(&mut self, looked: Looked) {
        self.moment.measured.extend(looked.measured);
        self.moment.without_data.extend(looked.without_data);
        for (name, wanted) in looked.wanted {
            let known = self.story.wanted.entry(name).or_default();
            known.interval = wanted.interval;
            known.other |= wanted.other;
            for query in wanted.queries {
                if !known.queries.contains(&query) {
                    known.queries.push(query);
                }
            }
        }
    }

    /// Writes down what is different from the moment before.
    fn tell(&mut self) {
        let at = self.since_start();
        let looked = std::mem::take(&mut self.moment);
        let gaps = looked.without_data.into_iter();
        self.story.gaps.extend(gaps.map(|(metric, phase)| Gap { metric, at, phase }));
        let status = self.status();
        let count = |hash: Option<&String>| {
            let set = self
                .world
                .sets
                .values()
                .find(|set| hash.is_some() && set.facts.hash() == hash.map(String::as_str));
            set.map(|set| self.world.counted(set, self.now)).map_or_else(PodCount::default, |set| PodCount {
                wanted: set.wanted,
                available: set.available,
            })
        };
        let canary = count(status.current_pod_hash.as_ref());
        let stable =
            self.world.sets.values().filter(|set| set.facts.hash() != status.current_pod_hash.as_deref());
        let stable =
            stable.map(|set| self.world.counted(set, self.now)).fold(PodCount::default(), |sum, set| {
                PodCount { wanted: sum.wanted + set.wanted, available: sum.available + set.available }
            });
        let moment = Moment {
            at,
            phase: status.phase,
            step: status.step,
            weight: status.weight.unwrap_or(0),
            stable,
            canary,
            measured: looked.measured,
            decided: std::mem::take(&mut self.decided),
            message: status.message,
        };
        let same = self.story.moments.last().is_some_and(|last| {
            moment.measured.is_empty()
                && moment.decided.is_empty()
                && Moment {
                    at: last.at,
                    measured: last.measured.clone(),
                    decided: last.decided.clone(),
                    ..moment.clone()
                } == *last
        });
        if !same {
            self.story.moments.push(moment);
        }
    }

    /// The next time at which something can happen by itself.
    fn next(&self) -> Option<Timestamp> {
        let world = self.world.next_change(self.now).map(|at| coarse(at, self.now));
        self.wake.into_iter().chain(world).filter(|at| *at > self.now).min()
    }

    /// When a person promotes: a pause that only a person can end has lasted long enough.
    fn promotion(&self) -> Option<Timestamp> {
        let patience = self.scenario.promote_after?;
        let status = self.world.rollout.status.as_ref()?;
        let pause = status.pause_conditions.first().filter(|_| self.wake.is_none())?;
        let by_hand = matches!(pause.reason, PauseReason::CanaryPauseStep | PauseReason::BlueGreenPause);
        by_hand.then(|| later(pause.start_time.0, patience))
    }

    fn promote(&mut self) {
        if let Some(status) = &mut self.world.rollout.status {
            status.pause_conditions.clear();
        }
        self.decided.push("Promoted by hand".to_owned());
    }

    fn outcome(&self) -> Outcome {
        let status = self.status();
        let at = self.since_start();
        let why = status.message.clone().unwrap_or_default();
        if let (true, Some((at, step))) = (status.abort, self.aborted.clone()) {
            return Outcome::Aborted { at, step, why: status.abort_reason.unwrap_or(why) };
        }
        match (status.phase, self.completed) {
            (Some(Phase::Completed), Some(at)) => Outcome::Completed { at },
            (Some(Phase::Failed), _) => Outcome::Failed { at, why },
            _ if !status.pause_conditions.is_empty() && self.wake.is_none() => Outcome::Waits { at, why },
            (Some(Phase::Paused), _) if self.world.rollout.spec.paused => Outcome::Waits { at, why },
            _ => Outcome::GoesOn { at, why },
        }
    }
}

/// The template of the version before, where nobody says what it is: the same one as another revision.
fn earlier(mut template: Value) -> Value {
    if !template["metadata"]["annotations"].is_object() {
        template["metadata"]["annotations"] = json!({});
    }
    template["metadata"]["annotations"]["windlass.dev/simulated"] = "before".into();
    template
}

/// A time without the little that planners add, unless that would be no later than now.
fn coarse(at: Timestamp, now: Timestamp) -> Timestamp {
    let whole = at.as_microsecond().div_euclid(GRAIN) * GRAIN;
    Timestamp::from_microsecond(whole).ok().filter(|whole| *whole > now).unwrap_or(at)
}
