//! The simulation: controllers run against an in-memory API, in virtual time, under faults, from a seed.
//!
//! ```text
//!   scenario ──outsider──────────────────────────────┐
//!      │ start, crash, pause, freeze, calm           ▼
//!      ▼                                          ┌─────┐
//!   instance a ─kube::Client─ gate ─┐             │ API │   of the hub, and of every further cluster
//!   instance a' (restarted)   gate ─┼─ scheduler ─┤ API │   one release a virtual millisecond,
//!   instance b ─kube::Client─ gate ─┘   faults    │ API │   order and delays by the seed
//!                                       trace     └─────┘
//!                                       writes ──► invariants
//! ```
//!
//! A scenario is a function of a [`World`]; [`run`] gives it one. [`seeds`] runs it over many seeds and prints how
//! to replay one that failed; [`compare_with_fault_free`] also runs it without faults and compares the ends, and
//! [`Twins`] do so once for many seeds;
//! [`every_crash`] kills the controller after every single write.
//!
//! ```no_run
//! use windlass_testbed::sim::{self, Faults, invariants};
//! use std::time::Duration;
//!
//! # async fn controller(_: sim::Instance) {}
//! sim::seeds("my_controller", 200, |seed| {
//!     let plan = Faults::chaos(seed, &["a"], Duration::from_secs(120));
//!     sim::compare_with_fault_free(seed, &plan, &sim::Compare::default(), |world| async move {
//!         world.start("a", controller);
//!         // … act as the user through world.client() …
//!         invariants::eventually_stable(&world, &invariants::Stable::default()).await?;
//!         invariants::no_panic(&world)
//!     })
//! });
//! ```
//!
//! What has to come from the instance and not from the machine, for a run to be a function of its seed: the time
//! ([`Instance::clock`]), sleeping (tokio's), jitter ([`Instance::seed`]). `select!` needs `biased`. The order of a
//! `HashMap` does no harm as long as it only decides the order of requests made at one moment.

pub mod api;
mod call;
mod clock;
mod clusters;
mod compare;
mod dice;
mod fault;
mod faults;
mod gate;
mod hub;
mod instance;
pub mod invariants;
mod life;
mod logs;
mod outsider;
mod panics;
mod release;
mod run;
mod seeds;
mod streams;
mod trace;
mod twins;
mod world;
mod writes;

pub use call::{Call, Verb};
pub use clock::{Clock, epoch};
pub use clusters::{Clusters, Unreachable};
pub use compare::{Compare, On, Summary, compare_with_fault_free, every_crash};
pub use dice::Dice;
pub use fault::{Effect, Fault, Match, Meddling, Refusal, StreamFault, When};
pub use faults::{Disruption, Faults, Pace, Thaw};
pub use instance::Instance;
pub use logs::Logs;
pub use outsider::Outsider;
pub use run::{Run, run};
pub use seeds::{replay_command, seeds};
pub use trace::{Entry, Trace};
pub use twins::Twins;
pub use world::World;
pub use writes::Write;
