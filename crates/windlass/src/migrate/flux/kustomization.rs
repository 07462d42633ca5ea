//! `Kustomization` → Application.

use std::collections::BTreeMap;

use serde_json::Value;
use windlass_api::application::{
    Deletion,
    source::{Decryption, DecryptionProvider, Kustomize, KustomizeImage},
    sync::Retry,
};

use super::{Context, common, health};
use crate::migrate::{
    fields::Fields,
    names,
    objects::{Head, Produced, secret_data},
    report::Report,
    shared,
};

/// Converts it.
pub(super) fn convert(
    head: &Head,
    object: Value,
    context: &mut Context<'_>,
    produced: &mut Produced,
    report: &mut Report,
) {
    let Some(target) = common::target(head, context, report) else { return };
    let mut fields = Fields::of("", object, report);
    let marks = common::metadata(&mut fields, report);
    let Some(mut spec) = fields.part("spec", report) else {
        report.refused("it has no spec", "Correct the object");
        return;
    };
    let Some(reference) = spec.part("sourceRef", report) else {
        report.refused("it has no sourceRef", "Correct the object");
        return;
    };
    let Some(cluster) = context.clusters.find(&mut spec, head, produced, report) else { return };
    let Some((mut source, repository)) = context.source(reference, head, &target, produced, report) else {
        return;
    };
    source.path = names::folder(spec.text("path", report));
    let namespace = common::namespace(&mut spec, "targetNamespace", report);
    source.kustomize = kustomize(&mut spec, namespace.clone(), report);
    source.decryption = decryption(&mut spec, head, &target, context, produced, report);

    let mut sync = common::sync();
    sync.prune = spec.flag("prune", report).unwrap_or(false);
    sync.interval = repository.interval;
    sync.health_timeout = spec.duration("timeout", report);
    sync.service_account_name = common::account(&mut spec, report);
    let retry = spec.duration("retryInterval", report);
    sync.retry = retry.map(|first| Retry { first: Some(first), ..Retry::default() });
    let prune = sync.prune;
    let mut app = common::spec_of(source, cluster, namespace, sync);
    app.depends_on = common::depends_on(&mut spec, head, context, report);
    app.health = health::rules(&mut spec, report);
    app.suspend = spec.flag("suspend", report).unwrap_or(false) || repository.suspend;
    app.deletion = deletion(&mut spec, prune, report);
    rest(spec, report);
    produced.application(&target, &marks, &app, report);
}

/// What happens to the objects when it is deleted. By default Flux does as with pruning.
fn deletion(spec: &mut Fields, prune: bool, report: &mut Report) -> Deletion {
    match spec.text("deletionPolicy", report).as_deref() {
        Some("Delete" | "WaitForTermination") => Deletion::Delete,
        None | Some("MirrorPrune") => {
            if prune {
                Deletion::Delete
            } else {
                Deletion::Orphan
            }
        }
        Some("Orphan") => Deletion::Orphan,
        Some(_) => {
            report.left("spec.deletionPolicy", "is not known here; Orphan was set", "Choose spec.deletion");
            Deletion::Orphan
        }
    }
}

fn rest(mut spec: Fields, report: &mut Report) {
    spec.left(
        "postBuild",
        "variables in manifests are not filled in",
        "Commit the values: as patches or replacements of kustomize, or as values of a chart",
        report,
    );
    spec.left(
        "force",
        "objects with fields that cannot be changed are not made anew by themselves",
        "Put the annotation argocd.argoproj.io/sync-options: Replace=true,Force=true on the objects that need it",
        report,
    );
    spec.left(
        "ignoreMissingComponents",
        "a component that does not exist is an error",
        "Take out the components that do not exist",
        report,
    );
    spec.note("healthChecks", "is not needed: every applied object is judged", report);
    spec.note("wait", "is not needed: every applied object is judged and waited for", report);
    spec.note("buildMetadata", "is not needed: applied objects carry label and owner", report);
    // Drift is seen by event, news by the interval of the repository.
    spec.pass("interval");
    spec.finish(report);
}

fn kustomize(spec: &mut Fields, namespace: Option<String>, report: &mut Report) -> Option<Kustomize> {
    let mut kustomize = Kustomize {
        name_prefix: spec.text("namePrefix", report),
        name_suffix: spec.text("nameSuffix", report),
        namespace,
        common_labels: BTreeMap::new(),
        common_annotations: BTreeMap::new(),
        images: Vec::new(),
        components: spec.texts("components", report),
        patches: shared::patches(spec, report),
    };
    for mut part in spec.parts("images", report) {
        let name = part.text("name", report);
        let image = name.map(|name| KustomizeImage {
            name,
            new_name: part.text("newName", report),
            new_tag: part.text("newTag", report),
            digest: part.text("digest", report),
        });
        kustomize.images.extend(image);
        part.finish(report);
    }
    if let Some(mut common) = spec.part("commonMetadata", report) {
        let labels = common.pairs("labels", report);
        kustomize.common_annotations = common.pairs("annotations", report);
        if let Some(patch) = shared::metadata_patch(&labels, &BTreeMap::new()) {
            kustomize.patches.push(patch);
            report.note(
                common.at("labels"),
                "became a patch on every object: commonLabels would change selectors too",
            );
        }
        common.finish(report);
    }
    let kustomize = shared::filled(kustomize)?;
    report.note(
        "spec.path",
        "source.kustomize needs a kustomization file in the folder; Flux makes one where there is none \
         (kustomize create --autodetect --recursive)",
    );
    Some(kustomize)
}

fn decryption(
    spec: &mut Fields,
    head: &Head,
    target: &Head,
    context: &Context<'_>,
    produced: &mut Produced,
    report: &mut Report,
) -> Option<Decryption> {
    let mut part = spec.part("decryption", report)?;
    let provider = part.text("provider", report);
    let secret = part.part("secretRef", report).and_then(|mut secret| secret.text("name", report));
    let path = part.at("secretRef");
    part.finish(report);
    if provider.as_deref() != Some("sops") {
        report.left("spec.decryption.provider", "is not known here", "Encrypt with SOPS and age");
        return None;
    }
    let Some(name) = secret else {
        report.left(
            path,
            "is missing: keys of a cloud are not asked for",
            "Encrypt with age (sops updatekeys), and name a Secret with the key in source.decryption",
        );
        return None;
    };
    if let Some(object) = context.secrets.get(&(head.namespace.clone(), name.clone())) {
        let age = secret_data(object).keys().any(|key| key.ends_with(".agekey"));
        if !age {
            report.left(
                path,
                format!("the Secret {name} holds no entry that ends in .agekey"),
                "Encrypt with age (sops updatekeys), and put the key into the Secret",
            );
        }
    }
    let secret_ref = context.secret(&head.namespace, &name, target, produced, report)?;
    Some(Decryption { provider: DecryptionProvider::Sops, secret_ref })
}
