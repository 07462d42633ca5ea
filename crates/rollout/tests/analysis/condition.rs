use serde_json::{Value, json};
use windlass_api::analysis::{Metric, NoData, Phase};
use windlass_rollout::analysis::condition::{Sample, Verdict, check, judge};

fn metric(success: &str, failure: &str) -> Metric {
    Metric {
        success_condition: (!success.is_empty()).then(|| success.to_owned()),
        failure_condition: (!failure.is_empty()).then(|| failure.to_owned()),
        ..Metric::default()
    }
}

fn says(condition: &str, result: &Sample) -> bool {
    let verdict = judge(&metric(condition, ""), result, None);
    assert_ne!(verdict.phase, Phase::Error, "{condition}: {}", verdict.message);
    verdict.phase == Phase::Successful
}

#[test]
fn conditions_that_users_of_argo_rollouts_write_are_understood() {
    let vector = Sample::Numbers(vec![0.97, 3.0]);
    for condition in [
        "result[0] >= 0.95",
        "result[1] >= 1",
        "result[1] == 3",
        "len(result) == 2",
        "len(result) > 0 and result[0] > 0.9",
        "not isNaN(result[0]) or false",
        "!isInf(result[0])",
        "asInt(result[1]) == 3 && asFloat(\"0.5\") < result[0]",
        "default(result, 0) != nil",
        "result != nil",
        "all(result, {# > 0.5})",
        "all(result, # > 0.5)",
        "any(result, {# >= 3})",
        "none(result, {# > 3})",
        "count(result, {# > 1}) == 1",
        "result.all(x, x > 0.5)",
        "(result[0] * 100) / 2 > 48",
        "result[0] * 100 - 90 > len(result)",
        "1 / 2 == 0.5",
        "result[len(result) - 1] == 3.0",
    ] {
        assert!(says(condition, &vector), "{condition}");
    }
    let web = Sample::Json(
        json!({ "code": 200, "text": "all is well", "ok": true, "data": { "rate": 0.5, "items": [
        { "value": 1 }, { "value": 4 } ] } }),
    );
    for condition in [
        "result.code == 200 && result.text contains \"well\"",
        "result.ok",
        "result.text matches \"^all\" and result.text startsWith 'all'",
        "(result.code - 100) * 2 / 100 == 2",
        "result.data.rate in [0.5, 1.0]",
        "all(result.data.items, {.value > 0})",
        "any(result.data.items, {#.value == 4})",
        "result.data.missing == nil || true",
    ] {
        assert!(says(condition, &web), "{condition}");
    }
    assert!(says("result == nil", &Sample::Json(Value::Null)));
    assert!(says("default(result, 5) == 5", &Sample::Json(Value::Null)));
}

#[test]
fn a_condition_that_cannot_be_taken_is_named_with_what_to_write_instead() {
    for (condition, told) in [
        ("result[0] ??  1 > 2", "default(a, b)"),
        ("result[0] ** 2 > 2", "a * a"),
        ("result[0] >", "cannot be read"),
        ("result[0]", "instead of true or false"),
        ("unknown > 1", "not known"),
        ("result[7] > 1", "fewer values"),
        ("result.all(x, result.all(y, x > y))", "loop within a loop"),
    ] {
        let verdict = judge(&metric(condition, ""), &Sample::Numbers(vec![1.0]), None);
        assert_eq!(verdict.phase, Phase::Error, "{condition}");
        assert!(verdict.message.contains(told), "{condition}: {}", verdict.message);
        assert!(verdict.message.contains(condition), "{condition}: {}", verdict.message);
    }
    let deep = format!("{}true{}", "(".repeat(3000), ")".repeat(3000));
    assert!(check(&deep).unwrap_err().contains("brackets"));
}

#[test]
fn two_conditions_leave_room_for_a_third_verdict() {
    let judged = |success: &str, failure: &str, value: f64| {
        judge(&metric(success, failure), &Sample::Number(value), None).phase
    };
    assert_eq!(judged("result > 0.9", "result < 0.5", 0.95), Phase::Successful);
    assert_eq!(judged("result > 0.9", "result < 0.5", 0.1), Phase::Failed);
    assert_eq!(judged("result > 0.9", "result < 0.5", 0.7), Phase::Inconclusive);
    assert_eq!(judged("result > 0.9", "", 0.7), Phase::Failed);
    assert_eq!(judged("", "result < 0.5", 0.7), Phase::Successful);
    assert_eq!(judged("", "", 0.7), Phase::Successful);
    assert_eq!(judged("result > 0.2", "result < 0.5", 0.3), Phase::Failed, "a failure outweighs");
}

#[test]
fn missing_data_is_never_silently_a_success() {
    let empty = [
        Sample::Numbers(vec![]),
        Sample::Numbers(vec![f64::NAN]),
        Sample::Number(f64::NAN),
        Sample::Json(Value::Null),
        Sample::Json(json!([])),
    ];
    for result in &empty {
        for (success, failure) in [("result[0] < 5", ""), ("", "result[0] > 5"), ("", "")] {
            let plain = metric(success, failure);
            assert_eq!(judge(&plain, result, None).phase, Phase::Inconclusive, "{result:?}");
            let strict = Metric { no_data: Some(NoData::Failure), ..plain.clone() };
            assert_eq!(judge(&strict, result, None).phase, Phase::Failed);
            let lax = Metric { no_data: Some(NoData::Success), ..plain };
            assert_eq!(judge(&lax, result, None).phase, Phase::Successful);
        }
    }
    let careful = metric("len(result) == 0 || result[0] < 5", "");
    assert_eq!(judge(&careful, &empty[0], None).phase, Phase::Successful, "the condition deals with it");
    let careful = metric("isNaN(result[0]) || result[0] < 5", "");
    assert_eq!(judge(&careful, &empty[1], None).phase, Phase::Successful);
}

#[test]
fn a_provider_with_a_verdict_of_its_own_is_heard_unless_there_is_a_condition() {
    let own = || Some(Verdict::told(Phase::Failed, "too fast"));
    assert_eq!(judge(&metric("", ""), &Sample::Number(1.0), own()).message, "too fast");
    assert_eq!(judge(&metric("result < 2", ""), &Sample::Number(1.0), own()).phase, Phase::Successful);
}

#[test]
fn numbers_are_shown_as_prometheus_writes_them() {
    assert_eq!(Sample::Numbers(vec![1.0, 0.25, f64::NAN, f64::INFINITY]).shown(), "[1,0.25,NaN,+Inf]");
    assert_eq!(Sample::Json(json!({"a": 1})).shown(), "{\"a\":1}");
}
