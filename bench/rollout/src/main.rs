//! Bench of Rollouts: `windlass controller` as a child, on a real control plane with simulated nodes.
//!
//! ```text
//!  many   1, 50, 500 Rollouts of 5 pods get a new image at once: weights 20, 40, 60, 80 with pauses of 1 s between them
//!  abort  from the word to the weights of the HTTPRoute
//! ```
//!
//! `bench-rollout many 1 50` runs one of them with other sizes. Where `ARGO_ROLLOUTS_BIN` names the program of its
//! controller, `many` gives Argo Rollouts the same work on a control plane of its own. Prints a table and writes JSON; never
//! fails because of a figure.

mod abort;
mod many;
mod side;
mod stage;

use windlass_testbed::measure::Report;

const ALL: [&str; 2] = ["many", "abort"];
const SIZES: [usize; 3] = [1, 50, 500];

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let (mut sizes, mut named) = (Vec::new(), Vec::new());
    for word in std::env::args().skip(1) {
        match word.parse::<usize>() {
            Ok(size) => sizes.push(size),
            Err(_) if ALL.contains(&word.as_str()) => named.push(word),
            Err(_) => {
                anyhow::bail!("no scenario {word}: there are {}, and numbers of Rollouts", ALL.join(", "))
            }
        }
    }
    if sizes.is_empty() {
        sizes.extend(SIZES);
    }
    let mut report = Report::new("rollout");
    for name in ALL.into_iter().filter(|name| named.is_empty() || named.iter().any(|one| one == name)) {
        eprintln!("{name}");
        let done = match name {
            "many" => many::measure(&mut report, &sizes).await,
            _ => abort::measure(&mut report).await,
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
