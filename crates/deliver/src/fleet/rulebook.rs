//! How live objects are judged: as everywhere, or as their Application says.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, PoisonError, RwLock},
};

use serde_json::{Value, json};
use windlass_api::application::{HealthRule, HealthRules};
use windlass_cluster::drive::Key;
use windlass_manifest::{
    expression::too_much,
    health::{Health, Rules},
};

use crate::{tracking, trouble::Trouble};

/// The rules of all Applications that have some of their own.
///
/// A change of rules reaches an object with its next event, or when its kind is listed again.
#[derive(Default)]
pub struct RuleBook(RwLock<BTreeMap<String, Own>>);

/// The rules of one Application.
struct Own {
    written: Vec<HealthRules>,
    rules: Arc<Rules>,
}

impl fmt::Debug for RuleBook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RuleBook").finish_non_exhaustive()
    }
}

impl RuleBook {
    /// Judges an object by the rules of the Application that it says it belongs to, and by the built-in ones.
    pub(super) fn health(&self, object: &Value) -> Health {
        let own = tracking::owner(object).and_then(|owner| {
            let books = self.0.read().unwrap_or_else(PoisonError::into_inner);
            books.get(owner).map(|own| Arc::clone(&own.rules))
        });
        match own {
            Some(rules) => rules.health(object),
            None => Rules::builtin().health(object),
        }
    }

    /// From now on the objects of this Application are judged so. What cannot be read is told, and nothing changes then.
    pub(super) fn set(&self, app: &Key, written: &[HealthRules]) -> Result<(), Trouble> {
        let owner = app.to_string();
        let same = {
            let books = self.0.read().unwrap_or_else(PoisonError::into_inner);
            match books.get(&owner) {
                Some(own) => own.written == written,
                None => written.is_empty(),
            }
        };
        if same {
            return Ok(());
        }
        if written.is_empty() {
            self.forget(app);
            return Ok(());
        }
        let texts =
            written.iter().flat_map(|rules| &rules.rules).flat_map(|rule| [&rule.when, &rule.message]);
        if let Some(most) = texts.flatten().find_map(|text| too_much(text)) {
            return Err(Trouble::standing(
                "InvalidHealthRule",
                format!("an expression in spec.health has more than {most}"),
                "Write it as several rules",
            ));
        }
        let text: Vec<String> = written.iter().map(|rules| document(rules).to_string()).collect();
        let rules = Rules::with(&text.join("\n---\n")).map_err(|error| {
            Trouble::standing("InvalidHealthRule", error.to_string(), "Mend the rule in spec.health")
        })?;
        let own = Own { written: written.to_vec(), rules: Arc::new(rules) };
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(owner, own);
        Ok(())
    }

    /// The Application is gone.
    pub(super) fn forget(&self, app: &Key) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).remove(&app.to_string());
    }
}

/// The rules in the form of the files under `crates/manifest/rules`.
fn document(rules: &HealthRules) -> Value {
    let verdict = |rule: &HealthRule| json!({ "status": rule.status, "message": rule.message.clone().unwrap_or_default() });
    let conditional: Vec<Value> = rules
        .rules
        .iter()
        .filter_map(|rule| {
            let mut one = verdict(rule);
            one["when"] = json!(rule.when.as_ref()?);
            Some(one)
        })
        .collect();
    let mut document = json!({ "group": rules.group, "kinds": rules.kinds, "rules": conditional });
    if let Some(last) = rules.rules.iter().find(|rule| rule.when.is_none()) {
        document["otherwise"] = verdict(last);
    }
    document
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use windlass_manifest::health::Status;

    use super::*;

    fn app() -> Key {
        Key { namespace: Some("shop".into()), name: "web".into() }
    }

    fn rules(when: &str) -> Vec<HealthRules> {
        serde_json::from_value(json!([{
            "group": "example.org", "kinds": ["Thing"],
            "rules": [
                { "when": when, "status": "Healthy", "message": "It is done" },
                { "status": "Progressing", "message": "It is not done" },
            ],
        }]))
        .unwrap()
    }

    #[test]
    fn an_application_judges_its_own_objects_by_its_own_rules() {
        let book = RuleBook::default();
        book.set(&app(), &rules("status.done == true")).unwrap();
        let thing = |owner: &str, done: bool| {
            json!({
                "apiVersion": "example.org/v1", "kind": "Thing",
                "metadata": { "name": "a", "annotations": { tracking::OWNER: owner } },
                "status": { "done": done },
            })
        };
        assert_eq!(book.health(&thing("shop/web", true)).status, Status::Healthy);
        assert_eq!(book.health(&thing("shop/web", false)).status, Status::Progressing);
        assert_ne!(book.health(&thing("shop/other", false)).message, "It is not done");
        book.set(&app(), &[]).unwrap();
        assert_ne!(book.health(&thing("shop/web", false)).message, "It is not done");
    }

    #[test]
    fn a_rule_that_cannot_be_read_is_told() {
        let trouble = RuleBook::default().set(&app(), &rules("status.done ==")).unwrap_err();
        assert_eq!(trouble.reason, "InvalidHealthRule");
        let deep = format!("{}true{}", "(".repeat(2000), ")".repeat(2000));
        let trouble = RuleBook::default().set(&app(), &rules(&deep)).unwrap_err();
        assert!(trouble.what.contains("brackets"), "{trouble:?}");
    }
}
