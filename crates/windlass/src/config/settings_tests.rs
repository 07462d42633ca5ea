use super::*;
use crate::terminal::Paint;

fn surroundings() -> Surroundings {
    Surroundings { work_dir: "/state".into(), ..Surroundings::default() }
}

fn settings(layer: Layer) -> Settings {
    Settings::resolve(layer, &surroundings()).unwrap()
}

fn refused(layer: Layer) -> String {
    Settings::resolve(layer, &surroundings()).unwrap_err().render(Paint::plain())
}

fn duration(text: &str) -> Duration {
    text.parse().unwrap()
}

#[test]
fn defaults_come_from_the_surroundings() {
    let around = Surroundings {
        namespace: Some("apps".into()),
        name: Some("Windlass_0.Example".into()),
        work_dir: "/state".into(),
        nonce: 0xABC,
        terminal: true,
    };
    let settings = Settings::resolve(Layer::default(), &around).unwrap();
    assert_eq!(settings.namespace, "apps");
    assert_eq!(settings.identity, "windlass-0-example-00000abc");
    assert_eq!(settings.secret_namespaces, BTreeSet::from(["apps".to_owned()]));
    assert_eq!(settings.log_format, LogFormat::Text);
    assert_eq!(settings.work_dir, PathBuf::from("/state"));
    let given = Layer { namespace: Some("mine".into()), identity: Some("me".into()), ..Layer::default() };
    let settings = Settings::resolve(given, &around).unwrap();
    assert_eq!((settings.namespace.as_str(), settings.identity.as_str()), ("mine", "me"));
    assert_eq!(settings.secret_namespaces, BTreeSet::from(["mine".to_owned()]));
}

#[test]
fn any_host_name_gives_an_identity_that_kubernetes_takes() {
    for name in ["", "-", "___", "a.b.c", "UPPER", &"x".repeat(300), "ünïcode", "-lead", "trail-"] {
        let around = Surroundings { name: Some(name.to_owned()), nonce: u32::MAX, ..surroundings() };
        let identity = Settings::resolve(Layer::default(), &around).unwrap().identity;
        assert!(identity.ends_with("-ffffffff"), "{identity}");
    }
}

#[test]
fn two_processes_have_two_identities() {
    assert_ne!(nonce(), nonce());
}

#[test]
fn the_margin_leaves_a_holder_time_to_stop() {
    let settings = settings(Layer::default());
    assert_eq!(settings.lease_margin(), StdDuration::from_millis(1500));
}

#[test]
fn settings_that_make_no_sense_are_refused_by_name() {
    let some = |text: &str| Some(text.to_owned());
    let cases = vec![
        ("workers", Layer { workers: Some(0), ..Layer::default() }),
        ("shards", Layer { shards: Some(0), ..Layer::default() }),
        ("shards", Layer { shards: Some(257), ..Layer::default() }),
        ("kubeApiQps", Layer { kube_api_qps: Some(0), ..Layer::default() }),
        ("leaseDuration", Layer { lease_duration: Some(duration("1s")), ..Layer::default() }),
        ("leaseDuration", Layer { lease_duration: Some(duration("2500ms")), ..Layer::default() }),
        ("leaseRenew", Layer { lease_renew: Some(duration("5s")), ..Layer::default() }),
        ("leaseRenew", Layer { lease_renew: Some(duration("10ms")), ..Layer::default() }),
        ("namespace", Layer { namespace: some("Not_A_Name"), ..Layer::default() }),
        ("identity", Layer { identity: some("-x"), ..Layer::default() }),
        ("identity", Layer { identity: some(""), ..Layer::default() }),
        ("secretNamespaces", Layer { secret_namespaces: Some(vec!["a/b".into()]), ..Layer::default() }),
        ("logLevel", Layer { log_level: some("windlass=loud"), ..Layer::default() }),
        ("applicationWorkers", Layer { application_workers: Some(0), ..Layer::default() }),
        ("renderConcurrency", Layer { render_concurrency: Some(0), ..Layer::default() }),
        ("hooksRate", Layer { hooks_rate: Some(0), ..Layer::default() }),
        ("hooksMaxBytes", Layer { hooks_max_bytes: Some(10), ..Layer::default() }),
        ("hooksSecret", Layer { hooks_secret: some("No_Name"), ..Layer::default() }),
        ("defaultServiceAccount", Layer { default_service_account: some("A b"), ..Layer::default() }),
        ("workDir", Layer { work_dir: Some(PathBuf::new()), ..Layer::default() }),
        ("helm", Layer { helm: Some(PathBuf::new()), ..Layer::default() }),
        ("webhookUrl", Layer { webhook_url: some("http://127.0.0.1"), ..Layer::default() }),
        ("controllers", Layer { controllers: Some(vec!["clusterr".into()]), ..Layer::default() }),
    ];
    for (key, layer) in cases {
        let told = refused(layer);
        assert!(told.starts_with(&format!("error: setting {key} ")), "{key}: {told}");
        assert!(told.contains("hint: "), "{told}");
    }
}

#[test]
fn a_refusal_names_every_spelling_and_the_way_out() {
    insta::assert_snapshot!(refused(Layer { lease_renew: Some(duration("6s")), ..Layer::default() }), @r"
    error: setting leaseRenew has to be between 100ms and 4s250ms with leaseDuration 10s
    hint: It is --lease-renew, WINDLASS_LEASE_RENEW or leaseRenew in the config file.
    hint: A holder that misses one renewal must not lose the Lease.
    ");
    insta::assert_snapshot!(refused(Layer { controllers: Some(vec!["-clustr".into()]), ..Layer::default() }), @r"
    error: setting controllers names something that is not there
    caused by: there is no controller `clustr`
    hint: It is --controllers, WINDLASS_CONTROLLERS or controllers in the config file.
    hint: Did you mean `cluster`?
    hint: There are: analysisrun, application, cluster, experiment, rollout.
    ");
}

#[test]
fn an_empty_list_of_namespaces_is_the_own_one_and_star_is_all() {
    let none = settings(Layer { secret_namespaces: Some(vec![String::new()]), ..Layer::default() });
    assert_eq!(none.secret_namespaces, BTreeSet::from([DEFAULT_NAMESPACE.to_owned()]));
    let all = settings(Layer { secret_namespaces: Some(vec!["*".into()]), ..Layer::default() });
    assert!(all.secret_namespaces.contains("*"));
}

#[test]
fn files_that_may_be_lost_are_kept_where_programs_keep_their_state() {
    let env = |set: &'static [(&'static str, &'static str)]| {
        move |name: &str| set.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).into())
    };
    for (set, expected) in [
        (&[("KUBERNETES_SERVICE_HOST", "10.0.0.1"), ("HOME", "/root")][..], "/var/lib/windlass"),
        (&[("HOME", "/home/dev"), ("XDG_STATE_HOME", "/state")], "/state/windlass"),
        (&[("HOME", "/home/dev"), ("XDG_STATE_HOME", "relative")], "/home/dev/.local/state/windlass"),
    ] {
        assert_eq!(work_dir(env(set)), PathBuf::from(expected));
    }
    assert!(work_dir(env(&[])).is_absolute());
}
