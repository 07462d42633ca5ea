//! Fault-free runs that many seeds are compared with.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use super::{
    compare::{Compare, Summary},
    faults::Faults,
    run::{Run, run},
    world::World,
};

type Twin = Arc<OnceLock<Result<Summary, String>>>;

/// Remembers how a scenario ends without faults, one end for each class of seeds: what
/// [`compare_with_fault_free`](super::compare_with_fault_free) finds out anew for every seed, at the cost of a run.
///
/// For scenarios whose deeds follow from the class alone (`seed % 10`, say, or always 0), so that all its seeds have to
/// end alike. Generated names differ from seed to seed: leave such objects out of the comparison.
#[derive(Default)]
pub struct Twins {
    known: Mutex<BTreeMap<u64, Twin>>,
}

impl Twins {
    /// Nothing is known yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Runs a scenario under the plan and compares its end with that of the class's fault-free run. The class is handed
    /// to the scenario, to choose its deeds by.
    pub fn compare<F, Fut>(&self, class: u64, seed: u64, plan: &Faults, compare: &Compare, scenario: F) -> Run
    where
        F: Fn(World, u64) -> Fut,
        Fut: Future<Output = anyhow::Result<()>>,
    {
        let twin = {
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(known.entry(class).or_default())
        };
        let mut failed = None;
        let end = twin.get_or_init(|| {
            let twin = run(class, &Faults::none(), |world| scenario(world, class));
            match twin.result.clone() {
                Ok(()) => Ok(twin.summary),
                Err(why) => {
                    failed = Some(twin);
                    Err(format!("without any fault (class {class}): {why}"))
                }
            }
        });
        let expected = match end {
            Ok(expected) => expected,
            Err(why) => {
                // The trace is there once; who comes later gets a run of its own.
                let mut run =
                    failed.unwrap_or_else(|| run(class, &Faults::none(), |world| scenario(world, class)));
                run.result = Err(why.clone());
                return run;
            }
        };
        let mut faulty = run(seed, plan, |world| scenario(world, class));
        if faulty.result.is_ok() {
            let differences = compare.differences(expected, &faulty.summary);
            if !differences.is_empty() {
                let why =
                    format!("the end differs from the fault-free run's of class {class}:\n{differences}");
                faulty.result = Err(why);
            }
        }
        faulty
    }
}
