//! kustomize, as Argo CD sets it.

use windlass_api::application::source::{Kustomize, KustomizeImage};

use crate::migrate::{fields::Fields, report::Report, shared};

/// The fields that Windlass has too; the rest is told.
pub(super) fn read(mut part: Fields, report: &mut Report) -> Option<Kustomize> {
    let mut kustomize = Kustomize {
        name_prefix: part.text("namePrefix", report),
        name_suffix: part.text("nameSuffix", report),
        namespace: part.text("namespace", report),
        common_labels: part.pairs("commonLabels", report),
        common_annotations: part.pairs("commonAnnotations", report),
        images: Vec::new(),
        components: part.texts("components", report),
        patches: shared::patches(&mut part, report),
    };
    for text in part.texts("images", report) {
        match image(&text) {
            Some(image) => kustomize.images.push(image),
            None => report.left(part.at("images"), format!("{text} is no image"), "Correct the object"),
        }
    }
    if part.flag("labelWithoutSelector", report) == Some(true) {
        let labels = std::mem::take(&mut kustomize.common_labels);
        kustomize.patches.extend(shared::metadata_patch(&labels, &std::collections::BTreeMap::new()));
        if !labels.is_empty() {
            report.note(
                part.at("labelWithoutSelector"),
                "the labels became a patch on every object, which leaves selectors alone",
            );
        }
    }
    part.left(
        "labelIncludeTemplates",
        "labels on pod templates were not carried over",
        "Use labels with includeTemplates in the kustomization file",
        report,
    );
    part.left(
        "commonAnnotationsEnvsubst",
        "variables in annotations are not filled in",
        "Write the values into the kustomization file",
        report,
    );
    part.left(
        "replicas",
        "was not carried over",
        "Set replicas in the kustomization file, or add a patch to source.kustomize.patches",
        report,
    );
    part.left(
        "version",
        "the version of kustomize is the controller's",
        "Give the controller the kustomize that you want (setting kustomize)",
        report,
    );
    part.left(
        "ignoreMissingComponents",
        "a component that does not exist is an error",
        "Take out the components that do not exist",
        report,
    );
    for flag in ["forceCommonLabels", "forceCommonAnnotations"] {
        part.note(flag, "is not needed: labels and annotations are laid over those that are there", report);
    }
    for field in ["kubeVersion", "apiVersions"] {
        part.left(
            field,
            "is for charts inside of kustomizations, which are not rendered",
            "Commit what the chart renders, or make it an Application of its own",
            report,
        );
    }
    part.finish(report);
    shared::filled(kustomize)
}

/// `name=new:tag`, `name=new@sha256:…`, `name:tag`, `name@sha256:…`, `name=new`.
fn image(text: &str) -> Option<KustomizeImage> {
    let (name, rest) = match text.split_once('=') {
        Some((name, new)) => (Some(name), new),
        None => (None, text),
    };
    let (rest, digest) = match rest.split_once('@') {
        Some((rest, digest)) => (rest, Some(digest.to_owned())),
        None => (rest, None),
    };
    // A colon before a slash belongs to a port.
    let (new, tag) = match rest.rsplit_once(':') {
        Some((new, tag)) if !tag.contains('/') => (new, Some(tag.to_owned())),
        _ => (rest, None),
    };
    let name = name.unwrap_or(new);
    let good = !name.is_empty() && !new.is_empty() && tag.as_deref() != Some("") && name.len() <= 512;
    good.then(|| KustomizeImage {
        name: name.to_owned(),
        new_name: (name != new).then(|| new.to_owned()),
        // kustomize takes a digest or a tag; the digest says more.
        new_tag: tag.filter(|_| digest.is_none()),
        digest,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_read_in_every_form() {
        for (text, expected) in [
            ("web=registry.example/web:1", ("web", Some("registry.example/web"), Some("1"), None)),
            ("web:2", ("web", None, Some("2"), None)),
            ("registry.example:5000/web", ("registry.example:5000/web", None, None, None)),
            ("registry.example:5000/web:3", ("registry.example:5000/web", None, Some("3"), None)),
            ("web@sha256:ab", ("web", None, None, Some("sha256:ab"))),
            ("web=new:1@sha256:ab", ("web", Some("new"), None, Some("sha256:ab"))),
        ] {
            let image = image(text).unwrap();
            let told = (
                image.name.as_str(),
                image.new_name.as_deref(),
                image.new_tag.as_deref(),
                image.digest.as_deref(),
            );
            assert_eq!(told, expected, "{text}");
        }
        for bad in ["", "=", "web=", "=x", "web:"] {
            assert!(image(bad).is_none(), "{bad}");
        }
    }
}
