//! How fast the error budget of an objective is used up, over pairs of windows, after the workbook of Google's SREs.

use futures::future::try_join_all;
use serde_json::json;
use windlass_api::analysis::{Phase, SloBurnRate, Window};

use super::{Found, Sample, Verdict, fault::Fault, prometheus::Servers};
use crate::analysis::{
    args::{WINDOW, fill},
    check,
};

/// Measures over all pairs of windows.
pub(super) async fn measure(servers: Servers<'_>, slo: &SloBurnRate) -> Result<Found, Fault> {
    if !(slo.objective > 0.0 && slo.objective < 100.0) {
        return Err(Fault::Spec(
            "sloBurnRate.objective has to lie between 0 and 100. Write it like 99.9".to_owned(),
        ));
    }
    let windows = if slo.windows.is_empty() { usual() } else { slo.windows.clone() };
    let rates = try_join_all(windows.iter().map(async |window| {
        let (long, short) = (burn_rate(servers, slo, &window.long), burn_rate(servers, slo, &window.short));
        futures::future::try_join(long, short).await
    }))
    .await?;
    let mut told = Vec::new();
    let (mut too_fast, mut rows, mut worst) = (Vec::new(), Vec::new(), 0.0_f64);
    for (window, (long, short)) in windows.iter().zip(rates) {
        let (Some(long), Some(short)) = (long, short) else {
            return Ok(Found {
                note: format!("There was no request in {} or {}", window.long, window.short),
                ..Found::default()
            });
        };
        let text =
            format!("{}: {long:.2}, {}: {short:.2} (limit {})", window.long, window.short, window.burn_rate);
        if long > window.burn_rate && short > window.burn_rate {
            too_fast.push(text.clone());
        }
        worst = worst.max(long.min(short) / window.burn_rate.max(f64::MIN_POSITIVE));
        rows.push(json!({ "long": long, "short": short, "limit": window.burn_rate }));
        told.push(text);
    }
    let own = if too_fast.is_empty() {
        Verdict::plain(Phase::Successful)
    } else {
        Verdict::told(Phase::Failed, format!("The error budget burns too fast. {}", too_fast.join("; ")))
    };
    Ok(Found {
        sample: Some(Sample::Json(json!({ "worst": worst, "windows": rows }))),
        shown: Some(told.join("; ")),
        own: Some(own),
        ..Found::default()
    })
}

/// The windows that the workbook recommends for paging.
fn usual() -> Vec<Window> {
    let window =
        |long: &str, short: &str, burn_rate| Window { long: long.into(), short: short.into(), burn_rate };
    vec![window("1h", "5m", 14.4), window("6h", "30m", 6.0)]
}

/// How many times as fast as allowed the budget is used up; `None` without requests.
async fn burn_rate(servers: Servers<'_>, slo: &SloBurnRate, window: &str) -> Result<Option<f64>, Fault> {
    check::time(window).map_err(Fault::Spec)?;
    let query = |text: &str| {
        fill(text, &|tag| (tag == WINDOW).then(|| window.to_owned())).map_err(|tag| {
            Fault::Spec(format!("{{{{{tag}}}}} is not known in sloBurnRate. Use {{{{window}}}}"))
        })
    };
    let ratio = match (&slo.error_ratio_query, &slo.error_query, &slo.total_query) {
        (Some(ratio), _, _) => servers.number(&slo.server, &query(ratio)?).await?,
        (None, Some(errors), Some(total)) => {
            let (errors, total) = (query(errors)?, query(total)?);
            let asked = futures::future::try_join(
                servers.number(&slo.server, &errors),
                servers.number(&slo.server, &total),
            );
            match asked.await? {
                // No series of errors at all is no error, as long as there are requests.
                (errors, Some(total)) if total > 0.0 => Some(errors.unwrap_or(0.0) / total),
                _ => None,
            }
        }
        _ => {
            return Err(Fault::Spec(
                "sloBurnRate needs errorRatioQuery, or errorQuery and totalQuery".to_owned(),
            ));
        }
    };
    Ok(ratio.map(|ratio| ratio / (1.0 - slo.objective / 100.0)))
}
