//! The `git` program in a clean environment.

use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context, bail};

/// Name of author and committer of everything that the testbed commits.
pub(super) const NAME: &str = "testbed";
/// Address of author and committer.
pub(super) const EMAIL: &str = "testbed@localhost";
/// Time of the first commit: 2024-01-01T00:00:00Z.
pub(super) const EPOCH: u64 = 1_704_067_200;

/// Runs `git` without the settings of the machine or of whoever runs the test.
///
/// Names and dates are fixed, nothing asks on the terminal, no proxy is used, no background maintenance starts.
#[derive(Debug, Clone)]
pub struct Git {
    home: PathBuf,
    ca: Option<PathBuf>,
}

impl Git {
    /// `git` with this folder as its home.
    pub fn new(home: impl Into<PathBuf>) -> Self {
        Self { home: home.into(), ca: None }
    }

    /// Trusts servers with a certificate of the authority in this PEM file, and no other.
    #[must_use]
    pub fn trusting(self, ca: &Path) -> Self {
        Self { ca: Some(ca.to_owned()), ..self }
    }

    /// A `git` command to add arguments to.
    pub fn command(&self) -> Command {
        let mut command = Command::new("git");
        self.prepare(&mut command);
        command
    }

    /// Runs `git` in a folder and returns what it prints, without white space at the end.
    pub fn run<A: AsRef<OsStr>>(&self, folder: &Path, args: &[A]) -> anyhow::Result<String> {
        let mut command = self.command();
        command.current_dir(folder).args(args);
        output(&mut command, None)
    }

    /// Sets the clean environment on any command that ends up running git.
    pub(super) fn prepare(&self, command: &mut Command) {
        let date = format!("{EPOCH} +0000");
        let path = std::env::var_os("PATH");
        command
            .env_clear()
            .envs(path.map(|path| ("PATH", path)))
            .envs(std::env::var_os("TMPDIR").map(|folder| ("TMPDIR", folder)))
            .env("HOME", &self.home)
            .env("XDG_CONFIG_HOME", self.home.join("config"))
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("LC_ALL", "C")
            .env("TZ", "UTC")
            .envs([("GIT_AUTHOR_NAME", NAME), ("GIT_COMMITTER_NAME", NAME)])
            .envs([("GIT_AUTHOR_EMAIL", EMAIL), ("GIT_COMMITTER_EMAIL", EMAIL)])
            .envs([("GIT_AUTHOR_DATE", &date), ("GIT_COMMITTER_DATE", &date)])
            .envs(self.ca.as_ref().map(|ca| ("GIT_SSL_CAINFO", ca)));
        let settings = [
            ("gc.auto", "0"),
            ("maintenance.auto", "false"),
            ("init.defaultBranch", "main"),
            ("advice.detachedHead", "false"),
        ];
        command.env("GIT_CONFIG_COUNT", settings.len().to_string());
        for (place, (key, value)) in settings.iter().enumerate() {
            command
                .env(format!("GIT_CONFIG_KEY_{place}"), key)
                .env(format!("GIT_CONFIG_VALUE_{place}"), value);
        }
    }

    /// Where git's own CGI program is.
    pub(super) fn http_backend(&self) -> anyhow::Result<PathBuf> {
        let mut command = self.command();
        let folder = output(command.arg("--exec-path"), None)?;
        let program = Path::new(&folder).join("git-http-backend");
        anyhow::ensure!(
            program.exists(),
            "this git has no git-http-backend in {folder}: install git's full package (e.g. `git`, not `git-minimal`)"
        );
        Ok(program)
    }
}

/// Runs a command to its end, with this on its standard input, and returns what it prints.
pub(super) fn output(command: &mut Command, input: Option<&[u8]>) -> anyhow::Result<String> {
    let bytes = output_bytes(command, input)?;
    Ok(String::from_utf8_lossy(&bytes).trim_end().to_owned())
}

/// Like [`output`], byte for byte.
pub(super) fn output_bytes(command: &mut Command, input: Option<&[u8]>) -> anyhow::Result<Vec<u8>> {
    let shown = || command_line(command);
    let what = shown();
    command
        .stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("cannot run `{what}`: is git installed?"))?;
    let stdin = child.stdin.take();
    // Its own thread, so that a program that prints much before it has read all cannot block us and itself.
    let (written, finished) = std::thread::scope(|scope| {
        let writer = scope.spawn(move || match (stdin, input) {
            (Some(mut stdin), Some(input)) => stdin.write_all(input),
            _ => Ok(()),
        });
        let finished = child.wait_with_output();
        (writer.join(), finished)
    });
    let Output { status, stdout, stderr } = finished.with_context(|| format!("cannot wait for `{what}`"))?;
    if !status.success() {
        bail!("`{what}` failed ({status}): {}", String::from_utf8_lossy(&stderr).trim());
    }
    match written {
        Ok(Ok(())) => Ok(stdout),
        Ok(Err(error)) => Err(error).with_context(|| format!("`{what}` did not read all of its input")),
        Err(_) => bail!("the thread that feeds `{what}` panicked"),
    }
}

/// The command for an error message, without the secrets that an address may hold.
fn command_line(command: &Command) -> String {
    let mut line = command.get_program().to_string_lossy().into_owned();
    for arg in command.get_args() {
        line.push(' ');
        line.push_str(&without_userinfo(&arg.to_string_lossy()));
    }
    line
}

fn without_userinfo(arg: &str) -> String {
    let Some((scheme, rest)) = arg.split_once("://") else { return arg.to_owned() };
    let end = rest.find('/').unwrap_or(rest.len());
    match rest[..end].rfind('@') {
        Some(at) => format!("{scheme}://***{}", &rest[at..]),
        None => arg.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_in_addresses_do_not_show() {
        assert_eq!(without_userinfo("http://dev-a:secret@127.0.0.1:1/x.git"), "http://***@127.0.0.1:1/x.git");
        assert_eq!(without_userinfo("http://127.0.0.1:1/a@b.git"), "http://127.0.0.1:1/a@b.git");
        assert_eq!(without_userinfo("--bare"), "--bare");
    }
}
