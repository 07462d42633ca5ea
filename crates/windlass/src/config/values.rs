//! Values that settings are made of.

use std::{
    collections::BTreeSet,
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    str::FromStr,
};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::suggest;

/// Where to listen: `:8080` for every address of the machine, `127.0.0.1:8080`, `[::1]:8080`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Listen {
    host: Option<IpAddr>,
    port: u16,
}

/// Why a text is no address to listen on.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is not an address to listen on: write it like :8080 or 127.0.0.1:8080")]
pub(crate) struct ParseListenError(String);

impl Listen {
    /// Every address of the machine.
    pub(crate) const fn on_all(port: u16) -> Self {
        Self { host: None, port }
    }

    /// The addresses to try in turn: without a host both families at once, or IPv4 alone where there is no IPv6.
    pub(crate) fn addresses(self) -> Vec<SocketAddr> {
        let hosts = match self.host {
            Some(host) => vec![host],
            None => vec![IpAddr::V6(Ipv6Addr::UNSPECIFIED), IpAddr::V4(Ipv4Addr::UNSPECIFIED)],
        };
        hosts.into_iter().map(|host| SocketAddr::new(host, self.port)).collect()
    }
}

impl FromStr for Listen {
    type Err = ParseListenError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = || ParseListenError(text.to_owned());
        if let Some(port) = text.strip_prefix(':') {
            return Ok(Self::on_all(port.parse().map_err(|_| bad())?));
        }
        let address: SocketAddr = text.parse().map_err(|_| bad())?;
        Ok(Self { host: Some(address.ip()), port: address.port() })
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host {
            Some(host) => SocketAddr::new(host, self.port).fmt(f),
            None => write!(f, ":{}", self.port),
        }
    }
}

impl Serialize for Listen {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Listen {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// Form of the logs.
#[derive(clap::ValueEnum, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogFormat {
    /// One JSON object per line.
    Json,
    /// For people.
    Text,
}

/// The controllers that are switched on, as kube-controller-manager's `--controllers` is read: `*` for all, `name` for
/// one, `-name` for all but one; what is not named is on only with `*`. The empty list is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SwitchedControllers {
    on: BTreeSet<&'static str>,
}

/// A name that no controller has.
#[derive(Debug, thiserror::Error)]
#[error("there is no controller `{name}`")]
pub(crate) struct UnknownController {
    name: String,
    /// The one that was meant, perhaps.
    pub(crate) meant: Option<&'static str>,
}

impl SwitchedControllers {
    /// Reads the list against the controllers that exist.
    pub(crate) fn read(list: &[String], known: &'static [&'static str]) -> Result<Self, UnknownController> {
        let words: Vec<&str> = list.iter().map(|word| word.trim()).filter(|word| !word.is_empty()).collect();
        let mut on = if words.contains(&"*") { known.iter().copied().collect() } else { BTreeSet::new() };
        for word in words.into_iter().filter(|word| *word != "*") {
            let name = word.strip_prefix('-').unwrap_or(word);
            let Some(name) = known.iter().copied().find(|known| *known == name) else {
                let meant = suggest::nearest(name, known.iter().copied());
                return Err(UnknownController { name: name.to_owned(), meant });
            };
            // Off wins over on, wherever it stands: the careful reading of a contradiction.
            if word.starts_with('-') {
                on.remove(name);
            } else if !list.iter().any(|other| other.trim().strip_prefix('-') == Some(name)) {
                on.insert(name);
            }
        }
        Ok(Self { on })
    }

    /// Whether a controller is on.
    pub(crate) fn is_on(&self, name: &str) -> bool {
        self.on.contains(name)
    }

    /// Whether none is on.
    pub(crate) fn is_empty(&self) -> bool {
        self.on.is_empty()
    }
}

impl Serialize for SwitchedControllers {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.on.serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_written_back() {
        for text in [":8080", "127.0.0.1:80", "[::1]:9443", ":0"] {
            assert_eq!(text.parse::<Listen>().unwrap().to_string(), text);
        }
        for text in ["", "8080", "localhost:80", ":70000", "127.0.0.1", ":-1"] {
            assert!(text.parse::<Listen>().is_err(), "{text}");
        }
        assert_eq!(Listen::on_all(1).addresses(), ["[::]:1".parse().unwrap(), "0.0.0.0:1".parse().unwrap()]);
        assert_eq!("127.0.0.1:1".parse::<Listen>().unwrap().addresses(), ["127.0.0.1:1".parse().unwrap()]);
    }

    #[test]
    fn controllers_are_switched_as_kube_controller_manager_does() {
        const KNOWN: &[&str] = &["application", "cluster", "rollout"];
        for (list, on) in [
            ("*", vec!["application", "cluster", "rollout"]),
            ("*,-cluster", vec!["application", "rollout"]),
            ("-cluster,*", vec!["application", "rollout"]),
            ("cluster", vec!["cluster"]),
            ("cluster, rollout", vec!["cluster", "rollout"]),
            ("-cluster", vec![]),
            ("cluster,-cluster", vec![]),
            ("-cluster,cluster", vec![]),
            ("", vec![]),
        ] {
            let words: Vec<String> = list.split(',').map(ToOwned::to_owned).collect();
            let switched = SwitchedControllers::read(&words, KNOWN).unwrap();
            assert_eq!(switched.on.iter().copied().collect::<Vec<_>>(), on, "{list}");
            assert_eq!(switched.is_empty(), on.is_empty());
        }
        let error = SwitchedControllers::read(&["-clustr".into()], KNOWN).unwrap_err();
        assert_eq!(
            (error.to_string().as_str(), error.meant),
            ("there is no controller `clustr`", Some("cluster"))
        );
    }
}
