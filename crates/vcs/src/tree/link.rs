//! Where a symbolic link leads, within the folder that is read.
//!
//! Links are resolved in the tree and never on a disk. They may not leave the folder, not even for another place in the
//! same repository: the hash of the folder would not change with what they lead to.

use std::collections::VecDeque;

use gix::{
    ObjectId,
    bstr::{BString, ByteSlice},
    objs::{Kind, tree::EntryKind},
};

use super::{LONGEST_PATH, LinkProblem, find};
use crate::repo::{self, ReadError};

/// How many links may lead to each other.
const LONGEST_CHAIN: usize = 16;

/// Where a link leads.
pub(super) enum Target {
    /// To a file.
    File { content: ObjectId, executable: bool },
    /// To something that is not read.
    Problem(LinkProblem),
}

/// The text of a link. A text that is longer than a path can be leads nowhere and is not read.
pub(super) fn text(repo: &gix::Repository, link: ObjectId) -> Result<Option<BString>, ReadError> {
    if repo::header(repo, link)?.is_some_and(|(_, size)| size > LONGEST_PATH as u64) {
        return Ok(None);
    }
    Ok(Some(repo::object(repo, link, Kind::Blob)?.detach().data.into()))
}

/// Follows a link that lies in `folder` (a path under the tree `root`) and says `text`.
pub(super) fn follow(
    repo: &gix::Repository,
    root: ObjectId,
    folder: &[u8],
    text: &BString,
) -> Result<Target, ReadError> {
    let mut walk = Follow { repo, stack: vec![root], ahead: VecDeque::new(), links: 0 };
    walk.ahead.extend(parts(folder));
    if let Some(problem) = walk.queue(text) {
        return Ok(Target::Problem(problem));
    }
    walk.run()
}

fn parts(path: &[u8]) -> impl DoubleEndedIterator<Item = BString> {
    path.split(|byte| *byte == b'/').map(BString::from)
}

struct Follow<'a> {
    repo: &'a gix::Repository,
    /// The trees from the root down to where the walk is.
    stack: Vec<ObjectId>,
    /// The names still to be walked.
    ahead: VecDeque<BString>,
    links: usize,
}

impl Follow<'_> {
    /// Puts the names of a link's text before what is left to walk; the text of the first link goes after its folder.
    fn queue(&mut self, text: &BString) -> Option<LinkProblem> {
        self.links += 1;
        if self.links > LONGEST_CHAIN {
            return Some(LinkProblem::Loop);
        }
        if text.starts_with(b"/") {
            return Some(LinkProblem::Leaves);
        }
        if self.links == 1 {
            self.ahead.extend(parts(text));
        } else {
            for part in parts(text).rev() {
                self.ahead.push_front(part);
            }
        }
        (self.ahead.len() > LONGEST_PATH).then_some(LinkProblem::Loop)
    }

    fn run(&mut self) -> Result<Target, ReadError> {
        while let Some(name) = self.ahead.pop_front() {
            match name.as_slice() {
                b"" | b"." => continue,
                b".." => {
                    self.stack.pop();
                    if self.stack.is_empty() {
                        return Ok(Target::Problem(LinkProblem::Leaves));
                    }
                    continue;
                }
                _ => {}
            }
            let Some(tree) = self.stack.last() else { return Ok(Target::Problem(LinkProblem::Leaves)) };
            match find(self.repo, *tree, name.as_bstr())? {
                None => return Ok(Target::Problem(LinkProblem::Broken)),
                Some((EntryKind::Tree, tree)) => self.stack.push(tree),
                Some((EntryKind::Commit, _)) => return Ok(Target::Problem(LinkProblem::Submodule)),
                Some((EntryKind::Link, link)) => {
                    let Some(text) = text(self.repo, link)? else {
                        return Ok(Target::Problem(LinkProblem::Broken));
                    };
                    if let Some(problem) = self.queue(&text) {
                        return Ok(Target::Problem(problem));
                    }
                }
                Some((kind, content)) => {
                    if !self.ahead.is_empty() {
                        return Ok(Target::Problem(LinkProblem::Broken));
                    }
                    return Ok(Target::File { content, executable: kind == EntryKind::BlobExecutable });
                }
            }
        }
        Ok(Target::Problem(LinkProblem::Folder))
    }
}
