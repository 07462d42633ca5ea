//! Addresses of repositories.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::hidden::{Hidden, percent_decoded};

/// Longer addresses are a mistake or an attack.
const LONGEST: usize = 2048;

/// An address that cannot be used. The address itself is not repeated: it may hold a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// Nothing was given.
    #[error("the address of the repository is empty: give one like https://host/team/app.git")]
    Empty,
    /// It is too long.
    #[error("the address of the repository has {length} bytes: {LONGEST} are the most")]
    TooLong {
        /// How long it is.
        length: usize,
    },
    /// It has characters that no address has.
    #[error(
        "the address of the repository has a space, a control or another illegal character at byte {place}"
    )]
    Character {
        /// Where.
        place: usize,
    },
    /// It has a scheme that is not used here.
    #[error("{scheme:?} is no scheme for a repository: use https, ssh or http")]
    Scheme {
        /// The scheme as given.
        scheme: String,
    },
    /// It is a path, or a `file` address where none is allowed.
    #[error("a local path is no address of a remote repository: use https, ssh or http")]
    Local,
    /// It has no host, or one that is no host name.
    #[error("{host:?} is no host name in the address of the repository")]
    Host {
        /// The host as given.
        host: String,
    },
    /// The port is no port.
    #[error("the address of {host} has a port that is no number from 1 to 65535")]
    Port {
        /// The host.
        host: String,
    },
    /// The path is empty or has parts that make it ambiguous.
    #[error("the path of the repository at {host} is {problem}")]
    Path {
        /// The host.
        host: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// User or password are not percent-encoded as they must be.
    #[error("user and password in the address of {host} are not percent-encoded correctly")]
    UserInfo {
        /// The host.
        host: String,
    },
    /// An ssh address holds a password.
    #[error("the ssh address of {host} holds a password: take it out and use a key")]
    SshPassword {
        /// The host.
        host: String,
    },
}

/// What addresses are allowed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UrlPolicy {
    /// Allows `file:///path`. Only for tests: a user's address must not reach files of this machine.
    pub file: bool,
}

/// How the repository is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// HTTP over TLS.
    Https,
    /// Plain HTTP.
    Http,
    /// SSH.
    Ssh,
    /// A folder of this machine.
    File,
}

impl Scheme {
    /// The word at the beginning of an address.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Https => "https",
            Self::Http => "http",
            Self::Ssh => "ssh",
            Self::File => "file",
        }
    }

    /// Whether it is HTTP, with or without TLS.
    pub fn is_http(self) -> bool {
        matches!(self, Self::Https | Self::Http)
    }

    fn default_port(self) -> Option<u16> {
        match self {
            Self::Https => Some(443),
            Self::Http => Some(80),
            Self::Ssh => Some(22),
            Self::File => None,
        }
    }
}

/// The address of a repository, without credentials. It prints as git understands it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteUrl {
    scheme: Scheme,
    /// Only for ssh, where it says which account is meant.
    user: Option<String>,
    /// In lower case; an IPv6 address with its brackets; empty for files.
    host: String,
    /// Only when it is not the scheme's own.
    port: Option<u16>,
    /// With the slash at its beginning, unless it is relative to the home of the ssh user.
    path: String,
}

type UserInfo = (String, Hidden);

impl RemoteUrl {
    /// Reads an address; a user and password of http and https come apart from it.
    pub fn parse(text: &str, policy: UrlPolicy) -> Result<(Self, Option<UserInfo>), UrlError> {
        let text = text.trim();
        check_text(text)?;
        if let Some((scheme, rest)) = text.split_once("://") {
            return match scheme.to_ascii_lowercase().as_str() {
                "https" => parse_authority(Scheme::Https, rest),
                "http" => parse_authority(Scheme::Http, rest),
                "ssh" => parse_authority(Scheme::Ssh, rest),
                "file" if policy.file => parse_file(rest).map(|url| (url, None)),
                "file" => Err(UrlError::Local),
                _ => Err(UrlError::Scheme { scheme: shortened(scheme) }),
            };
        }
        parse_scp_like(text).map(|url| (url, None))
    }

    /// How the repository is spoken to.
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// The host in lower case, IPv6 addresses without brackets; empty for files.
    pub fn host(&self) -> &str {
        self.host.trim_start_matches('[').trim_end_matches(']')
    }

    /// The port, the scheme's own if none is given.
    pub fn port(&self) -> Option<u16> {
        self.port.or_else(|| self.scheme.default_port())
    }

    /// The ssh user.
    pub fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// The path as given.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The same text for every way to write the address of one repository: host in lower case, no default port, no
    /// slash and no `.git` at the end.
    ///
    /// The ssh user stays, for it may decide what the path means. So does the difference between `host:path` (from the
    /// user's home) and `ssh://host/path` (from the root): forges treat both alike, a plain sshd does not, and two
    /// mirrors of one repository do less harm than one mirror of two.
    pub fn normal(&self) -> String {
        let path = self.path.trim_end_matches('/');
        let path = path.strip_suffix(".git").unwrap_or(path).trim_end_matches('/');
        Self { path: path.to_owned(), ..self.clone() }.to_string()
    }
}

impl fmt::Display for RemoteUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scheme, user, host, port, path } = self;
        let relative = *scheme == Scheme::Ssh && !path.starts_with('/');
        if !relative {
            write!(f, "{}://", scheme.as_str())?;
        }
        if let Some(user) = user {
            write!(f, "{user}@")?;
        }
        f.write_str(host)?;
        if let Some(port) = port {
            write!(f, ":{port}")?;
        }
        write!(f, "{}{path}", if relative { ":" } else { "" })
    }
}

fn check_text(text: &str) -> Result<(), UrlError> {
    if text.is_empty() {
        return Err(UrlError::Empty);
    }
    if text.len() > LONGEST {
        return Err(UrlError::TooLong { length: text.len() });
    }
    let illegal =
        |c: char| c.is_whitespace() || c.is_control() || !c.is_ascii() || "\"'`<>\\^{}|;$".contains(c);
    match text.find(illegal) {
        Some(place) => Err(UrlError::Character { place }),
        None => Ok(()),
    }
}

/// What follows `https://`, `http://` and `ssh://`.
fn parse_authority(scheme: Scheme, rest: &str) -> Result<(RemoteUrl, Option<UserInfo>), UrlError> {
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let (info, place) = match authority.rsplit_once('@') {
        Some((info, place)) => (Some(info), place),
        None => (None, authority),
    };
    let (host, port) = split_port(place)?;
    let host = checked_host(host)?;
    let path = checked_path(&host, path)?;
    let (user, info) = match info {
        Some(info) if !info.is_empty() => split_user_info(scheme, &host, info)?,
        _ => (None, None),
    };
    let port = port.filter(|port| scheme.default_port() != Some(*port));
    Ok((RemoteUrl { scheme, user, host, port, path: path.to_owned() }, info))
}

/// The user that belongs to an ssh address, or the credentials that do not belong to an http address.
fn split_user_info(
    scheme: Scheme,
    host: &str,
    info: &str,
) -> Result<(Option<String>, Option<UserInfo>), UrlError> {
    let broken = || UrlError::UserInfo { host: host.to_owned() };
    let (user, password) =
        info.split_once(':').map_or((info, None), |(user, password)| (user, Some(password)));
    let user = percent_decoded(user).ok_or_else(broken)?;
    if scheme != Scheme::Ssh {
        let password = percent_decoded(password.unwrap_or_default()).ok_or_else(broken)?;
        return Ok((None, Some((user, Hidden::new(password)))));
    }
    if password.is_some() {
        return Err(UrlError::SshPassword { host: host.to_owned() });
    }
    checked_user(host, &user)?;
    Ok((Some(user), None))
}

/// `user@host:path` or `host:path`, as scp has it.
fn parse_scp_like(text: &str) -> Result<RemoteUrl, UrlError> {
    // `transport::address` runs git-remote-transport, and a slash before the colon makes it a path.
    if let Some((transport, _)) = text.split_once("::")
        && !transport.contains(['@', '['])
    {
        return Err(UrlError::Scheme { scheme: shortened(transport) });
    }
    let start = text.find('[').map_or(0, |open| text[open..].find(']').map_or(0, |close| open + close));
    let Some(colon) = text[start..].find(':').map(|place| start + place) else {
        return Err(UrlError::Local);
    };
    let (place, path) = (&text[..colon], &text[colon + 1..]);
    if place.contains('/') {
        return Err(UrlError::Local);
    }
    let (user, host) = match place.rsplit_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, place),
    };
    let host = checked_host(host)?;
    if user.is_some_and(|user| user.contains(':')) {
        return Err(UrlError::SshPassword { host });
    }
    if let Some(user) = user {
        checked_user(&host, user)?;
    }
    let path = checked_path(&host, path)?.to_owned();
    Ok(RemoteUrl { scheme: Scheme::Ssh, user: user.map(ToOwned::to_owned), host, port: None, path })
}

fn parse_file(rest: &str) -> Result<RemoteUrl, UrlError> {
    if !rest.starts_with('/') {
        return Err(UrlError::Host { host: shortened(rest) });
    }
    let path = checked_path("this machine", rest)?.to_owned();
    Ok(RemoteUrl { scheme: Scheme::File, user: None, host: String::new(), port: None, path })
}

fn split_port(place: &str) -> Result<(&str, Option<u16>), UrlError> {
    let after_host = place.rfind(']').map_or(0, |close| close + 1);
    let Some(colon) = place[after_host..].find(':').map(|colon| after_host + colon) else {
        return Ok((place, None));
    };
    let (host, port) = (&place[..colon], &place[colon + 1..]);
    if port.is_empty() {
        return Ok((host, None));
    }
    let digits = port.bytes().all(|byte| byte.is_ascii_digit());
    match port.parse() {
        Ok(port) if digits && port != 0 => Ok((host, Some(port))),
        _ => Err(UrlError::Port { host: shortened(host) }),
    }
}

/// A host that cannot be taken for an option and that means the same to git, to ssh and to us.
fn checked_host(host: &str) -> Result<String, UrlError> {
    let lower = host.to_ascii_lowercase();
    let good = match lower.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(address) => address.parse::<Ipv6Addr>().is_ok_and(|address| is_reachable(address.into())),
        None => is_name(&lower),
    };
    if good { Ok(lower) } else { Err(UrlError::Host { host: shortened(host) }) }
}

fn is_name(host: &str) -> bool {
    let known = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    let plain =
        !host.is_empty() && host.len() <= 253 && !host.starts_with(['-', '.']) && !host.ends_with('.');
    // `0xa9fea9fe` and `2852039166` are addresses to curl: what ends like a number must be an address as people write it.
    let last = host.rsplit('.').next().unwrap_or_default();
    let is_number = last.starts_with("0x") || last.bytes().all(|byte| byte.is_ascii_digit());
    plain
        && host.bytes().all(known)
        && (!is_number || host.parse::<Ipv4Addr>().is_ok_and(|address| is_reachable(address.into())))
}

/// Nobody's repository is at a link-local address, but the secrets of cloud machines are.
fn is_reachable(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => {
            !(address.is_link_local() || address.is_unspecified() || address.is_multicast())
        }
        IpAddr::V6(address) => match address.to_ipv4_mapped() {
            Some(address) => is_reachable(address.into()),
            None => !(address.is_unicast_link_local() || address.is_unspecified() || address.is_multicast()),
        },
    }
}

fn checked_user(host: &str, user: &str) -> Result<(), UrlError> {
    let known = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'+' | b'~');
    if user.is_empty() || user.starts_with('-') || !user.bytes().all(known) {
        return Err(UrlError::UserInfo { host: host.to_owned() });
    }
    Ok(())
}

fn checked_path<'a>(host: &str, path: &'a str) -> Result<&'a str, UrlError> {
    let wrong = |problem| Err(UrlError::Path { host: host.to_owned(), problem });
    if path.trim_matches('/').is_empty() || path.trim_end_matches('/').trim_end_matches(".git").ends_with('/')
    {
        return wrong("empty: give one like /team/app.git");
    }
    if path.starts_with('-') {
        return wrong("not allowed to begin with '-'");
    }
    if path.split('/').any(|part| part == ".." || part == ".") {
        return wrong("not allowed to have '.' or '..' as a part");
    }
    if path.contains(['?', '#']) {
        return wrong("not allowed to have '?' or '#' in it");
    }
    Ok(path)
}

fn shortened(text: &str) -> String {
    text.chars().take(64).collect()
}
