//! One object of a file of a hundred edited in place.

use std::hint::black_box;

use serde_json::{Value, json};
use windlass_manifest::{
    canonical::encode_all,
    edit::{Selector, edit},
    parse::Limits,
};
use windlass_testbed::measure::{Report, cpu};

/// How many objects a file holds.
const IN_A_FILE: usize = 100;

/// How many edits are made.
const EDITS: usize = 200;

/// Measures the CPU time of one edit, the check by reading again included.
pub fn measure(objects: &[Value], report: &mut Report) -> anyhow::Result<()> {
    let limits = Limits::default();
    let objects = &objects[..IN_A_FILE.min(objects.len())];
    let text = encode_all(objects);
    let pid = std::process::id();
    let before = cpu(pid)?;
    for n in 0..EDITS {
        let document = n % objects.len();
        let mut wanted = objects[document].clone();
        wanted["metadata"]["labels"]["edited"] = json!(n.to_string());
        black_box(edit(&text, Selector { document, item: None }, &wanted, &limits)?);
    }
    let spent = cpu(pid)?.saturating_sub(before).as_secs_f64();
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    report.figure("edit of one object in a file of 100", spent * 1e3 / EDITS as f64, "CPU ms");
    Ok(())
}
