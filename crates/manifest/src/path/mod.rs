//! Where an object lies in a repository, and which object lies at a path.
//!
//! ```text
//!   {baseFolder}/{namespace, or _cluster}/{group, or core}/{resource}/{name}.yaml
//! ```
//!
//! Two objects never share a path, also where the file system takes `A` and `a` for the same, and every path can be
//! checked out on Linux, macOS and Windows. Segments are escaped one by one (see [`segment`]); only a name too long for
//! a file name loses its tail to a digest, and then the file's content says whose it is.

mod base;
pub mod segment;

use std::fmt;

pub use base::{BaseFolder, BaseFolderError};
use segment::{Decoded, Segment};

/// The folder of objects without a namespace. No namespace has this name: namespaces hold no `_`.
const CLUSTER: &str = "_cluster";
/// The folder of the core group, whose own name is empty.
const CORE: &str = "core";
const EXTENSION: &str = ".yaml";

/// An object as a repository and a URL name it: by its resource, the plural that discovery tells.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceKey {
    /// The namespace; `None` for cluster-wide objects.
    pub namespace: Option<String>,
    /// The API group; empty for core resources.
    pub group: String,
    /// The plural, such as `deployments`.
    pub resource: String,
    /// The name.
    pub name: String,
}

/// What a path says about the object in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Located {
    /// Everything.
    Object(ResourceKey),
    /// Everything but the name, which was too long for a file name: read it from the file, and check with [`path_of`]
    /// that it belongs here.
    LongName {
        /// The namespace; `None` for cluster-wide objects.
        namespace: Option<String>,
        /// The API group; empty for core resources.
        group: String,
        /// The plural.
        resource: String,
    },
}

/// Why a path or a key cannot be mapped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// A part of the key is empty.
    #[error("the {part} is empty, so that there is no path for the object")]
    EmptyPart {
        /// Which one.
        part: &'static str,
    },
    /// The namespace, group or resource is too long for a folder name.
    #[error("the {part} {text:?} is too long for a folder name (at most {most} bytes once escaped)")]
    PartTooLong {
        /// Which one.
        part: &'static str,
        /// The text.
        text: String,
        /// The limit.
        most: usize,
    },
    /// The path is not below the base folder.
    #[error("{path:?} is not below {base:?}")]
    OutsideBase {
        /// The path.
        path: String,
        /// The base folder.
        base: String,
    },
    /// The path has not the form of an object's path: somebody else's file.
    #[error("{path:?} is no path of an object: {why}")]
    NotAnObject {
        /// The path.
        path: String,
        /// What is wrong with it.
        why: &'static str,
    },
}

impl PathError {
    /// A few words for metrics and conditions.
    pub fn category(&self) -> &'static str {
        match self {
            Self::EmptyPart { .. } => "EmptyPart",
            Self::PartTooLong { .. } => "PartTooLong",
            Self::OutsideBase { .. } => "OutsideBase",
            Self::NotAnObject { .. } => "NotAnObject",
        }
    }
}

impl fmt::Display for ResourceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.resource)?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        match &self.namespace {
            Some(namespace) => write!(f, " {namespace}/{}", self.name),
            None => write!(f, " {}", self.name),
        }
    }
}

/// The path of an object below a base folder, without a leading slash.
pub fn path_of(base: &BaseFolder, key: &ResourceKey) -> Result<String, PathError> {
    let namespace = match &key.namespace {
        None => CLUSTER.to_owned(),
        // A namespace by the name of our folder cannot exist; should one, it does not take that folder's place.
        Some(namespace) => folder("namespace", namespace, namespace.starts_with('_'))?,
    };
    let group =
        if key.group.is_empty() { CORE.to_owned() } else { folder("group", &key.group, key.group == CORE)? };
    let resource = folder("resource", &key.resource, false)?;
    if key.name.is_empty() {
        return Err(PathError::EmptyPart { part: "name" });
    }
    let name = Segment::file(&key.name, EXTENSION);
    let mut path = String::with_capacity(
        base.as_str().len() + namespace.len() + group.len() + resource.len() + name.len() + 9,
    );
    if !base.is_root() {
        path.push_str(base.as_str());
        path.push('/');
    }
    for part in [&namespace, &group, &resource] {
        path.push_str(part);
        path.push('/');
    }
    path.push_str(&name);
    path.push_str(EXTENSION);
    Ok(path)
}

/// The object that a path below a base folder stands for. Only paths that [`path_of`] would make are taken: a file by
/// any other name is not ours, however much it looks like it.
pub fn key_of(base: &BaseFolder, path: &str) -> Result<Located, PathError> {
    let below = base
        .strip(path)
        .ok_or_else(|| PathError::OutsideBase { path: path.to_owned(), base: base.as_str().to_owned() })?;
    let alien = |why: &'static str| PathError::NotAnObject { path: path.to_owned(), why };
    let parts: Vec<&str> = below.split('/').collect();
    let [namespace, group, resource, file] = parts[..] else {
        return Err(alien("it has not four parts below the base folder"));
    };
    let stem = file.strip_suffix(EXTENSION).ok_or_else(|| alien("it does not end in .yaml"))?;
    let whole = |text: &str| match segment::decode(text) {
        Some(Decoded::Whole(text)) => Ok(text),
        Some(Decoded::Cut) | None => Err(alien("a folder is not spelled as its name would be")),
    };
    let namespace = if namespace == CLUSTER { None } else { Some(whole(namespace)?) };
    let group = if group == CORE { String::new() } else { whole(group)? };
    let resource = whole(resource)?;
    let key = |name: String| ResourceKey {
        namespace: namespace.clone(),
        group: group.clone(),
        resource: resource.clone(),
        name,
    };
    let alien_name = || alien("its name is not spelled as ours are");
    // The decoder is forgiving and the encoder is not: only its own spelling comes back the same.
    match segment::decode(stem).ok_or_else(alien_name)? {
        Decoded::Whole(name) => {
            let key = key(name);
            let again = path_of(base, &key)?;
            if again == path { Ok(Located::Object(key)) } else { Err(alien_name()) }
        }
        Decoded::Cut => {
            let folder = |path: &str| path.rsplit_once('/').map(|(folder, _)| folder.to_owned());
            let again = path_of(base, &key("any".into()))?;
            if folder(&again) == folder(path) {
                Ok(Located::LongName { namespace, group, resource })
            } else {
                Err(alien_name())
            }
        }
    }
}

fn folder(part: &'static str, text: &str, escape_first: bool) -> Result<String, PathError> {
    if text.is_empty() {
        return Err(PathError::EmptyPart { part });
    }
    Segment::folder(text, escape_first).ok_or_else(|| PathError::PartTooLong {
        part,
        text: text.to_owned(),
        most: segment::MOST_BYTES,
    })
}

#[cfg(test)]
mod tests;
