//! What the child is told: everything, since it inherits nothing but the search path.

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::failure::CommandError;
use super::scratch::Scratch;
use super::{Git, Invocation, ORIGIN};
use crate::remote::{Credentials, Hidden, Remote, Scheme, SshKey};

/// Settings of every run.
const SETTINGS: &[(&str, &str)] = &[
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("core.askPass", ""),
    ("core.attributesFile", "/dev/null"),
    ("core.excludesFile", "/dev/null"),
    // Blobs above this are streamed and not held in memory.
    ("core.bigFileThreshold", "16m"),
    // An empty helper ends the list of helpers.
    ("credential.helper", ""),
    ("fetch.recurseSubmodules", "false"),
    ("submodule.recurse", "false"),
    ("push.recurseSubmodules", "no"),
    // Everything that arrives stays in a pack: one file to watch the size of, one rename to make it visible.
    ("fetch.unpackLimit", "1"),
    ("fetch.writeCommitGraph", "false"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    // A header with credentials would be sent to wherever a server points.
    ("http.followRedirects", "false"),
    ("http.delegation", "none"),
    ("pack.threads", "2"),
    ("pack.windowMemory", "128m"),
    ("protocol.version", "2"),
    ("advice.pushUpdateRejected", "false"),
];

/// For commands without a network: no protocol is allowed.
pub(super) fn set_local(invocation: &mut Invocation, home: &Path, repository: &Path) {
    let mut set = |name: &str, value: &std::ffi::OsStr| invocation.env.push((name.into(), value.to_owned()));
    if let Some(path) = std::env::var_os("PATH") {
        set("PATH", &path);
    }
    for (name, value) in
        [("HOME", home), ("XDG_CONFIG_HOME", home), ("TMPDIR", home), ("GIT_DIR", repository)]
    {
        set(name, value.as_os_str());
    }
    for (name, value) in [
        ("GIT_CONFIG_NOSYSTEM", "1"),
        ("GIT_CONFIG_GLOBAL", "/dev/null"),
        ("GIT_ATTR_NOSYSTEM", "1"),
        ("GIT_TERMINAL_PROMPT", "0"),
        ("GIT_OPTIONAL_LOCKS", "0"),
        ("GIT_ALLOW_PROTOCOL", "none"),
        // A few megabytes of pack can hold a commit or a tree that fills any memory.
        ("GIT_ALLOC_LIMIT", "1g"),
        // Needed where git writes down who moved a ref.
        ("GIT_COMMITTER_NAME", "windlass"),
        ("GIT_COMMITTER_EMAIL", "windlass@localhost"),
        ("GIT_AUTHOR_NAME", "windlass"),
        ("GIT_AUTHOR_EMAIL", "windlass@localhost"),
        // Errors are sorted by their English text.
        ("LC_ALL", "C"),
        ("TZ", "UTC"),
    ] {
        set(name, value.as_ref());
    }
    let settings = SETTINGS.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    invocation.settings.extend(settings);
    // The folder may belong to another user (a volume); its configuration is ours all the same.
    invocation.settings.push(("safe.directory".to_owned(), repository.display().to_string()));
}

/// Names the remote and hands over what it takes to get in.
pub(super) fn set_remote(
    invocation: &mut Invocation,
    git: &Git,
    remote: &Remote,
) -> Result<(), CommandError> {
    let scheme = remote.url().scheme();
    let mut keep = |key: &str, value: String| invocation.settings.push((key.to_owned(), value));
    keep(&format!("remote.{ORIGIN}.url"), remote.url().to_string());
    keep(&format!("remote.{ORIGIN}.fetch"), format!("+refs/heads/*:refs/remotes/{ORIGIN}/*"));
    keep(&format!("remote.{ORIGIN}.tagOpt"), "--no-tags".to_owned());
    if let Some(header) = authorization(remote.credentials()) {
        keep("http.extraHeader", header);
    }
    if let Some(proxy) = remote.proxy() {
        keep("http.proxy", proxy.revealed());
        if !proxy.no_proxy().is_empty() {
            invocation.env.push(("no_proxy".into(), proxy.no_proxy().into()));
        }
    }
    // The later value of a variable is the one that counts.
    invocation.env.push(("GIT_ALLOW_PROTOCOL".into(), scheme.as_str().into()));
    set_files(invocation, git, remote)
        .map_err(|source| CommandError::Scratch { path: git.scratch.path().to_owned(), source })
}

fn authorization(credentials: &Credentials) -> Option<String> {
    match credentials {
        Credentials::Token(token) => Some(format!("Authorization: Bearer {}", token.reveal())),
        Credentials::Basic { user, password } => {
            let both = Hidden::new(format!("{user}:{}", password.reveal()));
            Some(format!("Authorization: Basic {}", STANDARD.encode(both.reveal())))
        }
        Credentials::Anonymous | Credentials::Ssh(_) => None,
    }
}

/// What only works as a file: keys and certificates.
fn set_files(invocation: &mut Invocation, git: &Git, remote: &Remote) -> std::io::Result<()> {
    let is_ssh = remote.url().scheme() == Scheme::Ssh;
    if !is_ssh && remote.ca().is_none() && remote.client_certificate().is_none() {
        return Ok(());
    }
    let scratch = git.scratch.folder()?;
    if is_ssh {
        let command = match remote.credentials() {
            Credentials::Ssh(key) => ssh_command(&git.ssh, &scratch, Some(key))?,
            _ => ssh_command(&git.ssh, &scratch, None)?,
        };
        invocation.env.push(("GIT_SSH_COMMAND".into(), command.into()));
        invocation.env.push(("GIT_SSH_VARIANT".into(), "ssh".into()));
    }
    let mut keep = |key: &str, path: std::path::PathBuf| {
        invocation.settings.push((key.to_owned(), path.display().to_string()));
    };
    if let Some(ca) = remote.ca() {
        keep("http.sslCAInfo", scratch.file("ca.pem", ca.pem())?);
    }
    if let Some(client) = remote.client_certificate() {
        keep("http.sslCert", scratch.file("client.crt", client.certificate())?);
        keep("http.sslKey", scratch.file("client.key", client.key().reveal())?);
    }
    invocation.scratch = Some(scratch);
    Ok(())
}

/// ssh with one key and one list of hosts; it asks nobody and reads no configuration.
fn ssh_command(program: &Path, scratch: &Scratch, key: Option<&SshKey>) -> std::io::Result<String> {
    let hosts = scratch.file("known_hosts", key.map_or("", |key| key.known_hosts().text()))?;
    let identity = match key {
        Some(key) => scratch.file("key", key.private_key().reveal())?,
        None => "/dev/null".into(),
    };
    let options = [
        "BatchMode=yes".to_owned(),
        "StrictHostKeyChecking=yes".to_owned(),
        format!("UserKnownHostsFile={}", hosts.display()),
        "GlobalKnownHostsFile=/dev/null".to_owned(),
        "UpdateHostKeys=no".to_owned(),
        "IdentitiesOnly=yes".to_owned(),
        "IdentityAgent=none".to_owned(),
        "PreferredAuthentications=publickey".to_owned(),
        "ForwardAgent=no".to_owned(),
        "ControlPath=none".to_owned(),
        "PermitLocalCommand=no".to_owned(),
        "ConnectTimeout=20".to_owned(),
        "ServerAliveInterval=15".to_owned(),
        "ServerAliveCountMax=4".to_owned(),
    ];
    let mut command = format!("{} -F /dev/null -i {}", quoted(program), quoted(&identity));
    for option in options {
        command.push_str(" -o ");
        command.push_str(&quoted(Path::new(&option)));
    }
    Ok(command)
}

/// One word for the shell that git gives the command to.
fn quoted(word: &Path) -> String {
    format!("'{}'", word.display().to_string().replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_stays_one_word_in_the_shell() {
        assert_eq!(quoted(Path::new("/a b/it's")), r"'/a b/it'\''s'");
    }
}
