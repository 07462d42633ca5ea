//! Quantities: `500m`, `1.5Gi`, `1e3`.

use serde_json::Value;

/// Digits after the point that the API server keeps; what is finer is rounded up.
const SCALE: u32 = 9;

/// Whether two values amount to the same. Values that are no quantities do not.
pub(super) fn same(a: &Value, b: &Value) -> bool {
    matches!((nano(a), nano(b)), (Some(a), Some(b)) if a == b)
}

/// What a quantity amounts to, in billionths; `None` for anything else, and for what is beyond all bounds.
pub(super) fn nano(value: &Value) -> Option<i128> {
    match value {
        Value::String(text) => parse(text),
        Value::Number(number) => parse(&number.to_string()),
        _ => None,
    }
}

fn parse(text: &str) -> Option<i128> {
    let (negative, text) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) {
        return None;
    }
    let fraction = fraction.trim_end_matches('0');
    let mut amount: i128 = 0;
    for digit in whole.bytes().chain(fraction.bytes()) {
        amount = amount.checked_mul(10)?.checked_add(i128::from(digit - b'0'))?;
    }
    let (binary, decimal) = scale(suffix)?;
    let exponent = decimal + i32::try_from(SCALE).ok()? - i32::try_from(fraction.len()).ok()?;
    amount = amount.checked_mul(1i128.checked_shl(binary)?)?;
    amount = if exponent >= 0 {
        amount.checked_mul(10i128.checked_pow(exponent.unsigned_abs())?)?
    } else {
        let divisor = 10i128.checked_pow(exponent.unsigned_abs())?;
        amount.checked_add(divisor - 1)? / divisor
    };
    Some(if negative { -amount } else { amount })
}

/// Powers of two and of ten that a suffix stands for.
fn scale(suffix: &str) -> Option<(u32, i32)> {
    Some(match suffix {
        "" => (0, 0),
        "n" => (0, -9),
        "u" => (0, -6),
        "m" => (0, -3),
        "k" => (0, 3),
        "M" => (0, 6),
        "G" => (0, 9),
        "T" => (0, 12),
        "P" => (0, 15),
        "E" => (0, 18),
        "Ki" => (10, 0),
        "Mi" => (20, 0),
        "Gi" => (30, 0),
        "Ti" => (40, 0),
        "Pi" => (50, 0),
        "Ei" => (60, 0),
        _ => {
            let exponent = suffix.strip_prefix(['e', 'E'])?;
            let exponent: i32 = exponent.strip_prefix('+').unwrap_or(exponent).parse().ok()?;
            (0, (-40..=40).contains(&exponent).then_some(exponent)?)
        }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn quantities_are_equal_by_what_they_amount_to() {
        for (a, b) in [
            (json!("1000m"), json!("1")),
            (json!("0.5"), json!("500m")),
            (json!(1), json!("1")),
            (json!(0.5), json!("500m")),
            (json!("1Gi"), json!("1024Mi")),
            (json!("1.5Gi"), json!("1536Mi")),
            (json!("1e3"), json!("1k")),
            (json!("1E3"), json!("1000")),
            (json!("1E"), json!("1000P")),
            (json!("+1"), json!("1.0")),
            (json!(".5"), json!("0.50")),
            (json!("5."), json!("5")),
            (json!("-1500m"), json!("-1.5")),
            (json!("100n"), json!("0.1u")),
            (json!("0"), json!("0m")),
            (json!("0.1n"), json!("1n")),
            (json!("9223372036854775807"), json!(9_223_372_036_854_775_807_i64)),
        ] {
            assert!(same(&a, &b), "{a} {b}");
        }
        for (a, b) in [
            (json!("1"), json!("1Ki")),
            (json!("1m"), json!("1M")),
            (json!("1"), json!("-1")),
            (json!("a"), json!("a")),
            (json!(""), json!("")),
            (json!("1.2.3"), json!("1.2.3")),
            (json!("1 Gi"), json!("1Gi")),
            (json!("1e99"), json!("1e99")),
            (json!("ä"), json!("1")),
            (json!("."), json!("0")),
            (json!(true), json!(true)),
        ] {
            assert!(!same(&a, &b), "{a} {b}");
        }
    }
}
