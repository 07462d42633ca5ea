use std::sync::atomic::{AtomicU32, Ordering};

use http::{HeaderMap, HeaderValue, StatusCode};
use serde_json::json;

use super::{error::Hidden, *};

fn answer(code: u16, body: &Value) -> ApplyError {
    let status = StatusCode::from_u16(code).unwrap();
    ApplyError::from_answer(status, &HeaderMap::new(), body.to_string().as_bytes(), &Hidden::default())
}

#[test]
fn a_conflict_names_fields_and_managers() {
    let error = answer(
        409,
        &json!({"kind": "Status", "code": 409, "reason": "Conflict", "message": "Apply failed with 1 conflict",
            "details": {"causes": [{"reason": "FieldManagerConflict",
                "message": "conflict with \"kubectl-edit\" using apps/v1", "field": ".spec.replicas"}]}}),
    );
    let ApplyError::Conflict { fields } = &error else { panic!("{error:?}") };
    assert_eq!(fields, &[FieldConflict { field: ".spec.replicas".into(), manager: "kubectl-edit".into() }]);
    assert!(!error.is_retryable());
    assert!(error.to_string().contains(".spec.replicas is owned by \"kubectl-edit\""), "{error}");
}

#[test]
fn answers_fall_into_their_categories() {
    let status =
        |message: &str| json!({"kind": "Status", "message": message, "details": {"kind": "configmaps"}});
    let terminating = json!({"kind": "Status", "message": "forbidden because it is being terminated",
        "details": {"causes": [{"reason": "NamespaceTerminating"}]}});
    let cases: &[(u16, Value, &str, bool)] = &[
        (400, status("strict decoding error: unknown field \"spec.foo\""), "UnknownField", false),
        (
            500,
            status(
                "failed to create typed patch object (a/b; apps/v1, Kind=Deployment): .spec.foo: field not declared in schema",
            ),
            "UnknownField",
            false,
        ),
        (
            500,
            status(
                "failed to create typed patch object (a/b; v1, Kind=ConfigMap): .data: expected map, got &{x}",
            ),
            "Invalid",
            false,
        ),
        (500, status("etcdserver: leader changed"), "Transient", true),
        (
            500,
            status("Internal error occurred: failed calling webhook \"a.b\": connection refused"),
            "Transient",
            true,
        ),
        (401, status("Unauthorized"), "Unauthorized", false),
        (403, status("configmaps is forbidden: User \"x\" cannot patch"), "Forbidden", false),
        (403, status("configmaps \"a\" is forbidden: exceeded quota: q, requested: count=1"), "Quota", true),
        (403, terminating, "Terminating", true),
        (403, status("admission webhook \"p.example.org\" denied the request: no"), "Denied", false),
        (400, status("admission webhook \"p.example.org\" denied the request: no"), "Denied", false),
        (
            422,
            status(
                "configmaps \"a\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no",
            ),
            "Denied",
            false,
        ),
        (404, json!("404 page not found"), "UnknownKind", true),
        (404, status("namespaces \"a\" not found"), "NotFound", true),
        (409, status("the object has been modified"), "Modified", true),
        (413, status("too large"), "TooLarge", false),
        (422, status("invalid"), "Invalid", false),
        (429, status("too many requests"), "Transient", true),
        (503, json!("<html>busy</html>"), "Transient", true),
        (302, json!(""), "Other", false),
    ];
    for (code, body, category, retryable) in cases {
        let error = answer(*code, body);
        assert_eq!((error.category(), error.is_retryable()), (*category, *retryable), "{code} {body}");
    }
}

#[test]
fn unknown_fields_are_named() {
    let named = |code, message: &str| match answer(code, &json!({"message": message})) {
        ApplyError::UnknownField { field, .. } => field,
        other => panic!("{other:?}"),
    };
    let long = "failed to create typed patch object (x/y; apps/v1, Kind=Deployment): .spec.foo: field not declared in schema";
    assert_eq!(named(500, long), ".spec.foo");
    let two = "failed to create typed patch object (x/y; apps/v1, Kind=Deployment): errors:\n  .spec.foo: field not declared in schema\n  .spec.bar: field not declared in schema";
    assert_eq!(named(500, two), ".spec.foo");
    assert_eq!(
        named(
            400,
            "X in version \"v1\" cannot be handled: strict decoding error: unknown field \"spec.foo\""
        ),
        "spec.foo"
    );
}

#[test]
fn retry_after_comes_from_the_header_or_the_body_and_is_bounded() {
    let with = |header: Option<&'static str>, body: Value| {
        let mut headers = HeaderMap::new();
        if let Some(value) = header {
            headers.insert("retry-after", HeaderValue::from_static(value));
        }
        let body = body.to_string();
        ApplyError::from_answer(StatusCode::TOO_MANY_REQUESTS, &headers, body.as_bytes(), &Hidden::default())
            .retry_after()
            .map(|time| time.as_secs())
    };
    assert_eq!(with(Some("3"), json!({})), Some(3));
    assert_eq!(with(None, json!({"details": {"retryAfterSeconds": 4}})), Some(4));
    assert_eq!(with(Some("86400"), json!({})), Some(30));
    assert_eq!(with(None, json!({"details": {"retryAfterSeconds": 86400}})), Some(30));
    assert_eq!(with(None, json!({})), None);
}

#[test]
fn values_of_a_secret_are_hidden_in_every_form() {
    let secret = json!({"kind": "Secret", "data": {"a": "Y2FuYXJ5LXBsYWlu", "n": 987_654},
        "stringData": {"b": "canary \"quoted\"\nline", "short": "x"}});
    let hidden = Hidden::of(&secret);
    let message = r#"bad: Y2FuYXJ5LXBsYWlu canary-plain 987654 "canary \"quoted\"\nline" x of Secret"#;
    let body = json!({"message": message, "details": {"causes": [{"field": "data.a", "message": message}]}});
    let error = ApplyError::from_answer(
        StatusCode::UNPROCESSABLE_ENTITY,
        &HeaderMap::new(),
        body.to_string().as_bytes(),
        &hidden,
    );
    let text = format!("{error} {error:?}");
    for value in ["Y2FuYXJ5", "canary", "987654"] {
        assert!(!text.contains(value), "{value} in {text}");
    }
    assert!(text.contains("x of Secret"), "{text}");
    assert!(Hidden::of(&json!({"kind": "ConfigMap", "data": {"a": "visible"}})).is_empty());
}

#[test]
fn a_long_message_is_cut_between_characters() {
    let error = answer(422, &json!({"message": "ä".repeat(5000)}));
    let ApplyError::Invalid { message, .. } = error else { panic!() };
    assert!(message.len() < 2100 && message.ends_with('…'));
}

#[test]
fn names_that_would_reach_another_path_are_refused() {
    for name in ["", ".", "..", "a/b", "../secrets/x", "a%2fb", "a?force=true", "a#b", "a b", "a\nb"] {
        assert_eq!(check_name(name).unwrap_err().category(), "Invalid", "{name:?}");
    }
    for name in ["a", "system:node", "a.b-c", "v1.apps"] {
        assert!(check_name(name).is_ok(), "{name:?}");
    }
}

#[test]
fn what_is_sent_has_neither_managed_fields_nor_last_applied() {
    let object =
        json!({"metadata": {"managedFields": [{}], "annotations": {LAST_APPLIED: "{}", "keep": "1"}}});
    assert_eq!(body(&object).unwrap(), json!({"metadata": {"annotations": {"keep": "1"}}}));
}

#[tokio::test(start_paused = true)]
async fn transient_failures_are_repeated_and_others_are_not() {
    let busy = |after| ApplyError::Transient { code: 429, message: String::new(), retry_after: after };
    let tries = AtomicU32::new(0);
    let start = tokio::time::Instant::now();
    let result = retrying(Retries::default(), || async {
        match tries.fetch_add(1, Ordering::SeqCst) {
            0 => Err(busy(Some(Duration::from_secs(2)))),
            1 => Err(busy(None)),
            _ => Ok(7),
        }
    })
    .await;
    assert_eq!(result.unwrap(), 7);
    assert!(start.elapsed() >= Duration::from_secs(2));

    let count = |error: fn() -> ApplyError| async move {
        let tries = AtomicU32::new(0);
        let result: Result<(), _> = retrying(Retries::default(), || async {
            tries.fetch_add(1, Ordering::SeqCst);
            Err(error())
        })
        .await;
        assert!(result.is_err());
        tries.into_inner()
    };
    assert_eq!(count(|| ApplyError::Unauthorized).await, 1);
    assert_eq!(
        count(|| ApplyError::Transient { code: 503, message: String::new(), retry_after: None }).await,
        3
    );
    let far = || ApplyError::Transient { code: 503, message: String::new(), retry_after: Some(MAX_WAIT) };
    assert_eq!(count(far).await, 1, "a long wait is the caller's to plan");
}

const MAX_WAIT: Duration = Duration::from_secs(30);
