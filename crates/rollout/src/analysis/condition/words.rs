//! What people who come from Argo Rollouts write, in CEL's words.
//!
//! Its conditions are in another language with the same looks. What has an equal in CEL is written so; what has none is
//! an error that says what to write instead.

/// The smallest pieces of an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    /// A name or a number.
    Word(String),
    /// A text in quotes, with them.
    Text(String),
    /// An operator or a bracket.
    Sign(&'static str),
}

const SIGNS: [&str; 33] = [
    "==", "!=", "<=", ">=", "&&", "||", "??", "?.", "**", "..", "(", ")", "[", "]", "{", "}", ",", ".", ":",
    "?", "+", "-", "*", "/", "%", "<", ">", "!", "#", "|", "^", "=", ";",
];

/// The expression in CEL. It is left as it is when nothing in it needs another word.
pub(super) fn cel(expression: &str) -> Result<String, String> {
    let Some(tokens) = tokens(expression) else { return Ok(expression.to_owned()) };
    if !tokens.iter().any(is_foreign) {
        return Ok(expression.to_owned());
    }
    let mut out = Vec::new();
    rewrite(&tokens, None, &mut out)?;
    Ok(written(&out))
}

/// The pieces with spaces where people put them.
fn written(pieces: &[String]) -> String {
    let mut text = String::new();
    let mut before = "";
    for piece in pieces {
        let joins = matches!(before, "" | "(" | "[" | "." | "?." | "!")
            || matches!(piece.as_str(), ")" | "]" | "," | "." | "?.")
            || matches!(piece.as_str(), "(" | "[") && before != "in" && ends_a_value(before);
        if !joins {
            text.push(' ');
        }
        text.push_str(piece);
        before = piece;
    }
    text
}

fn ends_a_value(piece: &str) -> bool {
    piece.ends_with(|last: char| last.is_alphanumeric() || matches!(last, '_' | ')' | ']'))
}

fn is_foreign(token: &Token) -> bool {
    match token {
        Token::Word(word) => {
            matches!(
                word.as_str(),
                "nil"
                    | "and"
                    | "or"
                    | "not"
                    | "contains"
                    | "startsWith"
                    | "endsWith"
                    | "matches"
                    | "any"
                    | "none"
                    | "one"
                    | "count"
                    | "all"
                    | "filter"
                    | "map"
            )
        }
        Token::Text(text) => text.starts_with('`'),
        Token::Sign(sign) => matches!(*sign, "#" | "??" | "**" | "^" | "|" | ".."),
    }
}

/// `None` when there is something that this does not know: CEL's reader has the word then.
fn tokens(expression: &str) -> Option<Vec<Token>> {
    let mut tokens = Vec::new();
    let mut rest = expression.trim_start();
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '"' | '\'' | '`' => text_length(rest, first)?,
            c if c.is_ascii_digit() => number_length(rest),
            c if c.is_alphabetic() || c == '_' => {
                rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len())
            }
            _ => 0,
        };
        let token = if length == 0 {
            Token::Sign(SIGNS.into_iter().find(|sign| rest.starts_with(sign))?)
        } else if matches!(first, '"' | '\'' | '`') {
            Token::Text(rest[..length].to_owned())
        } else {
            Token::Word(rest[..length].to_owned())
        };
        let length = if let Token::Sign(sign) = &token { sign.len() } else { length };
        tokens.push(token);
        rest = rest[length..].trim_start();
    }
    Some(tokens)
}

fn text_length(rest: &str, quote: char) -> Option<usize> {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' if quote != '`' => escaped = true,
            c if c == quote => return Some(at + 1),
            _ => {}
        }
    }
    None
}

/// A number with fraction and exponent. A dot that no digit follows is not a part of it.
fn number_length(rest: &str) -> usize {
    let bytes = rest.as_bytes();
    let digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let mut at = 0;
    while at < bytes.len() {
        let goes_on = match bytes[at] {
            b'.' => digit(at + 1),
            b'+' | b'-' => matches!(bytes[at - 1], b'e' | b'E') && digit(at + 1),
            byte => byte.is_ascii_alphanumeric() || byte == b'_',
        };
        if !goes_on {
            break;
        }
        at += 1;
    }
    at
}

/// Writes tokens in CEL. `it` is the name of what a loop is at.
fn rewrite(tokens: &[Token], it: Option<&str>, out: &mut Vec<String>) -> Result<(), String> {
    let mut at = 0;
    while at < tokens.len() {
        let member = at > 0 && matches!(tokens[at - 1], Token::Sign("." | "?."));
        match &tokens[at] {
            Token::Word(word) if !member => at = write_word(word, tokens, at, it, out)?,
            Token::Word(word) => out.push(word.clone()),
            Token::Text(text) => out.push(quoted(text)),
            Token::Sign("#") => out.push(it.ok_or("has a # outside of a loop")?.to_owned()),
            Token::Sign(sign @ ("??" | "**" | "^" | "|" | "..")) => return Err(foreign(sign)),
            // Within a loop, `.name` is short for `#.name`.
            Token::Sign(".") if starts_operand(tokens, at) => {
                out.push(it.ok_or("begins with a dot")?.to_owned());
                out.push(".".to_owned());
            }
            Token::Sign(sign) => out.push((*sign).to_owned()),
        }
        at += 1;
    }
    Ok(())
}

/// Writes a name, with what belongs to it, and says where the last token of it is.
fn write_word(
    word: &str,
    tokens: &[Token],
    at: usize,
    it: Option<&str>,
    out: &mut Vec<String>,
) -> Result<usize, String> {
    let called = tokens.get(at + 1) == Some(&Token::Sign("("));
    match word {
        "nil" => out.push("null".to_owned()),
        "and" => out.push("&&".to_owned()),
        "or" => out.push("||".to_owned()),
        "not" => out.push("!".to_owned()),
        "contains" | "startsWith" | "endsWith" | "matches" if !called => {
            let end = operand_end(tokens, at + 1).ok_or_else(|| format!("has nothing after {word}"))?;
            out.extend([".", word, "("].map(ToOwned::to_owned));
            rewrite(&tokens[at + 1..end], it, out)?;
            out.push(")".to_owned());
            return Ok(end - 1);
        }
        "all" | "any" | "none" | "one" | "count" | "filter" | "map" if called => {
            return write_loop(word, tokens, at, it, out);
        }
        _ => out.push(word.to_owned()),
    }
    Ok(at)
}

/// Writes `all(list, {# > 1})` as `(list).all(it, it > 1)`.
fn write_loop(
    word: &str,
    tokens: &[Token],
    at: usize,
    it: Option<&str>,
    out: &mut Vec<String>,
) -> Result<usize, String> {
    let end = closing(tokens, at + 1).ok_or("has a bracket that is not closed")?;
    let inner = &tokens[at + 2..end];
    let comma = top_level_comma(inner).ok_or_else(|| format!("has {word} without a condition"))?;
    let (list, mut body) = (&inner[..comma], &inner[comma + 1..]);
    if body.first() == Some(&Token::Sign("{")) && body.last() == Some(&Token::Sign("}")) {
        body = &body[1..body.len() - 1];
    }
    let name = if it.is_some() { "it2" } else { "it" };
    let call = match word {
        "any" | "none" => "exists",
        "one" => "exists_one",
        "count" => "filter",
        same => same,
    };
    out.extend(match word {
        "none" => vec!["!".to_owned()],
        "count" => vec!["size".to_owned(), "(".to_owned()],
        _ => vec![],
    });
    out.push("(".to_owned());
    rewrite(list, it, out)?;
    out.extend([")", ".", call, "(", name, ","].map(ToOwned::to_owned));
    rewrite(body, Some(name), out)?;
    out.push(")".to_owned());
    if word == "count" {
        out.push(")".to_owned());
    }
    Ok(end)
}

/// Where the bracket that opens at `open` is closed.
fn closing(tokens: &[Token], open: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match token {
            Token::Sign("(" | "[" | "{") => depth += 1,
            Token::Sign(")" | "]" | "}") => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}

fn top_level_comma(tokens: &[Token]) -> Option<usize> {
    let mut depth = 0_i32;
    tokens.iter().position(|token| {
        match token {
            Token::Sign("(" | "[" | "{") => depth += 1,
            Token::Sign(")" | "]" | "}") => depth -= 1,
            _ => {}
        }
        depth == 0 && *token == Token::Sign(",")
    })
}

/// Where the operand that starts at `at` ends: a text, a number, or a name with its fields, indexes and calls.
fn operand_end(tokens: &[Token], at: usize) -> Option<usize> {
    let mut end = match tokens.get(at)? {
        Token::Sign("(") => closing(tokens, at)? + 1,
        Token::Sign("#") | Token::Word(_) | Token::Text(_) => at + 1,
        Token::Sign(_) => return None,
    };
    loop {
        end = match tokens.get(end) {
            Some(Token::Sign(".")) => end + 2,
            Some(Token::Sign("[" | "(")) => closing(tokens, end)? + 1,
            _ => return (end <= tokens.len()).then_some(end),
        };
    }
}

fn starts_operand(tokens: &[Token], at: usize) -> bool {
    match at.checked_sub(1).map(|before| &tokens[before]) {
        None => true,
        Some(Token::Word(_) | Token::Text(_)) => false,
        Some(Token::Sign(sign)) => !matches!(*sign, ")" | "]" | "}" | "#"),
    }
}

/// A text in backticks has no escapes: it is written with quotes and escapes instead.
fn quoted(text: &str) -> String {
    match text.strip_prefix('`').and_then(|text| text.strip_suffix('`')) {
        Some(raw) => format!("{raw:?}"),
        None => text.to_owned(),
    }
}

fn foreign(sign: &str) -> String {
    let instead = match sign {
        "??" => "write default(a, b) for a ?? b",
        "|" => "write f(a) for a | f()",
        ".." => "write a >= 1 && a <= 3 for a in 1..3",
        _ => "CEL has no power: write a * a",
    };
    format!("has {sign}, which CEL has not: {instead}")
}
