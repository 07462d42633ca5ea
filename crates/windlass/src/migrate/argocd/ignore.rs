//! Differences that Argo CD ignores.

use windlass_api::application::sync::IgnoreDifference;

use crate::migrate::{fields::Fields, report::Report};

/// Entries that say something here too; the rest is told.
pub(super) fn read(spec: &mut Fields, report: &mut Report) -> Vec<IgnoreDifference> {
    let parts = spec.parts("ignoreDifferences", report);
    parts.into_iter().filter_map(|part| entry(part, report)).collect()
}

fn entry(mut part: Fields, report: &mut Report) -> Option<IgnoreDifference> {
    let mut json_pointers = part.texts("jsonPointers", report);
    for expression in part.texts("jqPathExpressions", report) {
        match pointer(&expression) {
            Some(pointer) => json_pointers.push(pointer),
            None => report.left(
                part.at("jqPathExpressions"),
                format!("{expression} is more than a path"),
                "Name the fields in jsonPointers, or the manager that writes them in managers",
            ),
        }
    }
    let entry = IgnoreDifference {
        group: part.text("group", report),
        kind: part.text("kind", report).unwrap_or_default(),
        name: part.text("name", report),
        namespace: part.text("namespace", report),
        json_pointers,
        managers: part.texts("managedFieldsManagers", report),
    };
    let path = part.at("kind");
    part.finish(report);
    if entry.kind.is_empty() {
        report.left(path, "is missing: the entry was not carried over", "Correct the object");
        return None;
    }
    (!entry.json_pointers.is_empty() || !entry.managers.is_empty()).then_some(entry)
}

/// A jq expression that is only a path, as a JSON pointer: `.spec.x[0]["a/b"]`.
fn pointer(expression: &str) -> Option<String> {
    let mut rest = expression.trim();
    let mut pointer = String::new();
    while !rest.is_empty() {
        let (segment, tail) = segment(rest)?;
        pointer.push('/');
        pointer.push_str(&segment.replace('~', "~0").replace('/', "~1"));
        rest = tail;
    }
    (!pointer.is_empty()).then_some(pointer)
}

fn segment(text: &str) -> Option<(String, &str)> {
    let text = match text.strip_prefix('.') {
        Some(rest) if rest.starts_with('[') => rest,
        Some(rest) if rest.starts_with('"') => return quoted(rest),
        Some(rest) => {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
            let (name, tail) = rest.split_at(end);
            let good = !name.is_empty() && !name.starts_with(|c: char| c.is_ascii_digit());
            return good.then(|| (name.to_owned(), tail));
        }
        None => text,
    };
    let inner = text.strip_prefix('[')?;
    if inner.starts_with('"') {
        let (name, tail) = quoted(inner)?;
        return Some((name, tail.strip_prefix(']')?));
    }
    let (number, tail) = inner.split_once(']')?;
    number.parse::<usize>().ok().map(|number| (number.to_string(), tail))
}

fn quoted(text: &str) -> Option<(String, &str)> {
    let inner = text.strip_prefix('"')?;
    let end = inner.find('"')?;
    let (name, tail) = inner.split_at(end);
    // Escapes are rare in field names; an expression with one is told instead of guessed at.
    (!name.contains('\\')).then(|| (name.to_owned(), &tail[1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_paths_of_jq_become_pointers_and_others_are_told() {
        for (expression, expected) in [
            (".spec.replicas", Some("/spec/replicas")),
            (".spec.containers[0].image", Some("/spec/containers/0/image")),
            (r#".metadata.annotations["a.example/b"]"#, Some("/metadata/annotations/a.example~1b")),
            (r#".data."config.yaml""#, Some("/data/config.yaml")),
            (r#".["data"]"#, Some("/data")),
            (".spec.containers[].image", None),
            (".spec.x | select(.y)", None),
            (".", None),
            ("", None),
            ("spec", None),
            (".a[", None),
            (r#".a["b"#, None),
        ] {
            assert_eq!(pointer(expression).as_deref(), expected, "{expression}");
        }
    }
}
