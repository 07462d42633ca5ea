use std::{error::Error, fmt::Write as _, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD};
use proptest::prelude::*;
use rcgen::{CertificateParams, Issuer, KeyPair};
use serde_json::{Value, json};

use super::*;

/// Planted wherever a credential can be; must never come out again.
const CANARY: &str = "canary-7f3a9c";

struct Pki {
    ca: String,
    certificate: String,
    key: String,
    other_key: String,
}

fn pki() -> Pki {
    let ca_key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let ca = params.self_signed(&ca_key).unwrap();
    let issuer = Issuer::from_params(&params, &ca_key);
    let key = KeyPair::generate().unwrap();
    let mut client = CertificateParams::new(vec!["client".to_owned()]).unwrap();
    client.not_after = rcgen::date_time_ymd(2031, 5, 6);
    let certificate = client.signed_by(&key, &issuer).unwrap();
    Pki {
        ca: STANDARD.encode(ca.pem()),
        certificate: STANDARD.encode(certificate.pem()),
        key: STANDARD.encode(key.serialize_pem()),
        other_key: STANDARD.encode(KeyPair::generate().unwrap().serialize_pem()),
    }
}

/// A good kubeconfig with a token; JSON is YAML.
fn good(pki: &Pki) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "main",
        "contexts": [{"name": "main", "context": {"cluster": "c", "user": "u", "namespace": "shop"}}],
        "clusters": [{"name": "c", "cluster": {
            "server": "https://10.0.0.1:6443", "certificate-authority-data": pki.ca}}],
        "users": [{"name": "u", "user": {"token": CANARY}}],
    })
}

fn with(mut config: Value, pointer: &str, value: Value) -> Value {
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    config.pointer_mut(parent).unwrap()[key] = value;
    config
}

fn user(config: Value, user: Value) -> Value {
    with(config, "/users/0/user", user)
}

fn cluster(config: Value, field: &str, value: Value) -> Value {
    with(config, &format!("/clusters/0/cluster/{field}"), value)
}

fn parse(config: &Value) -> Result<Target, KubeconfigError> {
    parse_kubeconfig(config.to_string().as_bytes(), None, &KubeconfigPolicy::default())
}

fn reason(config: &Value) -> &'static str {
    match parse(config) {
        Ok(_) => "accepted",
        Err(error) => {
            assert!(!everything(&error).contains(CANARY), "{error:?}");
            assert!(error.remedy().ends_with('.'), "{error:?}");
            error.reason()
        }
    }
}

/// Everything that an error can show.
fn everything(error: &(dyn Error + 'static)) -> String {
    let mut text = String::new();
    let mut current = Some(error);
    while let Some(error) = current {
        write!(text, "{error} {error:?} {error:#?}").unwrap();
        current = error.source();
    }
    text
}

#[test]
fn a_good_kubeconfig_becomes_a_target() {
    let pki = pki();
    let target = parse(&good(&pki)).unwrap();
    assert_eq!(
        (target.server().to_string().as_str(), target.namespace()),
        ("https://10.0.0.1:6443/", "shop")
    );
    let config = target.config();
    assert_eq!(config.root_cert.as_ref().map(Vec::len), Some(1));
    assert_eq!(config.connect_timeout, Some(CONNECT_TIMEOUT));
    assert!(!config.accept_invalid_certs && !config.default_retry);
    assert!(
        !format!(
            "{target:?} {:?}",
            Credentials::Kubeconfig { bytes: good(&pki).to_string().into(), context: None }
        )
        .contains(CANARY)
    );

    let certified = json!({"client-certificate-data": pki.certificate, "client-key-data": pki.key});
    let target = parse(&user(good(&pki), certified)).unwrap();
    assert_eq!(target.client_certificate_expires().unwrap().to_string(), "2031-05-06T00:00:00Z");
    assert!(!format!("{target:?}").contains(&pki.key[..40]));
}

#[test]
fn a_yaml_kubeconfig_with_other_contexts_reads_only_its_own() {
    let pki = pki();
    let text = format!(
        "# comment\napiVersion: v1\nkind: Config\npreferences: {{}}\ncurrent-context: main\ncontexts:\n- name: main\n  context: {{cluster: c, user: u}}\n- name: risky\n  context: {{cluster: c, user: exec}}\nclusters:\n- name: c\n  cluster:\n    server: https://api.example.org\n    certificate-authority-data: |\n      {}\nusers:\n- name: exec\n  user: {{exec: {{apiVersion: v1, command: steal}}}}\n- name: u\n  user: {{token: abc}}\n",
        pki.ca
    );
    let read = |context| parse_kubeconfig(text.as_bytes(), context, &KubeconfigPolicy::default());
    assert_eq!(read(None).unwrap().namespace(), "default");
    assert_eq!(read(Some("risky")).unwrap_err().reason(), "KubeconfigExecRefused");
    let allowed = KubeconfigPolicy { allow_exec: true, ..KubeconfigPolicy::default() };
    assert!(parse_kubeconfig(text.as_bytes(), Some("risky"), &allowed).is_ok());
    assert_ne!(read(None).unwrap().fingerprint(), read(Some("main")).unwrap().fingerprint());
}

#[test]
fn kubeconfigs_that_are_no_kubeconfigs_are_refused() {
    let read = |bytes: &[u8]| {
        let error = parse_kubeconfig(bytes, None, &KubeconfigPolicy::default()).unwrap_err();
        assert!(!everything(&error).contains(CANARY), "{error:?}");
        error.reason()
    };
    assert_eq!(read(b""), "KubeconfigMalformed");
    assert_eq!(read(b"  \n"), "KubeconfigMalformed");
    assert_eq!(read(b"\xff\xfe\x00"), "KubeconfigMalformed");
    assert_eq!(read(CANARY.as_bytes()), "KubeconfigMalformed");
    assert_eq!(read(format!("users: {CANARY}").as_bytes()), "KubeconfigMalformed");
    assert_eq!(
        read(format!("users: [{{name: x, user: {{token: [{CANARY}]}}}}]").as_bytes()),
        "KubeconfigMalformed"
    );
    assert_eq!(read(format!("users: [\"{CANARY}").as_bytes()), "KubeconfigMalformed");
    assert_eq!(read(b"kind: Secret"), "KubeconfigMalformed");
    assert_eq!(read(b"kind: Config"), "KubeconfigNoContext");
    assert_eq!(read(&vec![b'#'; MAX_KUBECONFIG_BYTES + 1]), "KubeconfigTooLarge");
}

#[test]
fn a_yaml_bomb_is_refused_quickly() {
    let mut bomb = "preferences:\n  a: &a [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for (last, next) in ('a'..='y').zip('b'..='z') {
        let items = vec![format!("*{last}"); 10].join(", ");
        writeln!(bomb, "  {next}: &{next} [{items}]").unwrap();
    }
    let start = std::time::Instant::now();
    let error = parse_kubeconfig(bomb.as_bytes(), None, &KubeconfigPolicy::default()).unwrap_err();
    assert_eq!(error.reason(), "KubeconfigTooComplex");
    let deep = "[".repeat(10_000);
    let error = parse_kubeconfig(deep.as_bytes(), None, &KubeconfigPolicy::default()).unwrap_err();
    assert!(matches!(error.reason(), "KubeconfigTooComplex" | "KubeconfigMalformed"));
    assert!(start.elapsed() < Duration::from_secs(20));
}

#[test]
fn contexts_clusters_and_users_must_be_there() {
    let pki = pki();
    let good = good(&pki);
    assert_eq!(reason(&with(good.clone(), "/current-context", Value::Null)), "KubeconfigNoContext");
    assert_eq!(reason(&with(good.clone(), "/current-context", json!("other"))), "KubeconfigUnknownContext");
    assert_eq!(reason(&with(good.clone(), "/contexts", Value::Null)), "KubeconfigUnknownContext");
    assert_eq!(reason(&with(good.clone(), "/contexts/0/context", Value::Null)), "KubeconfigUnknownContext");
    assert_eq!(
        reason(&with(good.clone(), "/contexts/0/context/cluster", json!("x"))),
        "KubeconfigMissingCluster"
    );
    assert_eq!(reason(&with(good.clone(), "/clusters", json!([]))), "KubeconfigMissingCluster");
    assert_eq!(reason(&with(good.clone(), "/contexts/0/context/user", json!("x"))), "KubeconfigMissingUser");
    assert_eq!(reason(&with(good.clone(), "/contexts/0/context/user", Value::Null)), "KubeconfigMissingUser");
    assert_eq!(reason(&user(good.clone(), Value::Null)), "KubeconfigNoCredentials");
    assert_eq!(reason(&user(good, json!({"token": ""}))), "KubeconfigNoCredentials");
}

#[test]
fn a_kubeconfig_can_neither_run_programs_nor_read_files() {
    let pki = pki();
    let refused = |policy: KubeconfigPolicy, config: &Value| {
        parse_kubeconfig(config.to_string().as_bytes(), None, &policy).map_err(|error| error.reason()).err()
    };
    let deny = KubeconfigPolicy::default();
    let exec = user(good(&pki), json!({"exec": {"command": "sh", "args": [CANARY]}}));
    let with_token = user(good(&pki), json!({"token": CANARY, "exec": {"command": "sh"}}));
    let provider =
        user(good(&pki), json!({"auth-provider": {"name": "gcp", "config": {"access-token": CANARY}}}));
    let allow_exec = KubeconfigPolicy { allow_exec: true, ..deny };
    for (config, reason) in [
        (&exec, "KubeconfigExecRefused"),
        (&with_token, "KubeconfigExecRefused"),
        (&provider, "KubeconfigAuthProviderRefused"),
    ] {
        assert_eq!(refused(deny, config), Some(reason));
        assert_eq!(
            refused(KubeconfigPolicy { allow_exec: false, ..KubeconfigPolicy::trusted() }, config),
            Some(reason)
        );
        assert_eq!(refused(allow_exec, config), None);
    }
    let allow_files = KubeconfigPolicy { allow_files: true, ..deny };
    for config in [
        cluster(good(&pki), "certificate-authority", json!("/etc/passwd")),
        user(good(&pki), json!({"tokenFile": "/var/run/token"})),
        user(good(&pki), json!({"token": "t", "tokenFile": "/var/run/token"})),
        user(good(&pki), json!({"client-certificate": "/c", "client-key": "/k"})),
        user(good(&pki), json!({"client-certificate-data": pki.certificate, "client-key": "/k"})),
    ] {
        assert_eq!(refused(deny, &config), Some("KubeconfigFileRefused"), "{config}");
        assert_eq!(refused(allow_exec, &config), Some("KubeconfigFileRefused"), "{config}");
        assert_eq!(refused(allow_files, &config), None, "{config}");
    }
}

#[test]
fn servers_and_proxies_are_checked() {
    let pki = pki();
    let server = |url: &str| reason(&cluster(good(&pki), "server", json!(url)));
    for (url, expected) in [
        ("https://127.0.0.1:6443", "accepted"),
        ("https://[fd00::1]:6443", "accepted"),
        ("https://api.example.org/k8s/clusters/c-1", "accepted"),
        ("http://10.0.0.1:6443", "KubeconfigPlainHTTPRefused"),
        ("10.0.0.1:6443", "KubeconfigPlainHTTPRefused"),
        ("ftp://10.0.0.1", "KubeconfigBadServer"),
        ("unix:///var/run/api.sock", "KubeconfigBadServer"),
        ("", "KubeconfigBadServer"),
        ("https://", "KubeconfigBadServer"),
        ("https://a b", "KubeconfigBadServer"),
        ("https://-a", "KubeconfigBadServer"),
        ("https://a?x=1", "KubeconfigBadServer"),
        ("https://2852039166/", "KubeconfigBadServer"),
        ("https://169.254.169.254/", "KubeconfigAddressRefused"),
        ("https://[fe80::1]:6443", "KubeconfigAddressRefused"),
        ("https://[::ffff:169.254.169.254]", "KubeconfigAddressRefused"),
    ] {
        assert_eq!(server(url), expected, "{url}");
    }
    assert_eq!(server(&format!("https://u:{CANARY}@10.0.0.1")), "KubeconfigURLCredentialsRefused");
    assert_eq!(server(&format!("https://u:{CANARY}@169.254.169.254")), "KubeconfigAddressRefused");

    let proxy = |url: &str| reason(&cluster(good(&pki), "proxy-url", json!(url)));
    for (url, expected) in [
        ("", "accepted"),
        ("http://proxy.example.org:3128", "accepted"),
        ("https://10.0.0.9", "accepted"),
        ("socks5://10.0.0.9", "KubeconfigBadProxy"),
        ("proxy.example.org:3128", "KubeconfigBadProxy"),
        ("http://169.254.169.254", "KubeconfigAddressRefused"),
    ] {
        assert_eq!(proxy(url), expected, "{url}");
    }
    assert_eq!(proxy(&format!("http://u:{CANARY}@10.0.0.9")), "KubeconfigURLCredentialsRefused");
    assert_eq!(reason(&cluster(good(&pki), "tls-server-name", json!("a b"))), "KubeconfigBadServer");
    assert_eq!(reason(&cluster(good(&pki), "tls-server-name", json!("api.example.org"))), "accepted");

    let insecure = cluster(good(&pki), "insecure-skip-tls-verify", json!(true));
    assert_eq!(reason(&insecure), "KubeconfigInsecureTLSRefused");
    let allowed = KubeconfigPolicy { allow_insecure_tls: true, ..KubeconfigPolicy::default() };
    let target = parse_kubeconfig(insecure.to_string().as_bytes(), None, &allowed).unwrap();
    assert!(target.config().accept_invalid_certs);
    let plain = cluster(good(&pki), "server", json!("http://10.0.0.1"));
    let error =
        parse_kubeconfig(plain.to_string().as_bytes(), None, &KubeconfigPolicy::trusted()).unwrap_err();
    assert_eq!(
        error.reason(),
        "KubeconfigPlainHTTPRefused",
        "no flag allows it for a kubeconfig of somebody else"
    );
}

#[test]
fn certificates_keys_and_tokens_are_checked() {
    let pki = pki();
    let encoded = |text: &str| STANDARD.encode(text);
    let wrapped = format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", encoded(CANARY));
    for data in ["%%%".to_owned(), encoded(CANARY), encoded(&wrapped), encoded("")] {
        let ca = cluster(good(&pki), "certificate-authority-data", json!(data));
        let expected = if data.is_empty() { "accepted" } else { "KubeconfigBadCertificate" };
        assert_eq!(reason(&ca), expected, "{data}");
        let certificate =
            user(good(&pki), json!({"client-certificate-data": data, "client-key-data": pki.key}));
        assert_eq!(reason(&certificate), "KubeconfigBadCertificate", "{data}");
        let key =
            user(good(&pki), json!({"client-certificate-data": pki.certificate, "client-key-data": data}));
        assert_eq!(reason(&key), "KubeconfigBadKey", "{data}");
    }
    let pair = |certificate: &Value, key: &Value| {
        reason(&user(good(&pki), json!({"client-certificate-data": certificate, "client-key-data": key})))
    };
    assert_eq!(pair(&json!(pki.certificate), &json!(pki.key)), "accepted");
    assert_eq!(pair(&json!(pki.certificate), &json!(pki.other_key)), "KubeconfigBadKey");
    assert_eq!(pair(&json!(pki.certificate), &Value::Null), "KubeconfigBadKey");
    assert_eq!(pair(&Value::Null, &json!(pki.key)), "KubeconfigBadCertificate");
    for token in
        [format!("{CANARY}\n"), format!("{CANARY} x"), format!("{CANARY}\u{7}"), format!("{CANARY}ü\r\n")]
    {
        assert_eq!(reason(&user(good(&pki), json!({"token": token}))), "KubeconfigBadToken", "{token:?}");
    }
}

#[test]
fn impersonation_never_loses_its_identity() {
    let pki = pki();
    let acting = |more: Value| {
        let mut user_value = json!({"token": "t"});
        user_value.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        reason(&user(good(&pki), user_value))
    };
    assert_eq!(acting(json!({"as": "jane", "as-groups": ["dev"]})), "accepted");
    for more in [
        json!({"as": ""}),
        json!({"as": " "}),
        json!({"as-groups": ["dev"]}),
        json!({"as-uid": "1"}),
        json!({"as": "jane", "as-groups": [""]}),
        json!({"as": "jane\nx"}),
    ] {
        assert_eq!(acting(more.clone()), "KubeconfigBadImpersonation", "{more}");
    }
}

#[tokio::test]
async fn clients_are_kept_until_their_credentials_or_limits_change() {
    let pki = pki();
    let cache = ClientCache::new(KubeconfigPolicy::default(), None).with_capacity(2);
    let from =
        |config: &Value| Credentials::Kubeconfig { bytes: config.to_string().into_bytes(), context: None };
    let limits = Limits::default();
    let one = good(&pki);
    let first = cache.connection("a", &from(&one), &limits).await.unwrap();
    let again = cache.connection("a", &from(&one), &limits).await.unwrap();
    assert_eq!(first.fingerprint, again.fingerprint);
    let rotated = user(one.clone(), json!({"token": "new"}));
    let second = cache.connection("a", &from(&rotated), &limits).await.unwrap();
    assert_ne!(first.fingerprint, second.fingerprint);
    // A refused replacement does not leave the old client in use.
    let refused = cluster(one.clone(), "insecure-skip-tls-verify", json!(true));
    let error = cache.connection("a", &from(&refused), &limits).await.unwrap_err();
    assert_eq!(error.reason(), "KubeconfigInsecureTLSRefused");
    assert!(!everything(&error).contains(CANARY));
    for name in ["b", "c"] {
        cache.get(name, &from(&one), &limits).await.unwrap();
    }
    assert_eq!(cache.len(), 2);
    cache.forget("b");
    cache.forget("c");
    assert!(cache.is_empty());
}

#[tokio::test]
async fn plug_in_output_and_missing_files_do_not_leak() {
    let pki = pki();
    let limits = Limits::default();
    let policy = KubeconfigPolicy { allow_exec: true, allow_files: true, allow_insecure_tls: false };
    let cache = ClientCache::new(policy, None);
    let run = |command: &str| {
        user(
            good(&pki),
            json!({"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "sh",
            "args": ["-c", command], "interactiveMode": "Never"}}),
        )
    };
    for (config, reason) in [
        (run(&format!("echo {CANARY}; echo {CANARY} >&2; exit 3")), "CredentialPluginFailed"),
        (run(&format!("echo {CANARY}")), "CredentialPluginFailed"),
        (user(good(&pki), json!({"tokenFile": "/nonexistent/token"})), "ClientRefused"),
    ] {
        let from = Credentials::Kubeconfig { bytes: config.to_string().into_bytes(), context: None };
        let error = cache.connection("x", &from, &limits).await.unwrap_err();
        assert_eq!(error.reason(), reason, "{error}");
        assert!(!everything(&error).contains(CANARY), "{error}");
    }
}

#[tokio::test]
async fn own_files_merge_as_kubectl_does_and_name_the_file_in_errors() {
    let pki = pki();
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    write("token", "from-a-file");
    let config = user(good(&pki), json!({"tokenFile": "token"}));
    let path = write("config", &config.to_string());
    let cache = ClientCache::new(KubeconfigPolicy::default(), None);
    let limits = Limits::default();
    let file = |path: &std::path::Path| Credentials::File { path: Some(path.to_owned()), context: None };
    cache.get("own", &file(&path), &limits).await.expect("relative files are found beside the kubeconfig");

    let bad = write("bad", CANARY);
    let error = cache.connection("own", &file(&bad), &limits).await.unwrap_err();
    assert!(error.to_string().contains("bad"), "{error}");
    assert!(!everything(&error).contains(CANARY), "{error}");
    let error = cache.connection("own", &file(&folder.path().join("absent")), &limits).await.unwrap_err();
    assert_eq!(error.reason(), "KubeconfigUnreadable");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    /// Whatever is wrong with a kubeconfig, no error shows what was in a field that can hold a credential.
    #[test]
    fn no_error_shows_a_credential(
        server in prop_oneof![
            Just("https://10.0.0.1".to_owned()), Just(format!("https://{CANARY}@10.0.0.1")),
            Just(format!("https://u:{CANARY}@169.254.0.1")), Just("http://x".to_owned()), Just("::".to_owned())],
        proxy in prop_oneof![Just(Value::Null), Just(json!(format!("http://{CANARY}:{CANARY}@p"))), Just(json!(format!("socks5://{CANARY}@p")))],
        token in prop_oneof![Just(Value::Null), Just(json!(CANARY)), Just(json!(format!("{CANARY}\n"))), Just(json!([CANARY])), Just(json!({"a": CANARY}))],
        key in prop_oneof![Just(Value::Null), Just(json!(CANARY)), Just(json!(STANDARD.encode(CANARY)))],
        certificate in prop_oneof![Just(Value::Null), Just(json!(CANARY)), Just(json!(STANDARD.encode(CANARY)))],
        ca in prop_oneof![Just(Value::Null), Just(json!(CANARY)), Just(json!({CANARY: CANARY}))],
        exec in prop_oneof![Just(Value::Null), Just(json!({"command": CANARY, "args": [CANARY], "env": [{"name": "T", "value": CANARY}]})), Just(json!(CANARY))],
        password in prop_oneof![Just(Value::Null), Just(json!(CANARY)), Just(json!(7))],
        flags in any::<(bool, bool, bool)>(),
        cut in 0usize..2000,
        truncate in any::<bool>(),
    ) {
        let config = json!({
            "current-context": "main",
            "contexts": [{"name": "main", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": server, "proxy-url": proxy, "certificate-authority-data": ca}}],
            "users": [{"name": "u", "user": {"token": token, "client-key-data": key, "client-certificate-data": certificate,
                "exec": exec, "username": "u", "password": password}}],
        });
        let text = config.to_string();
        let bytes = if truncate { &text.as_bytes()[..cut.min(text.len())] } else { text.as_bytes() };
        let policy = KubeconfigPolicy { allow_exec: flags.0, allow_files: flags.1, allow_insecure_tls: flags.2 };
        match parse_kubeconfig(bytes, None, &policy) {
            Ok(target) => {
                let shown = format!("{target:?} {target:#?}");
                prop_assert!(!shown.contains(CANARY), "{}", shown);
            }
            Err(error) => {
                let shown = format!("{} {} {}", everything(&error), error.reason(), error.remedy());
                prop_assert!(!shown.contains(CANARY), "{}", shown);
                let encoded = STANDARD.encode(CANARY);
                prop_assert!(!shown.contains(&encoded), "{}", shown);
            }
        }
    }

    /// Arbitrary bytes are refused, never a panic.
    #[test]
    fn arbitrary_bytes_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        prop_assert!(parse_kubeconfig(&bytes, None, &KubeconfigPolicy::default()).is_err());
    }
}
