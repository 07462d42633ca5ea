//! How much may be deleted without asking.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use sha2::{Digest as _, Sha256};
use windlass_api::application::{
    status::{Approval, Granted, Inventory},
    sync::DeletionBudget,
};

use super::plan::inventory;
use crate::object::ObjectId;

/// Objects that an approval names at most.
const NAMED: usize = 20;

/// A deletion that somebody wishes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Wish {
    /// The cluster.
    pub cluster: String,
    /// The object.
    pub object: ObjectId,
    /// It asks to be confirmed, however few go.
    pub confirm: bool,
}

/// What somebody said about deletions.
#[derive(Clone, Copy, Debug, Default)]
pub struct Said<'a> {
    /// The name of a set that was approved.
    pub approved: Option<&'a str>,
    /// What was approved before and is not done yet.
    pub granted: Option<&'a Granted>,
}

/// Whether deletions may be done.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Verdict {
    /// Those that ask for nothing may be.
    pub allowed: bool,
    /// Those that ask to be confirmed may be, too.
    pub confirmed: bool,
    /// What somebody has to approve first.
    pub needs: Option<Approval>,
    /// What somebody approved, while it is not done.
    pub granted: Option<Granted>,
}

/// Judges deletions; `held` says of how many objects that the inventory holds, by cluster.
///
/// Guarantees: they need an approval when, on one cluster or on all together, there are more than `maxObjects` **and**
/// they are more than `maxPercent` of the total; whoever asks to be confirmed needs one in any case; nobody else does.
/// One cluster counts by itself because clusters take their turns: each of many is a small part of the whole. An
/// approval holds for exactly the set that it was given for, in whatever order the deletions come, until the last of it
/// is gone, and for no other.
pub fn judge(budget: &DeletionBudget, wishes: &[Wish], held: &Held, said: Said<'_>) -> Verdict {
    let all: Set<'_> = wishes.iter().map(|wish| (wish.cluster.as_str(), &wish.object)).collect();
    if all.is_empty() {
        return Verdict { allowed: true, confirmed: true, ..Verdict::default() };
    }
    let asking: Set<'_> =
        wishes.iter().filter(|wish| wish.confirm).map(|wish| (wish.cluster.as_str(), &wish.object)).collect();
    let total = held.values().sum::<usize>().max(all.len());
    let before = said.granted.filter(|granted| said.is_for(&granted.id));
    let known = before.map(|granted| inventory::by_cluster(&granted.objects)).unwrap_or_default();
    let within = |set: &Set<'_>| {
        set.iter().all(|(cluster, object)| known.get(*cluster).is_some_and(|known| known.contains(*object)))
    };
    let granted = |allowed: &Set<'_>, id: String| Verdict {
        allowed: true,
        confirmed: true,
        needs: None,
        granted: Some(Granted { id, objects: grouped(allowed) }),
    };
    let asked = |set: &Set<'_>, confirm: bool| approval(set, total, confirm);
    if exceeds(budget, &all, held) && !within(&all) {
        let id = name_of(&all);
        if said.is_for(&id) {
            return granted(&all, id);
        }
        return Verdict { needs: Some(asked(&all, false)), ..Verdict::default() };
    }
    let before = before.cloned();
    if asking.is_empty() || within(&asking) {
        return Verdict { allowed: true, confirmed: true, needs: None, granted: before };
    }
    let id = name_of(&asking);
    if said.is_for(&id) {
        return granted(&asking, id);
    }
    Verdict { allowed: true, confirmed: false, needs: Some(asked(&asking, true)), granted: before }
}

/// How many objects the inventory holds, by cluster.
pub type Held = BTreeMap<String, usize>;

type Set<'a> = BTreeSet<(&'a str, &'a ObjectId)>;

/// Whether they are too many, on one cluster or on all together.
fn exceeds(budget: &DeletionBudget, set: &Set<'_>, held: &Held) -> bool {
    let over = |count: usize, total: usize| {
        let total = total.max(count) as u128;
        count > budget.max_objects as usize && count as u128 * 100 > u128::from(budget.max_percent) * total
    };
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for (cluster, _) in set {
        *counts.entry(cluster).or_default() += 1;
    }
    over(set.len(), held.values().sum())
        || counts.iter().any(|(cluster, count)| over(*count, held.get(*cluster).copied().unwrap_or_default()))
}

impl Said<'_> {
    fn is_for(&self, id: &str) -> bool {
        self.approved.map(str::trim) == Some(id)
    }
}

fn approval(set: &Set<'_>, total: usize, confirm: bool) -> Approval {
    Approval {
        id: name_of(set),
        deletions: u32::try_from(set.len()).unwrap_or(u32::MAX),
        of: u32::try_from(total).unwrap_or(u32::MAX),
        objects: set
            .iter()
            .take(NAMED)
            .map(|(cluster, object)| format!("{} on {cluster}", object.short()))
            .collect(),
        confirm,
    }
}

fn grouped(set: &Set<'_>) -> Vec<Inventory> {
    let mut all: BTreeMap<String, BTreeSet<ObjectId>> = BTreeMap::new();
    for (cluster, object) in set {
        all.entry((*cluster).to_owned()).or_default().insert((*object).clone());
    }
    inventory::grouped(&all)
}

/// A short name for a set of deletions: another set has another one.
fn name_of(set: &Set<'_>) -> String {
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

    fn deletions(count: usize) -> Vec<Wish> {
        let wish = |at| Wish {
            cluster: "east".to_owned(),
            object: format!("v1/ConfigMap/shop/n{at:03}").parse().unwrap(),
            confirm: false,
        };
        (0..count).map(wish).collect()
    }

    fn budget(max_objects: u32, max_percent: u32) -> DeletionBudget {
        DeletionBudget { max_objects, max_percent }
    }

    fn judged(wishes: &[Wish], total: usize, approved: Option<&str>) -> Verdict {
        judge(&DeletionBudget::default(), wishes, &held(total), Said { approved, granted: None })
    }

    fn held(count: usize) -> Held {
        [("east".to_owned(), count)].into()
    }

    fn needs(verdict: Verdict) -> Approval {
        verdict.needs.unwrap()
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
            let verdict =
                judge(&budget(max_objects, max_percent), &deletions(count), &held(total), Said::default());
            assert_eq!((verdict.allowed, verdict.needs.is_none()), (allowed, allowed), "{count} of {total}");
        }
    }

    #[test]
    fn one_cluster_of_many_counts_by_itself() {
        let many: Held = (0..100).map(|at| (format!("c{at}"), 14)).collect();
        let of = |cluster: &str, count: usize| -> Vec<Wish> {
            deletions(count).into_iter().map(|wish| Wish { cluster: cluster.to_owned(), ..wish }).collect()
        };
        let judged = |wishes: &[Wish]| judge(&DeletionBudget::default(), wishes, &many, Said::default());
        assert_eq!(needs(judged(&of("c7", 12))).deletions, 12);
        assert!(judged(&of("c7", 10)).allowed);
        let few: Vec<Wish> = (0..20).flat_map(|at| of(&format!("c{at}"), 4)).collect();
        assert!(judged(&few).allowed, "4 of 14 on some");
    }

    #[test]
    fn an_approval_names_what_would_go() {
        let approval = needs(judged(&deletions(25), 30, None));
        assert_eq!((approval.deletions, approval.of, approval.objects.len()), (25, 30, 20));
        assert_eq!(approval.objects[0], "ConfigMap shop/n000 on east");
        assert_eq!((approval.id.len(), approval.confirm), (12, false));
    }

    #[test]
    fn an_approval_holds_for_its_own_set_alone() {
        let all = deletions(25);
        let id = needs(judged(&all, 30, None)).id;
        assert!(judged(&all, 30, Some(&id)).allowed);
        assert!(judged(&all, 30, Some(&format!(" {id}\n"))).allowed);
        let mut other = all.clone();
        other[3].cluster = "west".to_owned();
        let now = needs(judged(&other, 30, Some(&id)));
        assert_ne!(now.id, id, "the same object on another cluster is another deletion");
        assert_ne!(needs(judged(&all[1..], 30, Some(&id))).id, id);
    }

    #[test]
    fn what_was_approved_goes_to_its_end_and_nothing_joins_it() {
        let all = deletions(25);
        let id = needs(judged(&all, 30, None)).id;
        let granted = judged(&all, 30, Some(&id)).granted.unwrap();
        let later = |wishes: &[Wish], approved: &str| {
            let said = Said { approved: Some(approved), granted: Some(&granted) };
            judge(&DeletionBudget::default(), wishes, &held(20), said)
        };
        let rest = later(&all[8..], &id);
        assert!(rest.allowed && rest.needs.is_none(), "the first ones are gone");
        assert_eq!(rest.granted.as_ref(), Some(&granted));
        assert!(!later(&all[8..], "another").allowed, "the approval was taken back");
        let mut more = all[8..].to_vec();
        more.push(Wish { cluster: "west".into(), ..all[0].clone() });
        assert!(!later(&more, &id).allowed, "one more joined");
        assert_eq!(later(&[], &id).granted, None, "all are gone");
    }

    #[test]
    fn whoever_asks_to_be_confirmed_waits_alone() {
        let mut all = deletions(5);
        all[1].confirm = true;
        all[4].confirm = true;
        let verdict = judged(&all, 100, None);
        assert!(verdict.allowed && !verdict.confirmed);
        let approval = needs(verdict);
        assert_eq!((approval.deletions, approval.confirm), (2, true));
        assert_eq!(approval.objects, ["ConfigMap shop/n001 on east", "ConfigMap shop/n004 on east"]);
        let verdict = judged(&all, 100, Some(&approval.id));
        assert!(verdict.allowed && verdict.confirmed && verdict.needs.is_none());
        let only = [all[1].clone(), all[4].clone()];
        assert_eq!(needs(judged(&only, 95, None)).id, approval.id, "the others went meanwhile");
    }

    #[test]
    fn an_approval_of_more_than_the_budget_confirms_what_is_in_it() {
        let mut all = deletions(25);
        all[3].confirm = true;
        let approval = needs(judged(&all, 30, None));
        assert!(!approval.confirm && approval.deletions == 25);
        let verdict = judged(&all, 30, Some(&approval.id));
        assert!(verdict.allowed && verdict.confirmed);
    }

    proptest! {
        #[test]
        fn the_name_of_a_set_depends_on_the_set_alone(count in 11..40_usize, turn in 0..40_usize, gone in 0..40_usize) {
            let all = deletions(count);
            let mut turned = all.clone();
            turned.rotate_left(turn % count);
            turned.push(all[turn % count].clone());
            let zero = budget(0, 0);
            let ask = |wishes: &[Wish]| needs(judge(&zero, wishes, &held(count), Said::default())).id;
            let id = ask(&all);
            prop_assert_eq!(&ask(&turned), &id);
            let mut fewer = all;
            fewer.remove(gone % count);
            prop_assert_ne!(&ask(&fewer), &id);
        }
    }
}
