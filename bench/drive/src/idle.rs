//! What the whole program costs while nothing happens.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use windlass_testbed::{
    control_plane::{ControlPlane, User},
    measure::{self, Report},
    process::{Child, Port, ScratchDir, Spec},
};

/// Runs `windlass controller` until it has nothing more to do and measures the next half minute.
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
    let settling = settle(&mut child).await?;
    report.figure(&format!("controller, {state}: seconds until it idles"), settling.as_secs_f64(), "s");
    let percent = load(&child, Duration::from_secs(30)).await?;
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

/// Longest wait for the first rounds of all objects: what is still busy then is no idling.
const PATIENCE: Duration = Duration::from_secs(300);

/// Waits until the program used next to no CPU for ten seconds and says how long that took.
async fn settle(child: &mut Child) -> anyhow::Result<Duration> {
    let begin = Instant::now();
    tokio::time::sleep(Duration::from_secs(10)).await;
    loop {
        anyhow::ensure!(child.is_running(), "the controller ended:\n{}", child.log_tail(20));
        let until_now = begin.elapsed();
        if until_now > PATIENCE || load(child, Duration::from_secs(10)).await? < 1.0 {
            return Ok(until_now);
        }
    }
}

/// CPU of the program within a span, in percent of a core.
async fn load(child: &Child, window: Duration) -> anyhow::Result<f64> {
    let before = measure::cpu(child.pid())?;
    tokio::time::sleep(window).await;
    let used = measure::cpu(child.pid())?.saturating_sub(before);
    Ok(used.as_secs_f64() / window.as_secs_f64() * 100.0)
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
