//! Rendered objects → objects as they are wanted on a cluster.
//!
//! Which namespace an object ends in depends on the kinds that a cluster serves; everything else is the same everywhere.
//! [`Preparations`] remembers results by exactly that, so that a hundred clusters share one set of objects.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
};

use serde_json::Value;
use windlass_cluster::{
    discover::{Discovered, Lookup},
    drive::Key,
};
use windlass_manifest::diff::fold_string_data;

use super::{Link, answers, lru::Lru};
use crate::{
    object::{ObjectId, Sealed},
    render::{Manifest, Rendered},
    tracking,
    trouble::Trouble,
};

/// Copied by `kubectl apply` into the object: never wanted, and for a Secret it repeats the data.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Fields of `metadata` that only an API server writes.
const NOTED_BY_SERVER: [&str; 9] = [
    "managedFields",
    "creationTimestamp",
    "uid",
    "resourceVersion",
    "generation",
    "selfLink",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "clusterName",
];

/// For whom, and where objects may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prepare<'a> {
    /// The Application.
    pub app: &'a Key,
    /// Where namespaced objects without a namespace go.
    pub namespace: &'a str,
    /// The only namespaces that objects may be in; `*` stands for any text. Empty: all.
    pub allowed_namespaces: &'a [String],
    /// Cluster-scoped objects are allowed although `allowed_namespaces` is not empty.
    pub allow_cluster_scoped: bool,
}

/// Objects as they are wanted on a cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Prepared {
    /// In the order of the source, without those that have a problem.
    pub objects: Vec<Sealed>,
    /// Where each of `objects` stands in the source, as far as known.
    pub places: Vec<Option<String>>,
    /// Everything that is wrong, not only the first.
    pub problems: Vec<Trouble>,
}

/// Prepares a render for a cluster.
///
/// Guarantees: every object names its namespace if its kind is known to have one, carries the marks of the Application,
/// holds nothing that only a server writes, is in an allowed place and occurs once; whatever is not so is a problem and
/// not among the objects. Fails only when the cluster does not tell which kinds it serves.
pub async fn prepare(link: &Link, rendered: &Rendered, how: &Prepare<'_>) -> Result<Prepared, Trouble> {
    let scopes = Scopes::of(link, rendered).await?;
    Ok(prepare_with(&scopes, rendered, how))
}

/// Results of [`prepare`], for all clusters and Applications together.
#[derive(Debug)]
pub struct Preparations {
    done: Mutex<Lru<Asked, Arc<Prepared>>>,
}

/// All that a result depends on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Asked {
    app: String,
    digest: String,
    namespace: String,
    allowed_namespaces: Vec<String>,
    allow_cluster_scoped: bool,
    scopes: Scopes,
}

impl Default for Preparations {
    fn default() -> Self {
        Self::new(4096)
    }
}

impl Preparations {
    /// Remembers at most so many results.
    pub fn new(capacity: usize) -> Self {
        Self { done: Mutex::new(Lru::new(capacity)) }
    }

    /// [`prepare`], from memory where nothing changed that it depends on.
    pub async fn prepare(
        &self,
        link: &Link,
        rendered: &Rendered,
        how: &Prepare<'_>,
    ) -> Result<Arc<Prepared>, Trouble> {
        let scopes = Scopes::of(link, rendered).await?;
        Ok(self.with(scopes, rendered, how))
    }

    fn with(&self, scopes: Scopes, rendered: &Rendered, how: &Prepare<'_>) -> Arc<Prepared> {
        let asked = Asked {
            app: how.app.to_string(),
            digest: rendered.digest.clone(),
            namespace: how.namespace.to_owned(),
            allowed_namespaces: how.allowed_namespaces.to_vec(),
            allow_cluster_scoped: how.allow_cluster_scoped,
            scopes,
        };
        let lock = || self.done.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(prepared) = lock().get(&asked) {
            return Arc::clone(prepared);
        }
        let prepared = Arc::new(prepare_with(&asked.scopes, rendered, how));
        lock().insert(asked, Arc::clone(&prepared));
        prepared
    }

    /// Forgets an Application.
    pub fn forget(&self, app: &Key) {
        let app = app.to_string();
        self.done.lock().unwrap_or_else(PoisonError::into_inner).retain(|asked| asked.app != app);
    }
}

/// Whether objects of a kind live in namespaces, for the kinds of one render. A kind that is not in it is not known.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Scopes(BTreeMap<(String, String), bool>);

impl Scopes {
    async fn of(link: &Link, rendered: &Rendered) -> Result<Self, Trouble> {
        let undiscovered = |error| answers::undiscovered(link.name(), &error);
        let discovered = link.discovery().get().await.map_err(undiscovered)?;
        let brought = brought(rendered);
        let mut scopes = Self::default();
        for id in rendered.objects.iter().map(|manifest| &manifest.id) {
            let kind = (id.group.clone(), id.kind.clone());
            if scopes.0.contains_key(&kind) {
                continue;
            }
            let found = match (look(&discovered, id), brought.get(&kind)) {
                (Lookup::Found(served), _) => Some(served.namespaced),
                (_, Some(namespaced)) => Some(*namespaced),
                // It may have been installed since.
                _ => match link.discovery().preferred(&id.group, &id.kind).await.map_err(undiscovered)? {
                    Lookup::Found(served) => Some(served.namespaced),
                    Lookup::Absent => None,
                    // Taken for cluster-scoped, a namespaced object would look like one that is no longer wanted.
                    Lookup::Unknown(reason) => return Err(answers::uncertain(link.name(), id, &reason)),
                },
            };
            if let Some(namespaced) = found {
                scopes.0.insert(kind, namespaced);
            }
        }
        Ok(scopes)
    }

    fn namespaced(&self, id: &ObjectId) -> Option<bool> {
        self.0.get(&(id.group.clone(), id.kind.clone())).copied()
    }
}

/// All versions of a kind have the same scope.
fn look(discovered: &Discovered, id: &ObjectId) -> Lookup {
    discovered.preferred(&id.group, &id.kind)
}

/// The scopes of kinds that the render itself defines.
fn brought(rendered: &Rendered) -> BTreeMap<(String, String), bool> {
    let definitions = rendered.objects.iter().filter(|manifest| {
        manifest.id.group == "apiextensions.k8s.io" && manifest.id.kind == "CustomResourceDefinition"
    });
    definitions
        .filter_map(|manifest| {
            let spec = manifest.object.get("spec")?;
            let group = spec.get("group")?.as_str()?;
            let kind = spec.pointer("/names/kind")?.as_str()?;
            let scope = spec.get("scope")?.as_str()?;
            Some(((group.to_owned(), kind.to_owned()), scope == "Namespaced"))
        })
        .collect()
}

fn prepare_with(scopes: &Scopes, rendered: &Rendered, how: &Prepare<'_>) -> Prepared {
    let mut prepared = Prepared::default();
    let mut seen: BTreeMap<_, Option<String>> = BTreeMap::new();
    for manifest in &rendered.objects {
        let sealed = match one(scopes, manifest, how) {
            Ok(sealed) => sealed,
            Err(problem) => {
                prepared.problems.push(problem);
                continue;
            }
        };
        let key = sealed.id().key();
        if let Some(first) = seen.get(&key) {
            prepared.problems.push(duplicate(sealed.id(), first.as_deref(), manifest.place.as_deref()));
            continue;
        }
        seen.insert(key, manifest.place.clone());
        prepared.objects.push(sealed);
        prepared.places.push(manifest.place.clone());
    }
    prepared
}

fn one(scopes: &Scopes, manifest: &Manifest, how: &Prepare<'_>) -> Result<Sealed, Trouble> {
    let mut object = Value::clone(&manifest.object);
    let namespaced = scopes.namespaced(&manifest.id);
    clean(&mut object);
    settle(&mut object, namespaced, how.namespace);
    fold_string_data(&mut object);
    tracking::mark(&mut object, how.app);
    let sealed = Sealed::new(object).map_err(|error| {
        Trouble::standing(
            "InvalidObject",
            format!("{}{}: {error}", manifest.id.short(), at(manifest.place.as_deref())),
            "Correct the object in its source.",
        )
    })?;
    allowed(&sealed, namespaced, manifest.place.as_deref(), how)?;
    Ok(sealed)
}

/// Drops what only a server writes.
fn clean(object: &mut Value) {
    let Some(fields) = object.as_object_mut() else { return };
    fields.remove("status");
    let Some(metadata) = fields.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    for field in NOTED_BY_SERVER {
        metadata.remove(field);
    }
    if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
        annotations.remove(LAST_APPLIED);
    }
}

/// Puts an object into its namespace. One that a cluster-scoped object names has no meaning and is dropped, as kubectl
/// does; of a kind that is not known, what is written stays.
fn settle(object: &mut Value, namespaced: Option<bool>, default: &str) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    match namespaced {
        Some(true) => {
            let named =
                metadata.get("namespace").and_then(Value::as_str).is_some_and(|name| !name.is_empty());
            if !named {
                metadata.insert("namespace".to_owned(), Value::from(default));
            }
        }
        Some(false) => {
            metadata.remove("namespace");
        }
        None => {}
    }
}

fn allowed(
    sealed: &Sealed,
    namespaced: Option<bool>,
    place: Option<&str>,
    how: &Prepare<'_>,
) -> Result<(), Trouble> {
    if how.allowed_namespaces.is_empty() {
        return Ok(());
    }
    let id = sealed.id();
    let list = how.allowed_namespaces.join(", ");
    if id.namespace.is_empty() {
        // Of an unknown kind without a namespace nobody can say where it would end.
        if how.allow_cluster_scoped && namespaced != Some(true) {
            return Ok(());
        }
        return Err(Trouble::standing(
            "ClusterScopedNotAllowed",
            format!(
                "{}{} is not in a namespace, and only objects in {list} are allowed",
                id.short(),
                at(place)
            ),
            "Set allowClusterScoped on the destination, or move the object to an Application that may have it.",
        ));
    }
    if how.allowed_namespaces.iter().any(|pattern| matches(pattern, &id.namespace)) {
        return Ok(());
    }
    Err(Trouble::standing(
        "NamespaceNotAllowed",
        format!("{}{} is in namespace {}, and only {list} are allowed", id.short(), at(place), id.namespace),
        "Correct its namespace, or add it to allowedNamespaces of the destination.",
    ))
}

fn duplicate(id: &ObjectId, first: Option<&str>, second: Option<&str>) -> Trouble {
    let places: BTreeSet<&str> = [first, second].into_iter().flatten().collect();
    let places: Vec<&str> = places.into_iter().collect();
    let places = if places.is_empty() { String::new() } else { format!(": {}", places.join(" and ")) };
    Trouble::standing(
        "DuplicateObject",
        format!("{} is there twice once its namespace is filled in{places}", id.short()),
        "Remove one of them, or give them different names or namespaces.",
    )
}

fn at(place: Option<&str>) -> String {
    place.map(|place| format!(" ({place})")).unwrap_or_default()
}

/// Whether a name fits a pattern in which `*` stands for any text.
fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = name.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        let Some(found) = rest.find(part) else { return false };
        rest = &rest[found + part.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
#[path = "prepare_tests.rs"]
mod tests;
