//! How much may be deleted without asking.

use std::collections::BTreeSet;

use serde::Serialize;
use sha2::{Digest as _, Sha256};
use windlass_api::application::{status::Approval, sync::DeletionBudget};

use crate::object::ObjectId;

/// Objects that an approval names at most.
const NAMED: usize = 20;

/// Whether deletions may be done.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub enum Verdict {
    /// They may.
    Allowed,
    /// Somebody has to approve them first.
    Needs(Approval),
}

/// Judges deletions: each on a cluster, of so many objects that the inventory holds in all.
///
/// Guarantees: they need an approval when there are more than `maxObjects` **and** they are more than `maxPercent` of
/// the total, and never otherwise; an approval holds for exactly the set that it was given for, in whatever order the
/// deletions come, and for no other.
pub fn judge(
    budget: &DeletionBudget,
    deletions: &[(String, ObjectId)],
    total: usize,
    approved: Option<&str>,
) -> Verdict {
    let set: BTreeSet<(&str, &ObjectId)> =
        deletions.iter().map(|(cluster, id)| (cluster.as_str(), id)).collect();
    let count = set.len();
    let total = total.max(count);
    let over_count = count > budget.max_objects as usize;
    let over_percent = count as u128 * 100 > u128::from(budget.max_percent) * total as u128;
    if !(over_count && over_percent) {
        return Verdict::Allowed;
    }
    let id = name_of(&set);
    if approved.map(str::trim) == Some(id.as_str()) {
        return Verdict::Allowed;
    }
    Verdict::Needs(Approval {
        id,
        deletions: u32::try_from(count).unwrap_or(u32::MAX),
        of: u32::try_from(total).unwrap_or(u32::MAX),
        objects: set
            .iter()
            .take(NAMED)
            .map(|(cluster, object)| format!("{} on {cluster}", object.short()))
            .collect(),
    })
}

/// A short name for a set of deletions: another set has another one.
fn name_of(set: &BTreeSet<(&str, &ObjectId)>) -> String {
    let mut hash = Sha256::new();
    for (cluster, object) in set {
        // Neither a cluster's name nor an object's has a line break or a tab in it.
        hash.update(format!("{cluster}\t{object}\n").as_bytes());
    }
    let bytes: [u8; 32] = hash.finalize().into();
    let number = bytes.iter().take(6).fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte));
    format!("{number:012x}")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use proptest::prelude::*;

    use super::*;

    fn deletions(count: usize) -> Vec<(String, ObjectId)> {
        (0..count)
            .map(|at| ("east".to_owned(), format!("v1/ConfigMap/shop/n{at:03}").parse().unwrap()))
            .collect()
    }

    fn budget(max_objects: u32, max_percent: u32) -> DeletionBudget {
        DeletionBudget { max_objects, max_percent }
    }

    fn needs(verdict: Verdict) -> Approval {
        match verdict {
            Verdict::Needs(approval) => approval,
            Verdict::Allowed => panic!("it was allowed"),
        }
    }

    #[test]
    fn deletions_need_an_approval_only_when_both_figures_are_exceeded() {
        for (count, total, max_objects, max_percent, allowed) in [
            (0, 0, 10, 30, true),
            (10, 10, 10, 30, true),
            (11, 36, 10, 30, false),
            (11, 37, 10, 30, true),
            (30, 100, 10, 30, true),
            (31, 100, 10, 30, false),
            (500, 10_000, 10, 30, true),
            (1, 100, 0, 0, false),
            (100, 100, 10, 100, true),
            (11, 0, 10, 30, false),
        ] {
            let verdict = judge(&budget(max_objects, max_percent), &deletions(count), total, None);
            assert_eq!(verdict == Verdict::Allowed, allowed, "{count} of {total}");
        }
    }

    #[test]
    fn an_approval_names_what_would_go() {
        let approval = needs(judge(&DeletionBudget::default(), &deletions(25), 30, None));
        assert_eq!((approval.deletions, approval.of, approval.objects.len()), (25, 30, 20));
        assert_eq!(approval.objects[0], "ConfigMap shop/n000 on east");
        assert_eq!(approval.id.len(), 12);
    }

    #[test]
    fn an_approval_holds_for_its_own_set_alone() {
        let all = deletions(25);
        let id = needs(judge(&DeletionBudget::default(), &all, 30, None)).id;
        assert_eq!(judge(&DeletionBudget::default(), &all, 30, Some(&id)), Verdict::Allowed);
        assert_eq!(judge(&DeletionBudget::default(), &all, 30, Some(&format!(" {id}\n"))), Verdict::Allowed);
        let mut other = all.clone();
        other[3].0 = "west".to_owned();
        let now = needs(judge(&DeletionBudget::default(), &other, 30, Some(&id)));
        assert_ne!(now.id, id, "the same object on another cluster is another deletion");
        assert_ne!(needs(judge(&DeletionBudget::default(), &all[1..], 30, Some(&id))).id, id);
    }

    proptest! {
        #[test]
        fn the_name_of_a_set_depends_on_the_set_alone(count in 11..40_usize, turn in 0..40_usize, gone in 0..40_usize) {
            let all = deletions(count);
            let mut turned = all.clone();
            turned.rotate_left(turn % count);
            turned.push(all[turn % count].clone());
            let zero = budget(0, 0);
            let id = needs(judge(&zero, &all, count, None)).id;
            prop_assert_eq!(&needs(judge(&zero, &turned, count, None)).id, &id);
            let mut fewer = all;
            fewer.remove(gone % count);
            prop_assert_ne!(&needs(judge(&zero, &fewer, count, None)).id, &id);
        }
    }
}
