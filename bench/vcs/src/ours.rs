//! The steps as windlass does them.

use anyhow::Context as _;
use tokio_util::sync::CancellationToken;
use windlass_testbed::measure;
use windlass_vcs::{
    id::CommitId,
    mirror::{MirrorOptions, Mirrors},
    remote::{Remote, UrlPolicy},
    tree::{self, At, Globs, Limits, RepoPath},
};

use crate::{
    Bench,
    meter::Meter,
    sample::{FOLDER, Sample, folder, path},
};

/// How often a quick step is repeated.
pub(crate) const ROUNDS: usize = 20;

/// Numbers of the files that change, none of them twice.
pub(crate) fn changed(round: usize) -> usize {
    round * 331 + 7
}

pub(crate) async fn measure(bench: &mut Bench<'_>, sample: &Sample) -> anyhow::Result<()> {
    let cancel = CancellationToken::new();
    let before = measure::memory(std::process::id())?;
    let mirrors = Mirrors::new(&sample.folder.join("mirrors"), MirrorOptions::default())?;
    let remote = Remote::with_policy(&sample.url(), UrlPolicy { file: true })?;
    let mirror = mirrors.mirror(&remote)?;

    let mut meter = Meter::new();
    meter.begin()?;
    mirror.fetch(&cancel).await?;
    meter.end()?;
    bench.cost("windlass: first mirror", meter.cost()?);
    bench.bytes("windlass: size of the mirror", size(&mirror.git_dir())?);

    let mut meter = Meter::new();
    for _ in 0..ROUNDS {
        meter.begin()?;
        let fetched = mirror.fetch(&cancel).await?;
        meter.end()?;
        anyhow::ensure!(fetched.movements.is_empty(), "there was no news");
    }
    bench.cost("windlass: fetch without news", meter.cost()?);

    let (mut fetch, mut detect) = (Meter::new(), Meter::new());
    for round in 0..ROUNDS {
        let new = sample.change_one(changed(round), 1)?;
        fetch.begin()?;
        let fetched = mirror.fetch(&cancel).await?;
        fetch.end()?;
        let moved = fetched.movements.first().context("nothing moved")?;
        let (from, to) = (moved.from.context("new")?, moved.to.context("gone")?);
        anyhow::ensure!(to.to_string() == new, "moved elsewhere");
        detect.begin()?;
        let changes = tree::changes(&*mirror.repo()?, Some(At::from(from)), to, &RepoPath::root())?;
        detect.end()?;
        anyhow::ensure!(changes.len() == 1, "{} changes", changes.len());
        anyhow::ensure!(changes[0].path.as_str() == Some(path(changed(round)).as_str()), "{:?}", changes[0]);
    }
    bench.cost("windlass: fetch of a one-file commit", fetch.cost()?);
    bench.cost_below("windlass: detection of a one-file commit", detect.cost()?, 20.0);

    let tip: CommitId = sample.remote(&["rev-parse", "main"])?.parse()?;
    let globs = Globs::new::<&str>(&[], &[])?;
    let mut meter = Meter::new();
    for round in 0..ROUNDS {
        let place = RepoPath::parse(&folder(round * FOLDER))?;
        meter.begin()?;
        let content = tree::read_all(&*mirror.repo()?, tip, &place, &globs, Limits::default())?;
        meter.end()?;
        anyhow::ensure!(content.files.len() == FOLDER, "{} files", content.files.len());
    }
    bench.cost("windlass: read of a folder of 200 files", meter.cost()?);
    let held = measure::memory(std::process::id())?.saturating_sub(before);
    bench.bytes("windlass: memory held by an open mirror", held);
    Ok(())
}

/// Bytes of all files in a folder.
pub(crate) fn size(folder: &std::path::Path) -> anyhow::Result<u64> {
    let mut total = 0;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let data = entry.metadata()?;
        total += if data.is_dir() { size(&entry.path())? } else { data.len() };
    }
    Ok(total)
}
