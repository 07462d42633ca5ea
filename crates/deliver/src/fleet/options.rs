//! Options that an object itself carries, in our annotation or Argo CD's.

use serde::Serialize;
use serde_json::Value;

/// Annotation on an object that is not to be deleted, when it says `disabled`, or not without asking: `confirm`.
pub const PRUNE: &str = "windlass.dev/prune";

const OURS: &str = "windlass.dev/sync-options";
const ARGO: &str = "argocd.argoproj.io/sync-options";
const HELM: &str = "helm.sh/resource-policy";
const ANNOTATIONS: [&str; 2] = [OURS, ARGO];

/// Whether an object may be deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Prune {
    /// Yes.
    #[default]
    Yes,
    /// Only after somebody said so.
    Confirm,
    /// Never.
    No,
}

impl Prune {
    /// What a sync option says: `true`, `confirm` or `false`.
    pub fn read(value: &str) -> Option<Self> {
        match value {
            "true" => Some(Self::Yes),
            "confirm" => Some(Self::Confirm),
            "false" => Some(Self::No),
            _ => None,
        }
    }
}

/// What a live object says about its own end. It is asked of the object and not of the source, which it left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Fate {
    /// When it is no longer in the source.
    pub prune: Prune,
    /// When the Application is deleted.
    pub delete: Prune,
}

impl Fate {
    /// It is not deleted in either case.
    pub const KEPT: Self = Self { prune: Prune::No, delete: Prune::No };

    /// Reads an object's metadata. Helm's word, then Argo CD's options, then ours: whoever comes later wins. What nobody
    /// understands keeps the object: only that can be put right later.
    pub(crate) fn of(metadata: &Value) -> Self {
        let annotation =
            |name: &str| metadata.get("annotations").and_then(|all| all.get(name)?.as_str()).map(str::trim);
        let mut fate = Self::default();
        if annotation(HELM).is_some_and(|value| value.eq_ignore_ascii_case("keep")) {
            fate = Self::KEPT;
        }
        fate.apply(annotation(ARGO));
        match annotation(PRUNE) {
            None => {}
            Some("enabled") => fate.prune = Prune::Yes,
            Some("confirm") => fate.prune = Prune::Confirm,
            Some(_) => fate = Self::KEPT,
        }
        fate.apply(annotation(OURS));
        fate
    }

    fn apply(&mut self, options: Option<&str>) {
        for option in options.into_iter().flat_map(|options| options.split(',')) {
            let (name, value) =
                option.split_once('=').map_or((option, "true"), |(name, value)| (name, value));
            let said = || Prune::read(value.trim()).unwrap_or(Prune::No);
            match name.trim() {
                "Prune" => self.prune = said(),
                "Delete" => self.delete = said(),
                _ => {}
            }
        }
    }
}

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
