//! Programs that the machine already has.
//!
//! A file name promises little: the version that the program itself reports decides.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{Tool, Version, go, progress};

/// The program from `KUBEBUILDER_ASSETS` or PATH, when it is one that we may use.
pub(super) fn on_machine(tool: Tool) -> Option<PathBuf> {
    let assets = std::env::var_os("KUBEBUILDER_ASSETS").filter(|value| !value.is_empty());
    let path = std::env::var_os("PATH").unwrap_or_default();
    if let Some(folder) = assets.as_deref()
        && let Some(found) = in_folders(tool, folder, Some("KUBEBUILDER_ASSETS"))
    {
        return Some(found);
    }
    in_folders(tool, &path, None)
}

fn in_folders(tool: Tool, folders: &OsStr, say_why_not: Option<&str>) -> Option<PathBuf> {
    if !Tool::CONTROL_PLANE.contains(&tool) {
        return usable(tool, folders).ok();
    }
    let mut found = None;
    for member in Tool::CONTROL_PLANE {
        match usable(member, folders) {
            Ok(path) if member == tool => found = Some(path),
            Ok(_) => {}
            Err(why) => {
                if let Some(name) = say_why_not {
                    progress::note_once(&format!("{name} is not used: {why}"));
                }
                return None;
            }
        }
    }
    found
}

fn usable(tool: Tool, folders: &OsStr) -> Result<PathBuf, String> {
    let names: &[&str] = match tool {
        Tool::Registry => &["docker-registry", "registry"],
        _ => &[tool.name()],
    };
    let Some(path) = names.iter().find_map(|name| go::which(name, folders)) else {
        return Err(format!("it has no {tool}"));
    };
    let version = ask_version(tool, &path).ok_or_else(|| format!("{} tells no version", path.display()))?;
    if accepts(tool, version) { Ok(path) } else { Err(format!("{} is {version}", path.display())) }
}

/// The versions that behave as the tests expect.
fn accepts(tool: Tool, version: Version) -> bool {
    match tool {
        Tool::KubeApiserver | Tool::KubeControllerManager | Tool::KubeScheduler => {
            (version.major, version.minor) == (1, 36)
        }
        Tool::Etcd => version.major == 3 && version.minor >= 5,
        // Stages are given by --config, which older ones treat differently.
        Tool::Kwok => version >= Version::new(0, 8, 0),
        Tool::Kubectl => version >= Version::new(1, 34, 0),
        Tool::Helm => version.major == 4,
        Tool::Kustomize => version.major == 5,
        Tool::Registry | Tool::Prometheus => true,
    }
}

/// Asks the program itself.
pub(super) fn ask_version(tool: Tool, path: &Path) -> Option<Version> {
    let args: &[&str] = match tool {
        Tool::Kubectl => &["version", "--client"],
        Tool::Helm => &["version", "--short"],
        Tool::Kustomize => &["version"],
        _ => &["--version"],
    };
    let output = Command::new(path).args(args).stdin(Stdio::null()).output().ok()?;
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    Version::find(&text.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_versions_that_tests_expect_are_taken() {
        assert!(accepts(Tool::KubeApiserver, Version::new(1, 36, 0)));
        assert!(!accepts(Tool::KubeApiserver, Version::new(1, 35, 9)));
        assert!(!accepts(Tool::KubeApiserver, Version::new(1, 37, 0)));
        assert!(!accepts(Tool::Kubectl, Version::new(1, 32, 4)));
        assert!(!accepts(Tool::Helm, Version::new(3, 20, 0)));
        assert!(!accepts(Tool::Kwok, Version::new(0, 7, 0)));
    }
}
