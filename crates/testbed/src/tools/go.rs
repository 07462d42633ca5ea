//! The Go tool chain that builds the programs.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::bail;

use super::Version;

/// The first executable file with this name in a list of folders.
pub(super) fn which(name: &str, folders: &OsStr) -> Option<PathBuf> {
    std::env::split_paths(folders).map(|folder| folder.join(name)).find(|path| {
        path.is_absolute()
            && path.metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
    })
}

/// The `go` on PATH, when it is new enough.
pub(super) fn tool_chain(needed: Version) -> anyhow::Result<PathBuf> {
    let hint = format!(
        "install Go {}.{} or newer (https://go.dev/doc/install) and put it on PATH, \
         or point KUBEBUILDER_ASSETS to a folder with ready programs",
        needed.major, needed.minor
    );
    let Some(go) = which("go", &std::env::var_os("PATH").unwrap_or_default()) else {
        bail!("building it needs Go, and there is no `go` on PATH: {hint}");
    };
    match ask_version(&go) {
        Some(version) if version >= needed => Ok(go),
        Some(version) => {
            bail!("building it needs Go {needed} or newer, and {} is {version}: {hint}", go.display())
        }
        None => bail!("building it needs Go, and {} does not work as one: {hint}", go.display()),
    }
}

fn ask_version(go: &Path) -> Option<Version> {
    let output = Command::new(go)
        .args(["env", "GOVERSION"])
        .env("GOTOOLCHAIN", "local")
        .stdin(Stdio::null())
        .output()
        .ok()?;
    output.status.success().then(|| Version::find(&String::from_utf8_lossy(&output.stdout))).flatten()
}
