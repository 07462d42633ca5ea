//! The config file: YAML, one level, the settings by their names.

use std::path::Path;

use serde_json::Value;

use super::Layer;
use crate::{cli, error::CommandError, suggest};

const HINT: &str = "`windlass controller --print-config` prints every key with its value.";

/// Reads a file.
pub(super) fn read(path: &Path) -> Result<Layer, CommandError> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        CommandError::usage(format!("cannot read the config file {}", path.display()))
            .because(error)
            .hint("Name it with --config or WINDLASS_CONFIG; without either there is no config file.")
    })?;
    parse(&text, &path.display().to_string())
}

fn parse(text: &str, name: &str) -> Result<Layer, CommandError> {
    let wrong = |error: serde_saphyr::Error| {
        CommandError::usage(format!("the config file {name} is not as expected")).because(error).hint(HINT)
    };
    // Once as it comes: serde stops at the first unknown key and cannot tell which one was meant.
    match serde_saphyr::from_str::<Value>(text).map_err(wrong)? {
        Value::Null => return Ok(Layer::default()),
        Value::Object(map) => known_keys_only(map.keys(), name)?,
        _ => {
            return Err(
                CommandError::usage(format!("the config file {name} is not a map of settings")).hint(HINT)
            );
        }
    }
    serde_saphyr::from_str(text).map_err(wrong)
}

fn known_keys_only<'a>(keys: impl Iterator<Item = &'a String>, name: &str) -> Result<(), CommandError> {
    let known = cli::setting_keys();
    let unknown: Vec<&str> =
        keys.map(String::as_str).filter(|key| !known.iter().any(|known| known == key)).collect();
    if unknown.is_empty() {
        return Ok(());
    }
    let quoted: Vec<String> = unknown.iter().map(|key| format!("`{key}`")).collect();
    let what = if unknown.len() == 1 { "an unknown key" } else { "unknown keys" };
    let mut error = CommandError::usage(format!("the config file {name} has {what}: {}", quoted.join(", ")));
    for key in unknown {
        if let Some(meant) = suggest::nearest(key, known.iter().map(String::as_str)) {
            error = error.hint(format!("Did you mean `{meant}` instead of `{key}`?"));
        }
    }
    Err(error.hint(HINT))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::Paint;

    fn refused(text: &str) -> String {
        parse(text, "windlass.yaml").unwrap_err().render(Paint::plain())
    }

    #[test]
    fn an_unknown_key_is_named_with_the_one_that_was_meant() {
        insta::assert_snapshot!(refused("leaderElection: true\nworkers: 4\nreplicas: 3\n"), @r"
        error: the config file windlass.yaml has unknown keys: `leaderElection`, `replicas`
        hint: Did you mean `leaderElect` instead of `leaderElection`?
        hint: `windlass controller --print-config` prints every key with its value.
        ");
    }

    #[test]
    fn a_wrong_value_is_told_with_its_place() {
        let told = refused("leaderElect: true\nresync: soon\n");
        assert!(told.contains("`soon` is not a duration"), "{told}");
        assert!(told.contains('2'), "the line is named: {told}");
    }

    #[test]
    fn what_is_no_map_is_refused_and_nothing_is_allowed() {
        assert!(refused("- a\n- b\n").contains("not a map of settings"));
        assert!(refused("a: [").contains("not as expected"));
        assert!(parse("", "windlass.yaml").unwrap().workers.is_none());
        assert!(parse("# nothing\n", "windlass.yaml").unwrap().workers.is_none());
    }

    #[test]
    fn lists_and_values_are_read() {
        let layer = parse("secretNamespaces: [a, b]\nhttpAddress: ':9000'\nlogFormat: text\n", "x").unwrap();
        assert_eq!(layer.secret_namespaces.unwrap(), ["a", "b"]);
        assert_eq!(layer.http_address.unwrap().to_string(), ":9000");
    }
}
