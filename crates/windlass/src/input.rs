//! Manifests that a user names with `-f`: files, or `-` for standard input.

use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
};

use windlass_manifest::{
    identity::Identity,
    parse::{self, Limits, Object},
    sanitize::{Sanitized, sanitize},
};

use crate::{cli, error::CommandError};

/// The objects of one file.
#[derive(Debug)]
pub(crate) struct Manifests {
    /// The file as the user named it.
    pub(crate) name: String,
    /// Its objects, Lists taken apart.
    pub(crate) objects: Vec<Object>,
}

/// Reads the objects of each file.
pub(crate) fn read_all(paths: &[PathBuf]) -> Result<Vec<Manifests>, CommandError> {
    if paths.iter().filter(|path| is_stdin(path)).count() > 1 {
        return Err(CommandError::usage("standard input can be read only once")
            .hint("Give `-f -` once and name files for the rest."));
    }
    paths.iter().map(|path| read(path)).collect()
}

/// Takes away what nobody wrote. Objects that nobody wrote at all are told on standard error and left out.
pub(crate) fn sanitize_all(manifests: &mut [Manifests]) {
    for file in manifests {
        file.objects = std::mem::take(&mut file.objects).into_iter().filter_map(sanitized).collect();
    }
}

fn sanitized(mut object: Object) -> Option<Object> {
    let name = Identity::of(&object.value).map_or_else(|_| object.position.to_string(), |id| id.to_string());
    match sanitize(object.value) {
        Sanitized::Keep(value) => {
            object.value = value;
            Some(object)
        }
        Sanitized::Skip(reason) => {
            cli::note(&format!("left out {name}: {reason}"));
            None
        }
    }
}

fn read(path: &Path) -> Result<Manifests, CommandError> {
    let name = if is_stdin(path) { "standard input".to_owned() } else { path.display().to_string() };
    let limits = Limits::default();
    let bytes = bytes(path, limits.bytes).map_err(|error| unreadable(path, &name, error))?;
    let objects = parse::parse_bytes(&bytes, &limits)
        .and_then(parse::objects)
        .map_err(|error| CommandError::failure(format!("{name} is no manifest")).because(error))?;
    if objects.is_empty() {
        return Err(CommandError::failure(format!("{name} holds no object")));
    }
    Ok(Manifests { name, objects })
}

fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// One byte more than allowed is enough for the parser to refuse the rest.
fn bytes(path: &Path, limit: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let most = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    if is_stdin(path) {
        io::stdin().lock().take(most).read_to_end(&mut bytes)?;
    } else {
        File::open(path)?.take(most).read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}

fn unreadable(path: &Path, name: &str, error: io::Error) -> CommandError {
    let kind = error.kind();
    let failure = CommandError::failure(format!("cannot read {name}")).because(error);
    if kind == io::ErrorKind::IsADirectory || path.is_dir() {
        failure.hint("Name the files in it, each with its own -f.")
    } else {
        failure
    }
}
