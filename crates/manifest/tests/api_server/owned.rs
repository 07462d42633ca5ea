//! The digest of what a manager owns, and what the real API server makes of it.

use serde_json::{Value, json};
use windlass_manifest::canonical::encode;
use windlass_manifest::diff::{comparable, diff, owned, owned_digest};
use windlass_manifest::digest::digest;
use windlass_testbed::control_plane::ControlPlane;

use crate::server::Server;
use crate::{US, draw, in_order, name, until, wide};

fn is_same(wanted: &Value, live: &Value) -> bool {
    owned_digest(live, US) == Some(digest(&comparable(wanted)))
}

/// One of nearly every kind: what is owned is what was applied for nearly all of them, and for none after an owned label
/// was changed.
#[tokio::test]
async fn the_digest_of_what_we_own_is_that_of_what_we_applied_for_nearly_every_kind() {
    let control_plane = ControlPlane::shared().await.unwrap();
    let server = Server(control_plane.admin());
    let all = wide("owned");
    for object in in_order(&all) {
        server.apply(object, &encode(object), US, false).await;
    }
    let mut other = Vec::new();
    for object in &all {
        let live = server.get(object).await;
        if !is_same(object, &live) {
            let (wanted, found) = (comparable(object), owned(&live, US).map(|owned| comparable(&owned)));
            other.push(format!("{}\n  {wanted}\n  {}", name(object), found.unwrap_or_default()));
        }
        let foreign = json!({"metadata": {"annotations": {"example.org/theirs": "x"}}});
        let touched = server.patch(object, &foreign, "somebody").await;
        assert_eq!(is_same(object, &live), is_same(object, &touched), "{}: a foreign field", name(object));
        let touched =
            server.patch(object, &json!({"metadata": {"labels": {"touch": "2"}}}), "somebody").await;
        assert!(!is_same(object, &touched), "{}: an owned label was changed", name(object));
        assert_eq!(owned_digest(&touched, "nobody"), None);
    }
    println!("{} of {} kinds have another digest:\n{}", other.len(), all.len(), other.join("\n"));
    assert!(other.len() * 5 < all.len(), "{} of {}:\n{}", other.len(), all.len(), other.join("\n"));
    // A Widget with a finalizer keeps its namespace; nobody else takes it off.
    let widget = all.iter().find(|object| object["kind"] == "Widget").unwrap();
    server.patch(widget, &json!({"metadata": {"finalizers": null}}), "somebody").await;
}

/// Drawn objects, applied by us and by others and edited by hand: where the digest says that nothing differs, an apply
/// changes nothing.
#[tokio::test]
async fn equal_digests_are_never_wrong() {
    let control_plane = ControlPlane::shared().await.unwrap();
    let server = Server(control_plane.admin());
    let namespace = control_plane.namespace("digests").await.unwrap();
    let definition =
        wide(&namespace).into_iter().find(|object| object["kind"] == "CustomResourceDefinition").unwrap();
    server.apply(&definition, &encode(&definition), US, false).await;
    until(&server, &definition, |live| live.pointer("/status/acceptedNames/plural").is_some()).await;
    let seeds = std::env::var("WINDLASS_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(120);
    let (mut same, mut quiet, mut differ) = (0, 0, 0);
    for seed in 0..seeds {
        let mut dice = draw::Dice::new(seed ^ 0xd1ce);
        let drawn = |dice: &mut draw::Dice| match seed % 2 {
            0 => draw::deployment(dice, &namespace, seed),
            _ => draw::widget(dice, &namespace, seed),
        };
        let first = drawn(&mut dice);
        if server.try_apply(&first, US, false).await.is_none() {
            continue;
        }
        if dice.one_in(2) {
            server.try_apply(&drawn(&mut dice), "other", false).await;
        }
        if dice.one_in(2) {
            server.patch(&first, &draw::edit(&mut dice), "editor").await;
        }
        let second = if dice.one_in(2) { first.clone() } else { drawn(&mut dice) };
        let live = server.get(&first).await;
        let differences = diff(&second, &live, US);
        match (is_same(&second, &live), differences.is_empty()) {
            (true, true) => same += 1,
            (false, true) => quiet += 1,
            (false, false) => differ += 1,
            (true, false) => panic!(
                "seed {seed}: the digests are equal, and {differences:?}\nwanted {second}\nlive {live}\nowned {:?}",
                owned(&live, US)
            ),
        }
    }
    println!("{same} told by digest, {quiet} only by a closer look, {differ} differ");
    assert!(same > seeds / 10 && differ > seeds / 10, "{same} {quiet} {differ}");
}
