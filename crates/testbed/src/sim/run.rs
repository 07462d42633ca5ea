//! One run: a runtime of its own, a world, a scenario, and what came of it.

use std::{
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

use super::{
    clock::Clock, compare::Summary, dice::Dice, faults::Faults, hub::Hub, logs::Logs, panics::Panics,
    trace::Trace, world::World, writes::Write,
};

/// No scenario needs more virtual time than this.
const LONGEST: Duration = Duration::from_hours(7 * 24);

/// What came of a run.
#[derive(Debug)]
pub struct Run {
    /// Its seed.
    pub seed: u64,
    /// What went wrong, if anything.
    pub result: Result<(), String>,
    /// Everything that happened.
    pub trace: Trace,
    /// Every write that reached the API.
    pub writes: Vec<Write>,
    /// The objects at the end, and how many were created and deleted by instances.
    pub summary: Summary,
    /// How often each fault has struck.
    pub strikes: BTreeMap<&'static str, u64>,
    /// How much virtual time it took.
    pub took: Duration,
}

impl Run {
    /// Hash of the trace: a function of the seed.
    pub fn hash(&self) -> String {
        self.trace.hash()
    }
}

/// Runs a scenario in a world of its own, under the plan's faults.
///
/// The runtime has one thread, paused time and no I/O: a controller that opens a socket or blocks a thread is told
/// so by a panic, which fails the run.
pub fn run<F, Fut>(seed: u64, plan: &Faults, scenario: F) -> Run
where
    F: FnOnce(World) -> Fut,
    Fut: Future<Output = anyhow::Result<()>>,
{
    let panics = Panics::watch();
    let logs = Logs::default();
    let _logging = tracing::subscriber::set_default(logs.subscriber());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return Run::failed(seed, format!("cannot build a runtime: {error}")),
    };
    let world = runtime.block_on(async {
        let clock = Clock::start();
        let hub = Hub::new(Dice::new(seed), clock, plan);
        World::new(&hub, logs, plan)
    });
    let ended = catch_unwind(AssertUnwindSafe(|| {
        runtime.block_on(async {
            let exhausted = world.hub.exhausted.clone();
            tokio::select! {
                biased;
                () = exhausted.cancelled() => Err("gave up after too many steps: something never comes to rest".into()),
                ended = tokio::time::timeout(LONGEST, scenario(world.clone())) => match ended {
                    Ok(result) => result.map_err(|error| format!("{error:#}")),
                    Err(_) => Err(format!("the scenario did not end within {LONGEST:?} of virtual time")),
                },
            }
        })
    }));
    let mut result = ended.unwrap_or_else(|_| Err("the scenario panicked".to_owned()));
    let caught = Panics::so_far();
    if !caught.is_empty() {
        let why = result.err().map(|error| format!("{error}\n")).unwrap_or_default();
        result = Err(format!("{why}panicked: {}", caught.join("\n")));
    }
    let run = runtime.block_on(async { Run::of(&world, result) });
    // Passengers hold worlds, which hold passengers: let go, or every run stays in memory.
    world.hub.lock().slots.clear();
    drop(runtime);
    drop(panics);
    run
}

impl Run {
    fn of(world: &World, result: Result<(), String>) -> Self {
        Self {
            seed: world.seed(),
            result,
            trace: world.trace(),
            writes: world.writes(),
            summary: Summary::of(world),
            strikes: world.strikes(),
            took: world.elapsed(),
        }
    }

    fn failed(seed: u64, why: String) -> Self {
        Self {
            seed,
            result: Err(why),
            trace: Trace::default(),
            writes: Vec::new(),
            summary: Summary::default(),
            strikes: BTreeMap::new(),
            took: Duration::ZERO,
        }
    }
}
