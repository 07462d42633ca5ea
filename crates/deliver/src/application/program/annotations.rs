//! What the annotations of an object say about its sync.
//!
//! Three vocabularies are understood: ours, Argo CD's and Helm's. Ours wins over Argo CD's, and that one over Helm's, so
//! that a repository that was written for one of them can be moved over as it is and refined afterwards.

use serde_json::{Map, Value};

use super::{Hook, HookDelete, HookPhase, INVALID_ANNOTATION, Member, Options, Prune};
use crate::{object::Sealed, trouble::Trouble};

const WAVE: &str = "windlass.dev/sync-wave";
const HOOK: &str = "windlass.dev/hook";
const HOOK_DELETE: &str = "windlass.dev/hook-delete-policy";
const OPTIONS: &str = "windlass.dev/sync-options";
const PRUNE: &str = "windlass.dev/prune";

const ARGO_WAVE: &str = "argocd.argoproj.io/sync-wave";
const ARGO_HOOK: &str = "argocd.argoproj.io/hook";
const ARGO_HOOK_DELETE: &str = "argocd.argoproj.io/hook-delete-policy";
const ARGO_OPTIONS: &str = "argocd.argoproj.io/sync-options";
const ARGO_COMPARE: &str = "argocd.argoproj.io/compare-options";

const HELM_HOOK: &str = "helm.sh/hook";
const HELM_WEIGHT: &str = "helm.sh/hook-weight";
const HELM_HOOK_DELETE: &str = "helm.sh/hook-delete-policy";
const HELM_KEEP: &str = "helm.sh/resource-policy";

/// Characters of a value that a message shows at most.
const SHOWN: usize = 60;

/// Reads an object's annotations. What cannot be read is a problem, and the default holds.
pub(super) fn read(object: &Sealed, problems: &mut Vec<Trouble>) -> Member {
    let annotations = object.object().pointer("/metadata/annotations").and_then(Value::as_object);
    let Some(annotations) = annotations else { return Member::default() };
    let mut reader = Reader { object, annotations, problems };
    Member { wave: reader.wave(), hook: reader.hook(), options: reader.options() }
}

struct Reader<'a> {
    object: &'a Sealed,
    annotations: &'a Map<String, Value>,
    problems: &'a mut Vec<Trouble>,
}

impl<'a> Reader<'a> {
    fn text(&self, name: &str) -> Option<&'a str> {
        self.annotations.get(name).and_then(Value::as_str).map(str::trim)
    }

    /// The first of these annotations that the object has.
    fn first(&self, names: &[&'static str]) -> Option<(&'static str, &'a str)> {
        names.iter().find_map(|name| self.text(name).map(|text| (*name, text)))
    }

    fn problem(&mut self, annotation: &str, value: &str, remedy: &str) {
        let shown: String = value.chars().take(SHOWN).collect();
        let more = if shown.len() < value.len() { "…" } else { "" };
        self.problems.push(Trouble::standing(
            INVALID_ANNOTATION,
            format!(
                "{}: the annotation {annotation} is \"{shown}{more}\", which cannot be read",
                self.object.id().short()
            ),
            remedy,
        ));
    }

    fn wave(&mut self) -> i32 {
        let Some((name, text)) = self.first(&[WAVE, ARGO_WAVE, HELM_WEIGHT]) else { return 0 };
        text.parse().unwrap_or_else(|_| {
            self.problem(name, text, "Write a whole number, such as -1 or 5");
            0
        })
    }

    fn hook(&mut self) -> Option<Hook> {
        let mut phases = match self.first(&[HOOK, ARGO_HOOK]) {
            Some((name, text)) => self.phases(name, text),
            None => self.helm_phases()?,
        };
        phases.sort_unstable();
        phases.dedup();
        // Another phase beside it says that it is meant to run.
        if phases.len() > 1 {
            phases.retain(|phase| *phase != HookPhase::Skip);
        }
        // A word that nobody knows does not make a hook an ordinary object, which would run in every sync.
        if phases.is_empty() {
            phases.push(HookPhase::Skip);
        }
        Some(Hook { phases, delete: self.hook_delete() })
    }

    fn phases(&mut self, name: &str, text: &str) -> Vec<HookPhase> {
        let mut phases = Vec::new();
        for word in words(text) {
            match word {
                "PreSync" => phases.push(HookPhase::PreSync),
                "Sync" => phases.push(HookPhase::Sync),
                "PostSync" => phases.push(HookPhase::PostSync),
                "SyncFail" => phases.push(HookPhase::SyncFail),
                "PreDelete" => phases.push(HookPhase::PreDelete),
                "PostDelete" => phases.push(HookPhase::PostDelete),
                "Skip" => phases.push(HookPhase::Skip),
                _ => self.problem(
                    name,
                    text,
                    "Write PreSync, Sync, PostSync, SyncFail, PreDelete, PostDelete or Skip, separated by commas",
                ),
            }
        }
        if words(text).next().is_none() {
            self.problem(name, text, "Name a phase such as PreSync, or take the annotation away");
        }
        phases
    }

    /// Helm's hooks as phases of a sync; `None` when the object is no hook.
    fn helm_phases(&mut self) -> Option<Vec<HookPhase>> {
        let text = self.text(HELM_HOOK)?;
        // Definitions that Helm 2 wanted to come first: our order does that by itself.
        if words(text).any(|word| word == "crd-install") {
            return None;
        }
        let mut phases = Vec::new();
        for word in words(text) {
            match word {
                "pre-install" | "pre-upgrade" => phases.push(HookPhase::PreSync),
                "post-install" | "post-upgrade" => phases.push(HookPhase::PostSync),
                "pre-delete" => phases.push(HookPhase::PreDelete),
                "post-delete" => phases.push(HookPhase::PostDelete),
                // A sync never tests a release and never calls Helm's rollback.
                "test" | "test-success" | "test-failure" | "pre-rollback" | "post-rollback" => {
                    phases.push(HookPhase::Skip);
                }
                _ => self.problem(HELM_HOOK, text, "Write one of Helm's hooks, such as pre-install"),
            }
        }
        Some(phases)
    }

    fn hook_delete(&mut self) -> Vec<HookDelete> {
        // Argo CD adds Helm's policies to its own.
        let names: &[&str] = if self.text(HOOK_DELETE).is_some() {
            &[HOOK_DELETE]
        } else {
            &[ARGO_HOOK_DELETE, HELM_HOOK_DELETE]
        };
        let mut policies = Vec::new();
        for name in names {
            let Some(text) = self.text(name) else { continue };
            for word in words(text) {
                match word {
                    "BeforeHookCreation" | "before-hook-creation" => {
                        policies.push(HookDelete::BeforeHookCreation);
                    }
                    "HookSucceeded" | "hook-succeeded" => policies.push(HookDelete::HookSucceeded),
                    "HookFailed" | "hook-failed" => policies.push(HookDelete::HookFailed),
                    _ => self.problem(name, text, "Write BeforeHookCreation, HookSucceeded or HookFailed"),
                }
            }
        }
        policies.sort_unstable();
        policies.dedup();
        if policies.is_empty() {
            policies.push(HookDelete::BeforeHookCreation);
        }
        policies
    }

    /// Helm's `keep`, then Argo CD's options, then ours: whoever comes later wins.
    fn options(&mut self) -> Options {
        let mut options = Options::default();
        if let Some(text) = self.text(HELM_KEEP)
            && text.eq_ignore_ascii_case("keep")
        {
            (options.prune, options.delete) = (Prune::No, Prune::No);
        }
        for name in [ARGO_COMPARE, ARGO_OPTIONS] {
            self.apply(name, &mut options, false);
        }
        match self.text(PRUNE) {
            None => {}
            Some("enabled") => options.prune = Prune::Yes,
            Some("confirm") => options.prune = Prune::Confirm,
            // What is to survive a commit is to survive the end of the Application too.
            Some("disabled") => (options.prune, options.delete) = (Prune::No, Prune::No),
            Some(other) => {
                (options.prune, options.delete) = (Prune::No, Prune::No);
                self.problem(
                    PRUNE,
                    other,
                    "Write disabled, confirm or enabled; until then the object is kept",
                );
            }
        }
        self.apply(OPTIONS, &mut options, true);
        options
    }

    /// Reads a list of options. One that we do not know is a problem only in our own annotation: Argo CD has several
    /// that mean something to it alone.
    fn apply(&mut self, name: &'static str, options: &mut Options, strict: bool) {
        let Some(text) = self.text(name) else { return };
        for word in words(text) {
            let (option, value) = word.split_once('=').map_or((word, "true"), |(a, b)| (a.trim(), b.trim()));
            let known = match option {
                "Prune" => set_or_keep(Prune::read(value), &mut options.prune),
                "Delete" => set_or_keep(Prune::read(value), &mut options.delete),
                "Replace" => set(flag(value), &mut options.replace),
                "Force" => set(flag(value), &mut options.force),
                "SkipDryRunOnMissingResource" => set(flag(value), &mut options.skip_dry_run_on_missing),
                "PruneLast" => set(flag(value), &mut options.prune_last),
                "IgnoreExtraneous" => set(flag(value), &mut options.ignore_extraneous),
                "Validate" => set(flag(value), &mut options.validate),
                _ => !strict,
            };
            if !known {
                self.problem(name, text, &format!("{word} is not understood here: {REMEDY}"));
            }
        }
    }
}

const REMEDY: &str = "write Prune or Delete (true, false or confirm), Replace, Force, SkipDryRunOnMissingResource, \
                      PruneLast, IgnoreExtraneous or Validate (true or false)";

/// The words of a list, without those that are empty.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|word| !word.is_empty())
}

fn set<T>(value: Option<T>, to: &mut T) -> bool {
    match value {
        Some(value) => {
            *to = value;
            true
        }
        None => false,
    }
}

/// A word about deletion that nobody understands keeps the object: only that can be put right later.
fn set_or_keep(value: Option<Prune>, to: &mut Prune) -> bool {
    *to = value.unwrap_or(Prune::No);
    value.is_some()
}

fn flag(value: &str) -> Option<bool> {
    match value {
        "true" => Some(true),
        "false" => Some(false),
        _ => None,
    }
}
