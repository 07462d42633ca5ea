//! Whether an Application is ready, by an expression of who needs it.

use cel::{Context, Value as Cel, parser::Parser};
use serde_json::Value;
use windlass_manifest::expression::{apart, line, loops, too_much, value};

use super::DEPENDENCY_NOT_READY;
use crate::trouble::Trouble;

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
    apart(|| evaluate(expression, app)).map_err(wrong)
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
