//! Versions as the programs print them.

use std::fmt;

/// A version number; suffixes such as `+unknown` or `-rc.0` are left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// The first number.
    pub major: u32,
    /// The second number.
    pub minor: u32,
    /// The third number, 0 when there is none.
    pub patch: u32,
}

impl Version {
    /// A version with these numbers.
    pub const fn new(major: u32, minor: u32, patch: u32) -> Self {
        Self { major, minor, patch }
    }

    /// The first version in a text: digits with at least one dot, after a blank, `v`, `go` or `:`.
    pub fn find(text: &str) -> Option<Self> {
        text.split(|c: char| {
            c.is_whitespace() || matches!(c, ',' | '"' | ':' | '{' | '}' | '(' | ')' | '/' | '@')
        })
        .find_map(Self::parse)
    }

    fn parse(word: &str) -> Option<Self> {
        let digits = word.strip_prefix("go").or_else(|| word.strip_prefix('v')).unwrap_or(word);
        let end = digits.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(digits.len());
        let mut numbers = digits[..end].split('.').map(str::parse);
        let (major, minor) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
        let patch = numbers.next().and_then(Result::ok).unwrap_or(0);
        Some(Self { major, minor, patch })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}.{}.{}", self.major, self.minor, self.patch)
    }
}

#[cfg(test)]
mod tests {
    use super::Version;

    #[test]
    fn versions_are_found_in_what_programs_print() {
        for (text, version) in [
            ("Kubernetes v1.36.3\n", Version::new(1, 36, 3)),
            ("etcd Version: 3.6.8\nGit SHA: Not provided\nGo Version: go1.26.8\n", Version::new(3, 6, 8)),
            ("kwok version 0.8.0 go1.26.8 (linux/amd64)\n", Version::new(0, 8, 0)),
            ("Client Version: v1.32.4-dispatcher\nKustomize Version: v5.5.0\n", Version::new(1, 32, 4)),
            ("v4.3.1+g1234567\n", Version::new(4, 3, 1)),
            ("prometheus, version 3.15.0 (branch: , revision: unknown)\n", Version::new(3, 15, 0)),
            ("registry github.com/distribution/distribution/v3 v3.1.2+unknown\n", Version::new(3, 1, 2)),
            ("{Version:kustomize/v4.5.7 GitCommit:56d82a8 BuildDate:2022-08-02}", Version::new(4, 5, 7)),
            ("go1.26\n", Version::new(1, 26, 0)),
            ("go version go1.26.8 linux/amd64", Version::new(1, 26, 8)),
        ] {
            assert_eq!(Version::find(text), Some(version), "{text}");
        }
        assert_eq!(Version::find("unknown command \"version\" for 3 reasons"), None);
    }
}
