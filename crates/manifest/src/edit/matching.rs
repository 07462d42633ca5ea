//! Which item of a list became which.

use std::collections::HashSet;

use serde_json::Value;

/// What happens to a list, in the order of the new one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// The old item stays, changed where it differs.
    Keep { old: usize, new: usize },
    /// The old item goes.
    Remove { old: usize },
    /// A new item comes here.
    Insert { new: usize },
}

/// Members by which Kubernetes tells items apart, the most telling first.
const KEYS: [&str; 12] = [
    "name",
    "containerPort",
    "port",
    "key",
    "mountPath",
    "devicePath",
    "ip",
    "topologyKey",
    "resourceName",
    "uid",
    "id",
    "type",
];

/// Above this many comparisons only what is equal at both ends is kept.
const MOST: usize = 4_000_000;

/// Aligns two lists so that unchanged items stay where they are.
pub(super) fn align(old: &[Value], new: &[Value]) -> Vec<Step> {
    match identities(old, new) {
        Some((old_ids, new_ids)) => steps(&old_ids, &new_ids, |o, n| is_similar(&old[o], &new[n])),
        None => steps(&old.iter().collect::<Vec<_>>(), &new.iter().collect::<Vec<_>>(), |_, _| true),
    }
}

/// Whether an item may have become another one by a new name: at least half of what it says stays.
fn is_similar(old: &Value, new: &Value) -> bool {
    match (old.as_object(), new.as_object()) {
        (Some(old), Some(new)) => {
            let same = old.iter().filter(|(key, value)| new.get(*key) == Some(*value)).count();
            same > 0 && same * 2 >= old.len()
        }
        _ => false,
    }
}

/// The identities of all items, if one member tells them apart in both lists.
fn identities<'a>(old: &'a [Value], new: &'a [Value]) -> Option<(Vec<String>, Vec<String>)> {
    let of = |items: &'a [Value], key: &str| -> Option<Vec<String>> {
        let mut seen = HashSet::new();
        items
            .iter()
            .map(|item| {
                let value =
                    item.as_object()?.get(key).filter(|value| !value.is_object() && !value.is_array())?;
                let protocol = item.get("protocol").and_then(Value::as_str).unwrap_or_default();
                let identity =
                    if key.ends_with("ort") { format!("{value}/{protocol}") } else { value.to_string() };
                seen.insert(identity.clone()).then_some(identity)
            })
            .collect()
    };
    if old.is_empty() || new.is_empty() {
        return None;
    }
    KEYS.iter().find_map(|key| Some((of(old, key)?, of(new, key)?)))
}

/// `pair`: whether what stands at the same place between two kept items is the same item, changed.
fn steps<T: PartialEq>(old: &[T], new: &[T], pair: impl Fn(usize, usize) -> bool) -> Vec<Step> {
    let mut steps = Vec::with_capacity(old.len().max(new.len()));
    let (mut o, mut n) = (0, 0);
    for (to_o, to_n) in common(old, new).into_iter().chain([(old.len(), new.len())]) {
        while o < to_o && n < to_n {
            if pair(o, n) {
                steps.push(Step::Keep { old: o, new: n });
            } else {
                steps.extend([Step::Remove { old: o }, Step::Insert { new: n }]);
            }
            (o, n) = (o + 1, n + 1);
        }
        steps.extend((o..to_o).map(|old| Step::Remove { old }));
        steps.extend((n..to_n).map(|new| Step::Insert { new }));
        if to_o < old.len() {
            steps.push(Step::Keep { old: to_o, new: to_n });
        }
        (o, n) = (to_o + 1, to_n + 1);
    }
    steps
}

/// A longest common subsequence, as pairs of indices.
fn common<T: PartialEq>(old: &[T], new: &[T]) -> Vec<(usize, usize)> {
    let head = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let (old_rest, new_rest) = (&old[head..], &new[head..]);
    let tail = old_rest.iter().rev().zip(new_rest.iter().rev()).take_while(|(a, b)| a == b).count();
    let (old_mid, new_mid) = (&old_rest[..old_rest.len() - tail], &new_rest[..new_rest.len() - tail]);

    let mut pairs: Vec<_> = (0..head).map(|at| (at, at)).collect();
    if old_mid.len().saturating_mul(new_mid.len()) <= MOST {
        pairs.extend(middle(old_mid, new_mid).into_iter().map(|(o, n)| (o + head, n + head)));
    }
    pairs.extend((0..tail).map(|at| (old.len() - tail + at, new.len() - tail + at)));
    pairs
}

fn middle<T: PartialEq>(old: &[T], new: &[T]) -> Vec<(usize, usize)> {
    let width = new.len() + 1;
    let mut longest = vec![0_u32; (old.len() + 1) * width];
    for o in (0..old.len()).rev() {
        for n in (0..new.len()).rev() {
            longest[o * width + n] = if old[o] == new[n] {
                longest[(o + 1) * width + n + 1] + 1
            } else {
                longest[(o + 1) * width + n].max(longest[o * width + n + 1])
            };
        }
    }
    let (mut o, mut n, mut pairs) = (0, 0, Vec::new());
    while o < old.len() && n < new.len() {
        if old[o] == new[n] {
            pairs.push((o, n));
            (o, n) = (o + 1, n + 1);
        } else if longest[(o + 1) * width + n] >= longest[o * width + n + 1] {
            o += 1;
        } else {
            n += 1;
        }
    }
    pairs
}
