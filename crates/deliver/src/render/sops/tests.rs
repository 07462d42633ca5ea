//! Against files that the real `sops` wrote: see `tests/data/sops/README.md`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::{collections::BTreeMap, path::PathBuf};

use serde_json::{Value, json};
use windlass_manifest::parse::{Limits, parse_bytes};

use super::*;

/// In every secret of the files.
const PLANTED: &str = "planted-plaintext";

fn data(name: &str) -> Vec<u8> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/sops");
    std::fs::read(folder.join(name)).unwrap()
}

fn text(name: &str) -> String {
    String::from_utf8(data(name)).unwrap()
}

fn keys(entries: &[(&str, &[u8])]) -> Result<AgeKeys, Trouble> {
    let data: BTreeMap<_, _> =
        entries.iter().map(|(name, value)| ((*name).to_owned(), value.to_vec())).collect();
    AgeKeys::from_secret("shop/keys", &data)
}

fn ours() -> AgeKeys {
    keys(&[("test.agekey", &data("test.agekey"))]).unwrap()
}

fn documents(bytes: &[u8]) -> Vec<Value> {
    parse_bytes(bytes, &Limits::default()).unwrap().into_iter().map(|document| document.value).collect()
}

/// What no error and no `Debug` may hold.
fn assert_tells_nothing(shown: &str) {
    let secrets = ["AGE-SECRET-KEY", PLANTED, "cGxhbnRlZC", "ENC["];
    assert!(secrets.iter().all(|secret| !shown.contains(secret)), "{shown}");
}

/// The trouble that a file is refused with. Checks that it helps, and that it gives nothing away.
fn refused(keys: &AgeKeys, path: &str, bytes: &[u8]) -> Trouble {
    let trouble = keys.decrypt_file(path, bytes).expect_err("is refused");
    assert_tells_nothing(&format!("{trouble:?} {} {keys:?}", trouble.message()));
    assert!(
        !trouble.remedy.is_empty() && trouble.what.contains(path) && trouble.waits_for_change,
        "{trouble:?}"
    );
    trouble
}

#[test]
fn files_of_the_real_sops_come_out_as_they_went_in() {
    for name in ["secret.yaml", "only.yaml", "all.yaml", "many.yaml", "values.json"] {
        let plain = ours().decrypt_file(name, &data(name)).unwrap().expect("is encrypted");
        let wanted = data(&format!("plain/{}", if name == "only.yaml" { "secret.yaml" } else { name }));
        assert_eq!(documents(&plain), documents(&wanted), "{name}");
        assert!(is_encrypted_file(name, &data(name)) && !is_encrypted_file(name, &plain), "{name}");
    }
}

#[test]
fn values_in_the_clear_count_for_the_mac_as_sops_spells_them() {
    let plain = ours().decrypt_file("clear.yaml", &data("clear.yaml")).unwrap().expect("is encrypted");
    let read = documents(&plain).remove(0);
    assert_eq!(read["a"], "planted-plaintext-x");
    // As the real sops gives them back.
    assert_eq!(read["clear"]["octal"], 511);
    assert_eq!(read["clear"]["on"], "on");
    assert_eq!(read["clear"]["huge"], 1e21);
    assert_eq!(read["clear"]["date"], "2024-01-01T00:00:00Z");
}

#[test]
fn any_other_file_comes_out_byte_for_byte() {
    let plain = ours().decrypt_file("certs/blob.bin", &data("blob.bin")).unwrap();
    assert_eq!(plain, Some(data("plain/blob.bin")));
}

#[test]
fn a_dotenv_file_comes_out_as_it_went_in_without_encrypted_comments() {
    let plain = ours().decrypt_file("config/app.env", &data("app.env")).unwrap().unwrap();
    let wanted = text("plain/app.env");
    let wanted: Vec<&str> = wanted.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(String::from_utf8(plain).unwrap().lines().collect::<Vec<_>>(), wanted);
    let env = text("app.env");
    let changed = env.replace("OPEN_unencrypted=clear", "OPEN_unencrypted=other");
    assert_eq!(refused(&ours(), "app.env", changed.as_bytes()).reason, "DecryptionMacMismatch");
    let moved = env.replace("\nA=", "\nZ=");
    assert_eq!(refused(&ours(), "app.env", moved.as_bytes()).reason, "DecryptionFailed");
}

#[test]
fn an_object_that_a_generator_made_of_an_encrypted_dotenv_file_is_decrypted() {
    let env = text("app.env");
    let entries: Vec<(&str, &str)> =
        env.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once('=')).collect();
    let object = |kind: &str, encode: fn(&str) -> String| {
        let data: Value =
            entries.iter().map(|(name, value)| ((*name).to_owned(), json!(encode(value)))).collect();
        json!({ "apiVersion": "v1", "kind": kind, "metadata": { "name": "env-5h2k", "namespace": "shop" }, "data": data })
    };
    let base64 = |text: &str| base64::Engine::encode(&base64::engine::general_purpose::STANDARD, text);
    for (kind, encode) in [("Secret", base64 as fn(&str) -> String), ("ConfigMap", |text| text.to_owned())] {
        let mut object = object(kind, encode);
        assert!(ours().decrypt_object(&mut object).unwrap(), "{kind}");
        let wanted = json!({
            "A": encode("planted-plaintext-9"), "B": encode("two words and = a sign"), "C": encode("line\\nbreak"),
            "EMPTY": encode(""), "OPEN_unencrypted": encode("clear"),
        });
        assert_eq!(object["data"], wanted, "{kind}");
        assert!(!ours().decrypt_object(&mut object).unwrap(), "{kind}");
    }
    let other = keys(&[("other.agekey", &data("other.agekey"))]).unwrap();
    let trouble = other.decrypt_object(&mut object("Secret", base64)).unwrap_err();
    assert!(
        trouble.reason == "DecryptionKeyMismatch" && trouble.what.contains("Secret shop/env"),
        "{trouble:?}"
    );
}

#[test]
fn decrypted_text_is_read_by_every_yaml_reader() {
    let plain = ours().decrypt_file("all.yaml", &data("all.yaml")).unwrap().unwrap();
    let plain = String::from_utf8(plain).unwrap();
    assert!(!plain.contains(['\u{7f}', '\u{2028}']), "{plain}");
    let read: Value = serde_saphyr::from_str(&plain).unwrap();
    assert_eq!(read["odd"], "ünï \u{7f} \u{2028} \"quoted\"");
}

#[test]
fn what_is_not_encrypted_is_left_alone() {
    for name in ["secret.yaml", "all.yaml", "many.yaml", "values.json", "blob.bin", "app.env", "app.ini"] {
        assert_eq!(ours().decrypt_file(name, &data(&format!("plain/{name}"))).unwrap(), None, "{name}");
    }
    // Words of SOPS do not make a file encrypted, and what cannot be read is somebody else's to refuse.
    for text in ["a: sops mac lastmodified\n", "sops: mac\n", "sops: {mac: [\n", "\u{0}sops mac"] {
        assert_eq!(ours().decrypt_file("a.yaml", text.as_bytes()).unwrap(), None, "{text}");
    }
    let mut object =
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" }, "sops": "no" });
    assert!(!ours().decrypt_object(&mut object).unwrap());
    assert_eq!(object["sops"], "no");
}

#[test]
fn an_object_is_decrypted_whatever_a_renderer_added_to_it() {
    let mut object = documents(&data("secret.yaml")).remove(0);
    object["metadata"]["labels"] = json!({ "added": "later" });
    let data = object["data"].take();
    object.as_object_mut().unwrap().shift_insert(0, "data".to_owned(), data);
    assert!(is_encrypted_object(&object));
    assert!(ours().decrypt_object(&mut object).unwrap());
    assert_eq!(object["stringData"]["password"], "planted-plaintext-1");
    assert_eq!(object["metadata"]["labels"]["added"], "later");
    assert_eq!(object.get("sops"), None);
    assert!(!ours().decrypt_object(&mut object).unwrap(), "it no longer is encrypted");
}

#[test]
fn encrypted_files_one_after_another_are_each_checked() {
    let both = format!("{}---\n{}", text("secret.yaml"), text("only.yaml"));
    let plain = ours().decrypt_file("both.yaml", both.as_bytes()).unwrap().unwrap();
    let wanted = documents(&data("plain/secret.yaml")).remove(0);
    assert_eq!(documents(&plain), [wanted.clone(), wanted]);
    let changed = both.replacen("name: db", "name: dc", 1);
    assert_eq!(refused(&ours(), "both.yaml", changed.as_bytes()).reason, "DecryptionMacMismatch");
}

#[test]
fn any_of_several_keys_opens_a_file() {
    let other = keys(&[("other.agekey", &data("other.agekey"))]).unwrap();
    let both = keys(&[("a.agekey", &data("other.agekey")), ("b.agekey", &data("test.agekey"))]).unwrap();
    assert!(other.decrypt_file("values.json", &data("values.json")).unwrap().is_some());
    for name in ["foreign.yaml", "secret.yaml"] {
        assert!(both.decrypt_file(name, &data(name)).unwrap().is_some(), "{name}");
    }
}

#[test]
fn a_file_for_another_key_is_refused_and_names_whose_it_is() {
    let trouble = refused(&ours(), "foreign.yaml", &data("foreign.yaml"));
    assert_eq!(trouble.reason, "DecryptionKeyMismatch");
    let other = keys(&[("other.agekey", &data("other.agekey"))]).unwrap();
    assert!(trouble.what.contains(&other.recipients()[0]), "{trouble:?}");
    assert!(trouble.remedy.contains(&ours().recipients()[0]), "{trouble:?}");
}

#[test]
fn a_value_that_was_changed_or_moved_is_refused() {
    let file = text("secret.yaml");
    let value = |name: &str| {
        let line = file.lines().find(|line| line.trim().starts_with(&format!("{name}: ENC["))).unwrap();
        line.trim().split_once(": ").unwrap().1.to_owned()
    };
    let (password, user) = (value("password"), value("user"));
    let other_letter = if password.contains("data:A") { "data:B" } else { "data:A" };
    let changed = format!("{other_letter}{}", &password.split_once("data:").unwrap().1[1..]);
    let changed = file.replace(password.split_once("ENC[AES256_GCM,").unwrap().1, &changed);
    let swapped = file.replace(&password, "here").replace(&user, &password).replace("here", &user);
    for text in [changed, swapped, file.replace(&user, "ENC[AES256_GCM,data:what]")] {
        assert_ne!(text, file);
        let trouble = refused(&ours(), "secret.yaml", text.as_bytes());
        assert_eq!(trouble.reason, "DecryptionFailed");
        assert!(trouble.what.contains("stringData."), "{trouble:?}");
    }
}

#[test]
fn a_file_whose_mac_does_not_fit_is_refused() {
    let file = text("secret.yaml");
    let mac = file.lines().find(|line| line.trim().starts_with("mac: ")).unwrap();
    let user = file.lines().find(|line| line.trim().starts_with("user: ")).unwrap();
    for changed in [
        // In the clear, and still covered.
        file.replace("namespace: shop", "namespace: kube-system"),
        file.replace("kind: Secret", "kind: Secret\ntype: Opaque"),
        file.replace(&format!("{user}\n"), ""),
        file.replace(mac, "    mac: \"\""),
        file.replace(mac, "    other: none"),
        file.replace(mac, &format!("    mac: {}", user.trim().split_once(": ").unwrap().1)),
        file.replace("lastmodified: \"2", "lastmodified: \"3"),
    ] {
        assert_ne!(changed, file);
        assert_eq!(refused(&ours(), "secret.yaml", changed.as_bytes()).reason, "DecryptionMacMismatch");
    }
    // Where the MAC covers encrypted values alone, the rest may change, and they may not.
    let only = text("only.yaml");
    let moved = only.replace("namespace: shop", "namespace: other");
    assert!(ours().decrypt_file("only.yaml", moved.as_bytes()).unwrap().is_some());
    let user = only.lines().find(|line| line.trim().starts_with("user: ")).unwrap();
    let clear = only.replace(user, "    user: mallory");
    assert_eq!(refused(&ours(), "only.yaml", clear.as_bytes()).reason, "DecryptionMacMismatch");
    // A MAC over all must not pass for one over some.
    let downgraded = file.replace("    encrypted_regex", "    mac_only_encrypted: true\n    encrypted_regex");
    assert_eq!(refused(&ours(), "secret.yaml", downgraded.as_bytes()).reason, "DecryptionMacMismatch");
    let blob = text("blob.bin").replace("\"lastmodified\": \"2", "\"lastmodified\": \"3");
    assert_eq!(refused(&ours(), "blob.bin", blob.as_bytes()).reason, "DecryptionMacMismatch");
}

#[test]
fn files_for_nobody_with_an_age_key_are_refused_with_what_to_do() {
    let mut document = documents(&data("secret.yaml")).remove(0);
    let metadata = document["sops"].as_object_mut().unwrap();
    metadata.remove("age");
    let nobody = refused(&ours(), "a.json", document.to_string().as_bytes());
    assert_eq!(nobody.reason, "DecryptionUnsupported");
    document["sops"]["pgp"] = json!([{ "fp": "ABC", "enc": "x" }]);
    document["sops"]["kms"] = json!([{ "arn": "arn:aws:kms:x", "enc": "x" }]);
    let trouble = refused(&ours(), "a.json", document.to_string().as_bytes());
    assert!(trouble.what.contains("PGP, AWS KMS"), "{trouble:?}");
    document["sops"]["key_groups"] = json!([{ "age": [] }, { "pgp": [] }]);
    assert!(refused(&ours(), "a.json", document.to_string().as_bytes()).what.contains("several key groups"));
    assert_eq!(refused(&ours(), "app.ini", &data("app.ini")).reason, "DecryptionUnsupported");
    let env = text("app.env").replace("sops_age__", "sops_pgp__");
    assert!(refused(&ours(), "app.env", env.as_bytes()).what.contains("for PGP"));
}

#[test]
fn keys_that_are_none_are_refused_by_entry_and_line() {
    let missing = keys(&[("identity", &data("test.agekey"))]).unwrap_err();
    assert_eq!(missing.reason, "DecryptionKeyMissing");
    assert!(missing.what.contains("shop/keys") && missing.remedy.contains(".agekey"), "{missing:?}");
    let mut broken = data("test.agekey");
    broken.extend(b"\nAGE-SECRET-KEY-1BROKEN\n");
    for bytes in [broken.as_slice(), b"\xff\xfe"] {
        let invalid = keys(&[("a.agekey", bytes)]).unwrap_err();
        assert_eq!(invalid.reason, "DecryptionKeyInvalid");
        assert!(invalid.what.contains("a.agekey"), "{invalid:?}");
        assert_tells_nothing(
            &format!("{}{:?}", invalid.what, keys(&[("a.agekey", bytes)])).replace("AGE-SECRET-KEY-1…", ""),
        );
    }
}

#[test]
fn keys_are_told_apart_by_a_fingerprint_that_shows_nothing() {
    let (one, other) = (data("test.agekey"), data("other.agekey"));
    let joined = [one.clone(), b"\n".to_vec(), other.clone()].concat();
    let apart = keys(&[("b.agekey", &one), ("a.agekey", &other)]).unwrap();
    let together = keys(&[("all.agekey", &joined)]).unwrap();
    assert_eq!(apart.fingerprint(), together.fingerprint());
    assert_ne!(apart.fingerprint(), ours().fingerprint());
    assert_tells_nothing(&format!("{:?} {:#?}", ours(), together));
}

#[test]
fn no_letter_of_a_file_can_be_changed_into_a_panic_or_a_leak() {
    // Every line of the files in turn is cut, doubled or taken away.
    for name in ["secret.yaml", "all.yaml", "values.json", "blob.bin", "app.env"] {
        let file = text(name);
        let lines: Vec<&str> = file.lines().collect();
        for at in 0..lines.len() {
            let half = &lines[at][..lines[at].len() / 2];
            for instead in [vec![], vec![half], vec![lines[at], lines[at]]] {
                let changed = [&lines[..at], &instead[..], &lines[at + 1..]].concat().join("\n");
                if let Err(trouble) = ours().decrypt_file(name, changed.as_bytes()) {
                    assert_tells_nothing(&format!("{trouble:?}"));
                }
            }
        }
    }
}
