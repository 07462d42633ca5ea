//! Who calls, and whether it is really them.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderMap;
use ring::hmac;

use super::secrets::Shared;

/// A kind of Git server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Provider {
    /// GitHub and GitHub Enterprise.
    Github,
    /// GitLab.
    Gitlab,
    /// Gitea, Forgejo and Gogs.
    Gitea,
    /// Bitbucket Cloud, and Bitbucket Data Center.
    Bitbucket,
    /// Anything else that can sign a request or send a token.
    Generic,
}

impl Provider {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Github, Self::Gitlab, Self::Gitea, Self::Bitbucket, Self::Generic];

    /// The word in the path, in the Secret and in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Github => "github",
            Self::Gitlab => "gitlab",
            Self::Gitea => "gitea",
            Self::Bitbucket => "bitbucket",
            Self::Generic => "generic",
        }
    }

    /// The provider of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|provider| provider.name() == name)
    }

    /// What proves the request, as far as its headers say; `None` when there is nothing.
    ///
    /// The first header that is there counts: a good one never makes up for a bad one.
    pub(super) fn proof(self, headers: &HeaderMap) -> Option<Proof> {
        let header = |name: &str| headers.get(name).map(http::HeaderValue::as_bytes);
        let hex = |name: &str| header(name).map(Proof::hex);
        match self {
            Self::Github => hex("x-hub-signature-256"),
            Self::Bitbucket => hex("x-hub-signature"),
            Self::Gitea => {
                ["x-gitea-signature", "x-forgejo-signature", "x-gogs-signature", "x-hub-signature-256"]
                    .into_iter()
                    .find_map(hex)
            }
            Self::Gitlab => standard(headers)
                .or_else(|| header("x-gitlab-token").map(|token| Proof::Token(token.to_vec()))),
            Self::Generic => ["x-hub-signature-256", "x-signature"]
                .into_iter()
                .find_map(hex)
                .or_else(|| header("authorization").map(Proof::bearer)),
        }
    }

    /// The headers that would prove a request, for people.
    pub(super) const fn proofs(self) -> &'static str {
        match self {
            Self::Github => "X-Hub-Signature-256",
            Self::Gitlab => "X-Gitlab-Token, or webhook-signature with webhook-id and webhook-timestamp",
            Self::Gitea => "X-Gitea-Signature",
            Self::Bitbucket => "X-Hub-Signature",
            Self::Generic => "X-Hub-Signature-256, X-Signature, or Authorization: Bearer",
        }
    }

    /// The header that names the event.
    pub(super) fn event(self, headers: &HeaderMap) -> Option<&str> {
        let names: &[&str] = match self {
            Self::Github => &["x-github-event"],
            Self::Gitlab => &["x-gitlab-event"],
            Self::Gitea => &["x-gitea-event", "x-forgejo-event", "x-gogs-event", "x-github-event"],
            Self::Bitbucket => &["x-event-key"],
            Self::Generic => &[],
        };
        names.iter().find_map(|name| headers.get(*name)?.to_str().ok())
    }
}

impl fmt::Display for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a request proves itself with.
#[derive(PartialEq, Eq)]
pub(super) enum Proof {
    /// HMAC-SHA256 over the body.
    Signature(Vec<u8>),
    /// HMAC-SHA256 over a text and the body, as the Standard Webhooks specification has it: any of these.
    Standard { before: Vec<u8>, signatures: Vec<Vec<u8>> },
    /// The secret itself.
    Token(Vec<u8>),
    /// There is a header, but what it holds can never be right.
    Nonsense,
}

impl Proof {
    /// A signature in hexadecimal digits, with or without `sha256=` before it.
    fn hex(text: &[u8]) -> Self {
        let text = text.trim_ascii();
        unhex(text.strip_prefix(b"sha256=").unwrap_or(text)).map_or(Self::Nonsense, Self::Signature)
    }

    fn bearer(text: &[u8]) -> Self {
        match text.split_at_checked(7) {
            Some((scheme, token)) if scheme.eq_ignore_ascii_case(b"bearer ") => {
                Self::Token(token.trim_ascii().to_vec())
            }
            _ => Self::Nonsense,
        }
    }

    /// Whether one of the secrets made it. Every secret is tried, and each in constant time.
    pub(super) fn holds(&self, secrets: &[Shared], body: &[u8]) -> bool {
        secrets.iter().fold(false, |held, secret| held | self.holds_for(secret, body))
    }

    fn holds_for(&self, secret: &Shared, body: &[u8]) -> bool {
        match self {
            Self::Signature(tag) => {
                hmac::verify(&hmac::Key::new(hmac::HMAC_SHA256, secret.bytes()), body, tag).is_ok()
            }
            Self::Standard { before, signatures } => {
                let mut context = hmac::Context::with_key(&standard_key(secret));
                context.update(before);
                context.update(body);
                let ours = context.sign();
                signatures.iter().fold(false, |held, theirs| held | same(ours.as_ref(), theirs))
            }
            Self::Token(token) => same(secret.bytes(), token),
            Self::Nonsense => false,
        }
    }
}

/// GitLab's signing token: three headers, one or more `v1,<base64>` in the last.
fn standard(headers: &HeaderMap) -> Option<Proof> {
    let signature = headers.get("webhook-signature")?;
    let (Some(id), Some(at), Ok(signature)) =
        (headers.get("webhook-id"), headers.get("webhook-timestamp"), signature.to_str())
    else {
        return Some(Proof::Nonsense);
    };
    let before = [id.as_bytes(), b".", at.as_bytes(), b"."].concat();
    let signatures: Vec<Vec<u8>> = signature
        .split_ascii_whitespace()
        .filter_map(|one| STANDARD.decode(one.strip_prefix("v1,")?).ok())
        .collect();
    Some(if signatures.is_empty() { Proof::Nonsense } else { Proof::Standard { before, signatures } })
}

/// `whsec_` and the key in base64; any other text is the key itself.
fn standard_key(secret: &Shared) -> hmac::Key {
    let decoded = secret.bytes().strip_prefix(b"whsec_").and_then(|text| STANDARD.decode(text).ok());
    hmac::Key::new(hmac::HMAC_SHA256, decoded.as_deref().unwrap_or(secret.bytes()))
}

/// Compares in constant time, whatever the lengths: both sides are hashed with a key first.
fn same(ours: &[u8], theirs: &[u8]) -> bool {
    let key = hmac::Key::new(hmac::HMAC_SHA256, b"comparison of hook secrets");
    hmac::verify(&key, theirs, hmac::sign(&key, ours).as_ref()).is_ok()
}

fn unhex(text: &[u8]) -> Option<Vec<u8>> {
    if text.len() != 64 {
        return None;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    text.chunks_exact(2).map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hooks::Secrets;

    fn secrets(provider: Provider, value: &str) -> std::sync::Arc<[Shared]> {
        let secrets = Secrets::new();
        secrets.set([(provider.name(), value.as_bytes())]);
        secrets.of(provider).unwrap()
    }

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| ((*name).parse().unwrap(), value.parse().unwrap())).collect()
    }

    fn holds(provider: Provider, secret: &str, pairs: &[(&'static str, &str)], body: &str) -> bool {
        let proof = provider.proof(&headers(pairs)).unwrap();
        proof.holds(&secrets(provider, secret), body.as_bytes())
    }

    /// The example of GitHub's documentation.
    const TAG: &str = "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
    const SECRET: &str = "It's a Secret to Everybody";

    #[test]
    fn the_documented_example_of_github_holds() {
        let tag = format!("sha256={TAG}");
        assert!(holds(Provider::Github, SECRET, &[("x-hub-signature-256", &tag)], "Hello, World!"));
        assert!(!holds(Provider::Github, SECRET, &[("x-hub-signature-256", &tag)], "Hello, World?"));
        assert!(!holds(Provider::Github, "another", &[("x-hub-signature-256", &tag)], "Hello, World!"));
        assert!(holds(
            Provider::Github,
            &format!("old\n{SECRET}"),
            &[("x-hub-signature-256", &tag)],
            "Hello, World!"
        ));
        assert!(holds(Provider::Gitea, SECRET, &[("x-gitea-signature", TAG)], "Hello, World!"));
        assert!(holds(Provider::Gitea, SECRET, &[("x-hub-signature-256", &tag)], "Hello, World!"));
        assert!(holds(Provider::Bitbucket, SECRET, &[("x-hub-signature", &tag)], "Hello, World!"));
        assert!(holds(Provider::Generic, SECRET, &[("x-signature", TAG)], "Hello, World!"));
    }

    #[test]
    fn what_is_no_signature_never_holds() {
        for bad in
            ["", "sha256=", "sha1=757107ea0eb2509fc211221cce984b8a37570b6d", "sha256=zz", &TAG[1..], "ü"]
        {
            assert!(
                !holds(Provider::Github, SECRET, &[("x-hub-signature-256", bad)], "Hello, World!"),
                "{bad}"
            );
        }
        assert!(
            Provider::Github.proof(&headers(&[("x-hub-signature", TAG)])).is_none(),
            "SHA-1 is not looked at"
        );
        // A bad signature is not rescued by a good one in another header.
        let both = [("x-gitea-signature", &TAG[1..]), ("x-hub-signature-256", TAG)];
        assert!(!holds(Provider::Gitea, SECRET, &both, "Hello, World!"));
    }

    #[test]
    fn tokens_hold_only_whole() {
        let token = |token: &str| holds(Provider::Gitlab, "s3cret", &[("x-gitlab-token", token)], "");
        assert!(token("s3cret"));
        assert!(!token("s3cre") && !token("s3crett") && !token(""));
        let bearer = |value: &str| holds(Provider::Generic, "s3cret", &[("authorization", value)], "");
        assert!(bearer("Bearer s3cret") && bearer("bearer s3cret"));
        assert!(!bearer("Basic s3cret") && !bearer("s3cret") && !bearer("Bearer "));
    }

    #[test]
    fn gitlabs_signing_token_is_the_standard_one() {
        let key = [7u8; 32];
        let secret = format!("whsec_{}", STANDARD.encode(key));
        let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &key), b"id-1.1700000000.{}");
        let good = format!("v1,AAAA v1,{}", STANDARD.encode(tag.as_ref()));
        let with = |id: &str, signature: &str, body: &str| {
            let pairs =
                [("webhook-id", id), ("webhook-timestamp", "1700000000"), ("webhook-signature", signature)];
            holds(Provider::Gitlab, &secret, &pairs, body)
        };
        assert!(with("id-1", &good, "{}"));
        assert!(!with("id-2", &good, "{}") && !with("id-1", &good, "{ }"));
        assert!(!with("id-1", "v1,", "{}") && !with("id-1", "v2,AAAA", "{}") && !with("id-1", "", "{}"));
        // Without its companions it proves nothing, not even beside a good token.
        let alone = [("webhook-signature", good.as_str()), ("x-gitlab-token", secret.as_str())];
        assert!(!holds(Provider::Gitlab, &secret, &alone, "{}"));
    }
}
