//! Names, durations and patterns as the two worlds write them.

use std::time::Duration as StdDuration;

use windlass_api::duration::Duration;

/// Longest name of an object.
const MAX_NAME: usize = 253;
/// Longest name of a namespace.
const MAX_LABEL: usize = 63;

/// Whether this can be the name of an object.
pub(super) fn is_name(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
    let outer = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    !text.is_empty()
        && text.len() <= MAX_NAME
        && text.chars().all(inner)
        && text.starts_with(outer)
        && text.ends_with(outer)
        && !text.contains("..")
}

/// Whether this can be the name of a namespace.
pub(super) fn is_namespace(text: &str) -> bool {
    is_name(text) && text.len() <= MAX_LABEL && !text.contains('.')
}

/// The nearest text that can be the name of an object.
pub(super) fn sanitized(text: &str) -> String {
    let mut name = String::new();
    for letter in text.to_lowercase().chars() {
        let good = letter.is_ascii_lowercase() || letter.is_ascii_digit();
        match letter {
            _ if good => name.push(letter),
            '.' if !name.is_empty() && !name.ends_with(['-', '.']) => name.push('.'),
            _ if !name.is_empty() && !name.ends_with(['-', '.']) => name.push('-'),
            _ => {}
        }
        if name.len() >= MAX_NAME {
            break;
        }
    }
    let name = name.trim_end_matches(['-', '.']);
    if name.is_empty() { "unnamed".to_owned() } else { name.to_owned() }
}

/// The name itself, then `name-2`, `name-3` and so on.
pub(super) fn numbered(name: &str) -> impl Iterator<Item = String> + use<> {
    let name = name.to_owned();
    std::iter::once(name.clone()).chain((2_u32..).map(move |number| format!("{name}-{number}")))
}

/// A length of time as Go writes it (`1h30m`, `1.5s`, `100ms`); a bare number is seconds.
pub(super) fn duration(text: &str) -> Option<Duration> {
    let text = text.trim();
    if let Ok(seconds) = text.parse::<u32>() {
        return Some(Duration::from_secs(u64::from(seconds)));
    }
    let mut total = 0.0;
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, tail) = rest.split_at(end);
        let number: f64 = number.parse().ok()?;
        let end = tail.find(|c: char| c.is_ascii_digit()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(end);
        total += number
            * match unit {
                "h" => 3600.0,
                "m" => 60.0,
                "s" => 1.0,
                "ms" => 1e-3,
                "us" | "µs" | "μs" => 1e-6,
                "ns" => 1e-9,
                _ => return None,
            };
        rest = tail;
    }
    // What the schema can hold: six digits of hours.
    let most = 999_999.0 * 3600.0;
    if text.is_empty() || !(0.0..=most).contains(&total) {
        return None;
    }
    let rounded = StdDuration::try_from_secs_f64((total * 1000.0).round() / 1000.0).ok()?;
    Some(Duration(rounded))
}

/// Whether a text matches a pattern in which `*` stands for any text and `?` for any letter.
pub(super) fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(&letter) if letter == '?' || letter == text[t] => {
                p += 1;
                t += 1;
            }
            _ => match star {
                Some((at, begin)) => {
                    p = at + 1;
                    t = begin + 1;
                    star = Some((at, t));
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|letter| *letter == '*')
}

/// A folder as Windlass writes it: none for the root, without `./` and slashes around it.
pub(super) fn folder(text: Option<String>) -> Option<String> {
    let text = text?;
    let parts: Vec<&str> = text.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    if parts.is_empty() { None } else { Some(parts.join("/")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_names_that_kubernetes_takes() {
        for (text, name) in [
            ("East EU_1", "east-eu-1"),
            ("https://10.0.0.1:6443", "https-10.0.0.1-6443"),
            ("arn:aws:eks:eu-west-1:1:cluster/shop", "arn-aws-eks-eu-west-1-1-cluster-shop"),
            ("..", "unnamed"),
            ("Ünnamed", "nnamed"),
        ] {
            assert_eq!(sanitized(text), name);
            assert!(is_name(&sanitized(text)), "{text}");
        }
        assert!(is_name(&sanitized(&"x".repeat(400))));
        for bad in ["", "A", "-a", "a-", "../x", "a..b", "a/b"] {
            assert!(!is_name(bad), "{bad}");
        }
        assert!(is_namespace("shop") && !is_namespace("shop.x"));
    }

    #[test]
    fn durations_of_go_are_read() {
        for (text, short) in [
            ("5", "5s"),
            ("1h30m", "1h30m"),
            ("1.5h", "1h30m"),
            ("2m0s", "2m"),
            ("100ms", "100ms"),
            ("24h", "24h"),
        ] {
            assert_eq!(duration(text).map(|duration| duration.to_string()).as_deref(), Some(short), "{text}");
        }
        for bad in ["", "h", "1x", "-1s", "9999999h"] {
            assert_eq!(duration(bad), None, "{bad}");
        }
    }

    #[test]
    fn patterns_are_matched_as_shells_do() {
        for (pattern, text, yes) in [
            ("*", "", true),
            ("shop-*", "shop-web", true),
            ("*-prod", "shop-prod", true),
            ("a*b*c", "axxbyyc", true),
            ("a?c", "abc", true),
            ("shop", "shops", false),
            ("*x", "shop", false),
        ] {
            assert_eq!(matches(pattern, text), yes, "{pattern} {text}");
        }
    }

    #[test]
    fn folders_are_told_from_the_root() {
        let told = |text: &str| folder(Some(text.to_owned()));
        assert_eq!(told("./apps/shop/").as_deref(), Some("apps/shop"));
        assert_eq!((told("."), told("./"), told("/"), folder(None)), (None, None, None, None));
    }
}
