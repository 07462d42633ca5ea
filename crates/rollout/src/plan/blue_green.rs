//! Blue-green: the new version comes up beside the old one, is previewed, and gets all traffic in one switch.

use windlass_api::rollout::{
    BlueGreen,
    status::{PauseReason, RunPhase, TransitionKind},
};

use super::{
    abort::{self, Leaving},
    create,
    draft::Draft,
    metadata, older, pause, progress, restart,
    runs::{self, Purpose, Verdict},
    scene::Scene,
    traffic, transitions,
};
use crate::observed::ReplicaSetFacts;

/// Does what the stored status asks for, and moves the status on.
pub(crate) fn sync(scene: &Scene<'_>, blue_green: &BlueGreen, draft: &mut Draft) {
    let update = Update { scene, blue_green };
    update.act(draft);
    update.advance(draft);
}

struct Update<'a> {
    scene: &'a Scene<'a>,
    blue_green: &'a BlueGreen,
}

impl<'a> Update<'a> {
    fn active(&self) -> Option<&'a str> {
        self.scene.service(&self.blue_green.active_service)?.hash()
    }

    fn preview(&self) -> Option<&'a str> {
        self.scene.service(self.blue_green.preview_service.as_deref()?)?.hash()
    }

    /// How many pods the new version should have now.
    fn count(&self) -> i32 {
        let scene = self.scene;
        let status = &scene.status;
        let Some(preview) = self.blue_green.preview_replica_count else { return scene.replicas() };
        let active = status.blue_green.active_selector.as_deref();
        let active_is_there = scene.roles.all.iter().any(|set| active.is_some() && set.hash() == active);
        if !active_is_there || active == Some(&scene.hash) || status.promote_full || scene.promoted() {
            return scene.replicas();
        }
        let going = !scene.spec.paused && status.pause_conditions.is_empty();
        if going && status.blue_green.scale_up_preview_check_point { scene.replicas() } else { preview }
    }

    /// All pods of a `ReplicaSet` are there for the Rollout's size.
    fn saturated(&self, set: &ReplicaSetFacts) -> bool {
        let replicas = self.scene.replicas();
        set.wanted == replicas && set.desired() == Some(replicas) && set.available == replicas
    }

    /// The new version has the pods that it should have before the switch.
    fn ready(&self) -> bool {
        let count = self.count();
        self.scene.roles.new.is_some_and(|new| new.wanted == count && new.available == count)
    }

    fn act(&self, draft: &mut Draft) {
        let scene = self.scene;
        create::number(scene, draft);
        let restarted = restart::sync(scene, draft);
        if let Some(new) = scene.roles.new {
            create::keep(scene, draft, new);
        }
        self.services(draft);
        self.analyse(draft);
        if !restarted {
            self.scale(draft);
        }
        metadata::sync(scene, draft);
        older::history(scene, draft);
    }

    fn scale(&self, draft: &mut Draft) {
        let scene = self.scene;
        older::without_deadline(draft, scene.roles.stable);
        if let Some(old) = scene.roles.old() {
            draft.scale(old, scene.replicas(), scene.replicas());
        }
        let count = self.count();
        match (scene.roles.new, abort::leaving(scene)) {
            (None, _) => create::make(scene, draft, count),
            (Some(new), Leaving::Counted) => {
                // The deadline says that the pods were still there: it goes once they are the stable ones again.
                if !self.within_delay() {
                    older::without_deadline(draft, Some(new));
                }
                draft.scale(new, count, scene.replicas());
            }
            // After a switch that was taken back the Service has to be seen on the stable version first.
            (Some(new), _) if self.active() == new.hash() => draft.scale(new, new.wanted, scene.replicas()),
            (Some(new), Leaving::After(delay)) => {
                let kept = abort::kept(scene, draft, new, delay);
                draft.scale(new, kept, scene.replicas());
            }
            (Some(new), Leaving::Never) => draft.scale(new, new.wanted, scene.replicas()),
        }
        if self.old_ones_may_go() {
            older::blue_green(scene, draft);
        }
    }

    /// Not while nobody can say whether the new version is good, unless a delay keeps the old one anyway.
    fn old_ones_may_go(&self) -> bool {
        let scene = self.scene;
        if scene.paused_for(PauseReason::InconclusiveAnalysisRun).is_some() {
            return false;
        }
        let judged = self.blue_green.post_promotion_analysis.is_none()
            || self.blue_green.scale_down_delay_seconds.is_some()
            || scene.promoted()
            || self.active() != Some(&scene.hash);
        let stored = scene.status.blue_green.post_promotion_analysis_run_status.as_ref();
        judged || runs::named(scene, stored).is_some_and(|run| run.phase == RunPhase::Successful)
    }

    fn services(&self, draft: &mut Draft) {
        let scene = self.scene;
        let Some(new) = scene.roles.new else { return };
        if !scene.halted()
            && let Some(preview) = &self.blue_green.preview_service
        {
            traffic::switch(scene, draft, preview, &scene.hash);
        }
        if let Some(hash) = self.wanted_active(new) {
            traffic::switch(scene, draft, &self.blue_green.active_service, hash);
        }
    }

    /// The version that the active Service should select, if it has to move.
    fn wanted_active(&self, new: &'a ReplicaSetFacts) -> Option<&'a str> {
        let scene = self.scene;
        if scene.status.abort && !scene.promoted() {
            // Back to the stable version, as soon as it can serve at all.
            return scene.roles.stable.filter(|stable| stable.available > 0).and_then(ReplicaSetFacts::hash);
        }
        if self.active().is_none() && scene.has_stable() && !scene.promoted() {
            // Somebody made the Service anew: it goes on with the version that runs.
            return scene.roles.stable.filter(|stable| stable.available > 0).and_then(ReplicaSetFacts::hash);
        }
        if scene.halted() || !self.ready() || !self.saturated(new) {
            return None;
        }
        let passed = self.fast() || self.pause_over() && self.pre_promotion_passed();
        passed.then(|| new.hash()).flatten()
    }

    /// Nothing is waited for: first deployment, rollback to what still runs, full promotion, or already switched.
    fn fast(&self) -> bool {
        let scene = self.scene;
        scene.promoted()
            || !scene.has_stable()
            || scene.within_window()
            || self.within_delay()
            || scene.status.promote_full
            || self.active() == Some(&scene.hash)
    }

    /// A rollback to a version whose pods are still there.
    fn within_delay(&self) -> bool {
        let deadline = self.scene.roles.new.and_then(ReplicaSetFacts::deadline);
        self.scene.is_rollback() && deadline.is_some_and(|deadline| deadline > self.scene.now)
    }

    fn needs_pause(&self) -> bool {
        self.blue_green.auto_promotion_enabled == Some(false)
            || self.blue_green.auto_promotion_seconds.unwrap_or(0) > 0
    }

    /// The preview has been long enough, or a person promoted.
    fn pause_over(&self) -> bool {
        let scene = self.scene;
        if scene.status.blue_green.scale_up_preview_check_point || !self.needs_pause() {
            return true;
        }
        let Some(pause) = scene.paused_for(PauseReason::BlueGreenPause) else { return scene.resumed() };
        if self.blue_green.auto_promotion_enabled == Some(false) {
            return false;
        }
        let length = self.preview_time();
        length
            .and_then(|length| pause.start_time.0.checked_add(length).ok())
            .is_some_and(|end| end <= scene.now)
    }

    fn preview_time(&self) -> Option<std::time::Duration> {
        let seconds = self.blue_green.auto_promotion_seconds.filter(|seconds| *seconds > 0)?;
        (self.blue_green.auto_promotion_enabled != Some(false))
            .then(|| std::time::Duration::from_secs(u64::from(seconds.unsigned_abs())))
    }

    fn pre_promotion_passed(&self) -> bool {
        let stored = self.scene.status.blue_green.pre_promotion_analysis_run_status.as_ref();
        self.blue_green.pre_promotion_analysis.as_ref().is_none_or(|analysis| analysis.templates.is_empty())
            || runs::named(self.scene, stored).is_some_and(|run| run.phase == RunPhase::Successful)
    }

    fn analyse(&self, draft: &mut Draft) {
        let scene = self.scene;
        let status = &scene.status.blue_green;
        // A new attempt is measured anew.
        let retried = scene.status.aborted_at.is_some() && !scene.status.abort;
        let (pre_stored, post_stored) = (
            status.pre_promotion_analysis_run_status.as_ref().filter(|_| !retried),
            status.post_promotion_analysis_run_status.as_ref().filter(|_| !retried),
        );
        let told = |stored| runs::named(scene, stored).map(runs::told);
        if self.needs_no_judgement() || scene.roles.new.is_none() {
            // What was measured stays in sight, but nothing goes on being measured.
            let (pre, post) = (told(pre_stored), told(post_stored));
            let kept = |run: &Option<_>| {
                run.clone().filter(|run: &windlass_api::rollout::status::RunStatus| run.status.completed())
            };
            runs::tidy(scene, draft, &[kept(&pre).as_ref(), kept(&post).as_ref()]);
            draft.next.blue_green.pre_promotion_analysis_run_status = pre;
            draft.next.blue_green.post_promotion_analysis_run_status = post;
            return;
        }
        let unclear = scene.paused_for(PauseReason::InconclusiveAnalysisRun).is_some();
        let switched = self.active() == Some(&scene.hash);
        let mut ensure =
            |purpose, analysis: Option<&windlass_api::rollout::RolloutAnalysis>, stored, may: bool| {
                let analysis = analysis.filter(|analysis| !analysis.templates.is_empty())?;
                let begun = runs::named(scene, stored).is_some();
                match (unclear, may, begun) {
                    (true, _, _) | (false, false, true) => told(stored),
                    (false, false, false) => None,
                    (false, true, _) => Some(runs::ensure(scene, draft, purpose, analysis, stored)),
                }
            };
        let begun = |stored| runs::named(scene, stored).is_some();
        let may_pre = !switched && (self.ready() || begun(pre_stored));
        let pre = ensure(
            Purpose::PrePromotion,
            self.blue_green.pre_promotion_analysis.as_ref(),
            pre_stored,
            may_pre,
        );
        let full = scene.roles.new.is_some_and(|new| self.saturated(new));
        let may_post = switched && (full || begun(post_stored));
        let post = ensure(
            Purpose::PostPromotion,
            self.blue_green.post_promotion_analysis.as_ref(),
            post_stored,
            may_post,
        );
        runs::tell(draft, "PrePromotion", pre_stored, pre.as_ref());
        runs::tell(draft, "PostPromotion", post_stored, post.as_ref());
        runs::tidy(scene, draft, &[pre.as_ref(), post.as_ref()]);
        draft.next.blue_green.pre_promotion_analysis_run_status = pre;
        draft.next.blue_green.post_promotion_analysis_run_status = post;
    }

    /// Nothing is measured: it is decided already, or what comes back was good before.
    fn needs_no_judgement(&self) -> bool {
        let scene = self.scene;
        scene.promoted()
            || scene.status.abort
            || scene.status.promote_full
            || !scene.has_stable()
            || scene.within_window()
            || self.within_delay()
    }

    fn judged(&self) -> Verdict {
        let scene = self.scene;
        if self.needs_no_judgement() || scene.status.aborted_at.is_some() {
            return Verdict::Wait;
        }
        let status = &scene.status.blue_green;
        let runs = [
            (status.pre_promotion_analysis_run_status.as_ref(), Purpose::PrePromotion),
            (status.post_promotion_analysis_run_status.as_ref(), Purpose::PostPromotion),
        ];
        let verdicts: Vec<Verdict> = runs
            .into_iter()
            .filter_map(|(stored, purpose)| Some(runs::verdict(runs::named(scene, stored)?, purpose)))
            .collect();
        let bad = verdicts.iter().find(|verdict| matches!(verdict, Verdict::Bad(_)));
        bad.or_else(|| verdicts.iter().find(|verdict| **verdict == Verdict::Unclear))
            .cloned()
            .unwrap_or(Verdict::Wait)
    }

    fn advance(&self, draft: &mut Draft) {
        let scene = self.scene;
        pause::retried(scene, draft);
        draft.next.current_step_index = None;
        draft.next.current_step_hash = None;
        draft.next.blue_green.active_selector = self.active().map(str::to_owned);
        draft.next.blue_green.preview_selector = self.preview().map(str::to_owned);
        let verdict = self.judged();
        if let Verdict::Bad(why) = verdict {
            pause::abort(scene, draft, why);
        } else if progress::gives_up(scene) {
            let what = scene.roles.new.map_or(scene.name, |new| &new.name);
            pause::abort(scene, draft, format!("{what} made no progress within its deadline"));
        } else if verdict == Verdict::Unclear {
            pause::unclear(scene, draft, PauseReason::InconclusiveAnalysisRun);
        }
        if scene.status.promote_full || scene.within_window() && !scene.promoted() {
            pause::clear(draft);
            draft.next.abort = false;
            draft.next.aborted_at = None;
            draft.next.abort_reason = None;
        }
        if let Some(why) = self.promotion(draft) {
            pause::clear(draft);
            draft.next.abort = false;
            draft.next.aborted_at = None;
            draft.next.abort_reason = None;
            draft.next.promote_full = false;
            draft.next.blue_green.scale_up_preview_check_point = false;
            transitions::stable(scene, draft, &why);
            return;
        }
        if draft.next.abort {
            pause::clear(draft);
            let back = self.active().is_some_and(|hash| scene.status.stable_rs.as_deref() == Some(hash));
            if back && scene.status.abort {
                transitions::rolled_back(scene, draft);
            }
            return;
        }
        self.pause(draft);
        draft.next.blue_green.scale_up_preview_check_point = self.checkpoint(draft);
        if self.active() == Some(&scene.hash) {
            transitions::record(scene, draft, TransitionKind::Published);
        }
    }

    /// Waits before the switch, if that is asked for.
    fn pause(&self, draft: &mut Draft) {
        let scene = self.scene;
        let waiting =
            draft.next.pause_conditions.iter().any(|pause| pause.reason == PauseReason::BlueGreenPause);
        let skip = self.fast() || scene.status.blue_green.scale_up_preview_check_point || !self.needs_pause();
        if skip {
            draft.next.pause_conditions.retain(|pause| pause.reason != PauseReason::BlueGreenPause);
            draft.next.controller_pause = !draft.next.pause_conditions.is_empty();
            return;
        }
        if waiting {
            if self.pause_over() {
                // The switch is made from the stored pause; it goes once the Service is seen on the new version.
                return;
            }
            pause::wake(draft, PauseReason::BlueGreenPause, self.preview_time());
            return;
        }
        if self.ready() && !scene.halted() && self.pre_promotion_passed() && !scene.resumed() {
            pause::add(scene, draft, PauseReason::BlueGreenPause);
            pause::wake(draft, PauseReason::BlueGreenPause, self.preview_time());
        }
    }

    /// A preview with fewer pods was good: the new version may grow to its full size.
    fn checkpoint(&self, draft: &Draft) -> bool {
        let scene = self.scene;
        let Some(preview) = self.blue_green.preview_replica_count else { return false };
        if scene.status.blue_green.scale_up_preview_check_point {
            return true;
        }
        let begins_to_wait = draft.next.pause_conditions.len() > scene.status.pause_conditions.len();
        !begins_to_wait
            && self.pause_over()
            && self.pre_promotion_passed()
            && scene.roles.new.is_some_and(|new| new.available == preview)
    }

    fn promotion(&self, draft: &Draft) -> Option<String> {
        let scene = self.scene;
        let new = scene.roles.new?;
        if !scene.has_stable() {
            return Some("initial deployment".into());
        }
        if self.active() != new.hash() {
            return None;
        }
        if scene.promoted() {
            return Some("the template is the stable one".into());
        }
        if scene.status.promote_full {
            return Some("full promotion".into());
        }
        if scene.within_window() {
            return Some("rollback within the window".into());
        }
        if draft.next.abort || scene.halted() {
            return None;
        }
        if self.within_delay() {
            return Some("rollback to a version that still runs".into());
        }
        let analysis = self.blue_green.post_promotion_analysis.as_ref().filter(|a| !a.templates.is_empty());
        let stored = scene.status.blue_green.post_promotion_analysis_run_status.as_ref();
        let passed = analysis.is_none()
            || runs::named(scene, stored).is_some_and(|run| run.phase == RunPhase::Successful);
        passed.then(|| "the active Service was switched".into())
    }
}
