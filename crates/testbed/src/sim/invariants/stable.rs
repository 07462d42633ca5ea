//! Eventually stable reconciliation.

use std::{fmt, sync::Arc, time::Duration};

use anyhow::{bail, ensure};

use super::is_lease;
use crate::sim::{compare::last_write, world::World, writes::Write};

/// Says which writes do not count.
pub type Allow = Arc<dyn Fn(&Write) -> bool + Send + Sync>;

/// What stable means for a scenario.
#[derive(Clone)]
pub struct Stable {
    /// Faults stopped: quiet has to set in within this much virtual time.
    pub within: Duration,
    /// Quiet is this long without a write.
    pub quiet: Duration,
    /// How often the controller compares anew without being told to.
    pub resync: Duration,
    /// How many of those pass without a write.
    pub resyncs: u32,
    /// Whether every instance is also killed and started once, without a write.
    pub restart: bool,
    /// Writes that do not count; by default those on Leases.
    pub allow: Allow,
}

impl fmt::Debug for Stable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stable")
            .field("within", &self.within)
            .field("quiet", &self.quiet)
            .finish_non_exhaustive()
    }
}

impl Default for Stable {
    fn default() -> Self {
        Self {
            within: Duration::from_hours(1),
            quiet: Duration::from_mins(2),
            resync: Duration::from_mins(10),
            resyncs: 3,
            restart: true,
            allow: Arc::new(is_lease),
        }
    }
}

impl Stable {
    /// Writes that do not count.
    #[must_use]
    pub fn allow(mut self, allow: impl Fn(&Write) -> bool + Send + Sync + 'static) -> Self {
        self.allow = Arc::new(allow);
        self
    }
}

/// Stops all faults and checks that the world comes to rest and stays at rest: through resyncs and, when the rule
/// says so, one restart of every instance, with no further write by any instance.
///
/// # Errors
/// Names the writes that should not be.
pub async fn eventually_stable(world: &World, rule: &Stable) -> anyhow::Result<()> {
    world.calm().await?;
    settle(world, rule).await?;
    let quiet_from = world.instance_writes().len();
    for _ in 0..rule.resyncs {
        world.sleep(rule.resync).await;
    }
    no_new_writes(world, rule, quiet_from, "over resyncs")?;
    if !rule.restart {
        return Ok(());
    }
    for name in world.instances() {
        if world.is_up(&name) {
            world.crash(&name);
            world.sleep(Duration::from_secs(1)).await;
            world.restart(&name);
        }
    }
    world.sleep(rule.quiet + rule.resync).await;
    no_new_writes(world, rule, quiet_from, "after a restart")
}

/// Waits until no write has been made for as long as quiet lasts.
async fn settle(world: &World, rule: &Stable) -> anyhow::Result<()> {
    let start = world.elapsed();
    loop {
        let last =
            last_write(&world.instance_writes(), |write| (rule.allow)(write)).unwrap_or_default().max(start);
        let rest = world.elapsed().saturating_sub(last);
        if rest >= rule.quiet {
            return Ok(());
        }
        if world.elapsed().saturating_sub(start) > rule.within {
            let writes = world.instance_writes();
            let tail: Vec<String> =
                writes.iter().rev().filter(|write| !(rule.allow)(write)).take(5).map(Write::line).collect();
            bail!("still writing {:?} after faults stopped; last:\n  {}", rule.within, tail.join("\n  "));
        }
        world.sleep(rule.quiet.saturating_sub(rest)).await;
    }
}

fn no_new_writes(world: &World, rule: &Stable, from: usize, when: &str) -> anyhow::Result<()> {
    let writes = world.instance_writes();
    let told = |write: &Write| format!("{} {}", write.line(), write.changes().join("; "));
    let new: Vec<String> =
        writes.iter().skip(from).filter(|write| !(rule.allow)(write)).map(told).take(10).collect();
    ensure!(new.is_empty(), "writes {when} although nothing changed:\n  {}", new.join("\n  "));
    Ok(())
}
