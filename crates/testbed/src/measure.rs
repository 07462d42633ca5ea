//! Figures for benches: CPU time, memory, and a report as a table and as JSON.
//!
//! Wall time on a shared machine says little, so figures are CPU seconds, bytes and ratios. A figure that has a
//! target says whether it was met; a bench never fails because of it.

use std::{fmt::Write as _, fs, path::PathBuf, time::Duration};

use anyhow::{Context, Result};
use serde::Serialize;

/// CPU time that a process has used in all of its living threads, in user and kernel mode.
pub fn cpu(pid: u32) -> Result<Duration> {
    let mut nanos = 0;
    for task in fs::read_dir(format!("/proc/{pid}/task")).context("the process is gone")? {
        // A thread may end between the two calls.
        let Ok(text) = fs::read_to_string(task?.path().join("schedstat")) else { continue };
        let on_cpu: u64 = text.split_whitespace().next().unwrap_or("0").parse().context("schedstat")?;
        nanos += on_cpu;
    }
    Ok(Duration::from_nanos(nanos))
}

/// CPU time of a process with every thread that it ever had and every child that it waited for, in steps of 10 ms.
pub fn whole_cpu(pid: u32) -> Result<Duration> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).context("the process is gone")?;
    // The name in brackets may hold anything; what follows is numbers.
    let (_, fields) = text.rsplit_once(')').context("stat")?;
    let ticks = fields.split_whitespace().skip(11).take(4).map(str::parse::<u64>);
    let ticks: u64 = ticks.sum::<Result<u64, _>>().context("stat")?;
    // Linux counts a hundred ticks a second for user space on every machine that we build for.
    Ok(Duration::from_millis(ticks * 10))
}

/// Memory of a process that is resident and its own, in bytes.
pub fn memory(pid: u32) -> Result<u64> {
    status_field(pid, "RssAnon:")
}

/// The most memory that the process ever had resident, shared pages included, in bytes.
pub fn peak_memory(pid: u32) -> Result<u64> {
    status_field(pid, "VmHWM:")
}

fn status_field(pid: u32, field: &str) -> Result<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).context("the process is gone")?;
    let line =
        text.lines().find_map(|line| line.strip_prefix(field)).with_context(|| format!("no {field}"))?;
    let kib: u64 = line.split_whitespace().next().unwrap_or_default().parse().context("not a number")?;
    Ok(kib * 1024)
}

/// One figure.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    /// What was measured.
    pub name: String,
    /// The value.
    pub value: f64,
    /// Its unit.
    pub unit: &'static str,
    /// The value that it should stay below, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<f64>,
}

/// The figures of one bench.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Name of the bench.
    pub bench: String,
    /// Its figures, in order.
    pub figures: Vec<Figure>,
}

impl Report {
    /// An empty report.
    pub fn new(bench: &str) -> Self {
        Self { bench: bench.to_owned(), figures: Vec::new() }
    }

    /// Adds a figure without a target.
    pub fn figure(&mut self, name: &str, value: f64, unit: &'static str) {
        self.figures.push(Figure { name: name.to_owned(), value, unit, target: None });
    }

    /// Adds a figure that should stay below a target.
    pub fn below(&mut self, name: &str, value: f64, unit: &'static str, target: f64) {
        self.figures.push(Figure { name: name.to_owned(), value, unit, target: Some(target) });
    }

    /// The figures as a table for people.
    pub fn table(&self) -> String {
        let width = self.figures.iter().map(|figure| figure.name.chars().count()).max().unwrap_or(0);
        let mut out = format!("{}\n", self.bench);
        for Figure { name, value, unit, target } in &self.figures {
            let verdict = match target {
                Some(target) if value < target => format!("  target < {target}: met"),
                Some(target) => format!("  target < {target}: missed by {:.1}×", value / target),
                None => String::new(),
            };
            let _ = writeln!(out, "  {name:<width$}  {value:>12.3} {unit:<10}{verdict}");
        }
        out
    }

    /// Prints the table and writes the JSON to `$WINDLASS_CACHE/bench/<name>.json`.
    pub fn publish(&self) -> Result<PathBuf> {
        let folder = crate::tools::cache_dir()?.join("bench");
        fs::create_dir_all(&folder)?;
        let path = folder.join(format!("{}.json", self.bench));
        fs::write(&path, serde_json::to_vec_pretty(self)?)?;
        Ok(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_shows_in_the_cpu_time_and_memory_in_bytes() {
        let pid = std::process::id();
        let before = cpu(pid).unwrap();
        let mut hash = 1u64;
        while cpu(pid).unwrap().saturating_sub(before) < Duration::from_millis(20) {
            for n in 0..100_000u64 {
                hash = hash.wrapping_mul(31).wrapping_add(n);
            }
        }
        assert_ne!(hash, 0);
        assert!(memory(pid).unwrap() > 100_000);
        assert!(peak_memory(pid).unwrap() >= memory(pid).unwrap());
    }

    #[test]
    fn a_missed_target_is_said() {
        let mut report = Report::new("example");
        report.below("good", 1.0, "ms", 2.0);
        report.below("bad", 6.0, "ms", 2.0);
        let table = report.table();
        assert!(table.contains("met") && table.contains("missed by 3.0×"), "{table}");
    }
}
