//! Generated Markdown.

use std::fmt::Write as _;

/// One value of a chart.
struct Value {
    path: String,
    default: String,
    description: String,
}

/// The table of a chart's values, from the comments in its values.yaml that begin with `# --`.
pub fn values_table(yaml: &str) -> String {
    let mut text = String::from("| value | default | |\n|---|---|---|\n");
    for Value { path, default, description } in values(yaml) {
        let _ = writeln!(text, "| `{path}` | `{default}` | {} |", description.replace('|', "\\|"));
    }
    text
}

fn values(yaml: &str) -> Vec<Value> {
    let mut found = Vec::new();
    let mut parents: Vec<(usize, String)> = Vec::new();
    let mut description: Option<String> = None;
    for line in yaml.lines() {
        let indent = line.len() - line.trim_start().len();
        let line = line.trim();
        if let Some(begin) = line.strip_prefix("# -- ") {
            description = Some(begin.to_owned());
        } else if let (Some(more), Some(text)) = (line.strip_prefix("# "), description.as_mut()) {
            *text = format!("{text} {more}");
        } else if let Some((key, default)) = line.split_once(':').filter(|_| !line.starts_with('#')) {
            parents.retain(|(at, _)| *at < indent);
            parents.push((indent, key.to_owned()));
            if let Some(description) = description.take() {
                let path = parents.iter().map(|(_, key)| key.as_str()).collect::<Vec<_>>().join(".");
                found.push(Value { path, default: default.trim().to_owned(), description });
            }
        }
    }
    found
}
