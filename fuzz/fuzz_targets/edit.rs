//! Any text and any change: the edit says what is wanted or refuses; without a change the bytes stay.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};
use windlass_manifest::{
    edit::{Selector, add, edit, remove, replace},
    parse::{Limits, objects, parse},
};

/// Changes one place of the value, chosen by the dice.
fn mutate(value: &mut Value, dice: &mut impl Iterator<Item = u8>, fresh: &Value) {
    let mut throw = |sides: usize| usize::from(dice.next().unwrap_or(0)) % sides.max(1);
    let choice = throw(4);
    match value {
        Value::Object(map) if !map.is_empty() => {
            let key = map.keys().nth(throw(map.len())).expect("there is one").clone();
            match choice {
                0 => drop(map.shift_remove(&key)),
                1 => drop(map.insert(format!("new{}", throw(9)), fresh.clone())),
                2 => drop(map.insert(key, fresh.clone())),
                _ => mutate(map.get_mut(&key).expect("it is there"), dice, fresh),
            }
        }
        Value::Array(items) if !items.is_empty() => {
            let at = throw(items.len());
            match choice {
                0 => drop(items.remove(at)),
                1 => items.insert(at, fresh.clone()),
                2 => items.push(fresh.clone()),
                _ => mutate(&mut items[at], dice, fresh),
            }
        }
        other => *other = fresh.clone(),
    }
}

fuzz_target!(|input: (&[u8], &str)| {
    let (dice, text) = input;
    let limits = Limits::default();
    let Ok(found) = parse(text, &limits).and_then(objects) else { return };
    let mut dice = dice.iter().copied();
    let fresh = match dice.next().unwrap_or(0) % 6 {
        0 => json!("text"),
        1 => json!({"name": "x", "list": [1, {"a": "b"}]}),
        2 => json!([1, "two", null]),
        3 => json!("several\nlines\n"),
        4 => Value::String(text.chars().take(20).collect()),
        _ => json!(7),
    };
    for object in found.iter().take(3) {
        let at = Selector::from(object);
        if let Ok(same) = edit(text, at, &object.value, &limits) {
            assert_eq!(same, text, "an edit without a change keeps the bytes");
        }
        let mut wanted = object.value.clone();
        mutate(&mut wanted, &mut dice, &fresh);
        let _ = edit(text, at, &wanted, &limits);
        let _ = replace(text, at, &wanted, &limits);
        let _ = remove(text, at, &limits);
        let _ = add(text, &wanted, &limits);
    }
});
