//! Conditions over `result`: is a measurement good, bad, or neither?
//!
//! They are CEL, with the helpers `len`, `isNaN`, `isInf`, `isNil`, `default`, `asInt` and `asFloat`, and with what is
//! usual in conditions of Argo Rollouts ([`words`]). Numbers of a result are floating point, whole numbers mix with them
//! freely, and a division always has a fraction.

mod coerce;
mod words;

use std::collections::HashMap;

use cel::{Context, ExecutionError, Value as Cel, parser::Parser};
use serde_json::Value;
use windlass_api::analysis::{Metric, NoData, Phase};
use windlass_manifest::expression::{apart, line, loops, too_much};

/// The outcome of one measurement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Successful, Failed, Inconclusive, or Error for a condition that cannot be evaluated.
    pub phase: Phase,
    /// Why, where that is not plain from the value.
    pub message: String,
}

impl Verdict {
    /// A verdict that needs no words.
    pub fn plain(phase: Phase) -> Self {
        Self { phase, message: String::new() }
    }

    /// A verdict with words.
    pub fn told(phase: Phase, message: impl Into<String>) -> Self {
        Self { phase, message: message.into() }
    }
}

/// Judges a value by the conditions of its metric.
///
/// `own` is the verdict of a provider that comes to one by itself; it counts when the metric has no condition. A value
/// that is no data (see [`is_no_data`]) is judged by `noData`; without that policy it is inconclusive, unless a condition
/// looks for missing data itself.
pub fn judge(metric: &Metric, result: &Sample, own: Option<Verdict>) -> Verdict {
    let (success, failure) =
        (text(metric.success_condition.as_ref()), text(metric.failure_condition.as_ref()));
    let expects_none = [success, failure].into_iter().flatten().any(looks_for_missing_data);
    if is_no_data(result) && (metric.no_data.is_some() || !expects_none) {
        return no_data(metric.no_data.unwrap_or(NoData::Inconclusive));
    }
    let holds = |name: &str, condition: Option<&str>| match condition {
        None => Ok(None),
        Some(condition) => holds(condition, result).map(Some).map_err(|what| {
            Verdict::told(
                Phase::Error,
                format!(
                    "The {name} `{}` {what}. Conditions are CEL over result, such as result[0] >= 0.95",
                    shown(condition)
                ),
            )
        }),
    };
    let outcome =
        holds("successCondition", success).and_then(|good| Ok((good, holds("failureCondition", failure)?)));
    match outcome {
        Err(verdict) => verdict,
        Ok((None, None)) => own.unwrap_or_else(|| Verdict::plain(Phase::Successful)),
        Ok((good, bad)) => {
            let bad_or_not_good = bad.unwrap_or_else(|| !good.unwrap_or(true));
            let good_or_not_bad = good.unwrap_or_else(|| !bad.unwrap_or(false));
            Verdict::plain(match (bad_or_not_good, good_or_not_bad) {
                (true, _) => Phase::Failed,
                (false, true) => Phase::Successful,
                (false, false) => Phase::Inconclusive,
            })
        }
    }
}

/// Whether a condition can be read. The error completes a sentence about it.
pub fn check(condition: &str) -> Result<(), String> {
    bounded(condition)?;
    apart(|| read(condition).map(|_| ()))
}

/// A condition in plain CEL, where it has words of Argo Rollouts' language; the same text where it has none. The error
/// completes a sentence about it.
pub fn in_cel(condition: &str) -> Result<String, String> {
    bounded(condition)?;
    words::cel(condition)
}

/// What a provider found: JSON, or numbers as they are, since JSON has no `NaN` and no infinity.
#[derive(Clone, Debug, PartialEq)]
pub enum Sample {
    /// One number.
    Number(f64),
    /// Some numbers.
    Numbers(Vec<f64>),
    /// Anything else.
    Json(Value),
}

impl Sample {
    /// As the status shows it.
    pub fn shown(&self) -> String {
        let number = |number: &f64| match number {
            number if number.is_nan() => "NaN".to_owned(),
            number if number.is_infinite() => if *number > 0.0 { "+Inf" } else { "-Inf" }.to_owned(),
            number => number.to_string(),
        };
        match self {
            Self::Number(value) => number(value),
            Self::Numbers(values) => format!("[{}]", values.iter().map(number).collect::<Vec<_>>().join(",")),
            Self::Json(Value::String(text)) => text.clone(),
            Self::Json(value) => value.to_string(),
        }
    }

    fn cel(&self) -> Cel {
        match self {
            Self::Number(number) => Cel::Float(*number),
            Self::Numbers(numbers) => Cel::from(numbers.iter().copied().map(Cel::Float).collect::<Vec<_>>()),
            Self::Json(json) => floats(json),
        }
    }
}

/// Nothing, an empty list, or numbers of which one is not a number.
pub fn is_no_data(result: &Sample) -> bool {
    match result {
        Sample::Number(number) => number.is_nan(),
        Sample::Numbers(numbers) => numbers.is_empty() || numbers.iter().any(|number| number.is_nan()),
        Sample::Json(Value::Null) => true,
        Sample::Json(Value::Array(items)) => items.is_empty() || items.iter().any(Value::is_null),
        Sample::Json(Value::String(text)) => {
            text.trim().is_empty() || text.trim().eq_ignore_ascii_case("nan")
        }
        Sample::Json(_) => false,
    }
}

/// The verdict on a measurement without data.
pub fn no_data(policy: NoData) -> Verdict {
    let phase = match policy {
        NoData::Inconclusive => Phase::Inconclusive,
        NoData::Success => Phase::Successful,
        NoData::Failure => Phase::Failed,
    };
    Verdict::told(
        phase,
        "No data: the answer is empty or not a number. Check the query, or say with noData what that means",
    )
}

fn text(condition: Option<&String>) -> Option<&str> {
    condition.map(|condition| condition.trim()).filter(|condition| !condition.is_empty())
}

/// Whether a condition has a word for missing data, so that it is to be asked also without any.
fn looks_for_missing_data(condition: &str) -> bool {
    condition
        .split(|c: char| !c.is_alphanumeric() && c != '_')
        .any(|word| matches!(word, "len" | "size" | "isNaN" | "isNil" | "default" | "nil" | "null"))
}

fn bounded(condition: &str) -> Result<(), String> {
    match too_much(condition) {
        Some(most) => Err(format!("has more than {most}")),
        None => Ok(()),
    }
}

fn holds(condition: &str, result: &Sample) -> Result<bool, String> {
    bounded(condition)?;
    apart(|| {
        let parsed = read(condition)?;
        let mut context = Context::default();
        context.add_variable_from_value("result", result.cel());
        helpers(&mut context).map_err(|error| format!("cannot be evaluated: {}", line(&error)))?;
        match Cel::resolve(&parsed, &context) {
            Ok(Cel::Bool(holds)) => Ok(holds),
            Ok(other) => Err(format!("gives a {} instead of true or false", other.type_of())),
            Err(error) => Err(format!("fails: {}", explain(&error))),
        }
    })
}

fn read(condition: &str) -> Result<cel::common::ast::IdedExpr, String> {
    let written = words::cel(condition)?;
    let mut parsed =
        Parser::new().parse(&written).map_err(|error| format!("cannot be read: {}", line(&error)))?;
    if loops(&parsed) > 1 {
        return Err("has a loop within a loop".to_owned());
    }
    coerce::numbers(&mut parsed);
    Ok(parsed)
}

/// Errors that quote values are told without them: a value can be long, and a web answer can hold anything.
fn explain(error: &ExecutionError) -> String {
    match error {
        ExecutionError::UndeclaredReference(name) => {
            format!("{name} is not known; use result, len, isNaN, isInf, isNil, default, asInt and asFloat")
        }
        ExecutionError::NoSuchKey(key) => format!("the result has no field {key}"),
        ExecutionError::FunctionError { function, message } => line(&format!("{function}: {message}")),
        ExecutionError::IndexOutOfBounds(_) => {
            "the result has fewer values than the condition asks for".to_owned()
        }
        _ => "the result is not of the kind that the condition asks for".to_owned(),
    }
}

fn shown(condition: &str) -> String {
    condition.chars().take(200).collect()
}

/// JSON for a condition: all numbers are floating point, as in the answers of Prometheus.
fn floats(json: &Value) -> Cel {
    match json {
        Value::Null => Cel::Null,
        Value::Bool(flag) => Cel::Bool(*flag),
        Value::Number(number) => number.as_f64().map_or(Cel::Null, Cel::Float),
        Value::String(text) => Cel::from(text.as_str()),
        Value::Array(items) => Cel::from(items.iter().map(floats).collect::<Vec<_>>()),
        Value::Object(fields) => Cel::from(
            fields.iter().map(|(name, field)| (name.clone(), floats(field))).collect::<HashMap<_, _>>(),
        ),
    }
}

fn helpers(context: &mut Context) -> Result<(), cel::DeclarationError> {
    context.add_function("len", length)?;
    context.add_function("isNaN", |value: Cel| as_float(value).map(|number| Cel::Bool(number.is_nan())))?;
    context
        .add_function("isInf", |value: Cel| as_float(value).map(|number| Cel::Bool(number.is_infinite())))?;
    context.add_function("isNil", |value: Cel| Cel::Bool(matches!(value, Cel::Null)))?;
    context.add_function(
        "default",
        |value: Cel, other: Cel| if matches!(value, Cel::Null) { other } else { value },
    )?;
    context.add_function("asInt", |value: Cel| as_int(&value).map(Cel::Int))?;
    context.add_function("asFloat", |value: Cel| as_float(value).map(Cel::Float))?;
    Ok(())
}

#[allow(clippy::needless_pass_by_value, reason = "the engine hands values over")]
fn length(value: Cel) -> Result<Cel, ExecutionError> {
    let length = match &value {
        Cel::List(items) => items.len(),
        Cel::Map(fields) => fields.map.len(),
        Cel::String(text) => text.chars().count(),
        Cel::Null => 0,
        _ => return Err(ExecutionError::function_error("len", "takes a list, a map or a text")),
    };
    Ok(Cel::Int(i64::try_from(length).unwrap_or(i64::MAX)))
}

#[allow(clippy::cast_possible_truncation, reason = "that is what asInt is for; the cast saturates")]
fn as_int(value: &Cel) -> Result<i64, ExecutionError> {
    let wrong =
        || ExecutionError::function_error("asInt", "takes a number, or a text that is a whole number");
    match value {
        Cel::Int(number) => Ok(*number),
        Cel::UInt(number) => i64::try_from(*number).map_err(|_| wrong()),
        Cel::Float(number) if number.is_finite() => Ok(*number as i64),
        Cel::String(text) => text.trim().parse().map_err(|_| wrong()),
        _ => Err(wrong()),
    }
}

#[allow(clippy::cast_precision_loss, reason = "that is what asFloat is for")]
#[allow(clippy::needless_pass_by_value, reason = "the engine hands values over")]
fn as_float(value: Cel) -> Result<f64, ExecutionError> {
    let wrong = || ExecutionError::function_error("asFloat", "takes a number, or a text that is a number");
    match &value {
        Cel::Int(number) => Ok(*number as f64),
        Cel::UInt(number) => Ok(*number as f64),
        Cel::Float(number) => Ok(*number),
        Cel::String(text) => text.trim().parse().map_err(|_| wrong()),
        _ => Err(wrong()),
    }
}
