//! Bench of what reads and writes manifests, on 10,000 generated objects.
//!
//! Measured: megabytes a CPU second of parse and encode, beside a plain serde YAML round trip of the same objects; edits in
//! place; the memory of it all. Prints a table and writes JSON; never fails because of a figure.

mod corpus;
mod edits;
mod text;

use windlass_testbed::measure::{Report, peak_memory};

/// How many objects there are.
const OBJECTS: usize = 10_000;

fn main() -> anyhow::Result<()> {
    let objects = corpus::objects(OBJECTS);
    let mut report = Report::new("manifest");
    text::measure(&objects, &mut report)?;
    edits::measure(&objects, &mut report)?;
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    report.figure("peak memory of the bench", peak_memory(std::process::id())? as f64 / 1e6, "MB");

    let path = report.publish()?;
    println!("{}", report.table());
    println!("JSON: {}", path.display());
    Ok(())
}
