//! Addresses as hooks and Applications write them, compared loosely.

use windlass_vcs::remote::{RemoteUrl, UrlPolicy};

/// What is the same for every way to write the address of one repository: host and path.
///
/// Scheme, user, port, `.git` and the case of letters do not count: a forge's hook names its `https` and `ssh`
/// addresses, and an Application may use either. Two repositories that are taken for one cost a fetch, no more.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Address {
    host: String,
    path: String,
}

impl Address {
    pub(super) fn of(url: &RemoteUrl) -> Self {
        let path = url.path().trim_matches('/');
        let path = path.strip_suffix(".git").unwrap_or(path).trim_end_matches('/');
        Self { host: url.host().to_ascii_lowercase(), path: path.to_ascii_lowercase() }
    }

    /// The address that a hook names; `None` when it is none.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        // Some hooks name this form, too; nothing is ever fetched by it.
        let https = text.strip_prefix("git://").map(|rest| format!("https://{rest}"));
        let (url, _) = RemoteUrl::parse(https.as_deref().unwrap_or(text), UrlPolicy { file: true }).ok()?;
        Some(Self::of(&url))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_ways_to_write_an_address_are_one() {
        let wanted = Address::parse("https://git.example.org/team/app");
        assert!(wanted.is_some());
        for text in [
            "https://git.example.org/team/app.git",
            "https://user:pass@git.example.org/team/app.git/",
            "http://GIT.example.org:8080/Team/App",
            "ssh://git@git.example.org:2222/team/app.git",
            "git@git.example.org:team/app.git",
            "git://git.example.org/team/app.git",
            " https://git.example.org/team/app\n",
        ] {
            assert_eq!(Address::parse(text), wanted, "{text}");
        }
        for text in ["https://git.example.org/team/app2", "https://example.org/team/app"] {
            assert_ne!(Address::parse(text), wanted, "{text}");
        }
        for text in ["", "app", "ftp://git.example.org/team/app"] {
            assert_eq!(Address::parse(text), None, "{text}");
        }
    }
}
