use super::*;
use proptest::prelude::*;
use windlass_api::cluster::{InCluster, ProbeSpec};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + second).unwrap()
}

fn reached(millis: u64) -> Reach {
    Reach::Reached(Reached {
        version: "v1.36.3".into(),
        latency: StdDuration::from_millis(millis),
        server: Some("https://127.0.0.1:6443".into()),
    })
}

fn refused() -> Reach {
    Reach::Trouble(Trouble {
        reason: "ConnectionRefused",
        what: "nothing listens at the address".into(),
        remedy: "Check the port.".into(),
        waits_for_change: false,
        probed: true,
        server: Some("https://127.0.0.1:9".into()),
    })
}

fn secret_missing() -> Reach {
    Reach::Trouble(Trouble {
        reason: "SecretNotFound",
        what: "Secret a/b does not exist".into(),
        remedy: "create it".into(),
        waits_for_change: true,
        probed: false,
        server: None,
    })
}

impl Observed {
    fn test(reach: Reach) -> Self {
        Self {
            name: "edge".into(),
            generation: Some(1),
            spec: ClusterSpec {
                kubeconfig: None,
                in_cluster: Some(InCluster {}),
                qps: None,
                burst: None,
                probe: None,
                suspend: false,
            },
            status: ClusterStatus::default(),
            deleting: false,
            reach,
            heartbeat: StdDuration::from_secs(300),
        }
    }

    fn after(mut self, status: ClusterStatus) -> Self {
        self.status = status;
        self
    }
}

fn status(reach: Reach, second: i64) -> ClusterStatus {
    plan(&Observed::test(reach), at(second)).status.unwrap()
}

#[test]
fn a_cluster_that_answers() {
    insta::assert_json_snapshot!(plan(&Observed::test(reached(3)), at(0)));
}

#[test]
fn a_cluster_that_does_not_answer_says_why_and_what_to_do() {
    insta::assert_json_snapshot!(plan(&Observed::test(refused()), at(0)));
}

#[test]
fn a_cluster_whose_secret_is_not_there_waits_for_it() {
    let plan = plan(&Observed::test(secret_missing()), at(0));
    assert_eq!(plan.wake, Wake::OnChange);
    let status = plan.status.unwrap();
    assert_eq!(status.last_probe, None, "it was not asked");
    let ready = condition::get(&status.conditions, READY).unwrap();
    assert_eq!(ready.message, "Secret a/b does not exist. Create it.");
}

#[test]
fn a_suspended_cluster_is_left_alone_and_disconnected_once() {
    let mut observed = Observed::test(Reach::NotTried);
    observed.spec.suspend = true;
    let first = plan(&observed, at(0));
    assert_eq!(first.actions, [Action::Disconnect { cluster: "edge".into() }]);
    assert_eq!(first.wake, Wake::OnChange);
    let second = plan(&observed.after(first.status.unwrap()), at(60));
    assert_eq!((second.actions, second.notes), (vec![], vec![]));
}

#[test]
fn a_deleted_cluster_is_disconnected_and_let_go() {
    let mut observed = Observed::test(Reach::NotTried);
    observed.deleting = true;
    let plan = plan(&observed, at(0));
    assert!(plan.released);
    assert_eq!(plan.actions, [Action::Disconnect { cluster: "edge".into() }]);
    assert_eq!(plan.status, None);
}

#[test]
fn a_probe_that_finds_nothing_new_is_no_write_until_the_heartbeat() {
    let before = status(reached(3), 0);
    for second in [1, 30, 299] {
        let plan = plan(&Observed::test(reached(3)).after(before.clone()), at(second));
        assert_eq!(plan.status.as_ref(), Some(&before), "after {second} s");
        assert!(plan.notes.is_empty());
    }
    let later = plan(&Observed::test(reached(3)).after(before.clone()), at(300)).status.unwrap();
    assert_eq!(later.last_probe, Some(Time(at(300))));
}

#[test]
fn a_clock_that_was_set_back_does_not_freeze_the_last_probe() {
    let before = status(reached(3), 1000);
    let after = plan(&Observed::test(reached(3)).after(before), at(0)).status.unwrap();
    assert_eq!(after.last_probe, Some(Time(at(0))));
}

#[test]
fn the_way_back_is_told_once_with_the_time_it_happened() {
    let down = status(refused(), 0);
    let up = plan(&Observed::test(reached(3)).after(down), at(50));
    assert_eq!(up.notes.len(), 1);
    let status = up.status.unwrap();
    assert_eq!(condition::get(&status.conditions, READY).unwrap().last_transition_time.0, at(50));
    assert!(plan(&Observed::test(reached(3)).after(status), at(80)).notes.is_empty());
}

#[test]
fn the_interval_of_the_spec_is_kept_and_trouble_backs_off() {
    let mut observed = Observed::test(reached(3));
    observed.spec.probe = Some(ProbeSpec { interval: Some(Duration::from_secs(5)), timeout: None });
    assert_eq!(plan(&observed, at(0)).wake, Wake::After(StdDuration::from_secs(5)));
    observed.reach = refused();
    assert_eq!(plan(&observed, at(0)).wake, Wake::Retry { longest: LONGEST_RETRY });
}

#[test]
fn latency_is_rounded_and_one_step_of_noise_is_no_news() {
    for (millis, shown) in [
        (0, "1ms"),
        (1, "1ms"),
        (2, "2ms"),
        (3, "5ms"),
        (6, "10ms"),
        (51, "100ms"),
        (1500, "2s"),
        (9000, "10s"),
    ] {
        assert_eq!(latency(None, StdDuration::from_millis(millis)).to_string(), shown, "{millis} ms");
    }
    let five = Some(Duration(StdDuration::from_millis(5)));
    assert_eq!(latency(five, StdDuration::from_millis(9)).to_string(), "5ms");
    assert_eq!(latency(five, StdDuration::from_millis(2)).to_string(), "5ms");
    assert_eq!(latency(five, StdDuration::from_millis(40)).to_string(), "50ms");
}

fn any_reach() -> impl Strategy<Value = Reach> {
    prop_oneof![
        (0u64..100_000).prop_map(reached),
        Just(refused()),
        Just(secret_missing()),
        Just(Reach::NotTried)
    ]
}

proptest! {
    /// Replanning with the status just written writes nothing and tells nothing, and Ready speaks of this generation.
    #[test]
    fn a_plan_is_settled_by_its_own_status(first in any_reach(), second in any_reach(), generation in 1i64..5, gap in 0i64..299) {
        let before = plan(&Observed::test(first), at(0)).status.unwrap();
        let mut observed = Observed::test(second).after(before);
        observed.generation = Some(generation);
        let one = plan(&observed, at(gap));
        let settled = one.status.clone().unwrap();
        let ready = condition::get(&settled.conditions, READY).unwrap();
        prop_assert_eq!(ready.observed_generation, Some(generation));
        prop_assert!(!ready.message.is_empty() && !ready.reason.is_empty());
        let two = plan(&observed.clone().after(settled.clone()), at(gap + 1));
        prop_assert_eq!(two.status, Some(settled));
        prop_assert!(two.notes.is_empty());
    }
}
