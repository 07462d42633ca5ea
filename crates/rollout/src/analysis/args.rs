//! Values in the place of `{{args.name}}`. One from a Secret is put in only when something is measured; until then, and
//! in everything that is shown, five stars stand for it.

use std::collections::BTreeMap;

use serde_json::Value;
use windlass_api::analysis::{Argument, Metric, SecretKeyRef};

/// Why a metric cannot be measured as it stands.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArgumentError {
    /// An argument has no value.
    #[error("the argument {0} has no value: give it one where the analysis is named")]
    Missing(String),
    /// There is something between double braces that nobody knows.
    #[error("{{{{{0}}}}} is not known: write {{{{args.name}}}} with an argument of that name")]
    Unknown(String),
    /// A metric is no metric any more once values are put in.
    #[error("metric {0} cannot be read with its arguments put in")]
    Unreadable(String),
}

/// Stands for the value of a Secret wherever something is shown.
pub const MASK: &str = "*****";

/// Between double braces, a length of time that the provider puts in itself.
pub const WINDOW: &str = "window";

/// Arguments of a run. Values of Secrets are named, not known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Args {
    values: BTreeMap<String, String>,
    secrets: BTreeMap<String, SecretKeyRef>,
}

impl Args {
    /// The arguments of a run. One without a value is an error that names it.
    pub fn of(args: &[Argument]) -> Result<Self, ArgumentError> {
        let mut known = Self::default();
        for arg in args {
            let secret = arg.value_from.as_ref().and_then(|from| from.secret_key_ref.as_ref());
            match (&arg.value, secret) {
                (_, Some(secret)) => {
                    known.secrets.insert(arg.name.clone(), secret.clone());
                }
                (Some(value), None) => {
                    known.values.insert(arg.name.clone(), value.clone());
                }
                (None, None) => return Err(ArgumentError::Missing(arg.name.clone())),
            }
        }
        Ok(known)
    }

    /// The Secrets that a metric needs, by the names of the arguments.
    pub fn secrets_of(&self, metric: &Metric) -> BTreeMap<String, SecretKeyRef> {
        let text = serde_json::to_string(metric).unwrap_or_default();
        let used = |name: &str| tags(&text).any(|tag| tag.strip_prefix("args.") == Some(name));
        self.secrets
            .iter()
            .filter(|(name, _)| used(name))
            .map(|(name, key)| (name.clone(), key.clone()))
            .collect()
    }

    /// A metric with its arguments, as it may be shown: stars stand for Secrets.
    pub fn masked(&self, metric: &Metric) -> Result<Metric, ArgumentError> {
        self.filled(metric, |_| Some(MASK.to_owned()))
    }

    /// A metric with its arguments and the values of Secrets. It must not be shown.
    pub fn with_secrets(
        &self,
        metric: &Metric,
        secrets: &BTreeMap<String, String>,
    ) -> Result<Metric, ArgumentError> {
        self.filled(metric, |name| secrets.get(name).cloned())
    }

    fn filled(
        &self,
        metric: &Metric,
        secret: impl Fn(&str) -> Option<String>,
    ) -> Result<Metric, ArgumentError> {
        let unreadable = || ArgumentError::Unreadable(metric.name.clone());
        let look_up = |tag: &str| {
            if tag == WINDOW {
                return Some(format!("{{{{{WINDOW}}}}}"));
            }
            let name = tag.strip_prefix("args.")?;
            if self.secrets.contains_key(name) { secret(name) } else { self.values.get(name).cloned() }
        };
        let mut json = serde_json::to_value(metric).map_err(|_| unreadable())?;
        fill_all(&mut json, &look_up).map_err(|tag| match tag.strip_prefix("args.") {
            Some(name) => ArgumentError::Missing(name.to_owned()),
            None => ArgumentError::Unknown(tag),
        })?;
        serde_json::from_value(json).map_err(|_| unreadable())
    }
}

/// Puts values in the place of what stands between double braces. The error is what nobody knows.
pub fn fill(text: &str, look_up: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, tail)) = rest.split_once("{{") {
        let Some((tag, after)) = tail.split_once("}}") else { break };
        out.push_str(before);
        out.push_str(&look_up(tag.trim()).ok_or_else(|| tag.trim().to_owned())?);
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

fn fill_all(json: &mut Value, look_up: &dyn Fn(&str) -> Option<String>) -> Result<(), String> {
    match json {
        Value::String(text) if text.contains("{{") => *text = fill(text, look_up)?,
        Value::Array(items) => {
            for item in items {
                fill_all(item, look_up)?;
            }
        }
        Value::Object(fields) => {
            for (_, field) in fields.iter_mut() {
                fill_all(field, look_up)?;
            }
        }
        _ => {}
    }
    Ok(())
}

fn tags(text: &str) -> impl Iterator<Item = &str> {
    text.split("{{").skip(1).filter_map(|tail| tail.split_once("}}")).map(|(tag, _)| tag.trim())
}

/// Takes values of Secrets out of a text that is going to be shown.
///
/// Short ones are taken out too: a text with too many stars harms nobody.
pub fn redact<'a>(text: &str, secrets: impl IntoIterator<Item = &'a String>) -> String {
    let mut secrets: Vec<&String> = secrets.into_iter().filter(|secret| !secret.is_empty()).collect();
    // A secret that is a part of another one must not leave the rest of that one behind.
    secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    secrets.into_iter().fold(text.to_owned(), |text, secret| {
        let trimmed = secret.trim();
        let text = text.replace(secret.as_str(), MASK);
        if trimmed.is_empty() { text } else { text.replace(trimmed, MASK) }
    })
}
