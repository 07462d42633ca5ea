use std::collections::BTreeMap;

use super::*;

fn url(text: &str) -> Result<RemoteUrl, UrlError> {
    RemoteUrl::parse(text, UrlPolicy::default()).map(|(url, _)| url)
}

fn normal(text: &str) -> String {
    url(text).unwrap_or_else(|error| panic!("{text}: {error}")).normal()
}

fn data(pairs: &[(&str, &str)]) -> BTreeMap<String, Vec<u8>> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_owned())).collect()
}

fn with_secret(url: &str, pairs: &[(&str, &str)]) -> Result<Remote, RemoteError> {
    Remote::new(url).expect("a good address").with_secret(&data(pairs), &SecretDefaults::default())
}

fn key() -> String {
    let key = ssh_key::PrivateKey::new(ssh_key::private::Ed25519Keypair::from_seed(&[7; 32]).into(), "test");
    key.and_then(|key| key.to_openssh(ssh_key::LineEnding::LF).map(|text| text.to_string())).expect("a key")
}

/// The same key with the name of a cipher in it, as a passphrase gives it.
fn encrypted_key() -> &'static str {
    include_str!("encrypted_key.txt")
}

const HOST_KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB0hY2kPYAhXLLrnLbcZrUZ5mVq1QaIk5P4RPyXlHj3Q";

fn hosts(name: &str) -> String {
    format!("# a comment\n{name} {HOST_KEY}\n")
}

#[test]
fn one_repository_has_one_normal_address() {
    for (same, expected) in [
        (
            &[
                "https://Git.Example/Team/app.git",
                "https://git.example/Team/app",
                "HTTPS://git.example:443/Team/app/",
                "https://user:pass@git.example/Team/app.git/",
                " https://git.example/Team/app.git\n",
            ][..],
            "https://git.example/Team/app",
        ),
        (&["git@Git.example:team/app.git", "git@git.example:team/app"], "git@git.example:team/app"),
        (
            &["ssh://git@git.example:22/team/app.git", "ssh://git@git.example/team/app/"],
            "ssh://git@git.example/team/app",
        ),
        (&["ssh://git@[::1]:2222/a", "ssh://git@[::1]:2222/a.git"], "ssh://git@[::1]:2222/a"),
    ] {
        for text in same {
            assert_eq!(normal(text), expected, "{text}");
        }
    }
}

#[test]
fn what_may_be_another_repository_has_another_digest() {
    let digest = |text| Remote::new(text).expect("good").digest();
    let all = [
        "https://h/a",
        "http://h/a",
        "https://h:8443/a",
        "https://h/A",
        "ssh://git@h/a",
        "ssh://me@h/a",
        "git@h:a",
    ];
    let digests: std::collections::BTreeSet<_> = all.iter().map(|text| digest(text)).collect();
    assert_eq!(digests.len(), all.len());
    assert!(digests.iter().all(|digest| digest.len() == 32));
    assert_ne!(Remote::new("https://h/a").expect("good").in_scope("team-a").digest(), digest("https://h/a"));
    assert_eq!(digest("https://u:planted@h/a"), digest("https://h/a"));
}

#[test]
fn hostile_addresses_are_refused() {
    use UrlError as E;
    let kind = |text: &str| url(text).err();
    assert_eq!(kind(""), Some(E::Empty));
    assert!(matches!(kind(&format!("https://h/{}", "a".repeat(3000))), Some(E::TooLong { .. })));
    for text in
        ["https://h/a b", "https://h/a\nb", "https://h/ä", "https://h/$(x)", "https://h/a;b", "https://h/`x`"]
    {
        assert!(matches!(kind(text), Some(E::Character { .. })), "{text}");
    }
    for text in ["ext::sh -c x", "ext::x", "git://h/a", "ftp://h/a", "fd::17/foo", "javascript://x"] {
        assert!(matches!(kind(text), Some(E::Scheme { .. } | E::Character { .. })), "{text}");
    }
    for text in ["/etc/passwd", "./a", "file:///etc", "a/b:c", "relative", "-oProxyCommand=x"] {
        assert!(matches!(kind(text), Some(E::Local)), "{text}");
    }
    for text in [
        "ssh://-oProxyCommand=x/a",
        "https:///a",
        "-x:a",
        "https://a_%41/b",
        "ssh://git@[zz]/a",
        "https://h@:1/a",
    ] {
        assert!(matches!(kind(text), Some(E::Host { .. })), "{text} {:?}", kind(text));
    }
    for text in ["https://h:0/a", "https://h:70000/a", "https://h:+1/a"] {
        assert!(matches!(kind(text), Some(E::Port { .. })), "{text}");
    }
    for text in [
        "https://h",
        "https://h/",
        "https://h/a/../b",
        "git@h:-x",
        "git@h:",
        "https://h/a?x=1",
        "https://h/.git",
    ] {
        assert!(matches!(kind(text), Some(E::Path { .. })), "{text} {:?}", kind(text));
    }
    assert!(matches!(kind("ssh://git:planted@h/a"), Some(E::SshPassword { .. })));
    assert!(matches!(kind("ssh://-x@h/a"), Some(E::UserInfo { .. })));
    assert!(matches!(kind("https://a:%zz@h/a"), Some(E::UserInfo { .. })));
    let file = Remote::with_policy("file:///srv/a.git", UrlPolicy { file: true }).expect("allowed here");
    assert_eq!(file.url().to_string(), "file:///srv/a.git");
}

#[test]
fn addresses_where_no_repository_can_be_are_refused_however_they_are_written() {
    for host in [
        "169.254.169.254",
        "0xa9fea9fe",
        "2852039166",
        "0251.0376.0251.0376",
        "169.254.43518",
        "0.0.0.0",
        "h.1",
    ] {
        assert!(matches!(url(&format!("http://{host}/a")), Err(UrlError::Host { .. })), "{host}");
    }
    for host in ["[fe80::1]", "[::]", "[::ffff:169.254.169.254]", "[ff02::1]"] {
        assert!(matches!(url(&format!("http://{host}/a")), Err(UrlError::Host { .. })), "{host}");
    }
    for host in ["10.0.0.1", "127.0.0.1", "[::1]", "[fd00::1]", "git2.example", "1.git.example"] {
        assert!(url(&format!("http://{host}/a")).is_ok(), "{host}");
    }
}

#[test]
fn credentials_of_the_address_are_used_and_never_shown() {
    let remote = Remote::new("https://dev:planted%40secret@h/a").expect("good");
    let Credentials::Basic { user, password } = remote.credentials() else { panic!("no password") };
    assert_eq!((user.as_str(), password.reveal()), ("dev", "planted@secret"));
    let shown = format!("{remote} {remote:?} {:?} {}", remote.url(), remote.digest());
    assert!(!shown.contains("planted"), "{shown}");
    assert!(!remote.redact("said planted@secret, planted%40secret").contains("planted"));
}

#[test]
fn secrets_of_flux_and_of_argo_cd_are_read() {
    let basic = with_secret("https://h/a", &[("username", "dev"), ("password", "planted\n")]).expect("good");
    assert_eq!(basic.credentials(), &Credentials::basic("dev", Hidden::new("planted")).expect("good"));
    let token = with_secret("https://h/a", &[("bearerToken", "planted\n")]).expect("good");
    assert_eq!(token.credentials(), &Credentials::Token(Hidden::new("planted")));
    let known = hosts("git.example");
    let flux =
        [("identity", key()), ("identity.pub", "ssh-ed25519 x".to_owned()), ("known_hosts", known.clone())];
    let flux: Vec<_> = flux.iter().map(|(key, value)| (*key, value.as_str())).collect();
    assert!(matches!(
        with_secret("ssh://git@git.example/a", &flux).expect("good").credentials(),
        Credentials::Ssh(_)
    ));
    let argo = data(&[("type", "git"), ("url", "git@git.example:a"), ("sshPrivateKey", &key())]);
    let defaults = SecretDefaults { known_hosts: KnownHosts::new(&known).ok(), ..SecretDefaults::default() };
    let remote = Remote::new("git@git.example:a").expect("good").with_secret(&argo, &defaults).expect("good");
    assert!(matches!(remote.credentials(), Credentials::Ssh(_)));
    let proxied =
        [("username", "u"), ("password", "p"), ("proxy", "http://me:planted@proxy:3128"), ("noProxy", "a,b")];
    let remote = with_secret("https://h/a", &proxied).expect("good");
    let proxy = remote.proxy().expect("a proxy");
    assert_eq!((proxy.address(), proxy.no_proxy()), ("http://proxy:3128", "a,b"));
    assert_eq!(proxy.revealed(), "http://me:planted@proxy:3128");
    assert!(!format!("{remote:?}").contains("planted"));
}

#[test]
fn each_kind_of_bad_credentials_has_its_own_error() {
    let known = hosts("git.example");
    let ssh = "ssh://git@git.example/a";
    let https = "https://git.example/a";
    let public = format!("ssh-ed25519 {}", "A".repeat(60));
    for (url, pairs, expected) in [
        (https, vec![("username", "a"), ("password", "")], "the password is empty"),
        (https, vec![("username", "a")], "the password is empty"),
        (https, vec![("bearerToken", " \n")], "the token is empty"),
        (https, vec![("bearerToken", "plan\nted")], "line break"),
        (https, vec![("username", "a:b"), ("password", "planted")], "colon"),
        (https, vec![("username", "a"), ("password", "plan\nted")], "line break"),
        (https, vec![("identity", &*key()), ("known_hosts", &known)], "an ssh key cannot be used"),
        (ssh, vec![("username", "a"), ("password", "planted")], "a password cannot be used"),
        (ssh, vec![("identity", "planted"), ("known_hosts", &known)], "no private key: it must begin"),
        (ssh, vec![("identity", &public), ("known_hosts", &known)], "the public half"),
        (ssh, vec![("identity", encrypted_key()), ("known_hosts", &known)], "is encrypted"),
        (ssh, vec![("identity", &key())], "known_hosts is missing"),
        (ssh, vec![("identity", &key()), ("known_hosts", "# nothing\n")], "known_hosts is missing"),
        (ssh, vec![("identity", &key()), ("known_hosts", "git.example planted")], "line 1 of known_hosts"),
        (ssh, vec![("identity", &key()), ("known_hosts", &hosts("other"))], "no key for git.example: add"),
        (https, vec![("identity", &key()), ("username", "x")], "both \"identity\" and \"username\""),
        (https, vec![("something", "planted")], "holds no credentials"),
        (https, vec![("insecure", "true")], "switch off"),
        (https, vec![("githubAppID", "1")], "not supported"),
        (https, vec![("ca.crt", "planted")], "no certificate in PEM"),
        (https, vec![("tls.crt", "planted")], "the key is missing"),
        (https, vec![("proxy", "ftp://planted:x@h")], "the address of the proxy"),
    ] {
        let error = with_secret(url, &pairs).expect_err(expected);
        let text = format!("{error} {error:?}");
        assert!(text.contains(expected), "{text} should say {expected:?}");
        assert!(!text.contains("planted"), "{text}");
    }
}

#[test]
fn hosts_are_found_by_name_port_pattern_and_hash() {
    let check = |lines: &str, address: &str| {
        let known = KnownHosts::new(lines).expect("readable");
        known.check(&url(address).expect("good")).is_ok()
    };
    let hashed = known_hosts::hashed(&[9; 20], "git.example").expect("hashes");
    assert!(check(&hosts("git.example"), "git@GIT.example:a"));
    assert!(check(&hosts("other,git.example"), "git@git.example:a"));
    assert!(check(&hosts("*.example"), "git@git.example:a"));
    assert!(check(&hosts(&hashed), "git@git.example:a"));
    assert!(check(&hosts("[git.example]:2222"), "ssh://git@git.example:2222/a"));
    assert!(!check(&hosts("git.example"), "ssh://git@git.example:2222/a"));
    assert!(!check(&hosts("*.example,!git.example"), "git@git.example:a"));
    assert!(!check(&hosts(&hashed), "git@other.example:a"));
    assert!(!check(
        &format!("@revoked {}", hosts("git.example").lines().last().expect("a line")),
        "git@git.example:a"
    ));
}

proptest::proptest! {
    #[test]
    fn an_address_that_is_taken_reads_back_as_itself_and_has_a_stable_normal_form(
        text in "(https://|http://|ssh://|)([a-z]{1,3}(:[a-z]{1,3})?@)?([a-zA-Z0-9.-]{0,8}|\\[::1\\])(:[0-9]{0,5})?[/:]?[a-zA-Z0-9./~%-]{0,12}(.git)?/?"
    ) {
        if let Ok(parsed) = url(&text) {
            let again = url(&parsed.to_string());
            proptest::prop_assert_eq!(again.as_ref(), Ok(&parsed), "{}", text);
            proptest::prop_assert_eq!(url(&parsed.normal()).map(|url| url.normal()), Ok(parsed.normal()));
            proptest::prop_assert!(!parsed.to_string().starts_with('-'));
        }
    }

    #[test]
    fn no_text_makes_reading_an_address_panic(text in "\\PC{0,40}") {
        drop(url(&text));
        drop(Proxy::new(&text));
        drop(KnownHosts::new(&text));
        drop(Credentials::token(&text));
        drop(CertificateAuthority::from_pem(&text));
        drop(hidden::redact(&text, std::slice::from_ref(&text)));
    }
}
