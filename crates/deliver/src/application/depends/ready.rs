//! Whether an Application is ready, by an expression of who needs it.

use std::collections::HashMap;

use cel::{
    Context, Value as Cel,
    common::ast::{EntryExpr, Expr, IdedExpr},
    parser::Parser,
};
use serde_json::Value;

use super::DEPENDENCY_NOT_READY;
use crate::{expression::too_much, trouble::Trouble};

/// Stack for an expression within the limits below, with plenty to spare also in a build without optimisation.
const STACK: usize = 32 << 20;

/// The only variable of an expression.
const VARIABLE: &str = "app";

/// Whether an expression holds for an Application, which it knows as `app`.
///
/// An expression that cannot be read, that stumbles, or that gives anything but a truth value is trouble, and whoever
/// asks takes it as not ready. Loops within loops are refused: a list of a status can be long, and a tenant's
/// expression must not keep the controller busy.
pub fn is_ready(expression: &str, app: &Value) -> Result<bool, Trouble> {
    let wrong = |what: String| {
        Trouble::standing(
            DEPENDENCY_NOT_READY,
            format!("The expression {expression:?} {what}"),
            "Write a CEL expression over app that is true or false, such as app.status.phase == \"Healthy\"",
        )
    };
    if let Some(most) = too_much(expression) {
        return Err(Trouble { what: format!("The expression has more than {most}"), ..wrong(String::new()) });
    }
    // A thread of its own has the stack that the reader wants, and if the engine gave up in there, it would be the end
    // of that thread only.
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK);
        let thread = thread.spawn_scoped(scope, || evaluate(expression, app));
        let thread = thread.map_err(|error| wrong(format!("cannot be evaluated: {error}")))?;
        thread.join().unwrap_or_else(|_| Err("is too much for the engine".to_owned())).map_err(wrong)
    })
}

/// Reads and evaluates; the error completes a sentence about the expression.
fn evaluate(expression: &str, app: &Value) -> Result<bool, String> {
    let parsed =
        Parser::new().parse(expression).map_err(|error| format!("cannot be read: {}", line(&error)))?;
    if loops(&parsed) > 1 {
        return Err("has a loop within a loop".to_owned());
    }
    let mut context = Context::default();
    context.add_variable_from_value(VARIABLE, value(app));
    match Cel::resolve(&parsed, &context) {
        Ok(Cel::Bool(ready)) => Ok(ready),
        Ok(other) => Err(format!("gives a {} instead of true or false", other.type_of())),
        Err(error) => Err(format!("fails: {}", line(&error))),
    }
}

/// An error in one line, and not a long one.
fn line(error: &dyn std::fmt::Display) -> String {
    let text = error.to_string();
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").chars().take(200).collect()
}

/// A value of JSON for an expression: whole numbers are `int`, as people write them.
fn value(json: &Value) -> Cel {
    match json {
        Value::Null => Cel::Null,
        Value::Bool(flag) => Cel::Bool(*flag),
        Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(whole), _) => Cel::Int(whole),
            (None, Some(whole)) => Cel::UInt(whole),
            (None, None) => number.as_f64().map_or(Cel::Null, Cel::Float),
        },
        Value::String(text) => Cel::from(text.as_str()),
        Value::Array(items) => Cel::from(items.iter().map(value).collect::<Vec<_>>()),
        Value::Object(fields) => Cel::from(
            fields.iter().map(|(name, field)| (name.clone(), value(field))).collect::<HashMap<_, _>>(),
        ),
    }
}

/// How deep loops lie within each other.
fn loops(node: &IdedExpr) -> usize {
    let deepest = |parts: &mut dyn Iterator<Item = &IdedExpr>| parts.map(loops).max().unwrap_or(0);
    match &node.expr {
        Expr::Select(select) => loops(&select.operand),
        Expr::Call(call) => deepest(&mut call.target.iter().map(AsRef::as_ref).chain(&call.args)),
        Expr::Comprehension(all) => {
            let within =
                deepest(&mut [&all.accu_init, &all.loop_cond, &all.loop_step, &all.result].into_iter());
            // What a loop goes over may itself be the outcome of one: that is one after the other.
            (within + 1).max(loops(&all.iter_range))
        }
        Expr::List(list) => deepest(&mut list.elements.iter()),
        Expr::Map(map) => deepest(&mut map.entries.iter().flat_map(|entry| match &entry.expr {
            EntryExpr::MapEntry(entry) => vec![&entry.key, &entry.value],
            EntryExpr::StructField(field) => vec![&field.value],
        })),
        Expr::Struct(made) => deepest(&mut made.entries.iter().flat_map(|entry| match &entry.expr {
            EntryExpr::MapEntry(entry) => vec![&entry.key, &entry.value],
            EntryExpr::StructField(field) => vec![&field.value],
        })),
        Expr::Ident(_) | Expr::Unspecified | Expr::Literal(_) => 0,
    }
}
