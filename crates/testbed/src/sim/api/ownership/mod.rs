//! Field ownership: what `metadata.managedFields` says after each write, and server-side apply.

mod entries;
mod fields;
mod misfit;
mod typed;

use jiff::Timestamp;
use serde_json::Value;

use super::schema::Schema;
use super::status::Failure;
pub(crate) use entries::{Entries, Entry, Operation};
pub(crate) use fields::FieldSet;
pub(crate) use misfit::misfit;

/// What is written.
#[derive(Clone, Debug)]
pub(crate) struct Kind<'a> {
    pub(crate) schema: &'a Schema,
    /// An object of the kind before anything is set.
    pub(crate) blank: &'a Value,
    /// Fields that this endpoint does not write.
    pub(crate) reset: FieldSet,
}

/// Who writes, through what.
#[derive(Clone, Debug)]
pub(crate) struct Writer<'a> {
    pub(crate) manager: &'a str,
    pub(crate) api_version: &'a str,
    pub(crate) subresource: &'a str,
    pub(crate) now: Timestamp,
}

impl Writer<'_> {
    fn entry(&self, operation: Operation, set: FieldSet) -> Entry {
        Entry {
            manager: if self.manager.is_empty() { "unknown".into() } else { self.manager.to_owned() },
            operation,
            api_version: self.api_version.to_owned(),
            subresource: self.subresource.to_owned(),
            time: None,
            set,
        }
    }
}

/// The fields that never have an owner.
fn unowned() -> FieldSet {
    FieldSet::of(&[
        &["apiVersion"],
        &["kind"],
        &["metadata"],
        &["metadata", "name"],
        &["metadata", "namespace"],
        &["metadata", "creationTimestamp"],
        &["metadata", "selfLink"],
        &["metadata", "uid"],
        &["metadata", "clusterName"],
        &["metadata", "generation"],
        &["metadata", "managedFields"],
        &["metadata", "resourceVersion"],
    ])
}

/// Removes the entries from an object.
pub(crate) fn strip(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.shift_remove("managedFields");
    }
    object
}

/// Accounts a create, update or patch of `live` to `new` to the writer. `live` is `None` on create.
///
/// The entries that count are those in `new` if it has any that can be read, else those of `live`; an empty
/// list in `new` drops all of them and stops the accounting until the next apply.
pub(crate) fn on_update(kind: &Kind<'_>, live: Option<&Value>, new: &mut Value, writer: &Writer<'_>) {
    let given = new.pointer("/metadata/managedFields").cloned();
    let is_reset = given.as_ref().and_then(Value::as_array).is_some_and(|entries| {
        entries.is_empty() || (entries.len() == 1 && entries[0] == Value::Object(serde_json::Map::new()))
    });
    let from_live = || live.and_then(Entries::of).unwrap_or_default();
    let mut entries = if is_reset {
        Entries::default()
    } else if writer.subresource.is_empty() {
        Entries::of(new).filter(|entries| !entries.is_empty()).unwrap_or_else(from_live)
    } else {
        from_live()
    };
    let stripped = strip(new);
    if live.is_some() && entries.is_empty() {
        *new = stripped;
        return;
    }
    let before = live.map_or_else(|| kind.blank.clone(), strip);
    account(kind, &before, &stripped, &mut entries, writer);
    entries.cap();
    *new = stripped;
    entries.store(new);
}

fn account(kind: &Kind<'_>, live: &Value, new: &Value, entries: &mut Entries, writer: &Writer<'_>) {
    let changes = typed::compare(kind.schema, live, new).without(&kind.reset);
    entries.take_away(&changes.changed().union(&changes.removed));
    let taken = changes.changed().difference(&unowned());
    if !taken.is_empty() {
        entries.add(writer.entry(Operation::Update, taken), writer.now);
    }
}

/// Server-side apply of `applied` over `live` (`None` creates). Returns the merged object with its entries.
pub(crate) fn on_apply(
    kind: &Kind<'_>,
    live: Option<&Value>,
    applied: &Value,
    writer: &Writer<'_>,
    force: bool,
) -> Result<Value, Failure> {
    let schema = kind.schema;
    let empty = Value::Object(serde_json::Map::new());
    let before = live.map_or_else(|| empty.clone(), strip);
    let mut entries = live.and_then(Entries::of).unwrap_or_default();
    if entries.is_empty() && live.is_some() {
        // Nothing was accounted so far: what is there belongs to a manager made up for it.
        let previous = Writer { manager: "before-first-apply", ..writer.clone() };
        account(kind, kind.blank, &before, &mut entries, &previous);
    }
    let mut merged = typed::merge(schema, &before, applied);
    let set = typed::field_set(schema, applied).recursive_difference(&kind.reset);
    let mut mine = writer.entry(Operation::Apply, set);
    let last = entries.remove(&mine.id());
    if let Some(last) = &last {
        let owned = entries.all().union(&mine.set);
        merged = cut_left_over(schema, &merged, &last.set, &owned);
    }
    let changes = typed::compare(schema, &before, &merged).without(&kind.reset);
    let conflicts = entries.conflicts(&changes.changed());
    if !force && !conflicts.is_empty() {
        return Err(Failure::apply_conflict(&conflicts));
    }
    entries.take_away(&changes.changed().union(&changes.removed));
    mine.set = mine.set.difference(&unowned());
    // A no-op keeps the time of the last apply.
    mine.time = if merged == before { last.and_then(|last| last.time) } else { Some(writer.now) };
    if !mine.set.is_empty() {
        entries.insert(mine);
    }
    entries.store(&mut merged);
    Ok(merged)
}

/// Cuts out of `merged` what the manager applied last time (`last`) and nobody owns now (`owned`).
fn cut_left_over(schema: &Schema, merged: &Value, last: &FieldSet, owned: &FieldSet) -> Value {
    let last = typed::with_named_fields(schema, last);
    let there = typed::with_named_fields(schema, &typed::field_set(schema, merged));
    let kept = |value: &Value| typed::with_named_fields(schema, &typed::field_set(schema, value));
    // Everything of the last time goes, then what has an owner comes back, then what was never ours.
    let pruned = typed::remove(schema, merged, &last);
    let owned = typed::with_named_fields(schema, owned);
    let pruned = typed::remove(schema, merged, &there.difference(&kept(&pruned).union(&owned)));
    typed::remove(schema, merged, &there.difference(&kept(&pruned)).intersection(&last))
}

#[cfg(test)]
mod tests;
