//! Text → objects, each once, each with a name.

use std::{collections::BTreeMap, sync::Arc};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use windlass_manifest::{
    digest,
    identity::IdentityError,
    parse::{self, Document},
};

use super::{Decrypt, Manifest, Rendered};
use crate::{object::ObjectId, trouble::Trouble};

/// Annotations that make an object a hook.
const HOOKS: [&str; 2] = ["argocd.argoproj.io/hook", "helm.sh/hook"];

/// The key that an encrypted file or object carries at its top.
const SOPS: &str = "sops";

/// What helm writes before each object.
const FROM_TEMPLATE: &str = "# Source: ";

/// An object and where it stands.
pub(super) struct Found {
    pub(super) object: Value,
    pub(super) place: Option<String>,
}

/// The objects of a file of the repository.
pub(super) fn of_file(path: &str, bytes: &[u8]) -> Result<Vec<Found>, Trouble> {
    let documents =
        parse::parse_bytes(bytes, &parse::Limits::default()).map_err(|error| invalid(path, &error))?;
    let objects = parse::objects(documents).map_err(|error| invalid(path, &error))?;
    let mut all = Vec::with_capacity(objects.len());
    for object in objects {
        let place = format!("{path}:{}", object.position.line);
        check(&object.value, &place)?;
        all.push(Found { object: object.value, place: Some(place) });
    }
    Ok(all)
}

/// The objects that a tool printed. `whose` names the tool in errors, which never quote the output.
pub(super) fn of_output(whose: &str, bytes: &[u8]) -> Result<Vec<Found>, Trouble> {
    let error = |error| invalid(&format!("the output of {whose}"), &error);
    let text = parse::text_of(bytes).map_err(error)?;
    let documents = parse::parse(text, &parse::Limits::default()).map_err(error)?;
    let places: Vec<Option<String>> = documents.iter().map(|document| template(text, document)).collect();
    let mut all = Vec::with_capacity(documents.len());
    for object in parse::objects(documents).map_err(error)? {
        let place = places.get(object.document).cloned().flatten();
        let named = place.clone().unwrap_or_else(|| format!("line {} of {whose}", object.position.line));
        check(&object.value, &named)?;
        all.push(Found { object: object.value, place });
    }
    Ok(all)
}

/// The template that an object of a chart came from, by the comment before it.
fn template(text: &str, document: &Document) -> Option<String> {
    let before = text.get(..document.range.start)?.trim_end();
    let line = before.rsplit('\n').next()?;
    line.strip_prefix(FROM_TEMPLATE).map(|path| path.trim().to_owned())
}

/// Every document is an object of Kubernetes.
fn check(object: &Value, place: &str) -> Result<(), Trouble> {
    let missing = ["apiVersion", "kind"].into_iter().find(|field| {
        object.get(*field).is_none_or(|value| value.is_null() || value.as_str().is_some_and(str::is_empty))
    });
    let Some(missing) = missing else { return Ok(()) };
    // What is encrypted as a whole has its fields encrypted, but always under the same names.
    Err(Trouble::standing(
        "NotAnObject",
        format!("{place} holds no Kubernetes object: {missing} is missing"),
        "correct the file, or leave it out with spec.source.directory.exclude",
    ))
}

fn invalid(path: &str, error: &parse::ParseError) -> Trouble {
    let reason =
        if matches!(error, parse::ParseError::NotAnObject { .. }) { "NotAnObject" } else { "InvalidYaml" };
    let remedy = if error.category() == "limit" {
        "make the file smaller"
    } else {
        "correct the file; `windlass canonical` reads it the same way"
    };
    Trouble::standing(reason, format!("{path}: {error}"), remedy)
}

/// Decrypts what is encrypted: whole objects, and files that a generator put into a Secret.
pub(super) fn decrypt(found: &mut [Found], keys: Option<&dyn Decrypt>) -> Result<(), Trouble> {
    for Found { object, place } in found {
        if object.get(SOPS).is_some_and(Value::is_object) {
            let Some(keys) = keys else { return Err(encrypted(place.as_deref())) };
            keys.decrypt_object(object)?;
        }
        if let Some(keys) = keys
            && object.get("kind").is_some_and(|kind| kind == "Secret")
            && let Some(data) = object.get_mut("data").and_then(Value::as_object_mut)
        {
            decrypt_data(data, keys)?;
        }
    }
    Ok(())
}

fn decrypt_data(data: &mut Map<String, Value>, keys: &dyn Decrypt) -> Result<(), Trouble> {
    for (name, value) in data {
        let Some(bytes) = value.as_str().and_then(|text| BASE64_STANDARD.decode(text).ok()) else { continue };
        if let Some(clear) = keys.decrypt_file(name, &bytes)? {
            *value = Value::String(BASE64_STANDARD.encode(clear));
        }
    }
    Ok(())
}

fn encrypted(place: Option<&str>) -> Trouble {
    Trouble::standing(
        "NotDecrypted",
        format!("{} is encrypted with SOPS and there are no keys", place.unwrap_or("an object")),
        "name the Secret with the age keys in spec.source.decryption",
    )
}

/// Names what a hook leaves unnamed, refuses what stands twice, and takes the digest of all.
pub(super) fn seal(found: Vec<Found>) -> Result<Rendered, Trouble> {
    let mut objects = Vec::with_capacity(found.len());
    let mut seen: BTreeMap<_, Option<String>> = BTreeMap::new();
    let mut digests = Vec::with_capacity(found.len());
    for Found { mut object, place } in found {
        let id = match ObjectId::of(&object) {
            Err(IdentityError::Generated { prefix }) if is_hook(&object) => {
                name(&mut object, &prefix);
                ObjectId::of(&object)
            }
            other => other,
        }
        .map_err(|error| nameless(&error, place.as_deref()))?;
        if let Some(first) = seen.insert(id.key(), place.clone()) {
            return Err(twice(&id, first.as_deref(), place.as_deref()));
        }
        digests.push(digest::digest(&object));
        objects.push(Manifest { id, place, object: Arc::new(object) });
    }
    digests.sort_unstable();
    let mut all = Sha256::new();
    for digest in &digests {
        all.update(digest);
    }
    Ok(Rendered { objects, digest: hex(&all.finalize()) })
}

fn is_hook(object: &Value) -> bool {
    let annotations = object.get("metadata").and_then(|metadata| metadata.get("annotations"));
    HOOKS.iter().any(|name| annotations.and_then(|all| all.get(*name)).is_some())
}

/// The same object always gets the same name, another object another one: as often as its source changes, a hook runs.
fn name(object: &mut Value, prefix: &str) {
    let digest = hex(&digest::digest(object));
    let name = format!("{prefix}{}", digest.get(..10).unwrap_or(&digest));
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("generateName");
        metadata.insert("name".to_owned(), Value::String(name));
    }
}

fn nameless(error: &IdentityError, place: Option<&str>) -> Trouble {
    let text = error.to_string();
    let (what, remedy) = text.split_once("; ").unwrap_or((&text, "correct the object"));
    let reason = match error {
        IdentityError::Generated { .. } => "NameMissing",
        IdentityError::Missing { field } if *field == "metadata.name" => "NameMissing",
        _ => "NotAnObject",
    };
    let what = match place {
        Some(place) => format!("{place}: {what}"),
        None => what.to_owned(),
    };
    Trouble::standing(reason, what, remedy)
}

fn twice(id: &ObjectId, first: Option<&str>, second: Option<&str>) -> Trouble {
    let place = |place: Option<&str>| place.unwrap_or("the output of the tool").to_owned();
    Trouble::standing(
        "DuplicateObject",
        format!("{} stands twice: at {} and at {}", id.short(), place(first), place(second)),
        "remove one of them",
    )
}

pub(super) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// About how many bytes a render takes in memory.
pub(super) fn size(rendered: &Rendered) -> usize {
    fn of(value: &Value) -> usize {
        const NODE: usize = 32;
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => NODE,
            Value::String(text) => NODE + text.len(),
            Value::Array(items) => NODE + items.iter().map(of).sum::<usize>(),
            Value::Object(fields) => {
                NODE + fields.iter().map(|(name, value)| 2 * NODE + name.len() + of(value)).sum::<usize>()
            }
        }
    }
    rendered.objects.iter().map(|manifest| 256 + of(&manifest.object)).sum::<usize>() + 256
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    fn rendered(text: &str) -> Result<Rendered, Trouble> {
        let mut found = of_file("a.yaml", text.as_bytes())?;
        decrypt(&mut found, None)?;
        seal(found)
    }

    fn map(name: &str) -> String {
        format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{ name: {name} }}\n")
    }

    #[test]
    fn bad_yaml_is_told_with_file_line_and_column() {
        let trouble = rendered("apiVersion: v1\nkind: [a\n").unwrap_err();
        assert_eq!(trouble.reason, "InvalidYaml");
        assert!(
            trouble.what.contains("a.yaml: line ") && trouble.what.contains("column "),
            "{}",
            trouble.what
        );
    }

    #[test]
    fn a_document_without_kind_is_told_with_its_line() {
        let trouble = rendered(&format!("{}---\n\n---\nname: x\n", map("a"))).unwrap_err();
        assert_eq!(trouble.reason, "NotAnObject");
        assert!(trouble.what.starts_with("a.yaml:7 "), "{}", trouble.what);
        assert_eq!(rendered("--- \n---\n").unwrap().objects.len(), 0);
        assert_eq!(rendered("just text\n").unwrap_err().reason, "NotAnObject");
    }

    #[test]
    fn an_object_that_stands_twice_is_told_with_both_places() {
        let trouble = rendered(&format!("{}---\n{}", map("a"), map("a"))).unwrap_err();
        assert_eq!(trouble.reason, "DuplicateObject");
        assert!(trouble.what.contains("a.yaml:1") && trouble.what.contains("a.yaml:5"), "{}", trouble.what);
    }

    #[test]
    fn the_digest_does_not_depend_on_the_order_of_objects() {
        let one = rendered(&format!("{}---\n{}", map("a"), map("b"))).unwrap();
        let other = rendered(&format!("{}---\n{}", map("b"), map("a"))).unwrap();
        assert_eq!(one.digest, other.digest);
        assert_eq!(one.digest.len(), 64);
        assert_ne!(one.digest, rendered(&map("a")).unwrap().digest);
    }

    #[test]
    fn a_hook_without_a_name_gets_one_that_follows_its_content() {
        let hook = |image: &str| {
            format!(
                "apiVersion: batch/v1\nkind: Job\nmetadata:\n  generateName: migrate-\n  annotations: \
                 {{ argocd.argoproj.io/hook: PreSync }}\nspec: {{ image: {image} }}\n"
            )
        };
        let name = |text: &str| rendered(text).unwrap().objects[0].id.name.clone();
        let first = name(&hook("a"));
        assert!(first.starts_with("migrate-") && first.len() == "migrate-".len() + 10, "{first}");
        assert_eq!(first, name(&hook("a")));
        assert_ne!(first, name(&hook("b")));
        let no_hook = hook("a").replace("argocd.argoproj.io/hook", "note");
        assert_eq!(rendered(&no_hook).unwrap_err().reason, "NameMissing");
    }

    #[test]
    fn the_place_of_a_charts_object_is_its_template() {
        let text = format!("---\n# Source: web/templates/a.yaml\n{}---\n{}", map("a"), map("b"));
        let found = of_output("helm template", text.as_bytes()).unwrap();
        assert_eq!(found[0].place.as_deref(), Some("web/templates/a.yaml"));
        assert_eq!(found[1].place, None);
    }

    #[test]
    fn what_is_encrypted_is_never_applied_as_it_is() {
        let text = format!("{}sops: {{ mac: x }}\n", map("a"));
        assert_eq!(rendered(&text).unwrap_err().reason, "NotDecrypted");
    }
}
