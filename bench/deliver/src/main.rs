//! Bench of Applications: `windlass controller` as a child, on real control planes, with a real git server.
//!
//! ```text
//!  many      100, 500, 1,000 Applications of four objects from one repository; what rest and a commit cost
//!  commit    800 Applications: one file changes; 1,500: how soon a hook is answered
//!  drift     an edit by hand is put back
//!  gate      a dry run of 1,000 objects
//!  flux      100 Kustomizations with Flux, for comparison
//!  clusters  100 kubeconfigs with 50 objects each, one of them dead
//! ```
//!
//! `bench-deliver many gate` runs some of them. Flux gets the same work on a control plane of its own where
//! `FLUX_SOURCE_CONTROLLER` and `FLUX_KUSTOMIZE_CONTROLLER` name its programs. Prints a table and writes JSON; never fails because of a figure.

mod clusters;
mod commit;
mod drift;
mod flux;
mod gate;
mod many;
mod product;
mod stage;

use windlass_testbed::measure::Report;

const ALL: [&str; 6] = ["many", "commit", "drift", "gate", "flux", "clusters"];

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let named: Vec<String> = std::env::args().skip(1).collect();
    for name in &named {
        anyhow::ensure!(ALL.contains(&name.as_str()), "no scenario {name}: there are {}", ALL.join(", "));
    }
    let mut report = Report::new("deliver");
    for name in ALL.into_iter().filter(|name| named.is_empty() || named.iter().any(|one| one == name)) {
        eprintln!("{name}");
        let done = match name {
            "many" => many::measure(&mut report).await,
            "commit" => commit::measure(&mut report).await,
            "drift" => drift::measure(&mut report).await,
            "gate" => gate::measure(&mut report).await,
            "flux" => flux::measure(&mut report, 100).await,
            _ => clusters::measure(&mut report).await,
        };
        // What was measured so far is worth having.
        if let Err(error) = done {
            eprintln!("{name} was not measured to its end: {error:?}");
        }
    }
    let path = report.publish()?;
    println!("{}", report.table());
    println!("JSON: {}", path.display());
    Ok(())
}
