//! Mirrors over ssh.
//!
//! There is no sshd to talk to. A program in the place of `ssh` checks its arguments with the real `ssh` and the key with the
//! real `ssh-keygen`, and then is the server: the conversation is a real one of git.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod mirror_support;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use mirror_support::{Bed, fetch, limits, options};
use windlass_vcs::command::{Category, Git};
use windlass_vcs::mirror::{MirrorOptions, Mirrors};
use windlass_vcs::remote::{Credentials, KnownHosts, Remote, SshKey};

const HOST_KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB0hY2kPYAhXLLrnLbcZrUZ5mVq1QaIk5P4RPyXlHj3Q";

fn key() -> ssh_key::PrivateKey {
    ssh_key::PrivateKey::new(ssh_key::private::Ed25519Keypair::from_seed(&[7; 32]).into(), "test").unwrap()
}

fn remote(url: &str, host: &str) -> Remote {
    let key = key().to_openssh(ssh_key::LineEnding::LF).unwrap();
    let hosts = KnownHosts::new(&format!("{host} {HOST_KEY}\n")).unwrap();
    Remote::new(url).unwrap().with_credentials(Credentials::Ssh(SshKey::new(&key, hosts).unwrap())).unwrap()
}

fn script(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    path
}

/// Mirrors with this program in the place of ssh.
fn mirrors(bed: &Bed, program: &Path) -> Mirrors {
    let git = Git::new(&bed.work.path().join("scratch")).unwrap().with_ssh(program);
    Mirrors::with_git(bed.work.path(), git, options()).unwrap()
}

#[tokio::test]
async fn a_mirror_over_ssh_uses_its_own_key_and_hosts_and_nothing_else() {
    let bed = Bed::new().await;
    let record = bed.work.path().join("record");
    std::fs::create_dir(&record).unwrap();
    let record_in = record.display();
    let program = script(
        bed.work.path(),
        "ssh with ' quote",
        &format!(
            r#"
exec 3>>'{record_in}/errors'
ssh -G "$@" > '{record_in}/settings' 2>&3 || exit 255
while [ $# -gt 1 ]; do
  [ "$1" = -i ] && key=$2
  case "$1" in UserKnownHostsFile=*) hosts=${{1#*=}};; esac
  shift
done
ssh-keygen -y -f "$key" > '{record_in}/public' 2>&3 || exit 255
ssh-keygen -F git.example -f "$hosts" > '{record_in}/found' 2>&3 || exit 255
stat -c %a "$key" "$hosts" > '{record_in}/modes'
env > '{record_in}/environment'
eval "exec $1""#
        ),
    );
    let url = format!("ssh://git@git.example{}", bed.repo.path().display());
    let mirrors = mirrors(&bed, &program);
    let mirror = mirrors.mirror(&remote(&url, "git.example")).unwrap();
    let result = fetch(&mirror).await;
    let read = |name: &str| std::fs::read_to_string(record.join(name)).unwrap_or_default();
    assert_eq!(result.unwrap_or_else(|error| panic!("{error} {}", read("errors"))).movements.len(), 1);
    let public = key().public_key().to_openssh().unwrap();
    assert_eq!(read("public").split(' ').nth(1), public.split(' ').nth(1));
    assert_eq!(read("modes"), "600\n600\n");
    let settings = read("settings");
    for expected in [
        "user git",
        "hostname git.example",
        "batchmode yes",
        "stricthostkeychecking true",
        "identitiesonly yes",
        "identityagent none",
        "forwardagent no",
        "globalknownhostsfile /dev/null",
        "updatehostkeys false",
        "permitlocalcommand no",
    ] {
        assert!(settings.lines().any(|line| line == expected), "{expected} is not in\n{settings}");
    }
    assert!(!settings.contains(".ssh/known_hosts") && !settings.contains(".ssh/id_"), "{settings}");
    let environment = read("environment");
    assert!(!environment.contains("SSH_AUTH_SOCK") && !environment.contains("PRIVATE KEY"), "{environment}");
    // Nothing of the key is left.
    let left: Vec<_> = std::fs::read_dir(bed.work.path().join("scratch"))
        .unwrap()
        .flatten()
        .map(|entry| entry.file_name())
        .collect();
    assert_eq!(left, ["home"]);
}

#[tokio::test]
async fn a_host_or_key_that_is_refused_has_its_own_error() {
    let bed = Bed::new().await;
    let remote = remote("git@git.example:team/app.git", "git.example");
    // The words of OpenSSH.
    for (text, expected) in [
        (
            "No ED25519 host key is known for git.example and you have requested strict checking.\\nHost key verification failed.",
            Category::HostKey,
        ),
        (
            "@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\\nHost key verification failed.",
            Category::HostKey,
        ),
        ("git@git.example: Permission denied (publickey).", Category::Unauthorized),
        ("ERROR: Repository not found.", Category::NotFound),
        ("ssh: Could not resolve hostname git.example: Name or service not known", Category::Unavailable),
        ("kex_exchange_identification: Connection closed by remote host", Category::Unavailable),
    ] {
        let program = script(bed.work.path(), "ssh", &format!("printf '{text}\\n' >&2; exit 255"));
        let error = fetch(&mirrors(&bed, &program).mirror(&remote).unwrap()).await.unwrap_err();
        assert_eq!(error.category(), expected, "{error}");
    }
}

#[tokio::test]
async fn the_real_ssh_takes_our_options() {
    let bed = Bed::with(MirrorOptions { limits: limits(30, 30), ..options() }).await;
    let remote = remote("ssh://git@127.0.0.1:1/app.git", "[127.0.0.1]:1");
    let error = fetch(&bed.mirrors.mirror(&remote).unwrap()).await.unwrap_err();
    assert_eq!(error.category(), Category::Unavailable, "{error}");
    assert!(error.to_string().contains("Connection refused"), "{error}");
}
