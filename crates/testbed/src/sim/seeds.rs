//! Many seeds, and the one command that replays one.

use std::{env, path::Path};

use super::run::Run;

/// How many trace lines of a failing seed are shown.
const TAIL: usize = 60;

/// Runs a scenario for seeds `0..N`, `default_count` of them unless `WINDLASS_SEEDS` says otherwise, and fails the
/// test on the first seed that goes wrong, with the command that replays it.
///
/// `WINDLASS_SEED=17` runs that seed alone and prints its whole trace. Every tenth seed runs twice: another trace
/// hash the second time is a failure too. `name` is the name of the test, as `cargo test` takes it.
///
/// # Panics
/// When a seed fails: this is how a test says so.
#[track_caller]
#[allow(clippy::panic)]
pub fn seeds(name: &str, default_count: u64, scenario: impl Fn(u64) -> Run) {
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
    for seed in 0..number("WINDLASS_SEEDS").unwrap_or(default_count) {
        let run = scenario(seed);
        if let Err(why) = check(&run, seed % 10 == 0, &scenario) {
            panic!(
                "seed {seed} of {name} fails: {why}\n\nfaults that struck: {:?}\ntrace:\n{}\nreplay with:\n  {}\n",
                run.strikes,
                run.trace.tail(TAIL),
                replay_command(name, seed)
            );
        }
    }
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
