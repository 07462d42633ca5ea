//! Builds a tool from its Go module into the cache.
//!
//! Several processes may want the same tool at once, and any of them may be interrupted: a file lock lets one build, and
//! a finished program appears in the cache by one rename, so a file that exists is complete.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};

use super::module::{Module, Recipe};
use super::progress::Progress;
use super::{Tool, cache_dir, go};
use crate::process::Spec;

/// Where the program is once it was built.
pub(super) fn cached_path(tool: Tool) -> anyhow::Result<PathBuf> {
    let module = Module::of(tool);
    let folder = format!("{tool}-{}-{}", module.tool_version(tool)?, module.hash());
    Ok(cache_dir()?.join("tools").join(folder).join(tool.name()))
}

/// The program from the cache, built first when it is not there.
pub(super) fn cached(tool: Tool) -> anyhow::Result<PathBuf> {
    let path = cached_path(tool)?;
    if path.exists() {
        return Ok(path);
    }
    let module = Module::of(tool);
    let work = cache_dir()?.join("build").join(format!("{}-{}", module.name, module.hash()));
    std::fs::create_dir_all(&work).with_context(|| format!("cannot create {}", work.display()))?;
    let _lock = lock(&work.join("lock"), tool)?;
    if !path.exists() {
        build(tool, &work, &path)?;
    }
    Ok(path)
}

fn lock(path: &Path, tool: Tool) -> anyhow::Result<File> {
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path)
        .with_context(|| format!("cannot open {}", path.display()))?;
    let mut waiting: Option<Progress> = None;
    loop {
        match file.try_lock() {
            Ok(()) => break,
            Err(TryLockError::WouldBlock) => {
                let text = || format!("waiting for another process to build {tool}");
                waiting.get_or_insert_with(|| Progress::start(text())).tick();
                std::thread::sleep(Duration::from_millis(200));
            }
            Err(TryLockError::Error(error)) => {
                return Err(error).with_context(|| format!("cannot lock {}", path.display()));
            }
        }
    }
    if let Some(waiting) = waiting {
        waiting.end("the other process is done");
    }
    Ok(file)
}

fn build(tool: Tool, work: &Path, path: &Path) -> anyhow::Result<()> {
    let module = Module::of(tool);
    let recipe = module.recipe(tool)?;
    let go = go::tool_chain(module.go_version()?)?;
    let source = work.join("src");
    module.write(&source)?;

    let version = module.tool_version(tool)?;
    let mut progress = Progress::start(format!(
        "building {tool} {version} (about {} min on 2 cores, once)",
        recipe.usual_minutes
    ));
    let output = work.join(format!("{tool}.{}", std::process::id()));
    let log = work.join(format!("{tool}.log"));
    clear_leftovers(work, tool)?;
    let mut child = command(&go, &recipe, &source, &output, &log).spawn()?;
    let status = loop {
        match child.wait_timeout(Duration::from_millis(200))? {
            Some(status) => break status,
            None => progress.tick(),
        }
    };
    if !status.success() || !output.exists() {
        drop(std::fs::remove_file(&output));
        progress.end(&format!("building {tool} failed"));
        bail!(
            "`go build` of {tool} ended with {status}; {} ends with:\n{}",
            log.display(),
            child.log_tail(20)
        );
    }
    install(&output, path).with_context(|| format!("cannot move {tool} to {}", path.display()))?;
    progress.end(&format!("built {tool} {version}"));
    Ok(())
}

/// Removes what builds that were interrupted left behind. Only the holder of the lock may call it.
fn clear_leftovers(work: &Path, tool: Tool) -> anyhow::Result<()> {
    let prefix = format!("{tool}.");
    for entry in std::fs::read_dir(work).with_context(|| format!("cannot list {}", work.display()))? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(&prefix) {
            std::fs::remove_file(entry.path())
                .with_context(|| format!("cannot remove {}", entry.path().display()))?;
        }
    }
    Ok(())
}

fn command(go: &Path, recipe: &Recipe, source: &Path, output: &Path, log: &Path) -> Spec {
    let flags: Vec<String> = recipe.version_flags.iter().map(|flag| format!(" -X {flag}")).collect();
    let mut spec = Spec::new(go, log)
        .dir(source)
        .args(["build", "-mod=readonly", "-trimpath", "-ldflags"])
        .arg(format!("-s -w{}", flags.concat()));
    if !recipe.tags.is_empty() {
        spec = spec.args(["-tags", recipe.tags]);
    }
    // Static programs need no C compiler, and what the user's own Go settings say must not change the result.
    spec.arg("-o")
        .arg(output)
        .arg(recipe.package)
        .env("CGO_ENABLED", "0")
        .env("GOTOOLCHAIN", "local")
        .env("GOFLAGS", "-buildvcs=false")
        .env("GOWORK", "off")
        .grace(Duration::ZERO)
}

/// Makes the finished file appear under its name at once, and lastingly.
fn install(output: &Path, path: &Path) -> anyhow::Result<()> {
    let folder = path.parent().context("the path has no parent folder")?;
    std::fs::create_dir_all(folder)?;
    File::open(output)?.sync_all()?;
    std::fs::rename(output, path)?;
    File::open(folder)?.sync_all()?;
    Ok(())
}
