//! Options that an object itself carries, in our annotation or Argo CD's.

use serde_json::Value;

const ANNOTATIONS: [&str; 2] = ["windlass.dev/sync-options", "argocd.argoproj.io/sync-options"];

/// Whether the object asks to be made anew where it cannot be changed: `Replace=true` or `Force=true`.
pub(super) fn may_be_made_anew(object: &Value) -> bool {
    has(object, "Replace=true") || has(object, "Force=true")
}

fn has(object: &Value, option: &str) -> bool {
    let annotations = &object["metadata"]["annotations"];
    ANNOTATIONS
        .iter()
        .filter_map(|name| annotations.get(name)?.as_str())
        .flat_map(|options| options.split(','))
        .any(|found| found.trim() == option)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn options_are_read_from_both_annotations() {
        let object = |name: &str, options: &str| json!({"metadata": {"annotations": {name: options}}});
        assert!(may_be_made_anew(&object("argocd.argoproj.io/sync-options", "Prune=false, Replace=true")));
        assert!(may_be_made_anew(&object("windlass.dev/sync-options", "Force=true")));
        assert!(!may_be_made_anew(&object("windlass.dev/sync-options", "Force=false")));
        assert!(!may_be_made_anew(&object("example.org/sync-options", "Force=true")));
        assert!(!may_be_made_anew(&json!({})));
    }
}
