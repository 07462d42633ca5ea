//! The programs that render: where they are and which version they have.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use super::cell::{Cells, Job};
use crate::trouble::Trouble;

/// A program that renders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Program {
    Kustomize,
    Helm,
}

impl Program {
    fn name(self) -> &'static str {
        match self {
            Self::Kustomize => "kustomize",
            Self::Helm => "helm",
        }
    }

    fn asks(self) -> &'static [&'static str] {
        match self {
            Self::Kustomize => &["version"],
            Self::Helm => &["version", "--short"],
        }
    }
}

/// A file as it is now: another one when the program was replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    path: PathBuf,
    size: u64,
    modified: (i64, i64),
    inode: u64,
}

/// A program that was found.
#[derive(Clone, Debug)]
pub(super) struct Tool {
    pub(super) stamp: Stamp,
    pub(super) version: String,
}

impl Tool {
    pub(super) fn path(&self) -> &Path {
        &self.stamp.path
    }
}

/// The programs, with what is known of them.
pub(super) struct Tools {
    kustomize: Option<PathBuf>,
    helm: Option<PathBuf>,
    known: Mutex<BTreeMap<Program, Tool>>,
}

impl Tools {
    pub(super) fn new(kustomize: Option<PathBuf>, helm: Option<PathBuf>) -> Self {
        Self { kustomize, helm, known: Mutex::default() }
    }

    /// The program as it is on disk now.
    pub(super) fn stamp(&self, program: Program) -> Result<Stamp, Trouble> {
        let set = match program {
            Program::Kustomize => self.kustomize.as_ref(),
            Program::Helm => self.helm.as_ref(),
        };
        let found = match set {
            Some(path) => stamp(path),
            None => std::env::var_os("PATH")
                .iter()
                .flat_map(std::env::split_paths)
                .find_map(|folder| stamp(&folder.join(program.name()))),
        };
        found.ok_or_else(|| missing(program, set.map(PathBuf::as_path)))
    }

    /// The program with its version, which is asked once per file.
    pub(super) async fn find(&self, program: Program, cells: &Cells) -> Result<Tool, Trouble> {
        let stamp = self.stamp(program)?;
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(&program).cloned();
        if let Some(tool) = known.filter(|tool| tool.stamp == stamp) {
            return Ok(tool);
        }
        let folder = cells.folder(Vec::new()).await?;
        let called = format!("{} version", program.name());
        let job = Job {
            program: &stamp.path,
            called: &called,
            args: program.asks().iter().map(OsString::from).collect(),
            stdin: None,
            hide: &[],
            reason: "ToolUnusable",
        };
        let printed = cells.run(&folder, job).await?;
        let version = String::from_utf8_lossy(&printed).trim().chars().take(200).collect();
        let tool = Tool { stamp, version };
        self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(program, tool.clone());
        Ok(tool)
    }
}

/// A file that can be executed, by its absolute path with all links followed: the cell lets it be read by that.
fn stamp(path: &Path) -> Option<Stamp> {
    let path = path.canonicalize().ok()?;
    let data = path.metadata().ok()?;
    if !data.is_file() || data.permissions().mode() & 0o111 == 0 {
        return None;
    }
    Some(Stamp { path, size: data.size(), modified: (data.mtime(), data.mtime_nsec()), inode: data.ino() })
}

fn missing(program: Program, set: Option<&Path>) -> Trouble {
    let name = program.name();
    let what = match set {
        Some(path) => format!("{} is not a program that can be run", path.display()),
        None => format!("the program {name} is not on PATH"),
    };
    Trouble::standing("ToolMissing", what, format!("install {name}, or say where it is with --{name}"))
}
