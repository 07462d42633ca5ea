//! Bench of repositories: a generated one of 10,000 and one of 100,000 manifest files, beside the `git` program.
//!
//! Measured: first mirror, fetch without news, detection of a one-file commit, read of a folder of 200 files, commit of
//! 200 changes, memory. CPU counts child processes too, on both sides. The remote is a folder, so that what it does is
//! counted on both sides alike. Prints a table and writes JSON; never fails because of a figure.

mod commit;
mod git;
mod meter;
mod ours;
mod sample;

use anyhow::Context as _;
use windlass_testbed::measure::{self, Report};

/// How many files there are.
const SIZES: [usize; 2] = [10_000, 100_000];

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut report = Report::new("vcs");
    for files in SIZES {
        let folder = tempfile::tempdir().context("no scratch folder")?;
        eprintln!("making a repository of {files} files");
        let sample = sample::Sample::make(folder.path(), files)?;
        let before = measure::memory(std::process::id())?;
        let mut bench = Bench { report: &mut report, title: format!("{files} files") };
        ours::measure(&mut bench, &sample).await?;
        git::measure(&mut bench, &sample)?;
        commit::measure(&mut bench, &sample)?;
        let held = measure::memory(std::process::id())?.saturating_sub(before);
        bench.bytes("memory held at the end", held);
        bench.ratios();
    }
    let peak = measure::peak_memory(std::process::id())?;
    report.figure("most memory ever resident", meter::mebibytes(peak), "MiB");
    let path = report.publish()?;
    println!("{}", report.table());
    println!("JSON: {}", path.display());
    Ok(())
}

/// The report, as the steps of one size see it.
pub(crate) struct Bench<'a> {
    report: &'a mut Report,
    title: String,
}

impl Bench<'_> {
    pub(crate) fn cost(&mut self, what: &str, cost: meter::Cost) {
        self.report.figure(&format!("{}: {what}: CPU", self.title), cost.cpu_ms, "ms");
        self.report.figure(&format!("{}: {what}: wall (median)", self.title), cost.wall_ms, "ms");
    }

    /// A cost whose CPU time has a target.
    pub(crate) fn cost_below(&mut self, what: &str, cost: meter::Cost, target: f64) {
        self.report.below(&format!("{}: {what}: CPU", self.title), cost.cpu_ms, "ms", target);
        self.report.figure(&format!("{}: {what}: wall (median)", self.title), cost.wall_ms, "ms");
    }

    pub(crate) fn bytes(&mut self, what: &str, bytes: u64) {
        self.report.figure(&format!("{}: {what}", self.title), meter::mebibytes(bytes), "MiB");
    }

    /// How many times the CPU of ours `git` takes, for every step that both have done.
    fn ratios(&mut self) {
        let own: Vec<_> = self
            .report
            .figures
            .iter()
            .filter(|figure| figure.name.starts_with(&self.title))
            .cloned()
            .collect();
        let cpu = |name: &str| own.iter().find(|figure| figure.name == name).map(|figure| figure.value);
        for figure in &own {
            let Some(step) = figure.name.strip_suffix(": CPU").and_then(|name| name.split_once(": git: "))
            else {
                continue;
            };
            let step = step.1.split(" (").next().unwrap_or_default();
            let ours = cpu(&format!("{}: windlass: {step}: CPU", self.title));
            if let Some(ours) = ours.filter(|ours| *ours > 0.0) {
                let name = figure.name.trim_end_matches(": CPU").replace(": git: ", ": git / windlass: ");
                self.report.figure(&name, figure.value / ours, "×");
            }
        }
    }
}
