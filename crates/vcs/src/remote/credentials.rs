//! Tokens, passwords and keys.

use super::hidden::{Hidden, percent_encoded};
use super::known_hosts::{KnownHosts, KnownHostsError};
use super::url::{RemoteUrl, Scheme};

/// Credentials that cannot work. No text in here repeats any of them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CredentialError {
    /// Something is there but empty.
    #[error("the {what} is empty: fill it, or take it away to read without credentials")]
    Empty {
        /// What is empty.
        what: &'static str,
    },
    /// A header cannot carry it.
    #[error("the {what} has a line break or a control character in it: was it pasted with one?")]
    Control {
        /// What it is in.
        what: &'static str,
    },
    /// A user name with a colon cannot be told from the password.
    #[error("the user name has a colon in it, which HTTP's basic authentication cannot carry")]
    Colon,
    /// It is no private key.
    #[error("the ssh key is no private key{hint}")]
    NotAKey {
        /// What it looks like.
        hint: &'static str,
    },
    /// The key needs a passphrase.
    #[error(
        "the ssh key is encrypted: make one without a passphrase (ssh-keygen -p -N '' -f KEY) or a deploy key"
    )]
    EncryptedKey,
    /// Known hosts that cannot be used.
    #[error(transparent)]
    KnownHosts(#[from] KnownHostsError),
    /// The kind of credentials does not fit the address.
    #[error("{given} cannot be used for the {scheme} address {url}: {hint}")]
    Mismatch {
        /// What was given.
        given: &'static str,
        /// The scheme of the address.
        scheme: &'static str,
        /// The address.
        url: String,
        /// What to do.
        hint: &'static str,
    },
}

/// How one gets in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Credentials {
    /// Without any.
    Anonymous,
    /// HTTP's bearer token.
    Token(Hidden),
    /// User and password; what forges call a token is a password here.
    Basic {
        /// The user.
        user: String,
        /// The password.
        password: Hidden,
    },
    /// A key for ssh.
    Ssh(SshKey),
}

/// A private key and the hosts it may be shown to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SshKey {
    key: Hidden,
    known_hosts: KnownHosts,
}

impl SshKey {
    /// A private key without passphrase (OpenSSH, PKCS #1, PKCS #8 or SEC 1, in PEM) and a `known_hosts` file.
    pub fn new(private_key: &str, known_hosts: KnownHosts) -> Result<Self, CredentialError> {
        let private_key = private_key.trim();
        check_private_key(private_key)?;
        // ssh takes no key without the line break at the end.
        Ok(Self { key: Hidden::new(format!("{}\n", private_key.replace("\r\n", "\n"))), known_hosts })
    }

    /// The private key as a file's content.
    pub fn private_key(&self) -> &Hidden {
        &self.key
    }

    /// The hosts.
    pub fn known_hosts(&self) -> &KnownHosts {
        &self.known_hosts
    }
}

impl Credentials {
    /// A bearer token.
    pub fn token(token: &str) -> Result<Self, CredentialError> {
        let token = token.trim();
        checked("token", token)?;
        Ok(Self::Token(Hidden::new(token)))
    }

    /// User and password. One of them may be empty: forges take a token as either.
    pub fn basic(user: &str, password: Hidden) -> Result<Self, CredentialError> {
        if user.is_empty() && password.is_empty() {
            return Err(CredentialError::Empty { what: "password" });
        }
        if user.contains(':') {
            return Err(CredentialError::Colon);
        }
        for (what, text) in [("user name", user), ("password", password.reveal())] {
            if text.chars().any(char::is_control) {
                return Err(CredentialError::Control { what });
            }
        }
        Ok(Self::Basic { user: user.to_owned(), password })
    }

    /// Whether these can be used for an address at all.
    pub(super) fn check_for(&self, url: &RemoteUrl) -> Result<(), CredentialError> {
        let mismatch = |given, hint| {
            let (scheme, url) = (url.scheme().as_str(), url.to_string());
            Err(CredentialError::Mismatch { given, scheme, url, hint })
        };
        match (self, url.scheme()) {
            (Self::Ssh(key), Scheme::Ssh) => Ok(key.known_hosts.check(url)?),
            (Self::Ssh(_), _) => mismatch("an ssh key", "use the repository's ssh address"),
            (Self::Token(_), scheme) if !scheme.is_http() => mismatch("a token", "give an ssh key"),
            (Self::Basic { .. }, scheme) if !scheme.is_http() => mismatch("a password", "give an ssh key"),
            _ => Ok(()),
        }
    }

    /// Texts that must not be seen.
    pub(super) fn secrets(&self) -> Vec<String> {
        match self {
            Self::Anonymous => Vec::new(),
            Self::Token(token) => vec![token.reveal().to_owned()],
            Self::Basic { user, password } => {
                let password = password.reveal();
                let mut secrets = vec![format!("{user}:{password}"), password.to_owned()];
                secrets.push(format!("{}:{}", percent_encoded(user), percent_encoded(password)));
                if password.is_empty() {
                    // Forges take a token as the user name too.
                    secrets.push(user.clone());
                }
                secrets
            }
            Self::Ssh(key) => key
                .key
                .reveal()
                .lines()
                .filter(|line| line.len() > 16 && !line.starts_with("-----"))
                .map(ToOwned::to_owned)
                .collect(),
        }
    }
}

fn checked(what: &'static str, text: &str) -> Result<(), CredentialError> {
    if text.is_empty() {
        return Err(CredentialError::Empty { what });
    }
    if text.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err(CredentialError::Control { what });
    }
    Ok(())
}

/// ssh itself says little about a key that it cannot read, so the usual mistakes are named here.
fn check_private_key(key: &str) -> Result<(), CredentialError> {
    let wrong = |hint| Err(CredentialError::NotAKey { hint });
    if key.is_empty() {
        return Err(CredentialError::Empty { what: "ssh key" });
    }
    if key.starts_with("ssh-") || key.starts_with("ecdsa-") || key.contains("BEGIN PUBLIC KEY") {
        return wrong(": this is the public half");
    }
    if key.starts_with("PuTTY-User-Key-File") {
        return wrong(" that ssh can read: convert it with puttygen -O private-openssh");
    }
    let Some(label) = key.strip_prefix("-----BEGIN ").and_then(|rest| rest.split_once("-----")) else {
        return wrong(": it must begin with -----BEGIN … PRIVATE KEY-----");
    };
    let label = label.0;
    if !key.ends_with(&format!("-----END {label}-----")) {
        return wrong(": its end is missing");
    }
    match label {
        "OPENSSH PRIVATE KEY" => match crate::openssh::read(key) {
            Ok(key) if key.is_encrypted() => Err(CredentialError::EncryptedKey),
            Ok(_) => Ok(()),
            Err(_) => wrong(": its content is broken"),
        },
        "ENCRYPTED PRIVATE KEY" => Err(CredentialError::EncryptedKey),
        "RSA PRIVATE KEY" | "EC PRIVATE KEY" | "PRIVATE KEY" if key.contains("ENCRYPTED") => {
            Err(CredentialError::EncryptedKey)
        }
        "RSA PRIVATE KEY" | "EC PRIVATE KEY" | "PRIVATE KEY" => Ok(()),
        _ => wrong(" of a kind that ssh can read"),
    }
}
