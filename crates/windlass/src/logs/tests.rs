use std::{
    io::Write,
    sync::{Arc, Mutex},
};

use serde_json::Value;
use tracing::{debug, error, info, info_span, trace, warn};

use super::*;

#[derive(Clone, Default)]
struct Captured(Arc<Mutex<Vec<u8>>>);

impl Write for Captured {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn log(format: LogFormat, filter: &str, act: impl FnOnce()) -> String {
    let captured = Captured::default();
    let writer = captured.clone();
    let filter = EnvFilter::try_new(filter).unwrap();
    tracing::subscriber::with_default(subscriber(format, filter, false, move || writer.clone()), act);
    let bytes = captured.0.lock().unwrap().clone();
    String::from_utf8(bytes).unwrap()
}

#[derive(Debug, thiserror::Error)]
#[error("outer")]
struct Outer(#[source] io::Error);

#[test]
fn a_line_has_time_level_target_fields_causes_and_the_reconcile() {
    let text = log(LogFormat::Json, "info", || {
        let span = info_span!("reconcile", controller = "cluster", object = "a", id = 7);
        let _in = span.enter();
        let error = Outer(io::Error::other("inner"));
        warn!(error = &error as &dyn std::error::Error, count = 3, name = "x", time = "mine", "went wrong");
    });
    let line: Value = serde_json::from_str(&text).unwrap();
    assert!(line["time"].as_str().unwrap().parse::<jiff::Timestamp>().is_ok(), "{line}");
    assert_eq!(line["level"], "warn");
    assert_eq!(line["target"], "windlass::logs::tests");
    assert_eq!(line["message"], "went wrong");
    assert_eq!(
        (&line["count"], &line["name"], &line["field.time"]),
        (&3.into(), &"x".into(), &"mine".into())
    );
    assert_eq!((&line["error"], &line["error.causes"][0]), (&"outer".into(), &"inner".into()));
    let span = &line["span"];
    assert_eq!(
        (&span["name"], &span["controller"], &span["id"]),
        (&"reconcile".into(), &"cluster".into(), &7.into())
    );
}

#[test]
fn text_has_the_reconcile_and_the_causes_too() {
    let text = log(LogFormat::Text, "info", || {
        let _in = info_span!("reconcile", object = "a", id = 7).entered();
        let error = Outer(io::Error::other("inner"));
        info!(error = &error as &dyn std::error::Error, "went on");
    });
    for part in
        [" INFO windlass::logs::tests reconcile{object=\"a\" id=7}: went on", "\"outer\"", "[\"inner\"]"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn the_filter_is_followed() {
    let text = log(LogFormat::Json, "warn,windlass=debug", || {
        debug!("shown");
        trace!("hidden");
        info!(target: "other", "hidden");
    });
    assert!(text.contains("shown") && !text.contains("hidden"), "{text}");
    assert!(check("info,windlass=debug").is_ok());
    assert!(check("windlass=loud").is_err());
}

/// Bodies of API servers may be Secrets: no filter may bring them into the log.
#[test]
fn no_filter_lifts_the_caps() {
    for filter in [
        "trace",
        "kube_client::client=trace",
        "kube_client=trace,kube_client::client=warn",
        "kube_client::client::body=trace",
        "[reconcile]=trace",
        "[reconcile{id=7}]=trace,trace",
        "hyper=trace,hyper_util=trace,h2=trace,rustls=trace,tower_http=trace",
    ] {
        for format in [LogFormat::Json, LogFormat::Text] {
            let text = log(format, filter, || {
                let _in = info_span!("reconcile", id = 7).entered();
                warn!(target: "kube_client::client", "planted-canary");
                debug!(target: "kube_client::client", "planted-canary");
                info!(target: "kube_client::client::body", "planted-canary");
                debug!(target: "kube_runtime::watcher", "planted-canary");
                debug!(target: "hyper::proto", "planted-canary");
                debug!(target: "hyper_util::client", "planted-canary");
                trace!(target: "h2::codec", "planted-canary");
                trace!(target: "rustls::client", "planted-canary");
                error!(target: "tower_http", "planted-canary");
                error!(target: "windlass", "harmless-line");
            });
            assert!(!text.contains("planted-canary"), "{filter}: {text}");
        }
    }
}

#[test]
fn a_module_with_a_longer_name_is_not_capped() {
    let text = log(LogFormat::Json, "trace", || trace!(target: "h2o", "harmless-line"));
    assert!(text.contains("harmless-line"), "{text}");
}

#[derive(Debug, thiserror::Error)]
#[error("cannot read it: {0}")]
struct Quoting(#[source] serde_json::Error);

#[test]
fn a_decoding_error_is_told_without_what_could_not_be_decoded() {
    let decode = || serde_json::from_str::<Vec<u8>>("\n\"planted-canary\"").unwrap_err();
    for format in [LogFormat::Json, LogFormat::Text] {
        let text = log(format, "trace", || {
            warn!(error = &decode() as &dyn std::error::Error, "plain");
            warn!(error = &Quoting(decode()) as &dyn std::error::Error, "wrapped");
            warn!(error = &kube::Error::SerdeError(decode()) as &dyn std::error::Error, "as kube does");
            warn!(error = %kube::Error::SerdeError(decode()), "as text");
            warn!(error = ?kube::Error::SerdeError(decode()), "for debugging");
            warn!("in the message: {}", decode());
            let odd = serde_json::from_str::<Vec<u8>>(r#"{"planted-canary, expected x": 1}"#).unwrap_err();
            warn!(error = &odd as &dyn std::error::Error, "with what ends a quote inside");
        });
        assert_eq!(text.lines().count(), 7, "{text}");
        assert!(!text.contains("planted-canary"), "{text}");
        assert!(text.contains("expected a sequence at line 2"), "the place is told: {text}");
    }
}
