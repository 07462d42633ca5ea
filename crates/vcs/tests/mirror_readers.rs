//! Readers at work while a mirror is fetched and tidied.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod mirror_support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use mirror_support::{Bed, fetch, id, options};
use tokio_util::sync::CancellationToken;
use windlass_vcs::mirror::{Mirror, MirrorOptions, Tidying};
use windlass_vcs::repo::Repo;

/// Reads the trees of all refs, with the repository of now and with one from the beginning, until it is told to stop.
fn read_on(mirror: &Mirror, old: &Repo, first: &str, stop: &AtomicBool) -> usize {
    let mut reads = 0;
    while !stop.load(Ordering::Relaxed) {
        let refs = mirror.refs().unwrap();
        assert_eq!(refs.len(), 21, "{refs:?}");
        for (name, commit) in refs {
            mirror
                .read(|repo| repo.tree_of(commit))
                .unwrap()
                .unwrap_or_else(|error| panic!("{name}: {error}"));
            // One that nobody opens anew finds it, too.
            old.tree_of(commit).unwrap_or_else(|error| panic!("{name} with an old handle: {error}"));
            reads += 1;
        }
        old.tree_of(id(first)).unwrap();
    }
    reads
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_never_miss_an_object_while_fetches_and_tidying_go_on() {
    let tidying = Tidying { automatic: false, grace: Duration::from_secs(3600), ..Tidying::default() };
    let bed = Bed::with(MirrorOptions { tidying, ..options() }).await;
    let mirror = bed.mirror();
    for number in 0..20 {
        bed.repo.branch(&format!("branch/{number}")).unwrap();
    }
    fetch(&mirror).await.unwrap();
    let (first, old) = (bed.repo.tip().unwrap(), mirror.repo().unwrap());
    let stop = Arc::new(AtomicBool::new(false));
    let reads = Arc::new(AtomicUsize::new(0));
    let readers: Vec<_> = (0..2)
        .map(|_| {
            let (mirror, old, first) = (mirror.clone(), old.clone(), first.clone());
            let (stop, reads) = (stop.clone(), reads.clone());
            std::thread::spawn(move || {
                reads.fetch_add(read_on(&mirror, &old, &first, &stop), Ordering::Relaxed);
            })
        })
        .collect();
    let (start, mut rounds) = (Instant::now(), 0_u32);
    while rounds < 6 || start.elapsed() < Duration::from_secs(5) {
        rounds += 1;
        let content = format!("a: {rounds}\n");
        if rounds % 3 == 0 {
            bed.repo.force_push(&[("a.yaml", Some(&content))], "forced").unwrap();
        } else {
            bed.repo.commit_files(&[("a.yaml", Some(&content))], "more").unwrap();
        }
        fetch(&mirror).await.unwrap();
        mirror.tidy(rounds % 2 == 0, &CancellationToken::new()).await.unwrap();
    }
    stop.store(true, Ordering::Relaxed);
    for reader in readers {
        reader.join().unwrap();
    }
    assert!(reads.load(Ordering::Relaxed) > 100);
}
