//! Planted secrets: they may be read, and never come out anywhere.

use anyhow::bail;
use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::Value;

use crate::sim::{world::World, writes::Write};

/// Secrets that a scenario has planted (in Secret objects, in a kubeconfig, in an URL), to be found nowhere else.
#[derive(Clone, Debug, Default)]
pub struct Secrets {
    needles: Vec<String>,
}

impl Secrets {
    /// Plants these. Base64, URL-encoded and JSON-escaped forms are looked for as well.
    #[must_use]
    pub fn planted<'a>(secrets: impl IntoIterator<Item = &'a str>) -> Self {
        let mut needles = Vec::new();
        for secret in secrets {
            let escaped = Value::from(secret).to_string();
            let forms = [
                secret.to_owned(),
                // The tail of a base64 text depends on what follows; its stem does not.
                stem(&STANDARD.encode(secret)).to_owned(),
                percent(secret),
                escaped.trim_matches('"').to_owned(),
            ];
            for form in forms {
                if form.len() >= 4 && !needles.contains(&form) {
                    needles.push(form);
                }
            }
        }
        Self { needles }
    }

    /// Whether a text contains one.
    pub fn found_in(&self, text: &str) -> bool {
        self.needles.iter().any(|needle| text.contains(needle.as_str()))
    }

    /// Looks through everything that instances wrote (objects, status, Events, annotations, queries) and logged,
    /// and through further texts: metrics, error messages, commits. `meant` names writes that are allowed to
    /// carry a secret, such as one to a Secret object.
    ///
    /// # Errors
    /// Says where, without repeating the secret.
    pub fn nowhere(
        &self,
        world: &World,
        further: &[(&str, &str)],
        meant: impl Fn(&Write) -> bool,
    ) -> anyhow::Result<()> {
        for write in world.instance_writes() {
            let text = format!("{} {}", write.call.target, write.call.body);
            if self.found_in(&text) && !meant(&write) {
                bail!("a planted secret is in a write: {}", write.line());
            }
        }
        if let Some(line) = world.logs().iter().find(|line| self.found_in(line)) {
            let target: Vec<&str> = line.split(' ').take(2).collect();
            bail!("a planted secret is in the log, in a line of {}", target.join(" "));
        }
        for (name, text) in further {
            if self.found_in(text) {
                bail!("a planted secret is in {name}");
            }
        }
        Ok(())
    }
}

fn stem(text: &str) -> &str {
    let text = text.trim_end_matches('=');
    text.get(..text.len().saturating_sub(1)).unwrap_or(text)
}

fn percent(text: &str) -> String {
    text.bytes()
        .map(|byte| {
            if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
                char::from(byte).to_string()
            } else {
                format!("%{byte:02X}")
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_every_form() {
        let secrets = Secrets::planted(["hunter2/\"x\""]);
        for text in [
            "a hunter2/\"x\" b",
            "url=hunter2%2F%22x%22",
            &STANDARD.encode("hunter2/\"x\""),
            r#"{"a":"hunter2/\"x\""}"#,
        ] {
            assert!(secrets.found_in(text), "{text}");
        }
        assert!(!secrets.found_in("hunter3"));
    }
}
