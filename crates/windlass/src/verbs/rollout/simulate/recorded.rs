//! What a Prometheus has recorded: each query of the rollout's metrics, asked over a range.

use std::time::Duration;

use jiff::Timestamp;
use serde::Deserialize;
use windlass_rollout::{
    analysis::check,
    simulate::{Scenario, Series, Source, series::Cell, simulate},
};

use crate::{cli, error::CommandError};

/// Prometheus gives so many values of a series at most.
const MOST: u64 = 10_000;

/// Distance of two values where the metric says nothing.
const STEP: Duration = Duration::from_secs(15);

/// Longest wait for an answer, and the largest one.
const PATIENCE: Duration = Duration::from_secs(60);
const LARGEST: usize = 64 << 20;

#[derive(Deserialize)]
struct Envelope {
    status: String,
    #[serde(default)]
    error: Option<String>,
    #[serde(default)]
    data: Option<Data>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Data {
    result_type: String,
    result: Vec<Found>,
}

#[derive(Deserialize)]
struct Found {
    #[serde(default)]
    values: Vec<(f64, String)>,
}

/// Asks for everything that the rollout would measure if all went well.
pub(super) fn fetch(address: &str, scenario: &Scenario, end: Timestamp) -> Result<Series, CommandError> {
    if end <= scenario.start {
        return Err(CommandError::usage("--end is not after --start"));
    }
    // Which queries there are, and with which arguments, is known once the rollout has been gone through.
    let rehearsal =
        Scenario { source: Source::Good, promote_after: Some(Duration::ZERO), ..scenario.clone() };
    let wanted = simulate(&rehearsal).map_err(|error| super::refused(&error))?.wanted;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| CommandError::failure("cannot start the runtime").because(error))?;
    runtime.block_on(async {
        let client = reqwest::Client::builder()
            .timeout(PATIENCE)
            .build()
            .map_err(|error| CommandError::failure("cannot set up HTTP").because(error))?;
        let mut series = Series::default();
        for (metric, wanted) in wanted {
            if wanted.other {
                return Err(CommandError::failure(format!(
                    "the metric {metric} is no plain query to Prometheus"
                ))
                .hint("Give its values with --series."));
            }
            let step = step(wanted.interval.as_deref(), scenario.start, end);
            for query in wanted.queries {
                if series.column("", Some(&query)).is_none() {
                    cli::note(&format!("asking for {metric}: {query}"));
                    let answer = ask(&client, address, &query, (scenario.start, end, step)).await?;
                    record(&mut series, &query, &answer, (scenario.start, end, step));
                }
            }
        }
        Ok(series)
    })
}

/// As often as it is measured, but no more values than Prometheus gives.
fn step(interval: Option<&str>, start: Timestamp, end: Timestamp) -> Duration {
    let wanted = interval.and_then(|text| check::time(text).ok()).filter(|step| !step.is_zero());
    let length = Duration::try_from(end.duration_since(start)).unwrap_or_default();
    let least = Duration::from_secs(length.as_secs().div_ceil(MOST).max(1));
    wanted.unwrap_or(STEP).min(STEP).max(least)
}

async fn ask(
    client: &reqwest::Client,
    address: &str,
    query: &str,
    (start, end, step): (Timestamp, Timestamp, Duration),
) -> Result<Vec<Found>, CommandError> {
    let url = format!("{}/api/v1/query_range", address.trim_end_matches('/'));
    let failed = |what: &str| CommandError::failure(format!("cannot ask Prometheus for `{query}`: {what}"));
    let form = [
        ("query", query.to_owned()),
        ("start", start.as_second().to_string()),
        ("end", end.as_second().to_string()),
        ("step", step.as_secs().max(1).to_string()),
    ];
    let mut answer =
        client.post(url).form(&form).send().await.map_err(|error| failed("no answer").because(error))?;
    let code = answer.status();
    let mut bytes = Vec::new();
    while let Some(chunk) = answer.chunk().await.map_err(|error| failed("it broke off").because(error))? {
        bytes.extend_from_slice(&chunk);
        if bytes.len() > LARGEST {
            return Err(
                failed("the answer is too large").hint("Aggregate in the query, or take a shorter range.")
            );
        }
    }
    let envelope: Envelope = serde_json::from_slice(&bytes).map_err(|_| {
        failed(&format!("the answer ({code}) is not what Prometheus says")).hint("Check the address.")
    })?;
    match envelope.data {
        Some(data) if envelope.status == "success" && data.result_type == "matrix" => Ok(data.result),
        _ => Err(failed(&envelope.error.unwrap_or_else(|| format!("it refused ({code})")))),
    }
}

/// One value for each step: all series of the answer side by side, or a gap.
fn record(
    series: &mut Series,
    query: &str,
    found: &[Found],
    (start, end, step): (Timestamp, Timestamp, Duration),
) {
    let mut at = start;
    let mut places = vec![0_usize; found.len()];
    while at <= end {
        let mut numbers = Vec::new();
        for (place, one) in places.iter_mut().zip(found) {
            while one.values.get(*place).is_some_and(|(time, _)| seconds(*time) < at.as_second()) {
                *place += 1;
            }
            if let Some((time, text)) = one.values.get(*place)
                && seconds(*time) == at.as_second()
                && let Some(number) = number(text)
            {
                numbers.push(number);
            }
        }
        series.push(query.trim(), at, if numbers.is_empty() { Cell::Gap } else { Cell::Numbers(numbers) });
        match at.checked_add(step) {
            Ok(next) => at = next,
            Err(_) => return,
        }
    }
}

#[allow(
    clippy::cast_possible_truncation,
    reason = "a time of Unix is far below the limit, and the cast saturates"
)]
fn seconds(time: f64) -> i64 {
    time.round() as i64
}

fn number(text: &str) -> Option<f64> {
    match text {
        "+Inf" => Some(f64::INFINITY),
        "-Inf" => Some(f64::NEG_INFINITY),
        text => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_become_a_column_with_gaps_where_nothing_was_recorded() {
        let start: Timestamp = "2026-03-01T10:00:00Z".parse().unwrap();
        let end = start + Duration::from_secs(45);
        let first = start.as_duration().as_secs_f64();
        let values = |values: &[(f64, &str)]| Found {
            values: values.iter().map(|(at, text)| (first + at, (*text).to_owned())).collect(),
        };
        let found = [values(&[(0.0, "0.5"), (30.0, "NaN")]), values(&[(30.0, "+Inf")])];
        let mut series = Series::default();
        series.stale_after = Duration::from_secs(60);
        record(&mut series, "up", &found, (start, end, STEP));
        let column = series.column("metric", Some("up")).unwrap();
        assert_eq!(series.at(column, start), Cell::Numbers(vec![0.5]));
        assert_eq!(series.at(column, start + STEP), Cell::Gap);
        let Cell::Numbers(numbers) = series.at(column, start + 2 * STEP) else { panic!("{column:?}") };
        assert!(numbers[0].is_nan() && numbers[1].is_infinite());
        assert_eq!(series.at(column, end), Cell::Gap);
    }

    #[test]
    fn a_long_range_is_asked_for_with_a_longer_step() {
        let start: Timestamp = "2026-03-01T10:00:00Z".parse().unwrap();
        assert_eq!(step(Some("5s"), start, start + Duration::from_secs(3600)), Duration::from_secs(5));
        assert_eq!(step(Some("5m"), start, start + Duration::from_secs(3600)), STEP);
        assert_eq!(step(None, start, start + Duration::from_secs(864_000)), Duration::from_secs(87));
    }
}
