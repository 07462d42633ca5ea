//! The keys of hosts, as ssh's `known_hosts` file has them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ssh_key::known_hosts::{HostPatterns, KnownHosts as Lines, Marker};

use super::url::RemoteUrl;

/// Known hosts that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KnownHostsError {
    /// None were given.
    #[error("known_hosts is missing: fill it with the output of ssh-keyscan, after checking it")]
    Missing,
    /// A line is no `known_hosts` line.
    #[error("line {line} of known_hosts cannot be read: use the lines of ssh-keyscan as they are")]
    Line {
        /// Which line, from 1.
        line: usize,
    },
    /// No line is about the host.
    #[error("known_hosts has no key for {host}: add the output of ssh-keyscan {arguments}")]
    Host {
        /// The host, with its port when it is not 22.
        host: String,
        /// What ssh-keyscan wants to be given.
        arguments: String,
    },
}

/// A `known_hosts` file with at least one key in it.
#[derive(Clone, PartialEq, Eq)]
pub struct KnownHosts {
    text: String,
}

impl std::fmt::Debug for KnownHosts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "KnownHosts({} lines)", self.text.lines().count())
    }
}

impl KnownHosts {
    /// Reads a `known_hosts` file. Every line must be readable: ssh would skip a broken one without a word.
    pub fn new(text: &str) -> Result<Self, KnownHostsError> {
        let text = format!("{}\n", text.trim().replace("\r\n", "\n"));
        let mut keys = 0;
        for (place, line) in text.lines().enumerate() {
            for entry in Lines::new(line) {
                entry.map_err(|_| KnownHostsError::Line { line: place + 1 })?;
                keys += 1;
            }
        }
        if keys == 0 { Err(KnownHostsError::Missing) } else { Ok(Self { text }) }
    }

    /// The content of the file.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether a line is about the host of an address.
    pub(super) fn check(&self, url: &RemoteUrl) -> Result<(), KnownHostsError> {
        let port = url.port().unwrap_or(22);
        let name = if port == 22 { url.host().to_owned() } else { format!("[{}]:{port}", url.host()) };
        let known = Lines::new(&self.text)
            .flatten()
            .filter(|entry| entry.marker() != Some(&Marker::Revoked))
            .any(|entry| matches(entry.host_patterns(), &name));
        if known {
            return Ok(());
        }
        let arguments = if port == 22 { name.clone() } else { format!("-p {port} {}", url.host()) };
        Err(KnownHostsError::Host { host: name, arguments })
    }
}

fn matches(patterns: &HostPatterns, name: &str) -> bool {
    match patterns {
        HostPatterns::Patterns(patterns) => {
            let hit = |pattern: &str| like(pattern.to_ascii_lowercase().as_bytes(), name.as_bytes());
            let denied = patterns.iter().filter_map(|pattern| pattern.strip_prefix('!')).any(hit);
            !denied && patterns.iter().filter(|pattern| !pattern.starts_with('!')).any(|pattern| hit(pattern))
        }
        HostPatterns::HashedName { salt, hash } => {
            hmac_sha1(salt, name.as_bytes()).as_deref() == Some(&hash[..])
        }
    }
}

/// `*` stands for anything, `?` for one character.
fn like(pattern: &[u8], name: &[u8]) -> bool {
    // One place to come back to is enough: a later `*` can do all that an earlier one could.
    let (mut p, mut n, mut back) = (0, 0, None);
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                back = Some((p + 1, n));
                p += 1;
            }
            Some(&c) if c == b'?' || c == name[n] => (p, n) = (p + 1, n + 1),
            _ => match back {
                Some((after, from)) => {
                    back = Some((after, from + 1));
                    (p, n) = (after, from + 1);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|&c| c == b'*')
}

/// RFC 2104 with the hash that git brings along; `ssh-keygen -H` hides host names with it.
fn hmac_sha1(key: &[u8], message: &[u8]) -> Option<Vec<u8>> {
    const BLOCK: usize = 64;
    let sha1 = |parts: [&[u8]; 2]| {
        let mut hasher = gix::hash::hasher(gix::hash::Kind::Sha1);
        for part in parts {
            hasher.update(part);
        }
        hasher.try_finalize().ok().map(|id| id.as_bytes().to_owned())
    };
    let mut block = [0; BLOCK];
    let key = if key.len() > BLOCK { sha1([key, &[]])? } else { key.to_owned() };
    block[..key.len()].copy_from_slice(&key);
    let inner = sha1([&block.map(|byte| byte ^ 0x36), message])?;
    sha1([&block.map(|byte| byte ^ 0x5c), &inner])
}

/// The `|1|salt|hash` form of a name, as `ssh-keygen -H` writes it.
#[cfg(test)]
pub(super) fn hashed(salt: &[u8], name: &str) -> Option<String> {
    Some(format!("|1|{}|{}", STANDARD.encode(salt), STANDARD.encode(hmac_sha1(salt, name.as_bytes())?)))
}

/// A certificate's text in base64 can be read.
pub(super) fn is_base64(text: &str) -> bool {
    STANDARD.decode(text).is_ok_and(|bytes| !bytes.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_those_of_ssh() {
        for (pattern, name, expected) in [
            ("host", "host", true),
            ("host", "hosts", false),
            ("*.example", "a.b.example", true),
            ("*.example", "example", false),
            ("h?st", "host", true),
            ("*o*t*", "host", true),
            ("*x*", "host", false),
            ("*", "", true),
        ] {
            assert_eq!(like(pattern.as_bytes(), name.as_bytes()), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn hmac_is_that_of_the_standard() {
        // RFC 2202, test case 2.
        let expected =
            gix::ObjectId::from_hex(b"effcdf6ae5eb2fa2d27416d5f184df9c259a7c79").expect("20 bytes");
        let hash = hmac_sha1(b"Jefe", b"what do ya want for nothing?").expect("hashes");
        assert_eq!(hash, expected.as_bytes());
    }
}
