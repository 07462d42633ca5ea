//! Bounds for expressions that tenants write. The engine goes down level by level on the stack, and a loop within a loop
//! over a long list takes for ever: one expression must neither end the process nor keep it busy.

use std::collections::HashMap;

use cel::{
    Value as Cel,
    common::ast::{EntryExpr, Expr, IdedExpr},
};
use serde_json::Value;

/// Opening brackets and `?` of an expression at most. The reader needs much of the stack for one within the other,
/// before it looks at its own limit. All of them are counted, also those in texts and side by side, so that nothing
/// can be hidden from the count.
pub const MOST_BRACKETS: usize = 20;

/// Signs (dots, brackets, operators) of an expression at most. Each can make the parsed expression one level deeper.
/// Whoever writes by hand needs a few dozen.
pub const MOST_SIGNS: usize = 120;

/// Stack for an expression within these limits, with plenty to spare also in a build without optimisation.
const STACK: usize = 32 << 20;

/// What an expression has too much of, if it has: `20 brackets`.
pub fn too_much(expression: &str) -> Option<String> {
    let brackets = expression.chars().filter(|c| matches!(c, '(' | '[' | '{' | '?')).count();
    let signs = expression.chars().filter(|c| is_sign(*c)).count();
    if brackets > MOST_BRACKETS {
        return Some(format!("{MOST_BRACKETS} brackets"));
    }
    (signs > MOST_SIGNS).then(|| format!("{MOST_SIGNS} signs and operators"))
}

/// What can make an expression deeper. Quotes and commas cannot.
fn is_sign(c: char) -> bool {
    !c.is_alphanumeric() && !c.is_whitespace() && !matches!(c, '"' | '\'' | ',' | '_')
}

/// Evaluates on a thread of its own, which has the stack that the reader wants; if the engine gave up in there, it would
/// be the end of that thread only. An error completes a sentence about the expression.
pub fn apart<T: Send>(evaluate: impl FnOnce() -> Result<T, String> + Send) -> Result<T, String> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK);
        let thread = thread.spawn_scoped(scope, evaluate);
        let thread = thread.map_err(|error| format!("cannot be evaluated: {error}"))?;
        thread.join().unwrap_or_else(|_| Err("is too much for the engine".to_owned()))
    })
}

/// An error of the engine in one line, and not a long one.
pub fn line(error: &dyn std::fmt::Display) -> String {
    let text = error.to_string();
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").chars().take(200).collect()
}

/// A value of JSON for an expression: whole numbers are `int`, as people write them.
pub fn value(json: &Value) -> Cel {
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
pub fn loops(node: &IdedExpr) -> usize {
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
