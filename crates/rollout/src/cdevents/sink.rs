//! Where events go. The password in an address never comes out again.

use std::{fmt, str::FromStr};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use reqwest::Url;

/// A receiver of events over HTTP.
#[derive(Clone, PartialEq, Eq)]
pub struct Sink {
    address: Url,
    authorization: Option<String>,
}

/// An address that events cannot go to. It never repeats the address, which may hold a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SinkError {
    /// It is no URL.
    #[error("the address of a sink is no URL; write it like https://events.example/in")]
    NoUrl,
    /// It is not HTTP.
    #[error("the address of a sink has to begin with http:// or https://")]
    Scheme,
}

impl Sink {
    /// The address without user, password and query.
    pub fn address(&self) -> String {
        let mut address = self.address.clone();
        address.set_query(None);
        address.to_string()
    }

    /// The whole address, which may have a token in its query.
    pub(super) fn url(&self) -> &Url {
        &self.address
    }

    /// What to send as `Authorization`.
    pub(super) fn authorization(&self) -> Option<&str> {
        self.authorization.as_deref()
    }
}

impl FromStr for Sink {
    type Err = SinkError;

    fn from_str(text: &str) -> Result<Self, SinkError> {
        let mut address = Url::parse(text.trim()).map_err(|_| SinkError::NoUrl)?;
        if !matches!(address.scheme(), "http" | "https") {
            return Err(SinkError::Scheme);
        }
        let (user, password) = (decoded(address.username()), address.password().map(decoded));
        let authorization = (!user.is_empty() || password.is_some()).then(|| {
            let pair = format!("{user}:{}", password.unwrap_or_default());
            format!("Basic {}", STANDARD.encode(pair))
        });
        // Cannot fail for an address with a host, which every http address has.
        address.set_username("").map_err(|()| SinkError::NoUrl)?;
        address.set_password(None).map_err(|()| SinkError::NoUrl)?;
        Ok(Self { address, authorization })
    }
}

/// Undoes the percent-encoding of user and password.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        if *first == b'%'
            && let [high, low, after @ ..] = tail
            && let (Some(high), Some(low)) = (char::from(*high).to_digit(16), char::from(*low).to_digit(16))
        {
            bytes.push(u8::try_from(high * 16 + low).unwrap_or_default());
            rest = after;
        } else {
            bytes.push(*first);
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

impl fmt::Debug for Sink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sink({})", self.address())
    }
}

impl fmt::Display for Sink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.address())
    }
}
