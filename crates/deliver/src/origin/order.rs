//! Who is woken first after a push: those whose folder it touches. A push to a repository of many Applications wakes all of
//! them, for each shows the new commit; the few that it is about need not wait for the others.

use std::collections::BTreeMap;

use windlass_cluster::drive::Key;
use windlass_vcs::{
    mirror::{Mirror, Movement},
    tree::{Compare, RepoPath, changes_with},
};

/// With fewer Applications than this, nobody waits long.
const FEW: usize = 8;

/// Changed paths that are looked at; a push with more concerns many anyway.
const MOST: usize = 2_000;

/// Puts those first whose folder holds a path that moved. The order is otherwise as it was; a push that cannot be read
/// changes nothing.
pub(super) fn touched_first(
    all: Vec<Key>,
    folders: &BTreeMap<Key, String>,
    movements: &[Movement],
    mirror: &Mirror,
) -> Vec<Key> {
    if all.len() < FEW {
        return all;
    }
    let paths = changed(movements, mirror);
    let touched = |app: &Key| {
        let folder = folders.get(app).map_or("", |folder| folder.trim_matches('/'));
        paths.iter().any(|path| is_in(path, folder))
    };
    let (mut first, rest): (Vec<Key>, Vec<Key>) = all.into_iter().partition(touched);
    first.extend(rest);
    first
}

fn changed(movements: &[Movement], mirror: &Mirror) -> Vec<String> {
    let options = Compare { renames: false, limit: MOST };
    let moves = movements.iter().filter_map(|movement| Some((movement.from?, movement.to?)));
    let read = |from, to| mirror.read(|repo| changes_with(repo, Some(from), to, &RepoPath::root(), options));
    let found = moves.filter_map(|(from, to)| read(from.into(), to).ok()?.ok());
    found.flatten().map(|change| change.path.to_string()).collect()
}

/// Whether a path is a folder's own. A render may read beside its folder (a kustomize base): such an Application is woken
/// all the same, only not first.
fn is_in(path: &str, folder: &str) -> bool {
    match folder {
        "" | "." => true,
        folder => path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/')),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_in_its_folder_and_not_in_one_with_a_longer_name() {
        assert!(is_in("apps/web/a.yaml", "apps/web") && is_in("a.yaml", "") && is_in("a.yaml", "."));
        assert!(!is_in("apps/web-2/a.yaml", "apps/web") && !is_in("apps/web", "apps/web"));
    }
}
