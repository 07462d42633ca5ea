//! The log of writes, which invariants are checked on.

use jiff::Timestamp;
use serde::Serialize;

/// One write that the API server answered, successful or not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Write {
    /// Position in the log, from 1.
    pub seq: u64,
    /// When, by the API server's clock.
    pub at: Timestamp,
    /// `User-Agent` of the request.
    pub user_agent: String,
    /// The field manager: `fieldManager`, or else what stands before the slash in the user agent.
    pub manager: String,
    /// `Impersonate-User` of the request, if there was one.
    pub user: Option<String>,
    /// `create`, `update`, `patch`, `apply`, `delete` or `deletecollection`.
    pub verb: String,
    /// API group, empty for the core group.
    pub group: String,
    /// API version.
    pub version: String,
    /// The resource, as in paths.
    pub resource: String,
    /// Namespace, empty for cluster-scoped objects.
    pub namespace: String,
    /// Name, empty for collections.
    pub name: String,
    /// UID of the object that was written, empty when there was none.
    pub uid: String,
    /// `status`, `scale` or empty.
    pub subresource: String,
    /// The HTTP status code of the answer.
    pub code: u16,
    /// Whether it was a dry run.
    pub dry_run: bool,
    /// Whether anything was committed: false for failures, dry runs and writes that change nothing.
    pub changed: bool,
    /// The `resourceVersion` of the object after the write, empty when it is unknown.
    pub resource_version: String,
    /// Preconditions of a delete: UID and resourceVersion.
    pub preconditions: (Option<String>, Option<String>),
}
