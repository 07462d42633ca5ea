#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::*;

fn window(kind: WindowKind, schedule: &str, duration: &str, zone: Option<&str>) -> Window {
    Window {
        kind,
        schedule: schedule.into(),
        duration: duration.parse().unwrap(),
        time_zone: zone.map(str::to_owned),
        manual_sync: false,
    }
}

use WindowKind::{Allow, Deny};

fn time(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn open(windows: &[Window], at: &str) -> bool {
    look(windows, time(at), false).unwrap().open
}

#[test]
fn without_windows_changes_are_always_applied() {
    let opening = look(&[], time("2026-05-01T00:00:00Z"), false).unwrap();
    assert_eq!(opening, Opening { open: true, why: None, changes_at: None });
}

#[test]
fn an_allow_window_lets_changes_through_from_its_beginning_to_just_before_its_end() {
    let windows = [window(Allow, "0 22 * * MON-FRI", "8h", None)];
    for (at, wanted) in [
        ("2026-05-04T21:59:59Z", false),
        ("2026-05-04T22:00:00Z", true),
        ("2026-05-05T05:59:59.999Z", true),
        ("2026-05-05T06:00:00Z", false),
        // Saturday, still Friday's window, and then none.
        ("2026-05-09T05:00:00Z", true),
        ("2026-05-09T23:00:00Z", false),
    ] {
        assert_eq!(open(&windows, at), wanted, "{at}");
    }
    let opening = look(&windows, time("2026-05-04T23:30:00Z"), false).unwrap();
    assert_eq!(opening.changes_at, Some(time("2026-05-05T06:00:00Z")));
    assert_eq!(opening.why.unwrap(), "Within the Allow window \"0 22 * * MON-FRI\" (UTC) of 8h");
    let opening = look(&windows, time("2026-05-09T12:00:00Z"), false).unwrap();
    assert_eq!(opening.changes_at, Some(time("2026-05-11T22:00:00Z")));
    assert_eq!(opening.why.unwrap(), "Outside of the Allow window \"0 22 * * MON-FRI\" (UTC) of 8h");
}

#[test]
fn a_deny_window_wins_over_every_allow_window() {
    let windows =
        [window(Allow, "0 0 * * *", "24h", None), window(Deny, "0 12 * * *", "1h", Some("Europe/Vienna"))];
    assert!(open(&windows, "2026-07-01T09:59:59Z"));
    let opening = look(&windows, time("2026-07-01T10:15:00Z"), false).unwrap();
    assert!(!opening.open);
    assert_eq!(opening.why.unwrap(), "Within the Deny window \"0 12 * * *\" (Europe/Vienna) of 1h");
    assert_eq!(opening.changes_at, Some(time("2026-07-01T11:00:00Z")));
    assert!(open(&windows, "2026-07-01T11:00:00Z"));
    // In winter the clock there shows noon an hour later.
    assert!(open(&windows, "2026-01-05T10:15:00Z") && !open(&windows, "2026-01-05T11:15:00Z"));
}

#[test]
fn with_deny_windows_alone_everything_else_is_allowed() {
    let windows = [window(Deny, "0 9 24 12 *", "72h", None)];
    assert!(open(&windows, "2026-12-24T08:59:00Z"));
    assert!(!open(&windows, "2026-12-26T12:00:00Z"));
    let opening = look(&windows, time("2027-01-01T00:00:00Z"), false).unwrap();
    assert_eq!((opening.open, opening.changes_at), (true, Some(time("2027-12-24T09:00:00Z"))));
}

#[test]
fn overlapping_beginnings_make_one_long_window() {
    let windows = [window(Allow, "0 * * * *", "90m", None)];
    assert!(open(&windows, "2026-05-04T13:59:59Z"));
    let opening = look(&windows, time("2026-05-04T13:10:00Z"), false).unwrap();
    assert!(opening.open && opening.changes_at.unwrap() > time("2026-05-04T18:00:00Z"), "{opening:?}");
    let two = [window(Allow, "0 10 * * *", "2h", None), window(Allow, "0 12 * * *", "1h", None)];
    assert!(open(&two, "2026-05-04T11:59:59Z") && open(&two, "2026-05-04T12:00:00Z"));
}

#[test]
fn a_window_of_no_length_is_never_open() {
    assert!(!open(&[window(Allow, "0 10 * * *", "0s", None)], "2026-05-04T10:00:00Z"));
    assert!(open(&[window(Deny, "0 10 * * *", "0s", None)], "2026-05-04T10:00:00Z"));
}

#[test]
fn a_window_that_begins_at_a_time_the_clock_leaves_out_begins_when_the_clock_is_changed() {
    // 2026-03-29 02:00 becomes 03:00 in Vienna, which is 01:00 UTC.
    let windows = [window(Deny, "30 2 * * *", "1h", Some("Europe/Vienna"))];
    assert!(open(&windows, "2026-03-29T00:59:59Z"));
    assert!(!open(&windows, "2026-03-29T01:00:00Z"));
    assert!(!open(&windows, "2026-03-29T01:59:59Z"));
    assert!(open(&windows, "2026-03-29T02:00:00Z"));
    let opening = look(&windows, time("2026-03-28T12:00:00Z"), false).unwrap();
    assert_eq!(opening.changes_at, Some(time("2026-03-29T01:00:00Z")));
    // The days around it are as always.
    assert!(!open(&windows, "2026-03-28T01:30:00Z") && !open(&windows, "2026-03-30T00:30:00Z"));
}

#[test]
fn a_time_that_the_clock_shows_twice_opens_the_window_twice() {
    // 2026-10-25 03:00 becomes 02:00 in Vienna, which is 01:00 UTC: 02:30 is at 00:30 and at 01:30 UTC.
    let windows = [window(Deny, "30 2 * * *", "10m", Some("Europe/Vienna"))];
    for (at, wanted) in [
        ("2026-10-25T00:29:59Z", true),
        ("2026-10-25T00:30:00Z", false),
        ("2026-10-25T00:45:00Z", true),
        ("2026-10-25T01:35:00Z", false),
        ("2026-10-25T01:40:00Z", true),
    ] {
        assert_eq!(open(&windows, at), wanted, "{at}");
    }
    // One that is always open has no gap in the hour that comes twice.
    let always = [window(Deny, "* * * * *", "1m", Some("Europe/Vienna"))];
    for minute in 0..180 {
        let at = time("2026-10-25T00:00:00Z") + SignedDuration::from_mins(minute);
        assert!(!look(&always, at, false).unwrap().open, "{at}");
    }
}

#[test]
fn zones_that_move_by_less_than_an_hour_come_to_an_end() {
    // Lord Howe is set back by half an hour, on 2026-04-05 at 02:00 to 01:30 (15:00 UTC the day before).
    let windows = [window(Allow, "0 5 * * *", "1h", Some("Australia/Lord_Howe"))];
    let opening = look(&windows, time("2026-04-04T14:10:00Z"), false).unwrap();
    assert_eq!((opening.open, opening.changes_at), (false, Some(time("2026-04-04T18:30:00Z"))));
    for zone in
        ["Asia/Kathmandu", "Africa/Casablanca", "Pacific/Apia", "America/St_Johns", "Antarctica/Troll"]
    {
        let windows = [window(Allow, "15 2 * * *", "1h", Some(zone))];
        assert!(look(&windows, time("2026-03-20T00:00:00Z"), false).unwrap().changes_at.is_some(), "{zone}");
    }
}

#[test]
fn a_sync_that_somebody_asks_for_passes_where_every_window_in_the_way_lets_it() {
    let now = time("2026-05-04T12:00:00Z");
    let manual = |windows: &[Window]| look(windows, now, true).unwrap();
    let soft = |mut window: Window| {
        window.manual_sync = true;
        window
    };
    let deny = || window(Deny, "0 11 * * *", "2h", None);
    let allow = || window(Allow, "0 22 * * *", "2h", None);
    assert!(!manual(&[deny()]).open);
    let passed = manual(&[soft(deny())]);
    assert!(passed.open && passed.why.unwrap().starts_with("Asked for, within the Deny window"));
    assert!(!manual(&[soft(deny()), deny()]).open);
    assert!(!manual(&[allow()]).open);
    assert!(manual(&[soft(allow())]).open);
    assert!(!manual(&[soft(allow()), allow()]).open);
    assert!(!manual(&[soft(allow()), deny()]).open);
    assert!(!look(&[soft(deny())], now, false).unwrap().open, "nobody asked");
}

#[test]
fn a_window_that_cannot_be_understood_names_its_field() {
    let good = || window(Allow, "0 10 * * *", "1h", None);
    let mut told = Vec::new();
    for (schedule, zone) in [
        ("soon", None),
        ("0 10 * * * Europe/Vienna", None),
        ("61 10 * * *", None),
        ("0 10 * * FUN", None),
        ("0 0 30 2 *", None),
        ("0 0 L * *", None),
        ("0 0 * * 5#3", None),
        ("H 0 * * *", None),
        ("0 10 * * *", Some("Middle/Earth")),
        ("0 10 * * *", Some("../../etc/passwd")),
    ] {
        let trouble =
            look(&[good(), window(Deny, schedule, "1h", zone)], time("2026-05-04T12:00:00Z"), false);
        told.push(trouble.unwrap_err().message());
    }
    insta::assert_snapshot!(told.join("\n"));
}

#[test]
fn times_without_end_are_no_accident() {
    let long = [window(Allow, "0 10 * * *", "999999h999999h999999h", None)];
    assert!(open(&long, "2026-05-04T12:00:00Z"));
    let windows = [window(Allow, "0 10 * * *", "1h", Some("Europe/Vienna"))];
    for now in [Timestamp::MIN, Timestamp::MAX, time("9998-01-01T00:00:00Z")] {
        let _ = look(&windows, now, false).unwrap();
        let _ = look(&long, now, true).unwrap();
    }
}

fn any_window() -> impl Strategy<Value = Window> {
    let minute = prop_oneof![Just("*"), Just("0"), Just("30"), Just("*/20"), Just("5,50")];
    let hour = prop_oneof![Just("*"), Just("2"), Just("1-3"), Just("*/6"), Just("23")];
    let day = prop_oneof![4 => Just("*"), 1 => Just("25-31")];
    let weekday = prop_oneof![3 => Just("*"), 1 => Just("SUN"), 1 => Just("1-5")];
    let length = prop_oneof![Just("0s"), Just("90s"), Just("10m"), Just("1h"), Just("26h"), Just("1500ms")];
    let zone = prop_oneof![
        Just(None),
        Just(Some("Europe/Vienna")),
        Just(Some("America/New_York")),
        Just(Some("Australia/Lord_Howe")),
        Just(Some("Asia/Kolkata"))
    ];
    (minute, hour, day, weekday, length, zone, any::<bool>(), any::<bool>()).prop_map(
        |(minute, hour, day, weekday, length, zone, deny, manual_sync)| Window {
            manual_sync,
            ..window(
                if deny { Deny } else { Allow },
                &format!("{minute} {hour} {day} * {weekday}"),
                length,
                zone,
            )
        },
    )
}

/// Moments around the changes of clocks in spring and autumn, and anywhere in the year.
fn any_time() -> impl Strategy<Value = Timestamp> {
    let around = |text: &str| {
        let middle = time(text).as_second();
        (middle - 90_000..middle + 90_000).boxed()
    };
    prop_oneof![
        around("2026-03-29T01:00:00Z"),
        around("2026-10-25T01:00:00Z"),
        around("2026-11-01T06:00:00Z"),
        around("2026-04-04T15:00:00Z"),
        (1_767_225_600..1_798_761_600_i64).boxed(),
    ]
    .prop_map(|seconds| Timestamp::from_second(seconds).unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_answer_is_the_same_until_the_time_that_is_told(
        windows in proptest::collection::vec(any_window(), 1..4), now in any_time(), manual: bool,
        samples in proptest::collection::vec(0.0..1.0_f64, 6),
    ) {
        let opening = look(&windows, now, manual).unwrap();
        let until = opening.changes_at.unwrap();
        prop_assert!(until > now);
        let span = until.duration_since(now).as_secs_f64();
        let mut times: Vec<Timestamp> = samples
            .iter()
            .map(|part| now + SignedDuration::from_secs_f64(span * part))
            .collect();
        times.push(until - SignedDuration::from_millis(1));
        for at in times {
            let then = look(&windows, at, manual).unwrap();
            prop_assert_eq!((then.open, &then.why), (opening.open, &opening.why), "at {}", at);
        }
    }

    /// Compares with a slow reading of the definition: every minute that the clock shows, one after the other.
    #[test]
    fn a_window_is_open_exactly_after_the_minutes_that_its_clock_shows(window in any_window(), now in any_time()) {
        let window = Window { kind: Allow, manual_sync: false, ..window };
        let lasts = SignedDuration::try_from(window.duration.0).unwrap();
        let zone = window.time_zone.as_deref().map_or(jiff::tz::TimeZone::UTC, |name| jiff::tz::TimeZone::get(name).unwrap());
        let plain = cronexpr::parse_crontab(&format!("{} UTC", window.schedule)).unwrap();
        let names = |clock: jiff::civil::DateTime| plain.matches(jiff::tz::TimeZone::UTC.to_timestamp(clock).unwrap()).unwrap();
        let mut expected = false;
        let mut minute = Timestamp::from_second((now.as_second() - lasts.as_secs()).div_euclid(60) * 60 - 60).unwrap();
        while minute <= now {
            let clock = zone.to_datetime(minute);
            let before = zone.to_datetime(minute - SignedDuration::from_mins(1));
            // Where the clock jumped, every minute that it left out counts here.
            let mut left_out = before + SignedDuration::from_mins(1);
            let mut starts = names(clock);
            while left_out < clock && left_out > before {
                starts |= names(left_out);
                left_out += SignedDuration::from_mins(1);
            }
            expected |= starts && now < minute + lasts;
            minute += SignedDuration::from_mins(1);
        }
        prop_assert_eq!(look(&[window], now, false).unwrap().open, expected);
    }
}
