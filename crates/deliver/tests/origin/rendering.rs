//! From a commit to what the renderer gets: the mirror, the commit checked, the keys.

use windlass_api::application::{
    LocalSecret,
    source::{Decryption, DecryptionProvider},
};
use windlass_deliver::origin::{Origin, Wanted};

use crate::bed::Bed;

fn encrypted(name: &str) -> String {
    let folder = std::path::PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/sops");
    std::fs::read_to_string(folder.join(name)).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_old_commit_can_be_rendered_and_one_that_is_gone_is_refused() {
    let bed = Bed::new().await;
    let first = bed.repo.tip().unwrap();
    let second = bed.repo.commit_files(&[("a/three.yaml", Some("three: 3\n"))], "second").unwrap();
    let mut follow = bed.follow("web", None);
    follow.source.path = Some("a".into());
    bed.until_at(&follow, &second).await;
    let wanted = |commit| Wanted {
        app: &follow.app,
        source: &follow.source,
        commit,
        path: None,
        namespace: None,
        kube_version: None,
    };
    assert_eq!(bed.repos.render(wanted(&first)).await.unwrap().objects.len(), 1);
    assert_eq!(bed.repos.render(wanted(&second)).await.unwrap().objects.len(), 2);
    let tree = bed.repo.git(&["rev-parse", "HEAD^{tree}"]).unwrap();
    for gone in ["1111111111111111111111111111111111111111", "not-a-commit", &tree] {
        let trouble = bed.repos.render(wanted(gone)).await.unwrap_err();
        assert_eq!(trouble.reason, "CommitNotFound");
        assert!(trouble.what.contains(gone) && trouble.waits_for_change, "{trouble:?}");
    }
    // The mirror outlives those who follow it: what runs can still be rendered.
    bed.repos.forget(&follow.app);
    assert_eq!(bed.repos.render(wanted(&first)).await.unwrap().objects.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn encrypted_files_are_decrypted_with_the_keys_of_the_applications_secret() {
    let bed = Bed::new().await;
    bed.repo.commit_files(&[("c/secret.yaml", Some(&encrypted("secret.yaml")))], "encrypted").unwrap();
    let commit = bed.repo.tip().unwrap();
    let mut follow = bed.follow("web", None);
    follow.source.path = Some("c".into());
    follow.source.decryption = Some(Decryption {
        provider: DecryptionProvider::Sops,
        secret_ref: LocalSecret { name: "keys".into() },
    });
    bed.until_at(&follow, &commit).await;
    let wanted = || Wanted {
        app: &follow.app,
        source: &follow.source,
        commit: &commit,
        path: None,
        namespace: None,
        kube_version: None,
    };
    assert_eq!(bed.repos.render(wanted()).await.unwrap_err().reason, "SecretNotFound");
    for (entry, key, reason) in [
        ("a.agekey", "garbage", Some("DecryptionKeyInvalid")),
        ("a.txt", "anything", Some("DecryptionKeyMissing")),
        ("a.agekey", &encrypted("other.agekey"), Some("DecryptionKeyMismatch")),
        ("a.agekey", &encrypted("test.agekey"), None),
    ] {
        bed.hub.put("shop", "keys", &[(entry, key)]);
        bed.repos.secret_changed("shop", "keys");
        let rendered = bed.repos.render(wanted()).await;
        assert_eq!(rendered.as_ref().err().map(|trouble| trouble.reason), reason);
        if let Ok(rendered) = rendered {
            let text = rendered.objects[0].object["text"].as_str().unwrap();
            assert!(text.contains("planted-plaintext-1") && !format!("{rendered:?}").contains("planted"));
        }
    }
    let reads = bed.hub.reads();
    bed.repos.render(wanted()).await.unwrap();
    assert_eq!(bed.hub.reads(), reads, "a quiet Application asks for nothing");
}
