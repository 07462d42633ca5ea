//! Proxies for http and https.

use std::collections::BTreeMap;

use super::hidden::{Hidden, percent_decoded, percent_encoded};

/// A proxy that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProxyError {
    /// The address is none.
    #[error("the address of the proxy is {problem}: give one like http://proxy:3128")]
    Address {
        /// What is wrong with it.
        problem: &'static str,
    },
    /// The remote is no http remote.
    #[error("a proxy cannot be used for a {scheme} repository: use its https address")]
    NotHttp {
        /// The scheme of the repository.
        scheme: &'static str,
    },
}

/// A proxy on the way to the remote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proxy {
    /// `scheme://host:port`, without credentials.
    address: String,
    credentials: Option<(String, Hidden)>,
    exceptions: String,
}

impl Proxy {
    /// A proxy at `http://[user:password@]host[:port]`; `https`, `socks5` and `socks5h` are possible too.
    pub fn new(address: &str) -> Result<Self, ProxyError> {
        let wrong = |problem| ProxyError::Address { problem };
        let address = address.trim().trim_end_matches('/');
        if address.is_empty() {
            return Err(wrong("empty"));
        }
        if !address.chars().all(|c| c.is_ascii_graphic()) {
            return Err(wrong("not allowed to have spaces or control characters"));
        }
        let (scheme, rest) = address.split_once("://").unwrap_or(("http", address));
        if !["http", "https", "socks5", "socks5h"].contains(&scheme) {
            return Err(wrong("of an unknown kind"));
        }
        let (info, place) = rest.rsplit_once('@').map_or((None, rest), |(info, place)| (Some(info), place));
        if place.is_empty() || place.starts_with('-') || place.contains(['/', '?', '#']) {
            return Err(wrong("without a host, or with a path"));
        }
        let credentials = info
            .map(|info| {
                let (user, password) = info.split_once(':').unwrap_or((info, ""));
                Some((percent_decoded(user)?, Hidden::new(percent_decoded(password)?)))
            })
            .map(|decoded| decoded.ok_or_else(|| wrong("not percent-encoded correctly")))
            .transpose()?;
        Ok(Self { address: format!("{scheme}://{place}"), credentials, exceptions: String::new() })
    }

    /// A proxy from the Secret that Flux's `proxySecretRef` names: `address`, `username`, `password`.
    pub fn from_secret(data: &BTreeMap<String, Vec<u8>>) -> Result<Self, ProxyError> {
        let text = |key: &str| data.get(key).map(|value| String::from_utf8_lossy(value).trim().to_owned());
        let mut proxy = Self::new(&text("address").unwrap_or_default())?;
        if let Some(user) = text("username") {
            proxy.credentials = Some((user, Hidden::new(text("password").unwrap_or_default())));
        }
        Ok(proxy)
    }

    /// Hosts that are reached without the proxy, separated by commas.
    #[must_use]
    pub fn except(self, no_proxy: &str) -> Self {
        Self { exceptions: no_proxy.trim().to_owned(), ..self }
    }

    /// The address without credentials.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Hosts that are reached without it.
    pub fn no_proxy(&self) -> &str {
        &self.exceptions
    }

    /// The address with credentials, for the child's environment only.
    pub(crate) fn revealed(&self) -> String {
        match (&self.credentials, self.address.split_once("://")) {
            (Some((user, password)), Some((scheme, place))) => {
                let (user, password) = (percent_encoded(user), percent_encoded(password.reveal()));
                format!("{scheme}://{user}:{password}@{place}")
            }
            _ => self.address.clone(),
        }
    }

    /// Texts that must not be seen.
    pub(super) fn secrets(&self) -> Vec<String> {
        self.credentials.iter().map(|(_, password)| password.reveal().to_owned()).collect()
    }
}
