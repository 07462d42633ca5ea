//! Somebody who works with Jujutsu and pushes to the remote. The commits are jj-lib's own, as the `jj` program would
//! write them.

use std::sync::Arc;

use futures::executor::block_on;
use jj_lib::{
    backend::{ChangeId as JjChangeId, CopyId, TreeValue},
    commit::Commit,
    config::{ConfigLayer, ConfigSource, StackedConfig},
    git_backend::GitBackend,
    merge::Merge,
    merged_tree::MergedTree,
    merged_tree_builder::MergedTreeBuilder,
    object_id::ObjectId as _,
    repo::{MutableRepo, ReadonlyRepo, Repo as _},
    repo_path::RepoPathBuf,
    rewrite::{merge_commit_trees, rebase_commit},
    settings::UserSettings,
    signing::Signer,
};
use windlass_vcs::id::{ChangeId, CommitId};

use super::git::{Git, Scene};

pub struct Jj {
    repo: Arc<ReadonlyRepo>,
    git: Git,
    remote: String,
}

impl Jj {
    pub fn new(scene: &Scene) -> Self {
        let settings = settings();
        let path = scene.dir.path().join("jj-user");
        std::fs::create_dir_all(&path).unwrap();
        let repo = block_on(ReadonlyRepo::init(
            &settings,
            &path,
            &|settings, store| {
                Ok(Box::new(GitBackend::init_internal(settings, store, gix::hash::Kind::Sha1)?))
            },
            Signer::from_settings(&settings).unwrap(),
            ReadonlyRepo::default_op_store_initializer(),
            ReadonlyRepo::default_op_heads_store_initializer(),
            ReadonlyRepo::default_index_store_initializer(),
            ReadonlyRepo::default_submodule_store_initializer(),
        ))
        .unwrap();
        let git = Git { path: path.join("store/git") };
        Self { repo, git, remote: scene.remote.path.to_str().unwrap().to_owned() }
    }

    /// Runs something as one operation.
    pub fn operation<T>(&mut self, run: impl FnOnce(&mut MutableRepo) -> T) -> T {
        let mut transaction = self.repo.start_transaction();
        let result = run(transaction.repo_mut());
        block_on(transaction.repo_mut().rebase_descendants()).unwrap();
        self.repo = block_on(transaction.commit("test")).unwrap();
        result
    }

    /// A commit on top of others (on nothing, when there are none) with some files changed.
    pub fn commit(&mut self, parents: &[&Commit], files: &[(&str, &str)], message: &str) -> Commit {
        let parents: Vec<Commit> = parents.iter().map(|parent| (*parent).clone()).collect();
        self.operation(|repo| {
            let base = block_on(merge_commit_trees(repo, &parents)).unwrap();
            let tree = with_files(base, files);
            let mut ids: Vec<_> = parents.iter().map(|parent| parent.id().clone()).collect();
            if ids.is_empty() {
                ids.push(repo.store().root_commit_id().clone());
            }
            block_on(repo.new_commit(ids, tree).set_description(message).write()).unwrap()
        })
    }

    /// As `commit`, with a change id of one's own choice.
    pub fn commit_as(&mut self, change: ChangeId, files: &[(&str, &str)], message: &str) -> Commit {
        self.operation(|repo| {
            let tree = with_files(repo.store().empty_merged_tree(), files);
            let root = repo.store().root_commit_id().clone();
            let builder =
                repo.new_commit(vec![root], tree).set_change_id(JjChangeId::from_bytes(change.as_bytes()));
            block_on(builder.set_description(message).write()).unwrap()
        })
    }

    /// `jj describe`: same change, another commit.
    pub fn describe(&mut self, commit: &Commit, message: &str) -> Commit {
        self.operation(|repo| block_on(repo.rewrite_commit(commit).set_description(message).write()).unwrap())
    }

    /// `jj squash`: same change, other files.
    pub fn amend(&mut self, commit: &Commit, files: &[(&str, &str)]) -> Commit {
        self.operation(|repo| {
            let tree = with_files(commit.tree(), files);
            block_on(repo.rewrite_commit(commit).set_tree(tree).write()).unwrap()
        })
    }

    /// `jj rebase`, which may leave conflicts.
    pub fn rebase(&mut self, commit: &Commit, onto: &Commit) -> Commit {
        self.operation(|repo| block_on(rebase_commit(repo, commit.clone(), vec![onto.id().clone()])).unwrap())
    }

    /// Two people describe the same change at the same time.
    pub fn diverge(&mut self, commit: &Commit) -> [Commit; 2] {
        let base = self.repo.clone();
        let commits = ["mine", "yours"].map(|message| {
            let mut transaction = base.start_transaction();
            let builder = transaction.repo_mut().rewrite_commit(commit).set_description(message);
            let commit = block_on(builder.write()).unwrap();
            block_on(transaction.repo_mut().rebase_descendants()).unwrap();
            block_on(transaction.commit(message)).unwrap();
            commit
        });
        self.repo = block_on(self.repo.reload_at_head()).unwrap();
        commits
    }

    /// The paths that jj-lib itself says are in conflict.
    pub fn conflicts(&self, commit: &Commit) -> Vec<String> {
        let commit = self.repo.store().get_commit(commit.id()).unwrap();
        commit.tree().conflicts().map(|(path, _)| path.as_internal_file_string().to_owned()).collect()
    }

    /// `jj git push` of a bookmark. It goes with plain `git`, which is what carries the commits in either case.
    pub fn push(&self, commit: &Commit, branch: &str) -> CommitId {
        let refspec = format!("+{}:refs/heads/{branch}", commit.id().hex());
        self.git.run(&["push", "--quiet", &self.remote, &refspec]);
        id(commit)
    }

    /// Removes a bookmark from the remote.
    pub fn remove(&self, branch: &str) {
        self.git.run(&["push", "--quiet", &self.remote, &format!(":refs/heads/{branch}")]);
    }
}

pub fn id(commit: &Commit) -> CommitId {
    commit.id().hex().parse().unwrap()
}

pub fn change(commit: &Commit) -> ChangeId {
    commit.change_id().reverse_hex().parse().unwrap()
}

fn settings() -> UserSettings {
    let text = "user.name = \"Author\"\nuser.email = \"author@example.org\"\n";
    let mut config = StackedConfig::with_defaults();
    config.add_layer(ConfigLayer::parse(ConfigSource::User, text).unwrap());
    UserSettings::from_config(config).unwrap()
}

fn with_files(base: MergedTree, files: &[(&str, &str)]) -> MergedTree {
    let store = base.store().clone();
    let mut builder = MergedTreeBuilder::new(base);
    for (path, text) in files {
        let path = RepoPathBuf::from_internal_string(*path).unwrap();
        let id = block_on(store.write_file(&path, &mut text.as_bytes())).unwrap();
        let value = TreeValue::File { id, executable: false, copy_id: CopyId::placeholder() };
        builder.set_or_remove(path, Merge::normal(value));
    }
    block_on(builder.write_tree()).unwrap()
}
