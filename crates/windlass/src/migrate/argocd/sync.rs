//! When and how Argo CD applies.

use windlass_api::application::{
    SyncPolicy,
    sync::{DeletionBudget, Drift, Retry},
};

use super::ignore;
use crate::migrate::{fields::Fields, report::Report};

/// What the policy of Argo CD says here.
pub(super) struct Read {
    /// The policy.
    pub(super) policy: SyncPolicy,
    /// What was applied stays when the Application goes, whatever its finalizers say.
    pub(super) orphan: bool,
}

/// Reads `spec.syncPolicy` and `spec.ignoreDifferences`.
pub(super) fn read(spec: &mut Fields, report: &mut Report) -> Read {
    // Without automated sync Argo CD neither prunes nor heals by itself.
    let manual = SyncPolicy { automated: false, prune: false, drift: Drift::Report, ..SyncPolicy::default() };
    let mut read = Read { policy: manual, orphan: false };
    read.policy.ignore_differences = ignore::read(spec, report);
    let mut respects = false;
    if let Some(mut part) = spec.part("syncPolicy", report) {
        if let Some(automated) = part.part("automated", report) {
            automatic(automated, &mut read.policy, report);
        }
        for option in part.texts("syncOptions", report) {
            respects |= option == "RespectIgnoreDifferences=true";
            apply_option(&option, &part.at("syncOptions"), &mut read, report);
        }
        if let Some(retry) = part.part("retry", report) {
            read.policy.retry = Some(retry_of(retry, report));
        }
        part.left(
            "managedNamespaceMetadata",
            "labels and annotations of the namespace were not carried over",
            "Put a Namespace with them into the folder",
            report,
        );
        part.finish(report);
    }
    if !read.policy.ignore_differences.is_empty() && !respects {
        report.note(
            "spec.ignoreDifferences",
            "fields that are ignored are also left alone by a sync, as with RespectIgnoreDifferences",
        );
    }
    read
}

fn automatic(mut part: Fields, policy: &mut SyncPolicy, report: &mut Report) {
    policy.automated = part.flag("enabled", report).unwrap_or(true);
    policy.prune = part.flag("prune", report).unwrap_or(false);
    if part.flag("selfHeal", report).unwrap_or(false) {
        policy.drift = Drift::Revert;
    }
    part.left(
        "allowEmpty",
        "an empty render never deletes anything",
        "Delete the Application when everything has to go",
        report,
    );
    part.finish(report);
}

fn apply_option(option: &str, field: &str, read: &mut Read, report: &mut Report) {
    let (name, value) = option.split_once('=').unwrap_or((option, ""));
    match (name.trim(), value.trim()) {
        ("CreateNamespace", value) => read.policy.create_namespace = value == "true",
        ("Prune", "false") => read.policy.prune = false,
        ("Prune", "confirm") => {
            read.policy.deletion_budget = DeletionBudget { max_objects: 0, max_percent: 0 };
        }
        ("Delete", "false") => read.orphan = true,
        ("ServerSideApply" | "ClientSideApplyMigration" | "DisableClientSideApplyMigration", _) => {
            report.note(field, format!("{option} is not needed: everything is applied server-side"));
        }
        ("ApplyOutOfSyncOnly", _) => {
            report.note(field, format!("{option} is not needed: only what differs is applied"));
        }
        ("RespectIgnoreDifferences", "true") => {
            report.note(field, format!("{option} is not needed: ignored fields are always left alone"));
        }
        ("FailOnSharedResource", _) => {
            report.note(field, format!("{option} is not needed: an object of another Application is never taken"));
        }
        ("SkipDryRunOnMissingResource", _) => report.note(
            field,
            format!("{option} is not needed: objects of a kind that comes with the same change are judged after it"),
        ),
        ("Replace" | "Force" | "PruneLast", "true") | ("Validate", "false") | ("Delete", "confirm") => report.left(
            field,
            format!("{option} cannot be set for all objects"),
            format!("Put the annotation argocd.argoproj.io/sync-options: {option} on the objects that need it"),
        ),
        ("PrunePropagationPolicy", _) => report.left(
            field,
            format!("{option}: how dependents are deleted cannot be chosen"),
            "Nothing, unless dependents of a deleted object have to stay: then set windlass.dev/prune: disabled on it",
        ),
        // The defaults, said aloud.
        ("Prune" | "Delete" | "Validate", "true")
        | ("Replace" | "Force" | "PruneLast" | "RespectIgnoreDifferences", "false") => {}
        _ => report.left(
            field,
            format!("{option} is not known here"),
            "Look up what it does and set the field of the Application that does the same, if there is one",
        ),
    }
}

fn retry_of(mut part: Fields, report: &mut Report) -> Retry {
    let mut retry = Retry::default();
    if let Some(limit) = part.number("limit", report) {
        // Less than none is no limit.
        retry.limit = u32::try_from(limit).ok().map(|limit| limit.min(1000));
    }
    if let Some(mut backoff) = part.part("backoff", report) {
        retry.first = backoff.duration("duration", report);
        retry.longest = backoff.duration("maxDuration", report);
        if backoff.number("factor", report).is_some_and(|factor| factor != 2) {
            report.left(
                backoff.at("factor"),
                "the wait doubles each time",
                "Choose first and longest to fit",
            );
        }
        backoff.finish(report);
    }
    part.note("refresh", "is not needed: a newer revision pre-empts an older sync", report);
    part.finish(report);
    retry
}
