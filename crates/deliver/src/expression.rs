//! How much of an expression the engine is asked to read. Tenants write expressions, and the engine goes down level by
//! level on the stack: one that is too deep would end the process.

/// Opening brackets and `?` of an expression at most. The reader needs much of the stack for one within the other,
/// before it looks at its own limit. All of them are counted, also those in texts and side by side, so that nothing
/// can be hidden from the count.
pub(crate) const MOST_BRACKETS: usize = 20;

/// Signs (dots, brackets, operators) of an expression at most. Each can make the parsed expression one level deeper.
/// Whoever writes by hand needs a few dozen.
pub(crate) const MOST_SIGNS: usize = 120;

/// What an expression has too much of, if it has: `20 brackets`.
pub(crate) fn too_much(expression: &str) -> Option<String> {
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
