//! What a commit makes of many Applications.

use windlass_deliver::origin::Push;
use windlass_testbed::git::Kind;

use crate::house::{House, config_map, folder};

const APPLICATIONS: usize = 800;

/// Applications whose kustomization reads the shared base.
const ON_BASE: usize = 6;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_one_file_commit_among_800_applications_renders_exactly_its_dependents() {
    let house = House::with(APPLICATIONS, ON_BASE).await;
    let first = house.repo.tip().unwrap();
    house.all_see(&first).await;
    assert_eq!(house.render_all(&first).await, APPLICATIONS as u64);
    // A fetch sends one or two of these, however many Applications follow.
    let fetches = house.repo.count(Kind::UploadPack);
    assert!((1..=2).contains(&fetches), "one fetch serves all: {fetches}");

    let web = format!("{}/web.yaml", folder(400));
    let changes = [
        (web.as_str(), config_map("web-400", "two"), 1, "the folder of one"),
        ("base/shared.yaml", config_map("shared", "two"), ON_BASE as u64, "what a few read"),
        ("README.md", "two\n".to_owned(), 0, "what nobody reads"),
        // The same inputs as at first: they are known.
        (web.as_str(), config_map("web-400", "one"), 0, "the folder of one, as it was"),
    ];
    for (path, content, dependents, what) in changes {
        let commit = house.repo.commit_files(&[(path, Some(&content))], what).unwrap();
        house.repos.pushed(&Push { urls: vec![house.repo.url()], ..Push::default() });
        house.all_see(&commit).await;
        assert_eq!(house.render_all(&commit).await, dependents, "{what}");
        // Asked again, nothing at all is done.
        assert_eq!(house.render_all(&commit).await, 0, "{what}");
    }
    let fetches = house.repo.count(Kind::UploadPack);
    assert!((5..=10).contains(&fetches), "one fetch for each commit: {fetches}");
}
