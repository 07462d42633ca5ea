//! In which order to hand over, so that no pod is restarted.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Tool, report::Report};

/// Sentences, in order. None when nothing was converted.
pub(super) fn steps(tool: Tool, report: &Report, produced: &[Value]) -> Vec<String> {
    if tool == Tool::ArgoRollouts {
        return rollouts(produced);
    }
    let applications = produced.iter().any(|object| object["kind"] == "Application");
    if !applications {
        return Vec::new();
    }
    let mut steps = vec![
        "Go through what was not carried over, and correct the produced files. Compare before you apply: \
         `windlass diff` shows what an Application would change."
            .to_owned(),
    ];
    let (name, example) = match tool {
        Tool::ArgoCd => ("Argo CD", "an app of apps"),
        Tool::Flux => ("Flux", "flux-system"),
        Tool::ArgoRollouts => return steps,
    };
    steps.push(format!(
        "An Application whose folder holds objects of {name} ({example}) would apply them again: put what was \
         produced into the repository in place of them."
    ));
    match tool {
        Tool::ArgoCd => argocd(report, &mut steps),
        Tool::Flux => flux(report, &mut steps),
        Tool::ArgoRollouts => {}
    }
    steps.push(
        "Apply what was produced: `kubectl apply --server-side -f`. Windlass takes the running objects over by \
         server-side apply: an object that is as the repository says is only labelled, pod templates stay as they \
         are and no pod is restarted."
            .to_owned(),
    );
    steps.push(
        "Wait until every Application is Synced and Healthy (`windlass get apps`), then remove the old controllers."
            .to_owned(),
    );
    steps
}

/// New pods come up beside the old ones, which serve until they are there.
fn rollouts(produced: &[Value]) -> Vec<String> {
    if !produced.iter().any(|object| object["kind"] == "Rollout") {
        return Vec::new();
    }
    [
        "Go through what was not carried over, and correct the produced files: `windlass rollout lint -f` says what the \
         controller would refuse, `windlass rollout simulate -f` how an update would go.",
        "Wait until no update goes on, then stop the controller of Argo Rollouts (`kubectl scale deployment \
         argo-rollouts --replicas=0`): pods and traffic stay as they are.",
        "Take the label `rollouts-pod-template-hash` out of the selectors of the Services, so that they select the pods \
         of both, and put what was produced into the repository in place of the old objects.",
        "Apply what was produced: `kubectl apply --server-side -f`. New pods come up beside the old ones. Wait until \
         every Rollout is Completed: `windlass rollout status NAME --watch`.",
        "Delete the old Rollouts: `kubectl delete rollouts.argoproj.io NAME`. Their pods go with them.",
    ]
    .map(str::to_owned)
    .to_vec()
}

fn argocd(report: &Report, steps: &mut Vec<String>) {
    let sets = named(report, "ApplicationSet");
    if !sets.is_empty() {
        steps.push(format!(
            "Delete the ApplicationSets but not what they made, else they make it again: `kubectl delete \
             applicationset NAME --cascade=orphan` ({}).",
            sets.join(", ")
        ));
    }
    steps.push(
        "Take the Applications that make other Applications first (app of apps), then the rest. For each: switch \
         automated sync off (`kubectl patch applications.argoproj.io NAME --type=merge -p \
         '{\"spec\":{\"syncPolicy\":{\"automated\":null}}}'`)."
            .to_owned(),
    );
    steps.push(
        "Remove it without deleting what it applied: take its finalizers away (`kubectl patch \
         applications.argoproj.io NAME --type=json -p '[{\"op\":\"remove\",\"path\":\"/metadata/finalizers\"}]'`, or \
         nothing if it has none), then `kubectl delete applications.argoproj.io NAME --cascade=orphan`."
            .to_owned(),
    );
}

fn flux(report: &Report, steps: &mut Vec<String>) {
    let releases = named(report, "HelmRelease");
    steps.push(
        "Take the Kustomizations that make other Kustomizations first (flux-system), then the rest. Suspend each: \
         `flux suspend kustomization NAME`. A suspended one deletes nothing when it goes."
            .to_owned(),
    );
    if !releases.is_empty() {
        steps.push(format!(
            "Suspend the HelmReleases: `flux suspend helmrelease NAME` ({}). A suspended one is not uninstalled when \
             it goes; Helm's own release Secrets stay and can be deleted later.",
            releases.join(", ")
        ));
    }
    steps.push(
        "Take them out of the repository and delete them while they are suspended: `kubectl delete \
         kustomizations.kustomize.toolkit.fluxcd.io NAME`."
            .to_owned(),
    );
}

fn named(report: &Report, kind: &str) -> Vec<String> {
    let names: BTreeSet<String> = report
        .sources()
        .filter_map(|title| title.strip_prefix(kind)?.strip_prefix(' ').map(str::to_owned))
        .collect();
    names.into_iter().collect()
}
