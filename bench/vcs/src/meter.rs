//! CPU time of this process and of the children it has waited for.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use windlass_testbed::measure;

/// Ticks of the kernel's clock in a second, the same on every Linux that Rust runs on.
const TICKS: f64 = 100.0;

/// What a step costs each time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cost {
    pub(crate) cpu_ms: f64,
    pub(crate) wall_ms: f64,
}

/// Takes the time of a step that is repeated. The kernel counts children in ticks, so one round says little.
pub(crate) struct Meter {
    cpu: f64,
    rounds: Vec<Duration>,
    begin: Option<Instant>,
    from: f64,
}

impl Meter {
    pub(crate) fn new() -> Self {
        Self { cpu: 0.0, rounds: Vec::new(), begin: None, from: 0.0 }
    }

    /// A round begins here. What lies between two rounds does not count.
    pub(crate) fn begin(&mut self) -> anyhow::Result<()> {
        self.from = total()?;
        self.begin = Some(Instant::now());
        Ok(())
    }

    /// A round ends here.
    pub(crate) fn end(&mut self) -> anyhow::Result<()> {
        let begin = self.begin.take().context("no round has begun")?;
        self.rounds.push(begin.elapsed());
        self.cpu += total()? - self.from;
        Ok(())
    }

    pub(crate) fn cost(mut self) -> anyhow::Result<Cost> {
        self.rounds.sort_unstable();
        let median = self.rounds.get(self.rounds.len() / 2).context("nothing was measured")?;
        let count = f64::from(u32::try_from(self.rounds.len())?);
        Ok(Cost { cpu_ms: self.cpu * 1e3 / count, wall_ms: median.as_secs_f64() * 1e3 })
    }
}

/// Seconds of CPU so far.
fn total() -> anyhow::Result<f64> {
    // The kernel brings a thread's account up to date when it is taken off the CPU.
    std::thread::sleep(Duration::from_micros(50));
    let own = measure::cpu(std::process::id())?.as_secs_f64();
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    // The name of the program may hold anything; what follows it are numbers. Children are the 16th and 17th field.
    let (_, fields) = stat.rsplit_once(')').context("odd /proc/self/stat")?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let field =
        |place: usize| -> anyhow::Result<f64> { Ok(fields.get(place).context("short stat")?.parse()?) };
    Ok(own + (field(13)? + field(14)?) / TICKS)
}

pub(crate) fn mebibytes(bytes: u64) -> f64 {
    let kib = u32::try_from(bytes / 1024).unwrap_or(u32::MAX);
    f64::from(kib) / 1024.0
}
