//! Rules that a scenario lays down, answered as a `ValidatingAdmissionPolicy` answers.

use std::sync::Arc;

use serde_json::Value;

use super::{
    Api,
    call::Call,
    lock,
    state::{State, meta},
    status::{About, Failure},
};

/// What a rule says about an object: why not, or nothing.
pub(crate) type Judge = Arc<dyn Fn(&Value) -> Option<String> + Send + Sync>;

/// A rule with how its refusal is answered.
#[derive(Clone)]
pub(crate) struct Rule {
    forbids: bool,
    judge: Judge,
}

impl Api {
    /// Refuses every create and change of an object about which `judge` says why, dry runs included: 422 `Invalid`, as a
    /// `ValidatingAdmissionPolicy` of this name answers whose binding has the same name. Deletes and subresources are
    /// not judged. A second rule of the name takes the place of the first.
    ///
    /// `judge` must not call this API: it is asked in the middle of a write.
    pub fn deny(&self, name: &str, judge: impl Fn(&Value) -> Option<String> + Send + Sync + 'static) {
        self.rule(name, false, Arc::new(judge));
    }

    /// As [`Api::deny`], with 403 `Forbidden`: a policy whose validation names that reason.
    pub fn forbid(&self, name: &str, judge: impl Fn(&Value) -> Option<String> + Send + Sync + 'static) {
        self.rule(name, true, Arc::new(judge));
    }

    /// Takes a rule back.
    pub fn allow(&self, name: &str) {
        lock(&self.state).rules.remove(name);
    }

    fn rule(&self, name: &str, forbids: bool, judge: Judge) {
        lock(&self.state).rules.insert(name.to_owned(), Rule { forbids, judge });
    }
}

/// Asks every rule about an object that is about to be stored.
pub(crate) fn review(state: &State, call: &Call, object: &Value) -> Result<(), Failure> {
    if !call.subresource.is_empty() {
        return Ok(());
    }
    for (name, rule) in &state.rules {
        if let Some(why) = (rule.judge)(object) {
            let about = About { name: meta(object, "name"), ..call.about() };
            return Err(Failure::denied(about, name, &why, rule.forbids));
        }
    }
    Ok(())
}
