//! A simulation as a table for people.

use std::fmt::Write as _;

use windlass_api::{duration::Duration as Span, rollout::status::Phase};

use super::story::{Moment, Simulation};

/// The whole page: what happened, how it ended, gaps, and what was assumed.
pub fn table(simulation: &Simulation) -> String {
    let headings = ["TIME", "STEP", "WEIGHT", "OLD", "NEW", "PHASE", "WHAT"].map(str::to_owned).to_vec();
    let mut rows = vec![headings];
    let mut message = None;
    for moment in &simulation.moments {
        rows.extend(self::rows(moment, &mut message));
    }
    let mut text = aligned(&rows);
    let _ = writeln!(text, "\n{}", simulation.outcome);
    text.push_str(&gaps(simulation));
    if !simulation.assumed.is_empty() {
        text.push_str("\nAssumed:\n");
        for line in &simulation.assumed {
            let _ = writeln!(text, "  {line}");
        }
    }
    text
}

/// One line for each thing that happened at a moment; the first has the numbers.
fn rows(moment: &Moment, message: &mut Option<String>) -> Vec<Vec<String>> {
    let mut what: Vec<String> = moment.decided.clone();
    for measured in &moment.measured {
        let value = if measured.value.is_empty() { "no value" } else { &measured.value };
        let why = if measured.message.is_empty() { String::new() } else { format!(": {}", measured.message) };
        what.push(format!("{} = {value}, {}{why}", measured.metric, measured.phase));
    }
    if moment.message != *message {
        // What an Event has just said is not said again.
        let news = moment.message.iter().filter(|text| !moment.decided.contains(text));
        what.extend(news.map(|text| format!("… {text}")));
        message.clone_from(&moment.message);
    }
    let mut first = vec![
        format!("+{}", Span(moment.at)),
        moment.step.clone().unwrap_or_else(|| "-".to_owned()),
        moment.weight.to_string(),
        moment.stable.to_string(),
        moment.canary.to_string(),
        moment.phase.map(word).unwrap_or_default().to_owned(),
    ];
    let mut what = what.into_iter();
    first.push(what.next().unwrap_or_default());
    let rest = what.map(|text| {
        let mut row = vec![String::new(); 6];
        row.push(text);
        row
    });
    std::iter::once(first).chain(rest).collect()
}

/// Measurements without data, by metric.
fn gaps(simulation: &Simulation) -> String {
    let mut text = String::new();
    let mut metrics: Vec<&str> = simulation.gaps.iter().map(|gap| gap.metric.as_str()).collect();
    metrics.sort_unstable();
    metrics.dedup();
    if !metrics.is_empty() {
        text.push_str("\nNo data:\n");
    }
    for metric in metrics {
        let of_metric: Vec<_> = simulation.gaps.iter().filter(|gap| gap.metric == metric).collect();
        let shown: Vec<String> =
            of_metric.iter().take(8).map(|gap| format!("+{} ({})", Span(gap.at), gap.phase)).collect();
        let more = if of_metric.len() > shown.len() { ", …" } else { "" };
        let _ = writeln!(text, "  {metric}: {} times: {}{more}", of_metric.len(), shown.join(", "));
    }
    text
}

pub(super) const fn word(phase: Phase) -> &'static str {
    match phase {
        Phase::Initializing => "Initializing",
        Phase::Progressing => "Progressing",
        Phase::Preview => "Preview",
        Phase::Paused => "Paused",
        Phase::Completed => "Completed",
        Phase::Failed => "Failed",
    }
}

fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        let _ = writeln!(text, "{}", cells.join("   ").trim_end());
    }
    text
}
