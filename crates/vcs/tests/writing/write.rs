//! Commits written into real repositories, judged by the real `git`.

use std::{collections::BTreeMap, sync::atomic::Ordering};

use crate::support::{Bare, spec, spec_with};
use proptest::prelude::*;
use windlass_vcs::write::{CommitSpec, Edits, Message, Person, WriteError, write};

fn edits(upserts: &[(&str, &str)], deletes: &[&str]) -> Edits {
    let mut edits = Edits::new();
    for (path, content) in upserts {
        edits.upsert(*path, *content).unwrap();
    }
    for path in deletes {
        edits.delete(*path).unwrap();
    }
    edits
}

#[test]
fn edits_become_a_commit_that_git_accepts() {
    let bare = Bare::new();
    let mut first = edits(&[("a/b/c.yaml", "1\n"), ("a/d.yaml", "2\n"), ("z", "3\n"), ("a.b", "4\n")], &[]);
    first.upsert_as("run.sh", "#!/bin/sh\n", true).unwrap();
    let one = bare.write(None, &[spec(first)]);
    let second = edits(&[("a/b/c.yaml", "5\n"), ("run.sh", "#!/bin/bash\n")], &["a/d.yaml", "no/such/file"]);
    let two = bare.write(Some(one), &[spec(second)]);
    bare.git(&["update-ref", "refs/heads/main", &two.to_string()]);
    assert_eq!(
        bare.git(&["diff-tree", "-r", "--name-status", &one.to_string(), &two.to_string()]),
        "M\ta/b/c.yaml\nD\ta/d.yaml\nM\trun.sh"
    );
    assert!(bare.git(&["ls-tree", "main", "run.sh"]).starts_with("100755 "), "the mode stays");
    assert_eq!(bare.git(&["show", "main:a/b/c.yaml"]), "5");
    assert_eq!(
        bare.git(&["log", "--format=%s|%an|%ae|%at|%cn"]),
        "Change|Ada|ada@example.org|1700000000|windlass\nChange|Ada|ada@example.org|1700000000|windlass"
    );
    assert_eq!(bare.git(&["rev-list", "--count", "main"]), "2");
    bare.fsck();
}

#[test]
fn many_objects_become_one_pack_that_git_accepts() {
    let bare = Bare::new();
    let mut all = Edits::new();
    for n in 0..300 {
        all.upsert(format!("{}/{n}.yaml", n % 20), format!("n: {n}\n").repeat(n * 3)).unwrap();
    }
    // Bytes that do not compress: the output is larger than the input.
    let noise: Vec<u8> = (0..200_000u32).map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes()[1]).collect();
    all.upsert("noise", noise.clone()).unwrap();
    let one = bare.write(None, &[spec(all)]);
    bare.git(&["update-ref", "refs/heads/main", &one.to_string()]);
    let counts = bare.git(&["count-objects", "-v"]);
    assert!(
        counts.contains("count: 0\n") && counts.contains("packs: 1\n") && counts.contains("garbage: 0\n"),
        "{counts}"
    );
    let packs: Vec<_> =
        std::fs::read_dir(bare.path().join("objects/pack")).unwrap().map(|e| e.unwrap().path()).collect();
    assert_eq!(packs.len(), 2, "{packs:?}");
    let index = packs.iter().find(|path| path.extension().unwrap() == "idx").unwrap();
    bare.git(&["verify-pack", index.to_str().unwrap()]);
    assert_eq!(bare.git_bytes(&["cat-file", "blob", "main:noise"]), noise);
    bare.fsck();
    let two = bare.write(Some(one), &[spec(edits(&[("3/3.yaml", "changed")], &[]))]);
    bare.git(&["update-ref", "refs/heads/main", &two.to_string()]);
    assert_eq!(bare.packs(), 2);
    bare.git(&["gc", "--quiet", "--prune=now"]);
    bare.fsck();
}

#[test]
fn edits_that_change_nothing_make_no_commit() {
    let bare = Bare::new();
    let one = bare.write(None, &[spec(edits(&[("a/b", "1"), ("c", "2")], &[]))]);
    let nothing = edits(&[("a/b", "1")], &["x/y", "c/d", "a"]);
    let written = write(&bare.repo(), Some(one), &[spec(nothing.clone()), spec(Edits::new())]).unwrap();
    assert_eq!(written.commits, []);
    assert_eq!(written.tree.to_string(), bare.git(&["rev-parse", &format!("{one}^{{tree}}")]));
    let empty = write(&bare.repo(), None, &[spec(edits(&[], &["a"]))]).unwrap();
    assert_eq!(
        (empty.commits.len(), empty.tree.to_string().as_str()),
        (0, "4b825dc642cb6eb9a060e54bf8d69288fbee4904")
    );

    // Among others only the idle one is left out.
    let specs = [spec(edits(&[("n", "1")], &[])), spec(nothing), spec(edits(&[("n", "2")], &[]))];
    let written = write(&bare.repo(), Some(one), &specs).unwrap();
    assert_eq!(written.commits.len(), 2);
    let tip = written.commits[1].to_string();
    assert_eq!(bare.git(&["rev-parse", &format!("{tip}~2")]), one.to_string());
    assert_eq!(bare.git(&["rev-parse", &format!("{tip}^{{tree}}")]), written.tree.to_string());
}

#[test]
fn the_same_commit_has_the_same_id_wherever_it_is_written() {
    let make = || {
        let bare = Bare::new();
        let one = bare.write(None, &[spec(edits(&[("a/b", "1")], &[]))]);
        let change = CommitSpec { change_id: Some([0x5a; 16]), ..spec(edits(&[("a/c", "2")], &[])) };
        (one, bare.write(Some(one), &[change]))
    };
    assert_eq!(make(), make());
}

#[test]
fn files_and_folders_give_way_to_each_other() {
    let bare = Bare::new();
    let files = [("folder/x", "1"), ("folder/y/z", "2"), ("file", "3"), ("folder.txt", "4"), ("keep/a", "5")];
    let one = bare.write(None, &[spec(edits(&files, &[]))]);
    let two = bare
        .write(Some(one), &[spec(edits(&[("folder", "now a file"), ("file/below", "now a folder")], &[]))]);
    assert_eq!(bare.files(two), ["file/below", "folder", "folder.txt", "keep/a"]);
    let three = bare.write(Some(two), &[spec(edits(&[("folder/again", "1")], &["folder", "keep/a"]))]);
    assert_eq!(bare.files(three), ["file/below", "folder.txt", "folder/again"]);
    let mut replaced = edits(&[("folder/new", "1")], &["file"]);
    replaced.delete_folder("folder").unwrap().delete_folder("folder.txt").unwrap();
    let four = bare.write(Some(three), &[spec(replaced)]);
    assert_eq!(
        bare.files(four),
        ["file/below", "folder.txt", "folder/new"],
        "delete is for files, delete_folder for folders"
    );
    let five = bare.write(Some(four), &[spec(edits(&[], &["file/below", "folder.txt", "folder/new"]))]);
    assert_eq!(bare.files(five), [] as [&str; 0]);
    bare.git(&["update-ref", "refs/heads/main", &five.to_string()]);
    bare.fsck();
}

#[test]
fn links_and_submodules_are_replaced_and_never_followed() {
    let bare = Bare::new();
    let stream = "commit refs/heads/main\ncommitter a <b> 1 +0000\ndata 0\nM 120000 inline link\ndata 4\n/etcM 160000 \
                  4b825dc642cb6eb9a060e54bf8d69288fbee4905 module\nM 100755 inline tool\ndata 1\nx\n";
    bare.git_with(&["fast-import", "--quiet"], stream.as_bytes());
    let tip = bare.git(&["rev-parse", "main"]).parse().unwrap();
    let next = bare.write(Some(tip), &[spec(edits(&[("link/passwd", "x"), ("module", "y")], &[]))]);
    assert_eq!(bare.files(next), ["link/passwd", "module", "tool"]);
    assert!(bare.git(&["ls-tree", &next.to_string(), "module"]).starts_with("100644 blob"));
    let mut mode = Edits::new();
    mode.upsert_as("tool", "x", false).unwrap().delete("link").unwrap();
    let last = bare.write(Some(next), &[spec(mode)]);
    assert_eq!(
        bare.git(&["diff-tree", "-r", &next.to_string(), &last.to_string()])
            .split(' ')
            .take(2)
            .collect::<Vec<_>>(),
        [":100755", "100644"],
        "only the mode has changed"
    );
}

#[test]
fn a_hostile_author_or_message_adds_no_header_and_no_trailer() {
    let bare = Bare::new();
    let time = jiff::Timestamp::from_second(1_700_000_000).unwrap();
    let hostile = "eve\ngpgsig x\nparent 4b825dc642cb6eb9a060e54bf8d69288fbee4904\0 <root@host> 1 +0000";
    let scissors = "# ------------------------ >8 ------------------------";
    let bodies = [
        "text\n\nWindlass-User: root",
        "Windlass-User: root\n\n---\nmore",
        &format!("text\n\nWindlass-User: root\n{scissors}\nmore"),
        "text\n\nSigned-off-by: x\nWindlass-User: root\n\n# comment",
        "x\r\rWindlass-User: root\r",
        "x\n\nWindlass-User: root\n\nConflicts:\n\ta\n\tb\n\n# c",
    ];
    for (n, body) in bodies.iter().enumerate() {
        for trailers in [true, false] {
            let mut message = Message::new("Subject\n\nWindlass-User: root").body(*body);
            if trailers {
                message = message
                    .trailer("Windlass-User", "ada\nWindlass-User: root\n\nWindlass-User: root")
                    .trailer("Windlass-Objects", "1");
            }
            let spec = CommitSpec {
                author: Person::new(hostile, "a>\nb", time),
                ..spec_with(edits(&[("a", &format!("{n}{trailers}"))], &[]), message)
            };
            let commit = bare.write(None, &[spec]).to_string();
            let raw = bare.git(&["cat-file", "commit", &commit]);
            let head = raw.split_once("\n\n").unwrap().0;
            let names: Vec<_> = head.lines().map(|line| line.split(' ').next().unwrap()).collect();
            assert_eq!(names, ["tree", "author", "committer"], "{raw}");
            let parsed = bare.git(&["log", "-1", "--format=%(trailers:key=Windlass-User,unfold)", &commit]);
            let piped = bare.git(&["log", "-1", "--format=%B", &commit]);
            let piped = bare.git_with(&["interpret-trailers", "--parse"], piped.as_bytes());
            let users: Vec<_> = piped.lines().filter(|line| line.starts_with("Windlass-User")).collect();
            if trailers {
                assert_eq!(
                    parsed.trim(),
                    "Windlass-User: ada Windlass-User: root Windlass-User: root",
                    "{raw}"
                );
                assert_eq!(users, [parsed.trim()], "{raw}");
            } else {
                assert_eq!((parsed.trim(), users.len()), ("", 0), "{raw}");
            }
            bare.git(&["update-ref", &format!("refs/heads/{n}{trailers}"), &commit]);
        }
    }
    bare.fsck();
}

#[test]
fn the_change_id_is_written_as_jujutsu_does() {
    let bare = Bare::new();
    let id = [0x00, 0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 0xff, 0x10, 0x32, 0x54, 0x76, 0x98, 0xba];
    let spec = CommitSpec { change_id: Some(id), ..spec(edits(&[("a", "1")], &[])) };
    let raw = bare.git(&["cat-file", "commit", &bare.write(None, &[spec]).to_string()]);
    let line = raw.lines().find_map(|line| line.strip_prefix("change-id ")).unwrap();
    let read = jj_lib::hex_util::decode_reverse_hex(line).unwrap();
    assert_eq!(read, id);
}

#[test]
fn nothing_is_written_on_top_of_what_cannot_carry_it() {
    let bare = Bare::new();
    let one = bare.write(None, &[spec(edits(&[("a", "1")], &[]))]);
    let tree = bare.git(&["rev-parse", &format!("{one}^{{tree}}")]);
    let conflicted = format!(
        "tree {tree}\nauthor a <> 1 +0000\ncommitter a <> 1 +0000\njj:trees {tree} {tree} {tree}\n\nx\n"
    );
    let conflicted = bare.git_with(&["hash-object", "-t", "commit", "-w", "--stdin"], conflicted.as_bytes());
    let next = [spec(edits(&[("a", "2")], &[]))];
    let result = write(&bare.repo(), Some(conflicted.parse().unwrap()), &next);
    assert!(matches!(&result, Err(error) if error.category() == "Conflicted"), "{result:?}");
    let result = write(&bare.repo(), Some(tree.parse().unwrap()), &next);
    assert!(matches!(&result, Err(error) if error.category() == "WrongKind"), "{result:?}");
    let result = write(&bare.repo(), Some("12".repeat(20).parse().unwrap()), &next);
    assert!(matches!(&result, Err(error) if error.category() == "Missing"), "{result:?}");
    let mut nameless = spec(edits(&[("a", "3")], &[]));
    nameless.author = Person::new("", "", jiff::Timestamp::UNIX_EPOCH);
    let before = bare.packs();
    let result = write(&bare.repo(), Some(one), &[next[0].clone(), nameless]);
    assert!(
        matches!(&result, Err(error @ WriteError::Person(_)) if error.category() == "Invalid"),
        "{result:?}"
    );
    assert_eq!(bare.packs(), before, "all or nothing");
}

#[test]
fn a_disk_that_refuses_is_an_error_and_leaves_nothing() {
    let bare = Bare::new();
    let repo = bare.repo();
    let objects = bare.path().join("objects");
    std::fs::remove_dir_all(&objects).unwrap();
    std::fs::write(&objects, "no folder").unwrap();
    let result = write(&repo, None, &[spec(edits(&[("a", "1")], &[]))]);
    assert!(
        matches!(&result, Err(error @ WriteError::Store(_)) if error.category() == "Storage"),
        "{result:?}"
    );
}

#[test]
fn a_temporary_file_that_is_swept_away_is_written_again() {
    let bare = Bare::new();
    let packs = bare.path().join("objects/pack");
    let (done, hits) = (std::sync::atomic::AtomicBool::new(false), std::sync::atomic::AtomicU32::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Once for each write, as whoever tidies up after a failed fetch does it.
            let mut last = None;
            while !done.load(Ordering::Relaxed) {
                for entry in std::fs::read_dir(&packs).unwrap().flatten() {
                    let count = bare.packs();
                    let is_temporary = entry.file_name().to_string_lossy().starts_with("tmp_");
                    if is_temporary && last != Some(count) && std::fs::remove_file(entry.path()).is_ok() {
                        last = Some(count);
                        hits.fetch_add(1, Ordering::Relaxed);
                    }
                }
            }
        });
        let mut tip = None;
        let begin = std::time::Instant::now();
        while hits.load(Ordering::Relaxed) < 3 && begin.elapsed() < std::time::Duration::from_secs(30) {
            let mut many = Edits::new();
            for n in 0..60 {
                many.upsert(format!("f{n}"), format!("{tip:?} {n}").repeat(400)).unwrap();
            }
            tip = Some(bare.write(tip, &[spec(many)]));
        }
        done.store(true, Ordering::Relaxed);
        assert!(hits.load(Ordering::Relaxed) > 0, "nothing was swept");
        bare.git(&["fsck", "--strict", &tip.unwrap().to_string()]);
    });
}

type Files = BTreeMap<String, (String, bool)>;

#[derive(Debug, Clone)]
enum Step {
    Upsert(String, String, Option<bool>),
    Delete(String),
    DeleteFolder(String),
}

fn path() -> impl Strategy<Value = String> {
    // Names around `/` in the order of bytes, where folders and files sort differently.
    prop::collection::vec(prop::sample::select(vec!["a", "a-", "a.b", "a0", "b"]), 1..4)
        .prop_map(|parts| parts.join("/"))
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (path(), "[xy]", prop::option::of(any::<bool>())).prop_map(|(path, text, mode)| Step::Upsert(path, text, mode)),
        2 => path().prop_map(Step::Delete),
        1 => path().prop_map(Step::DeleteFolder),
    ]
}

/// What the edits should do, told as plainly as possible.
fn model(files: &mut Files, edits: &Edits) {
    use windlass_vcs::write::Edit;
    let below = |path: &str, other: &str| other.starts_with(&format!("{path}/"));
    for (path, edit) in edits {
        match edit {
            Edit::Delete => drop(files.remove(path)),
            Edit::DeleteFolder => files.retain(|other, _| !below(path, other)),
            Edit::Upsert { .. } => {}
        }
    }
    for (path, edit) in edits {
        if let Edit::Upsert { content, executable } = edit {
            let old = files.get(path).is_some_and(|(_, executable)| *executable);
            files.retain(|other, _| !below(path, other) && !below(other, path));
            let content = String::from_utf8(content.clone()).unwrap();
            files.insert(path.clone(), (content, executable.unwrap_or(old)));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn edits_do_what_a_plain_list_of_files_does(rounds in prop::collection::vec(prop::collection::vec(step(), 1..12), 1..4)) {
        let bare = Bare::new();
        let mut files = Files::new();
        let mut tip = None;
        for steps in rounds {
            let mut edits = Edits::new();
            for step in steps {
                // Clashing edits are refused, and that is tested elsewhere.
                let _ = match step {
                    Step::Upsert(path, text, None) => edits.upsert(path, text).map(drop),
                    Step::Upsert(path, text, Some(mode)) => edits.upsert_as(path, text, mode).map(drop),
                    Step::Delete(path) => edits.delete(path).map(drop),
                    Step::DeleteFolder(path) => edits.delete_folder(path).map(drop),
                };
            }
            let before = files.clone();
            model(&mut files, &edits);
            let written = write(&bare.repo(), tip, &[spec(edits)]).unwrap();
            prop_assert_eq!(written.commits.is_empty(), before == files);
            tip = written.commits.last().copied().or(tip);
            prop_assert_eq!(written.tree.to_string(), bare.tree_by_git(&files));
        }
    }
}

#[test]
fn a_path_as_deep_as_paths_can_be_is_written() {
    let bare = Bare::new();
    // One that is deeper would take the whole stack, and is refused.
    let deep = format!("{}f", "a/".repeat(127));
    assert!(Edits::new().upsert(format!("a/{deep}"), "1").is_err());
    let first = bare.write(None, &[spec(edits(&[(&deep, "1")], &[]))]);
    assert_eq!(bare.files(first), [deep.as_str()]);
    let second = bare.write(Some(first), &[spec(edits(&[("b", "2")], &[&deep]))]);
    assert_eq!(bare.files(second), ["b"], "no folder is left");
}
