//! The same steps with the `git` program.

use std::{io::Write as _, path::Path, process::Stdio};

use anyhow::Context as _;

use crate::{
    Bench,
    meter::Meter,
    ours::{ROUNDS, changed, size},
    sample::{FOLDER, Sample, folder, path},
};

/// Every manifest has this once.
const MARK: &[u8] = b"kind: Deployment\n";

pub(crate) fn measure(bench: &mut Bench<'_>, sample: &Sample) -> anyhow::Result<()> {
    let clone = sample.folder.join("clone");
    let mut meter = Meter::new();
    meter.begin()?;
    sample.git().run(&sample.folder, &["clone", "--quiet", "--mirror", &sample.url(), "clone"])?;
    meter.end()?;
    bench.cost("git: first mirror", meter.cost()?);
    bench.bytes("git: size of the mirror", size(&clone)?);

    let mut meter = Meter::new();
    for _ in 0..ROUNDS {
        meter.begin()?;
        sample.git().run(&clone, &["fetch", "--quiet", "--prune"])?;
        meter.end()?;
    }
    bench.cost("git: fetch without news", meter.cost()?);

    let (mut fetch, mut detect) = (Meter::new(), Meter::new());
    for round in 0..ROUNDS {
        let from = sample.remote(&["rev-parse", "main"])?;
        let to = sample.change_one(changed(round), 2)?;
        fetch.begin()?;
        sample.git().run(&clone, &["fetch", "--quiet", "--prune"])?;
        fetch.end()?;
        detect.begin()?;
        let changes = sample.git().run(&clone, &["diff-tree", "-r", "--name-status", &from, &to])?;
        detect.end()?;
        anyhow::ensure!(changes == format!("M\t{}", path(changed(round))), "{changes}");
    }
    bench.cost("git: fetch of a one-file commit", fetch.cost()?);
    bench.cost("git: detection of a one-file commit", detect.cost()?);

    let mut meter = Meter::new();
    for round in 0..ROUNDS {
        meter.begin()?;
        let read = read(sample, &clone, &folder(round * FOLDER))?;
        meter.end()?;
        anyhow::ensure!(read == FOLDER, "{read} files");
    }
    bench.cost("git: read of a folder of 200 files", meter.cost()?);
    Ok(())
}

/// Reads a folder with `ls-tree` and `cat-file`; returns the number of files.
fn read(sample: &Sample, clone: &Path, folder: &str) -> anyhow::Result<usize> {
    let listed =
        sample.git().run(clone, &["ls-tree", "-r", "--object-only", "main", &format!("{folder}/")])?;
    let mut command = sample.git().command();
    command
        .current_dir(clone)
        .args(["cat-file", "--batch", "--buffer"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut child = command.spawn().context("cannot run git cat-file")?;
    child.stdin.take().context("no input")?.write_all(format!("{listed}\n").as_bytes())?;
    let output = child.wait_with_output()?;
    anyhow::ensure!(output.status.success(), "git cat-file failed");
    Ok(output.stdout.windows(MARK.len()).filter(|window| *window == MARK).count())
}
