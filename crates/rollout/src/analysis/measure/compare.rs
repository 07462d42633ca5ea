//! The canary beside the baseline.

use std::{collections::BTreeMap, time::Duration};

use futures::future::try_join;
use jiff::Timestamp;
use serde_json::json;
use windlass_api::analysis::{Compare, CompareMethod, CompareSide, Direction, Phase};

use super::{
    EVIDENCE, Found, Question, Sample, Verdict,
    fault::Fault,
    prometheus::{Range, Servers},
};
use crate::analysis::{
    args::{WINDOW, fill},
    check,
    statistics::{Alternative, Counts, Evidence, mann_whitney, median},
};

const ALPHA: f64 = 0.05;
const STEP: Duration = Duration::from_secs(15);

/// Measures both sides and compares them.
pub(super) async fn measure(
    servers: Servers<'_>,
    compare: &Compare,
    question: &Question,
    now: Timestamp,
) -> Result<Found, Fault> {
    let alpha = compare.alpha.unwrap_or(ALPHA);
    if !(alpha > 0.0 && alpha < 1.0) {
        return Err(Fault::Spec("compare.alpha has to lie between 0 and 1. Write it like 0.05".to_owned()));
    }
    match compare.method {
        CompareMethod::MannWhitney => ranks(servers, compare, question, now, alpha).await,
        CompareMethod::SequentialProportion => shares(servers, compare, question, now, alpha).await,
    }
}

fn alternative(worse: Direction) -> Alternative {
    match worse {
        Direction::Higher => Alternative::Greater,
        Direction::Lower => Alternative::Less,
        Direction::Either => Alternative::TwoSided,
    }
}

/// Whether a difference is worse, and large enough to matter.
fn matters(effect: f64, least: f64, worse: Direction) -> bool {
    match worse {
        Direction::Higher => effect > 0.0 && effect >= least,
        Direction::Lower => effect < 0.0 && -effect >= least,
        Direction::Either => effect != 0.0 && effect.abs() >= least,
    }
}

/// Too few samples are no data.
fn too_few(what: &str, counts: (u64, u64), needed: u32) -> Option<Found> {
    let (canary, baseline) = counts;
    let few = canary.min(baseline) < u64::from(needed);
    few.then(|| Found {
        shown: Some(format!("canary {canary}, baseline {baseline} {what}")),
        note: format!(
            "The canary has {canary} and the baseline {baseline} {what}; {needed} of each are needed"
        ),
        ..Found::default()
    })
}

fn verdict(worse: bool, test: &str) -> Verdict {
    if worse {
        return Verdict::told(Phase::Failed, format!("The canary is worse than the baseline: {test}"));
    }
    Verdict::plain(Phase::Successful)
}

async fn ranks(
    servers: Servers<'_>,
    compare: &Compare,
    question: &Question,
    now: Timestamp,
    alpha: f64,
) -> Result<Found, Fault> {
    let span = |text: &Option<String>| match text.as_deref().filter(|text| !text.is_empty()) {
        None => Ok(None),
        Some(text) => check::time(text).map(Some).map_err(Fault::Spec),
    };
    let start = match span(&compare.lookback)? {
        Some(back) => now.checked_sub(back).unwrap_or(question.run_started),
        None => question.run_started.min(now),
    };
    let range = Range { start, end: now, step: span(&compare.step)?.unwrap_or(STEP) };
    let side = async |side: &CompareSide| {
        let query = side.query.as_deref().ok_or_else(|| {
            Fault::Spec("compare by MannWhitney needs canary.query and baseline.query".to_owned())
        })?;
        let query = windowed(query, start, now)?;
        Ok::<Vec<f64>, Fault>(match servers.query(&compare.server, &query, Some(range)).await?.sample {
            Sample::Number(number) => vec![number],
            Sample::Numbers(numbers) => numbers.into_iter().filter(|number| !number.is_nan()).collect(),
            Sample::Json(_) => Vec::new(),
        })
    };
    let (canary, baseline) = try_join(side(&compare.canary), side(&compare.baseline)).await?;
    let counts = (canary.len() as u64, baseline.len() as u64);
    if let Some(few) = too_few("samples", counts, compare.minimum_samples.unwrap_or(8)) {
        return Ok(few);
    }
    let Some(test) = mann_whitney(&canary, &baseline, alternative(compare.worse)) else {
        return Ok(Found::default());
    };
    let shown =
        format!("p {:.4}, effect {:.3}, {} and {} samples", test.p_value, test.effect, counts.0, counts.1);
    let least = compare.minimum_effect.unwrap_or(0.147);
    let worse = test.p_value < alpha && matters(test.effect, least, compare.worse);
    let sample = json!({
        "pValue": test.p_value, "effect": test.effect,
        "canarySamples": counts.0, "baselineSamples": counts.1,
        "canaryMedian": median(&canary), "baselineMedian": median(&baseline),
    });
    let own = Some(verdict(worse, &shown));
    Ok(Found { sample: Some(Sample::Json(sample)), shown: Some(shown), own, ..Found::default() })
}

async fn shares(
    servers: Servers<'_>,
    compare: &Compare,
    question: &Question,
    now: Timestamp,
    alpha: f64,
) -> Result<Found, Fault> {
    let side = async |side: &CompareSide| {
        let (Some(events), Some(total)) = (&side.events, &side.total) else {
            let what = "compare by SequentialProportion needs events and total for canary and baseline";
            return Err(Fault::Spec(what.to_owned()));
        };
        let (events, total) =
            (windowed(events, question.run_started, now)?, windowed(total, question.run_started, now)?);
        let asked =
            try_join(servers.number(&compare.server, &events), servers.number(&compare.server, &total))
                .await?;
        let total = rounded(asked.1.unwrap_or(0.0));
        Ok(Counts { events: rounded(asked.0.unwrap_or(0.0)).min(total), total })
    };
    let (canary, baseline) = try_join(side(&compare.canary), side(&compare.baseline)).await?;
    let alternative = alternative(compare.worse);
    let before = question.kept.get(EVIDENCE).and_then(|text| serde_json::from_str::<Evidence>(text).ok());
    let before =
        before.filter(|before| before.is_for(alternative)).unwrap_or_else(|| Evidence::new(alternative));
    let evidence = before.look(canary, baseline, alternative);
    let kept = serde_json::to_string(&evidence).map(|text| BTreeMap::from([(EVIDENCE.to_owned(), text)]));
    let kept = kept.unwrap_or_default();
    let counts = (evidence.first.total, evidence.second.total);
    if let Some(few) = too_few("requests", counts, compare.minimum_samples.unwrap_or(50)) {
        return Ok(Found { kept, ..few });
    }
    let effect = evidence.effect().unwrap_or(0.0);
    let share = |counts: Counts| counts.share().unwrap_or(0.0) * 100.0;
    let shown = format!(
        "canary {:.3} % of {}, baseline {:.3} % of {}, evidence {:.3}",
        share(evidence.first),
        counts.0,
        share(evidence.second),
        counts.1,
        evidence.e_value()
    );
    let worse = evidence.e_value() >= 1.0 / alpha
        && matters(effect, compare.minimum_effect.unwrap_or(0.0), compare.worse);
    let sample = json!({
        "eValue": evidence.e_value(), "pValue": evidence.p_value(), "effect": effect,
        "canaryShare": evidence.first.share(), "baselineShare": evidence.second.share(),
        "canaryTotal": counts.0, "baselineTotal": counts.1,
    });
    let own = Some(verdict(worse, &shown));
    Ok(Found { sample: Some(Sample::Json(sample)), shown: Some(shown), own, kept, ..Found::default() })
}

/// The query with the time since `start` in the place of `{{window}}`: at least a second.
fn windowed(query: &str, start: Timestamp, now: Timestamp) -> Result<String, Fault> {
    let seconds = now.as_second().saturating_sub(start.as_second()).max(1);
    fill(query, &|tag| (tag == WINDOW).then(|| format!("{seconds}s")))
        .map_err(|tag| Fault::Spec(format!("{{{{{tag}}}}} is not known in compare. Use {{{{window}}}}")))
}

/// `increase()` gives fractions, since it looks between scrapes.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast saturates, below at zero"
)]
fn rounded(number: f64) -> u64 {
    if number.is_finite() { number.round().max(0.0) as u64 } else { 0 }
}
