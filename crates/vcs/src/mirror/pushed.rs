//! What was pushed out of a mirror is seen in it at once.

use tokio_util::sync::CancellationToken;

use super::error::MirrorError;
use super::fetch::blocking;
use super::lock::WriteLock;
use super::{Mirror, refs, store};
use crate::id::CommitId;
use crate::repo::descends;

impl Mirror {
    /// Moves the copy of a branch (`refs/heads/…`) forward to a commit that the remote has just accepted.
    ///
    /// `git push` would do it by itself, late and without a look at what is there: when somebody else pushed on top and a
    /// fetch has seen that meanwhile, the copy would go back. Here it only goes forward, and not while a fetch or tidying
    /// is under way: the next fetch sees it in any case, and tells it as a movement.
    pub(crate) async fn pushed(&self, name: &str, commit: CommitId) {
        let Ok(_writer) = self.writer.try_lock() else { return };
        if let Err(error) = self.move_forward(name.to_owned(), commit).await {
            tracing::debug!(mirror = self.digest(), %error, "the next fetch will show what was pushed");
        }
    }

    async fn move_forward(&self, name: String, commit: CommitId) -> Result<(), MirrorError> {
        let Some(lock) = WriteLock::try_take(&self.folder.join(store::LOCK))? else { return Ok(()) };
        let repo = self.repo()?;
        let copy = refs::name_here(&name);
        let from = blocking(move || {
            let repo = repo.local();
            let Some(at) = refs::local(&repo)?.get(&name).copied().map(CommitId) else {
                return Ok(Some("0".repeat(commit.to_string().len())));
            };
            Ok((at != commit && descends(&repo, commit, at)?).then(|| at.to_string()))
        })
        .await?;
        if let Some(from) = from {
            let args = ["update-ref", "--no-deref", "-m", "push", &copy, &commit.to_string(), &from];
            lock.held_by(self.here().args(args)).run(&CancellationToken::new()).await?;
        }
        Ok(())
    }
}
