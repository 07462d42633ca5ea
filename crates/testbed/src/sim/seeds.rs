//! Many seeds, and the one command that replays one.

use std::{
    env,
    num::NonZero,
    path::Path,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

use super::run::Run;

/// How many trace lines of a failing seed are shown.
const TAIL: usize = 60;

/// A seed that went wrong, and what to say about it.
type Failed = (u64, String);

/// Runs a scenario for seeds `0..N`, `default_count` of them unless `WINDLASS_SEEDS` says otherwise, on all cores, and
/// fails the test on the first seed that goes wrong, with the command that replays it.
///
/// `WINDLASS_SEED=17` runs that seed alone and prints its whole trace. Every tenth seed runs twice: another trace
/// hash the second time is a failure too. `name` is the name of the test, as `cargo test` takes it.
///
/// # Panics
/// When a seed fails: this is how a test says so.
#[track_caller]
#[allow(clippy::panic)]
pub fn seeds(name: &str, default_count: u64, scenario: impl Fn(u64) -> Run + Sync) {
    if let Some(seed) = number("WINDLASS_SEED") {
        let run = scenario(seed);
        eprintln!("{}", run.trace.tail(usize::MAX));
        eprintln!(
            "seed {seed}: {:?} of virtual time, hash {}, faults {:?}",
            run.took,
            run.hash(),
            run.strikes
        );
        if let Err(why) = check(&run, true, &scenario) {
            panic!("seed {seed} of {name} fails: {why}");
        }
        return;
    }
    let count = number("WINDLASS_SEEDS").unwrap_or(default_count);
    if let Some((_, why)) = first_failure(name, count, &scenario) {
        panic!("{why}");
    }
}

/// The lowest seed that goes wrong. Each world has a thread of its own, so that seeds do not see each other; a seed is
/// begun only while all before it went well or are under way.
fn first_failure(name: &str, count: u64, scenario: &(impl Fn(u64) -> Run + Sync)) -> Option<Failed> {
    let next = AtomicU64::new(0);
    let failed: Mutex<Option<Failed>> = Mutex::new(None);
    let lock = || failed.lock().unwrap_or_else(PoisonError::into_inner);
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= count || lock().as_ref().is_some_and(|(lowest, _)| *lowest < seed) {
                return;
            }
            if let Some(why) = failure(name, seed, scenario) {
                let mut failed = lock();
                if failed.as_ref().is_none_or(|(lowest, _)| seed < *lowest) {
                    *failed = Some((seed, why));
                }
            }
        }
    };
    let workers =
        thread::available_parallelism().map_or(1, NonZero::get).min(usize::try_from(count).unwrap_or(1));
    thread::scope(|scope| {
        for _ in 1..workers {
            scope.spawn(work);
        }
        work();
    });
    failed.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn failure(name: &str, seed: u64, scenario: &impl Fn(u64) -> Run) -> Option<String> {
    let run = scenario(seed);
    let why = check(&run, seed.is_multiple_of(10), scenario).err()?;
    Some(format!(
        "seed {seed} of {name} fails: {why}\n\nfaults that struck: {:?}\ntrace:\n{}\nreplay with:\n  {}\n",
        run.strikes,
        run.trace.tail(TAIL),
        replay_command(name, seed)
    ))
}

fn check(run: &Run, twice: bool, scenario: &impl Fn(u64) -> Run) -> Result<(), String> {
    run.result.clone()?;
    if twice {
        let again = scenario(run.seed);
        if again.hash() != run.hash() {
            let parted = run.trace.first_difference(&again.trace).unwrap_or_default();
            return Err(format!("the same seed gave another trace, they part at {parted}"));
        }
    }
    Ok(())
}

/// The command line that replays one seed of this test.
pub fn replay_command(name: &str, seed: u64) -> String {
    let package = env::var("CARGO_PKG_NAME").unwrap_or_default();
    let exe = env::current_exe().unwrap_or_default();
    let package_flag = if package.is_empty() { String::new() } else { format!(" -p {package}") };
    format!("WINDLASS_SEED={seed} cargo test{package_flag}{} {name} -- --nocapture", target(&exe, &package))
}

/// The cargo flag that selects a test binary: cargo names it after its target, with a hash behind.
fn target(exe: &Path, package: &str) -> String {
    let stem = exe.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let target = stem.rsplit_once('-').map_or(stem, |(target, _)| target);
    if target.is_empty() {
        String::new()
    } else if target == package.replace('-', "_") {
        " --lib".to_owned()
    } else {
        format!(" --test {target}")
    }
}

fn number(variable: &str) -> Option<u64> {
    env::var(variable).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_seed_that_fails_is_told() {
        let seen = Mutex::new(Vec::new());
        let scenario = |seed: u64| {
            seen.lock().unwrap().push(seed);
            crate::sim::run(seed, &crate::sim::Faults::none(), |world| async move {
                anyhow::ensure!(world.seed() < 13, "bad luck");
                Ok(())
            })
        };
        let (seed, why) = first_failure("some_test", 1000, &scenario).unwrap();
        assert_eq!(seed, 13);
        assert!(why.contains("bad luck") && why.contains("WINDLASS_SEED=13 "), "{why}");
        let mut seeds = seen.into_inner().unwrap();
        seeds.sort_unstable();
        seeds.dedup();
        assert!((0..=13).all(|seed| seeds.contains(&seed)) && seeds.len() < 200, "{seeds:?}");
        let fine = |seed: u64| crate::sim::run(seed, &crate::sim::Faults::none(), |_| async { Ok(()) });
        assert!(first_failure("some_test", 25, &fine).is_none());
    }

    #[test]
    fn replay_names_the_target() {
        let exe = Path::new("target/debug/deps/simulation-0123456789abcdef");
        assert_eq!(target(exe, "windlass-deliver"), " --test simulation");
        let exe = Path::new("target/debug/deps/windlass_deliver-0123456789abcdef");
        assert_eq!(target(exe, "windlass-deliver"), " --lib");
        let command = replay_command("cluster_controller", 17);
        assert!(command.starts_with("WINDLASS_SEED=17 cargo test"), "{command}");
        assert!(command.ends_with(" cluster_controller -- --nocapture"), "{command}");
    }
}
