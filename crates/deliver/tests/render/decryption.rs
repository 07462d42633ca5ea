//! Encrypted files, with keys that stand in for SOPS: `ENC[…]` is the text backwards.

use serde_json::Value;
use windlass_api::application::source::{Directory, Helm};
use windlass_deliver::{render::Decrypt, trouble::Trouble};

use crate::bed::{Bed, Make, directory, folder, helm, script};

/// What is encrypted, and how it looks in the repository.
const CLEAR: &str = "hunter22-clear";
const HIDDEN: &str = "ENC[raelc-22retnuh]";

struct Backwards(u8);

fn clear(text: &str) -> String {
    text.replace(HIDDEN, CLEAR)
}

impl Decrypt for Backwards {
    fn fingerprint(&self) -> [u8; 32] {
        [self.0; 32]
    }

    fn decrypt_file(&self, path: &str, bytes: &[u8]) -> Result<Option<Vec<u8>>, Trouble> {
        let text = String::from_utf8_lossy(bytes);
        if self.0 == 0 && text.contains("sops:") {
            return Err(Trouble::standing("NotDecrypted", format!("no key for {path}"), "add the key"));
        }
        Ok(text.split_once("sops:").map(|(before, _)| clear(before).into_bytes()))
    }

    fn decrypt_object(&self, object: &mut Value) -> Result<bool, Trouble> {
        let mut fields = object.as_object().cloned().unwrap_or_default();
        let was = fields.remove("sops").is_some();
        *object = serde_json::from_str(&clear(&Value::Object(fields).to_string())).unwrap();
        Ok(was)
    }
}

fn secret() -> String {
    format!(
        "apiVersion: v1\nkind: Secret\nmetadata: {{name: s}}\nstringData: {{a: '{HIDDEN}'}}\nsops: {{mac: x}}\n"
    )
}

#[tokio::test]
async fn an_encrypted_file_is_decrypted_in_memory_or_refused() {
    let bed = Bed::new(&[("secret.yaml", &secret())]).await;
    let source = directory("", Directory::default());
    let trouble = bed.render(&source).await.unwrap_err();
    assert_eq!(trouble.reason, "NotDecrypted");
    assert!(trouble.what.contains("secret.yaml:1"), "{}", trouble.what);
    let rendered = bed.render_as("web", &source, Some(&Backwards(1))).await.unwrap();
    assert_eq!(rendered.objects[0].object["stringData"]["a"], CLEAR);
    assert!(rendered.objects[0].object.get("sops").is_none());
    assert!(!format!("{rendered:?}").contains(CLEAR));
    // Other keys never see what these keys decrypted.
    let trouble = bed.render_as("web", &source, Some(&Backwards(0))).await.unwrap_err();
    assert_eq!(trouble.reason, "NotDecrypted");
}

#[tokio::test]
async fn what_kustomize_builds_from_encrypted_files_is_decrypted_afterwards() {
    let bed = Bed::new(&[
        (
            "kustomization.yaml",
            "resources: [secret.yaml]\nsecretGenerator:\n- {name: made, files: [inner.yaml]}\n",
        ),
        ("secret.yaml", &secret()),
        ("inner.yaml", &format!("password: {HIDDEN}\nsops: x\n")),
    ])
    .await;
    assert_eq!(bed.render(&folder("")).await.unwrap_err().reason, "NotDecrypted");
    let rendered = bed.render_as("web", &folder(""), Some(&Backwards(1))).await.unwrap();
    let find = |name: &str| rendered.objects.iter().find(|found| found.id.name.starts_with(name)).unwrap();
    assert_eq!(find("s").object["stringData"]["a"], CLEAR);
    let inner = find("made-").object["data"]["inner.yaml"].as_str().unwrap().to_owned();
    let inner = base64::Engine::decode(&base64::prelude::BASE64_STANDARD, inner).unwrap();
    assert_eq!(String::from_utf8(inner).unwrap(), format!("password: {CLEAR}\n"));
}

fn values() -> [(&'static str, String); 3] {
    [
        ("first.yaml", "a: 1\npassword: none\n".to_owned()),
        ("secret.yaml", format!("password: {HIDDEN}\nsops:\n  mac: x\n")),
        ("last.yaml", "b: {c: 3}\n".to_owned()),
    ]
}

fn with_values() -> Helm {
    Helm { value_files: values().iter().map(|(name, _)| (*name).to_owned()).collect(), ..Helm::default() }
}

#[tokio::test]
async fn encrypted_values_reach_helm_in_their_order_and_no_error_tells_them() {
    let template = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  all: {{ .Values | toJson | quote }}\n";
    let bed = Bed::new(&[
        ("Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n"),
        ("templates/a.yaml", template),
    ])
    .await;
    let files = values();
    let files: Vec<(&str, Option<&str>)> =
        files.iter().map(|(name, text)| (*name, Some(text.as_str()))).collect();
    bed.commit(&files);
    let source = helm("", with_values());
    assert_eq!(bed.render(&source).await.unwrap_err().reason, "NotDecrypted");
    let rendered = bed.render_as("web", &source, Some(&Backwards(1))).await.unwrap();
    let all: Value =
        serde_json::from_str(rendered.objects[0].object["data"]["all"].as_str().unwrap()).unwrap();
    assert_eq!(all, serde_json::json!({ "a": 1, "password": CLEAR, "b": { "c": 3 } }));
    bed.commit(&[("templates/a.yaml", Some("{{ fail .Values.password }}\n"))]);
    let trouble = bed.render_as("web", &source, Some(&Backwards(1))).await.unwrap_err();
    assert!(trouble.what.contains("***") && !trouble.what.contains(CLEAR), "{}", trouble.what);
}

#[tokio::test]
async fn what_is_decrypted_is_never_written_to_disk() {
    let tools = tempfile::tempdir().unwrap();
    let text = format!(
        "if [ \"$1\" = version ]; then echo v9; exit; fi\nif grep -rq '{CLEAR}' \"$HOME/..\"; then echo found >&2; exit 3; fi\n\
         grep -q '{CLEAR}' || exit 4\necho '{{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{{\"name\":\"a\"}}}}'"
    );
    let make = Make { helm: Some(script(tools.path(), "helm", &text)), ..Make::default() };
    let bed = Bed::with(&[("Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n")], make).await;
    let files = values();
    let files: Vec<(&str, Option<&str>)> =
        files.iter().map(|(name, text)| (*name, Some(text.as_str()))).collect();
    bed.commit(&files);
    bed.render_as("web", &helm("", with_values()), Some(&Backwards(1))).await.unwrap();
}
