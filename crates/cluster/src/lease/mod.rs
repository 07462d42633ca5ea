//! Who may act: one `Lease` per shard, held by one replica at a time.
//!
//! ```text
//!   Leases (API) ──watch──► Keeper ──► plan(view, now) ──► create · take · renew · release   (compare and swap)
//!                              │
//!                              ▼
//!                            Gate ◄── the loop asks before every write: do I still hold this shard?
//! ```
//!
//! Guarantees: two replicas never both pass the gate for one shard. A replica trusts its lease only until
//! `duration − margin` after it *sent* the last renewal that succeeded; another takes it no earlier than
//! `duration` after it *saw* that renewal, by its own monotonic clock. Neither compares clocks with the other. A write
//! that is still under way when the trust ends is cancelled.
//!
//! With several shards each replica also keeps a member `Lease`; every replica computes the same assignment of
//! shards to live members, gives up what is not its own and takes what is. A shard's lease names the number of
//! shards it was taken under: replicas started with another number stand by until the last of those leases ends.

mod gate;
mod keeper;
pub mod plan;

pub use gate::{Fenced, Gate, Held};
pub use keeper::{Keeper, KeeperError, Options};
