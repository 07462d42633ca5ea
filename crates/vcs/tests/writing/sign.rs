//! Signed commits, verified by the real `git` and `ssh-keygen`.

use std::{path::Path, process::Command, sync::Arc};

use crate::support::{Bare, spec};
use windlass_vcs::write::{CommitSpec, Edits, KeyError, SshSigner};

fn keygen(folder: &Path, args: &[&str]) -> String {
    let path = folder.join("key");
    let _ = std::fs::remove_file(&path);
    let output = Command::new("ssh-keygen")
        .args(["-q", "-C", "windlass", "-f"])
        .arg(&path)
        .args(args)
        .output()
        .expect("ssh-keygen is installed");
    assert!(output.status.success(), "{output:?}");
    std::fs::read_to_string(path).unwrap()
}

fn signed(signer: &SshSigner, content: &str) -> CommitSpec {
    let mut edits = Edits::new();
    edits.upsert("a", content).unwrap();
    CommitSpec { signer: Some(Arc::new(signer.clone())), change_id: Some([7; 16]), ..spec(edits) }
}

#[test]
fn git_verifies_the_signatures_of_every_kind_of_key() {
    let keys = tempfile::tempdir().unwrap();
    let kinds: [&[&str]; 7] = [
        &["-t", "ed25519"],
        &["-t", "ecdsa", "-b", "256"],
        &["-t", "ecdsa", "-b", "384"],
        &["-t", "ecdsa", "-b", "521"],
        &["-t", "rsa", "-b", "2048"],
        &["-t", "rsa", "-b", "2048"],
        &["-t", "rsa", "-b", "3072"],
    ];
    let bare = Bare::new();
    let signers = bare.path().join("allowed_signers");
    for kind in kinds {
        let text = keygen(keys.path(), &[kind, &["-N", ""]].concat());
        let signer = SshSigner::from_openssh(&text).unwrap();
        let commit = bare.write(None, &[signed(&signer, &signer.fingerprint())]).to_string();
        std::fs::write(&signers, format!("ada@example.org {}\n", signer.public_key())).unwrap();
        let setting = format!("gpg.ssh.allowedSignersFile={}", signers.display());
        bare.git(&["-c", &setting, "verify-commit", &commit]);
        let told = bare.git(&["-c", &setting, "log", "-1", "--format=%G? %GS %GK", &commit]);
        assert_eq!(told, format!("G ada@example.org {}", signer.fingerprint()), "{kind:?}");
        bare.git(&["update-ref", &format!("refs/heads/{}", &commit[..9]), &commit]);

        if !kind.contains(&"521") {
            let again = bare.write(None, &[signed(&signer, &signer.fingerprint())]).to_string();
            assert_eq!(again, commit, "{kind:?}: the same commit gets the same signature");
        }

        let raw = bare.git(&["cat-file", "commit", &commit]);
        let forged = bare.git_with(
            &["hash-object", "-t", "commit", "-w", "--stdin"],
            raw.replace("Ada", "Eve").as_bytes(),
        );
        let told = bare.git(&["-c", &setting, "log", "-1", "--format=%G?", &forged]);
        assert_eq!(told, "B", "{kind:?}: a changed commit is not verified");
    }
    bare.fsck();
}

#[test]
fn an_ecdsa_key_with_a_short_number_signs_too() {
    let keys = tempfile::tempdir().unwrap();
    // Every second key of this size is a byte short; twelve long ones in a row are next to impossible.
    for _ in 0..12 {
        let text = keygen(keys.path(), &["-t", "ecdsa", "-b", "521", "-N", ""]);
        let signer = SshSigner::from_openssh(&text).unwrap();
        let public = std::fs::read_to_string(keys.path().join("key.pub")).unwrap();
        assert_eq!(signer.public_key(), public.trim_end());
    }
}

#[test]
fn a_key_that_cannot_sign_is_refused_with_a_reason_and_never_shown() {
    let keys = tempfile::tempdir().unwrap();
    let encrypted = keygen(keys.path(), &["-t", "ed25519", "-N", "secret passphrase"]);
    assert_eq!(SshSigner::from_openssh(&encrypted).unwrap_err(), KeyError::Encrypted);
    let old_format = keygen(keys.path(), &["-t", "rsa", "-b", "2048", "-m", "PEM", "-N", ""]);
    let error = SshSigner::from_openssh(&old_format).unwrap_err();
    assert!(error.to_string().contains("ssh-keygen -p"), "{error}");
    let weak = keygen(keys.path(), &["-t", "rsa", "-b", "1024", "-N", ""]);
    assert_eq!(SshSigner::from_openssh(&weak).unwrap_err(), KeyError::RsaSize);
    let good = keygen(keys.path(), &["-t", "ed25519", "-N", ""]);
    let secret = good.lines().nth(2).unwrap().to_owned();
    for bad in [
        "",
        "no key",
        &good[..good.len() / 2],
        &good.replace(&secret, "AAAA"),
        &good.replace("OPENSSH", "ODD"),
    ] {
        let error = SshSigner::from_openssh(bad).unwrap_err();
        assert!(matches!(error, KeyError::Malformed { .. }), "{error}");
        assert!(!format!("{error} {error:?}").contains(&secret[..12]), "{error}");
    }
    let signer = SshSigner::from_openssh(&good.replace('\n', "\r\n")).expect("line ends do not matter");
    let shown = format!("{signer:?} {:?}", signed(&signer, ""));
    assert!(shown.contains("SHA256:") && !shown.contains(&secret[..12]), "{shown}");
}
