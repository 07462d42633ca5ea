//! What the whole program costs while nothing happens.

use std::{path::PathBuf, time::Duration};

use windlass_testbed::{
    control_plane::{ControlPlane, User},
    measure::{self, Report},
    process::{Port, ScratchDir, Spec},
};

/// Runs `windlass controller` for a while and measures its last half minute.
pub(crate) async fn measure(
    control_plane: &ControlPlane,
    report: &mut Report,
    state: &str,
) -> anyhow::Result<()> {
    let folder = ScratchDir::new("bench")?;
    let port = Port::free()?;
    let kubeconfig = control_plane.kubeconfig_path(&User::Admin)?;
    let mut child = Spec::new(program()?, folder.path().join("windlass.log"))
        .args(["controller", "--namespace=default", "--webhook=false", "--log-level=info"])
        .arg(format!("--kubeconfig={}", kubeconfig.display()))
        .arg(format!("--http-address=127.0.0.1:{}", port.number()))
        .spawn()?;
    // Long enough for the first rounds of all objects.
    tokio::time::sleep(Duration::from_secs(45)).await;
    anyhow::ensure!(child.is_running(), "the controller ended:\n{}", child.log_tail(20));
    let (window, before) = (Duration::from_secs(30), measure::cpu(child.pid())?);
    tokio::time::sleep(window).await;
    let used = measure::cpu(child.pid())?.saturating_sub(before);
    let percent = used.as_secs_f64() / window.as_secs_f64() * 100.0;
    report.below(&format!("idle controller, {state}: CPU"), percent, "% of a core", 0.5);
    let mib = |bytes: u64| f64::from(u32::try_from(bytes / 1024).unwrap_or(u32::MAX)) / 1024.0;
    report.below(
        &format!("idle controller, {state}: memory"),
        mib(measure::memory(child.pid())?),
        "MiB",
        40.0,
    );
    report.figure(
        &format!("idle controller, {state}: peak with shared pages"),
        mib(measure::peak_memory(child.pid())?),
        "MiB",
    );
    child.stop()
}

/// The program built with this bench: `scripts/bench` builds both.
fn program() -> anyhow::Result<PathBuf> {
    if let Some(path) = std::env::var_os("WINDLASS_BIN") {
        return Ok(path.into());
    }
    let beside = std::env::current_exe()?.with_file_name("windlass");
    anyhow::ensure!(beside.is_file(), "{} is not built: run `make bench`", beside.display());
    Ok(beside)
}
