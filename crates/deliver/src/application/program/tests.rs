#![allow(clippy::unwrap_used, clippy::panic)]

use std::fmt::Write as _;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::object::ObjectId;

fn object(api: &str, kind: &str, namespace: &str, name: &str, annotations: &[(&str, &str)]) -> Sealed {
    let mut object = json!({ "apiVersion": api, "kind": kind, "metadata": { "name": name } });
    if !namespace.is_empty() {
        object["metadata"]["namespace"] = json!(namespace);
    }
    if !annotations.is_empty() {
        let map = annotations.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect();
        object["metadata"]["annotations"] = Value::Object(map);
    }
    Sealed::new(object).unwrap()
}

fn config(name: &str, annotations: &[(&str, &str)]) -> Sealed {
    object("v1", "ConfigMap", "shop", name, annotations)
}

fn job(name: &str, annotations: &[(&str, &str)]) -> Sealed {
    object("batch/v1", "Job", "shop", name, annotations)
}

fn member(annotations: &[(&str, &str)]) -> (Member, Vec<Trouble>) {
    let mut program = program(&[job("a", annotations)]);
    (program.members.remove(0), program.problems)
}

/// One line per step, for snapshots.
fn shown(objects: &[Sealed], program: &Program) -> String {
    let mut text = String::new();
    for step in program.steps.iter().chain(&program.deletion) {
        let names: Vec<String> = step.objects.iter().map(|at| objects[*at].id().short()).collect();
        let Step { phase, wave, layer, wait, .. } = step;
        writeln!(text, "{phase:?} {wave}.{layer}: {} → {wait:?}", names.join(", ")).unwrap();
    }
    text
}

#[test]
fn without_annotations_kinds_and_references_give_the_order() {
    let definition = Sealed::new(json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "things.example.org" },
        "spec": { "group": "example.org", "names": { "kind": "Thing" } },
    }))
    .unwrap();
    let objects = [
        object("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "", "gate", &[]),
        object("apps/v1", "Deployment", "shop", "web", &[]),
        object("example.org/v1", "Thing", "shop", "one", &[]),
        config("settings", &[]),
        definition,
        object("v1", "Namespace", "", "shop", &[]),
    ];
    insta::assert_snapshot!(shown(&objects, &program(&objects)), @r"
    Sync 0.0: Namespace shop → Nothing
    Sync 0.1: CustomResourceDefinition things.example.org → Established
    Sync 0.2: ConfigMap shop/settings → Nothing
    Sync 0.3: Deployment shop/web → Nothing
    Sync 0.4: Thing shop/one → Nothing
    Sync 0.5: ValidatingWebhookConfiguration gate → Nothing
    ");
}

#[test]
fn phases_and_waves_order_a_sync() {
    let objects = [
        config("last", &[("argocd.argoproj.io/sync-wave", "5")]),
        config("plain", &[]),
        config("early", &[("argocd.argoproj.io/sync-wave", "-3")]),
        job("migrate", &[("argocd.argoproj.io/hook", "PreSync")]),
        job("before-that", &[("argocd.argoproj.io/hook", "PreSync"), ("argocd.argoproj.io/sync-wave", "-1")]),
        job("smoke", &[("argocd.argoproj.io/hook", "PostSync")]),
        job("alarm", &[("argocd.argoproj.io/hook", "SyncFail")]),
        job("among", &[("argocd.argoproj.io/hook", "Sync"), ("argocd.argoproj.io/sync-wave", "5")]),
        job("both", &[("argocd.argoproj.io/hook", "PreSync, PostSync")]),
        job("drain", &[("argocd.argoproj.io/hook", "PreDelete")]),
        job("clean", &[("helm.sh/hook", "post-delete")]),
        job("never", &[("argocd.argoproj.io/hook", "Skip")]),
    ];
    insta::assert_snapshot!(shown(&objects, &program(&objects)), @r"
    PreSync -1.0: Job shop/before-that → Completed
    PreSync 0.0: Job shop/both, Job shop/migrate → Completed
    Sync -3.0: ConfigMap shop/early → Healthy
    Sync 0.0: ConfigMap shop/plain → Healthy
    Sync 5.0: ConfigMap shop/last → Nothing
    Sync 5.1: Job shop/among → Healthy
    PostSync 0.0: Job shop/both, Job shop/smoke → Completed
    SyncFail 0.0: Job shop/alarm → Completed
    PreDelete 0.0: Job shop/drain → Completed
    PostDelete 0.0: Job shop/clean → Completed
    ");
}

#[test]
fn the_last_wave_waits_for_its_hooks_and_for_nothing_else() {
    let objects = [config("a", &[]), job("b", &[("argocd.argoproj.io/hook", "Sync")])];
    assert_eq!(program(&objects).steps.last().unwrap().wait, Wait::Completed);
    let objects = [config("a", &[]), job("b", &[("argocd.argoproj.io/hook", "SyncFail")])];
    let program = program(&objects);
    assert_eq!(program.of(SyncPhase::Sync).next().unwrap().wait, Wait::Nothing);
}

#[test]
fn a_wave_wins_over_the_order_of_kinds() {
    let objects = [
        object("v1", "Namespace", "", "shop", &[("windlass.dev/sync-wave", "2")]),
        config("settings", &[("windlass.dev/sync-wave", "1")]),
    ];
    insta::assert_snapshot!(shown(&objects, &program(&objects)), @r"
    Sync 1.0: ConfigMap shop/settings → Healthy
    Sync 2.0: Namespace shop → Nothing
    ");
}

#[test]
fn our_annotations_win_over_argo_cds_and_those_over_helms() {
    let all = [
        ("windlass.dev/sync-wave", "1"),
        ("argocd.argoproj.io/sync-wave", "2"),
        ("helm.sh/hook-weight", "3"),
    ];
    for (from, wave) in [(0, 1), (1, 2), (2, 3)] {
        assert_eq!(member(&all[from..]).0.wave, wave);
    }
    let hooks = [
        ("windlass.dev/hook", "PreSync"),
        ("argocd.argoproj.io/hook", "PostSync"),
        ("helm.sh/hook", "pre-delete"),
    ];
    for (from, phase) in [(0, HookPhase::PreSync), (1, HookPhase::PostSync), (2, HookPhase::PreDelete)] {
        assert_eq!(member(&hooks[from..]).0.hook.unwrap().phases, [phase]);
    }
    let options = [
        ("windlass.dev/sync-options", "Replace=false"),
        ("argocd.argoproj.io/sync-options", "Replace=true,Force=true"),
    ];
    let read = member(&options).0.options;
    assert!(!read.replace && read.force, "ours overrides what it names and nothing else: {read:?}");
}

#[test]
fn helms_hooks_become_phases_as_argo_cd_maps_them() {
    use HookPhase::{PostDelete, PostSync, PreDelete, PreSync, Skip};
    for (text, wanted) in [
        ("pre-install", vec![PreSync]),
        ("pre-upgrade", vec![PreSync]),
        ("pre-install,pre-upgrade", vec![PreSync]),
        ("post-install, post-upgrade", vec![PostSync]),
        ("pre-install,post-delete", vec![PreSync, PostDelete]),
        ("pre-delete", vec![PreDelete]),
        ("test", vec![Skip]),
        ("test-success", vec![Skip]),
        ("test-failure", vec![Skip]),
        ("pre-rollback", vec![Skip]),
        ("post-rollback", vec![Skip]),
        ("pre-upgrade,pre-rollback", vec![PreSync]),
    ] {
        let (member, problems) = member(&[("helm.sh/hook", text)]);
        assert_eq!(member.hook.unwrap().phases, wanted, "{text}");
        assert!(problems.is_empty(), "{text}: {problems:?}");
    }
    assert_eq!(member(&[("helm.sh/hook", "crd-install")]).0.hook, None);
}

#[test]
fn hooks_are_deleted_as_annotated_and_before_they_come_again_by_default() {
    use HookDelete::{BeforeHookCreation, HookFailed, HookSucceeded};
    let hook = ("argocd.argoproj.io/hook", "Sync");
    for (annotation, text, wanted) in [
        ("argocd.argoproj.io/hook-delete-policy", "HookSucceeded", vec![HookSucceeded]),
        (
            "argocd.argoproj.io/hook-delete-policy",
            "HookFailed,HookSucceeded",
            vec![HookSucceeded, HookFailed],
        ),
        (
            "helm.sh/hook-delete-policy",
            "before-hook-creation,hook-failed",
            vec![BeforeHookCreation, HookFailed],
        ),
        ("windlass.dev/hook-delete-policy", "HookFailed", vec![HookFailed]),
        ("other", "x", vec![BeforeHookCreation]),
    ] {
        assert_eq!(member(&[hook, (annotation, text)]).0.hook.unwrap().delete, wanted, "{text}");
    }
    let both = [
        hook,
        ("windlass.dev/hook-delete-policy", "HookFailed"),
        ("argocd.argoproj.io/hook-delete-policy", "HookSucceeded"),
    ];
    assert_eq!(member(&both).0.hook.unwrap().delete, [HookFailed]);
}

#[test]
fn options_of_every_vocabulary_are_understood() {
    let plain = Options::default();
    let keep = Options { prune: Prune::No, delete: Prune::No, ..plain };
    for (annotations, wanted) in [
        (vec![], plain),
        (vec![("helm.sh/resource-policy", "keep")], keep),
        (vec![("windlass.dev/prune", "disabled")], keep),
        (vec![("windlass.dev/prune", "confirm")], Options { prune: Prune::Confirm, ..plain }),
        (
            vec![("helm.sh/resource-policy", "keep"), ("windlass.dev/prune", "enabled")],
            Options { delete: Prune::No, ..plain },
        ),
        (vec![("argocd.argoproj.io/sync-options", "Prune=false")], Options { prune: Prune::No, ..plain }),
        (
            vec![("argocd.argoproj.io/sync-options", "Prune=confirm, Delete=confirm")],
            Options { prune: Prune::Confirm, delete: Prune::Confirm, ..plain },
        ),
        (vec![("argocd.argoproj.io/sync-options", "Delete=false")], Options { delete: Prune::No, ..plain }),
        (
            vec![(
                "argocd.argoproj.io/sync-options",
                "Validate=false,Replace=true,Force=true,PruneLast=true",
            )],
            Options { validate: false, replace: true, force: true, prune_last: true, ..plain },
        ),
        (
            vec![(
                "argocd.argoproj.io/sync-options",
                "SkipDryRunOnMissingResource=true,ServerSideApply=true",
            )],
            Options { skip_dry_run_on_missing: true, ..plain },
        ),
        (
            vec![("argocd.argoproj.io/compare-options", "IgnoreExtraneous")],
            Options { ignore_extraneous: true, ..plain },
        ),
        (vec![("windlass.dev/sync-options", "Force=true")], Options { force: true, ..plain }),
        (
            vec![("windlass.dev/prune", "disabled"), ("windlass.dev/sync-options", "Delete=true")],
            Options { prune: Prune::No, ..plain },
        ),
    ] {
        let (member, problems) = member(&annotations);
        assert_eq!(member.options, wanted, "{annotations:?}");
        assert!(problems.is_empty(), "{annotations:?}: {problems:?}");
        let all: serde_json::Map<String, serde_json::Value> =
            annotations.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect();
        let fate = crate::fleet::Fate::of(&serde_json::json!({ "annotations": all }));
        assert_eq!((fate.prune, fate.delete), (wanted.prune, wanted.delete), "a live object says the same");
    }
}

#[test]
fn an_annotation_that_cannot_be_read_is_named_and_the_default_holds() {
    let objects = [
        config("a", &[("windlass.dev/sync-wave", "soon")]),
        config("b", &[("argocd.argoproj.io/sync-wave", "99999999999")]),
        config("c", &[("windlass.dev/sync-options", "Prune=perhaps,Sing=true")]),
        config("d", &[("windlass.dev/prune", "no")]),
        job("e", &[("windlass.dev/hook", "Tomorrow")]),
        job("f", &[("windlass.dev/hook", "")]),
        job("g", &[("helm.sh/hook", "whenever"), ("helm.sh/hook-delete-policy", "x")]),
    ];
    let program = program(&objects);
    let told: Vec<String> = program.problems.iter().map(Trouble::message).collect();
    insta::assert_snapshot!(told.join("\n"));
    assert_eq!((program.members[0].wave, program.members[1].wave), (0, 0));
    assert_eq!(program.members[2].options, Options { prune: Prune::No, ..Options::default() });
    assert_eq!(
        program.members[3].options,
        Options { prune: Prune::No, delete: Prune::No, ..Options::default() }
    );
    for at in [4, 5, 6] {
        let hook = program.members[at].hook.as_ref().unwrap();
        assert!(hook.is_skipped(), "a hook with an unknown phase never becomes an ordinary object");
        assert!(!program.members[at].takes_part());
    }
}

#[test]
fn a_long_value_is_cut_in_the_message() {
    let (_, problems) = member(&[("windlass.dev/sync-wave", &"ü".repeat(5000))]);
    assert!(problems[0].what.len() < 300 && problems[0].what.contains("…\""), "{}", problems[0].what);
}

#[test]
fn deletion_is_the_reverse_of_creation() {
    let ids = |list: &[(&str, i32)]| {
        let parsed = list.iter().map(|(id, wave)| (id.parse::<ObjectId>().unwrap(), *wave));
        deletion_order(parsed).iter().map(|group| format!("{group:?}")).collect::<Vec<_>>().join("\n")
    };
    let plain = [
        ("v1/Namespace//shop", 0),
        ("apiextensions.k8s.io/v1/CustomResourceDefinition//things.example.org", 0),
        ("example.org/v1/Thing/shop/one", 0),
        ("v1/ConfigMap/shop/a", 0),
        ("v1/ConfigMap/shop/a", 0),
        ("v1/Secret/shop/b", 0),
        ("apps/v1/Deployment/shop/web", 0),
        ("admissionregistration.k8s.io/v1/ValidatingWebhookConfiguration//gate", 0),
    ];
    insta::assert_snapshot!(ids(&plain), @r"
    [admissionregistration.k8s.io/v1/ValidatingWebhookConfiguration//gate]
    [example.org/v1/Thing/shop/one]
    [apps/v1/Deployment/shop/web]
    [v1/ConfigMap/shop/a, v1/Secret/shop/b]
    [apiextensions.k8s.io/v1/CustomResourceDefinition//things.example.org]
    [v1/Namespace//shop]
    ");
    let waves = [("v1/ConfigMap/shop/a", -1), ("v1/ConfigMap/shop/b", 3), ("apps/v1/Deployment/shop/web", 0)];
    insta::assert_snapshot!(ids(&waves), @r"
    [v1/ConfigMap/shop/b]
    [apps/v1/Deployment/shop/web]
    [v1/ConfigMap/shop/a]
    ");
    assert!(deletion_order([]).is_empty());
}

/// Objects with every kind of annotation, some of them nonsense.
fn any_object() -> impl Strategy<Value = (String, Vec<(&'static str, String)>)> {
    let kind = prop_oneof![
        Just("v1/ConfigMap"),
        Just("v1/Secret"),
        Just("batch/v1/Job"),
        Just("apps/v1/Deployment"),
        Just("apiextensions.k8s.io/v1/CustomResourceDefinition"),
    ];
    let annotation = prop_oneof![
        (-3..4_i32).prop_map(|wave| ("argocd.argoproj.io/sync-wave", wave.to_string())),
        (-3..4_i32).prop_map(|wave| ("windlass.dev/sync-wave", wave.to_string())),
        "(PreSync|Sync|PostSync|SyncFail|Skip|PreDelete|x)(,(PreSync|PostSync|Skip))?"
            .prop_map(|text| ("argocd.argoproj.io/hook", text)),
        "(pre-install|post-upgrade|test|crd-install|post-delete)".prop_map(|text| ("helm.sh/hook", text)),
        "(Prune|Force|Delete|y)=(true|false|confirm|z)".prop_map(|text| ("windlass.dev/sync-options", text)),
    ];
    (kind.prop_map(str::to_owned), proptest::collection::vec(annotation, 0..3))
}

fn build(drawn: &[(String, Vec<(&'static str, String)>)]) -> Vec<Sealed> {
    drawn
        .iter()
        .enumerate()
        .map(|(at, (kind, annotations))| {
            let (api, kind) = kind.rsplit_once('/').unwrap();
            let annotations: Vec<(&str, &str)> =
                annotations.iter().map(|(name, text)| (*name, text.as_str())).collect();
            object(
                api,
                kind,
                if api.starts_with("apiext") { "" } else { "shop" },
                &format!("n{at:02}"),
                &annotations,
            )
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_object_has_its_turn_exactly_as_often_as_it_has_phases(drawn in proptest::collection::vec(any_object(), 0..14)) {
        let objects = build(&drawn);
        let program = program(&objects);
        prop_assert_eq!(program.members.len(), objects.len());
        let all: Vec<&Step> = program.steps.iter().chain(&program.deletion).collect();
        for (at, member) in program.members.iter().enumerate() {
            let turns = all.iter().flat_map(|step| &step.objects).filter(|object| **object == at).count();
            let wanted = member.hook.as_ref().map_or(1, |hook| if hook.is_skipped() { 0 } else { hook.phases.len() });
            prop_assert_eq!(turns, wanted);
        }
        for step in &all {
            prop_assert!(!step.objects.is_empty());
            for at in &step.objects {
                prop_assert_eq!(program.members[*at].wave, step.wave);
                prop_assert!(step.phase == SyncPhase::Sync || program.members[*at].hook.is_some());
            }
        }
        for steps in [&program.steps, &program.deletion] {
            prop_assert!(steps.is_sorted_by_key(|step| (step.phase, step.wave, step.layer)));
        }
        // Between two waves of a sync something is always waited for.
        for pair in program.steps.windows(2) {
            let (a, b) = (&pair[0], &pair[1]);
            if (a.phase, a.wave) != (b.phase, b.wave) && b.phase <= SyncPhase::PostSync {
                prop_assert!(matches!(a.wait, Wait::Healthy | Wait::Completed), "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn the_program_does_not_depend_on_the_order_of_the_objects(drawn in proptest::collection::vec(any_object(), 0..12), turn in 0..12_usize) {
        let objects = build(&drawn);
        let mut other = objects.clone();
        if !other.is_empty() {
            let by = turn % other.len();
            other.rotate_left(by);
            other.reverse();
        }
        prop_assert_eq!(shown(&objects, &program(&objects)), shown(&other, &program(&other)));
        prop_assert_eq!(program(&objects).problems, program(&other).problems);
    }

    #[test]
    fn deletion_names_every_object_once(drawn in proptest::collection::vec((any_object(), -2..3_i32), 0..14)) {
        let kinds: Vec<_> = drawn.iter().map(|(object, _)| object.clone()).collect();
        let ids: Vec<(ObjectId, i32)> =
            build(&kinds).iter().zip(&drawn).map(|(object, (_, wave))| (object.id().clone(), *wave)).collect();
        let order = deletion_order(ids.clone());
        let mut named: Vec<ObjectId> = order.iter().flatten().cloned().collect();
        named.sort();
        let mut wanted: Vec<ObjectId> = ids.iter().map(|(id, _)| id.clone()).collect();
        wanted.sort();
        prop_assert_eq!(named, wanted);
        let wave = |id: &ObjectId| ids.iter().find(|(other, _)| other == id).unwrap().1;
        let waves: Vec<i32> = order.iter().flatten().map(wave).collect();
        prop_assert!(waves.is_sorted_by(|a, b| a >= b));
    }
}
