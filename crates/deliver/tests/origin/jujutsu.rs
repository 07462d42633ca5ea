//! Change ids and conflicts, in commits as Jujutsu writes them.

use windlass_deliver::origin::{Origin, Push, Wanted};
use windlass_testbed::git::Repo;

use crate::bed::Bed;

const CHANGE: &str = "kkmpptqzrxusvwlonyksmpptqzrxusvw";

/// The tree of one file, and nothing that leads to it.
fn tree(repo: &Repo, content: &str) -> String {
    tree_of(repo, &[("app.yaml", content)])
}

/// The tree of a conflict: the first side at its usual place, and all of them in folders of their own.
fn sides(repo: &Repo) -> String {
    tree_of(
        repo,
        &[
            ("app.yaml", "left\n"),
            (".jjconflict-base-0/app.yaml", "base\n"),
            (".jjconflict-side-0/app.yaml", "left\n"),
            (".jjconflict-side-1/app.yaml", "right\n"),
        ],
    )
}

fn tree_of(repo: &Repo, files: &[(&str, &str)]) -> String {
    let scratch = repo.commit("scratch").on("scratch").remove_all();
    files.iter().fold(scratch, |commit, (path, content)| commit.file(path, content)).write().unwrap();
    let tree = repo.git(&["rev-parse", "refs/heads/scratch^{tree}"]).unwrap();
    repo.delete_branch("scratch").unwrap();
    tree
}

/// A commit with headers of its own, on a branch.
fn commit(repo: &Repo, branch: &str, tree: &str, headers: &str, message: &str) -> String {
    let parent = repo.tip().unwrap();
    let who = "Someone <someone@example.org> 1700000000 +0000";
    let text = format!("tree {tree}\nparent {parent}\nauthor {who}\ncommitter {who}\n{headers}\n{message}\n");
    let file = repo.path().join("raw-commit");
    std::fs::write(&file, text).unwrap();
    let id = repo.git(&["hash-object", "-t", "commit", "-w", file.to_str().unwrap()]).unwrap();
    repo.set_branch(branch, &id).unwrap();
    id
}

fn change() -> String {
    format!("change-id {CHANGE}\n")
}

fn push(bed: &Bed) -> Push {
    Push { urls: vec![bed.repo.url()], ..Push::default() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_is_followed_through_rewrites_and_trouble_says_when_it_is_divergent() {
    let bed = Bed::new().await;
    let one = tree(&bed.repo, "one\n");
    let first = commit(&bed.repo, "mine", &one, &change(), "first");
    let follow = bed.follow("web", Some(&CHANGE[..12]));
    let seen = bed.until_at(&follow, &first).await;
    assert_eq!(seen.change_id.as_deref(), Some(CHANGE));
    assert_eq!(seen.name.as_deref(), Some(&CHANGE[..12]));
    let by_branch = bed.until_at(&bed.follow("branch", Some("mine")), &first).await;
    assert_eq!(by_branch.change_id.as_deref(), Some(CHANGE));
    let second = commit(&bed.repo, "mine", &one, &change(), "described anew");
    bed.repos.pushed(&push(&bed));
    bed.until_at(&follow, &second).await;
    let third = commit(&bed.repo, "yours", &one, &change(), "somebody else's");
    bed.repos.pushed(&push(&bed));
    let trouble = bed.until_trouble(&follow, "ChangeDivergent").await;
    assert!(trouble.what.contains(&second) && trouble.what.contains(&third), "{trouble:?}");
    bed.repo.delete_branch("yours").unwrap();
    bed.repos.pushed(&push(&bed));
    bed.until_at(&follow, &second).await;
    bed.repo.delete_branch("mine").unwrap();
    bed.repos.pushed(&push(&bed));
    let trouble = bed.until_trouble(&follow, "ChangeAbandoned").await;
    assert!(trouble.what.contains(CHANGE), "{trouble:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_conflicted_commit_is_refused_with_its_files_even_when_a_pin_names_it() {
    let bed = Bed::new().await;
    let [base, left, right] = ["base\n", "left\n", "right\n"].map(|text| tree(&bed.repo, text));
    let good = commit(&bed.repo, "mine", &base, &change(), "good");
    let follow = bed.follow("web", Some("mine"));
    bed.until_at(&follow, &good).await;
    let headers = format!("jj:trees {left} {base} {right}\n{}", change());
    let bad = commit(&bed.repo, "mine", &sides(&bed.repo), &headers, "conflicted");
    bed.repos.pushed(&push(&bed));
    let trouble = bed.until_trouble(&follow, "CommitConflicted").await;
    assert!(trouble.what.contains("app.yaml") && trouble.waits_for_change, "{trouble:?}");
    let wanted = |commit| Wanted {
        app: &follow.app,
        source: &follow.source,
        commit,
        path: None,
        namespace: None,
        kube_version: None,
    };
    assert_eq!(bed.repos.render(wanted(&bad)).await.unwrap_err().reason, "CommitConflicted");
    // What ran before can still be rendered.
    assert_eq!(bed.repos.render(wanted(&good)).await.unwrap().objects.len(), 1);
}
