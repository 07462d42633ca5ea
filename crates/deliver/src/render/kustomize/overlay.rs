//! The options of a source as a kustomization that is laid over the folder's own.

use serde_json::{Map, Value, json};
use windlass_api::application::source::Kustomize;

use super::{super::cell::in_tree, super::snapshot::resolve, closure::Closure};
use crate::trouble::Trouble;

/// Where it lies, beside the files of the repository.
pub(super) const FOLDER: &str = "spec.source.kustomize";

/// Where errors say that something stands.
const SPEC: &str = "spec.source.kustomize";

/// The kustomization, in JSON; `None` without options.
pub(super) fn write(
    options: &Kustomize,
    folder: &str,
    closure: &mut Closure<'_>,
) -> Result<Option<Vec<u8>>, Trouble> {
    if *options == Kustomize::default() {
        return Ok(None);
    }
    let mut fields = Map::new();
    fields.insert("apiVersion".into(), json!("kustomize.config.k8s.io/v1beta1"));
    fields.insert("kind".into(), json!("Kustomization"));
    fields.insert("resources".into(), json!([format!("../{}", in_tree(folder))]));
    for (name, value) in [
        ("namePrefix", &options.name_prefix),
        ("nameSuffix", &options.name_suffix),
        ("namespace", &options.namespace),
    ] {
        if let Some(value) = value {
            fields.insert(name.into(), json!(value));
        }
    }
    if !options.common_labels.is_empty() {
        let labels = json!([{ "pairs": options.common_labels, "includeSelectors": true }]);
        fields.insert("labels".into(), labels);
    }
    if !options.common_annotations.is_empty() {
        fields.insert("commonAnnotations".into(), json!(options.common_annotations));
    }
    if !options.images.is_empty() {
        fields.insert("images".into(), json!(options.images));
    }
    if !options.components.is_empty() {
        fields.insert("components".into(), components(&options.components, folder, closure)?);
    }
    if !options.patches.is_empty() {
        fields.insert("patches".into(), patches(&options.patches, folder, closure)?);
    }
    Ok(Some(Value::Object(fields).to_string().into_bytes()))
}

fn components(names: &[String], folder: &str, closure: &mut Closure<'_>) -> Result<Value, Trouble> {
    let mut all = Vec::new();
    for name in names {
        let at = inside(folder, name, "components", closure)?;
        closure.follow(&at)?;
        all.push(format!("../{}", in_tree(&at)));
    }
    Ok(json!(all))
}

/// A file that a patch names is put into it: kustomize reads no file outside of the kustomization's own folder.
fn patches(
    patches: &[Map<String, Value>],
    folder: &str,
    closure: &mut Closure<'_>,
) -> Result<Value, Trouble> {
    let mut all = Vec::new();
    for patch in patches {
        let mut patch = patch.clone();
        if let Some(Value::String(path)) = patch.remove("path") {
            let at = inside(folder, &path, "patches", closure)?;
            if !closure.take(&at)? {
                return Err(closure.absent(SPEC, "patches", &path));
            }
            patch.insert("patch".into(), json!(closure.text(&at)));
        }
        all.push(patch);
    }
    Ok(json!(all))
}

fn inside(folder: &str, text: &str, field: &str, closure: &Closure<'_>) -> Result<String, Trouble> {
    resolve(folder, text).filter(|at| !at.is_empty()).ok_or_else(|| closure.absent(SPEC, field, text))
}
