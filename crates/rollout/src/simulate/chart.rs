//! A simulation as a chart for a terminal: the weight over time, and below it every metric.

use std::{fmt::Write as _, time::Duration};

use windlass_api::{analysis::Phase, duration::Duration as Span};

use super::story::{Measured, Simulation};

/// Eighths of a block, from nothing to all.
const BLOCKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Lines of the chart of the weight.
const HEIGHT: usize = 8;

/// The chart, so many columns wide beside the scale.
pub fn chart(simulation: &Simulation, width: usize) -> String {
    let width = width.clamp(16, 400);
    let end = simulation.moments.last().map_or(Duration::ZERO, |moment| moment.at);
    let mut text = format!("{}: share of the new version\n", simulation.rollout);
    let levels: Vec<f64> = (0..width)
        .map(|column| {
            let at = time(column, width, end);
            let moment = simulation.moments.iter().rev().find(|moment| moment.at <= at);
            f64::from(moment.map_or(0, |moment| moment.weight)) / 100.0
        })
        .collect();
    for line in (0..HEIGHT).rev() {
        let label = if line + 1 == HEIGHT {
            "100%"
        } else if line == HEIGHT / 2 {
            "50%"
        } else if line == 0 {
            "0%"
        } else {
            ""
        };
        let bar: String = levels.iter().map(|level| block(*level, line, HEIGHT)).collect();
        let _ = writeln!(text, "{label:>12} │{}", bar.trim_end());
    }
    let _ = writeln!(text, "{:>12} └{}", "", "─".repeat(width));
    text.push_str(&times(width, end));
    for metric in metrics(simulation) {
        text.push('\n');
        text.push_str(&values(simulation, &metric, width, end));
    }
    let _ = writeln!(text, "\n{}", simulation.outcome);
    text
}

/// Names of the metrics, in the order in which they were first measured.
pub(super) fn metrics(simulation: &Simulation) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for measured in simulation.moments.iter().flat_map(|moment| &moment.measured) {
        if !names.contains(&measured.metric) {
            names.push(measured.metric.clone());
        }
    }
    names
}

/// Measurements of a metric with their times.
pub(super) fn measured<'a>(simulation: &'a Simulation, metric: &str) -> Vec<(Duration, &'a Measured)> {
    let of_moment = |moment: &'a super::story::Moment| moment.measured.iter().map(move |it| (moment.at, it));
    simulation.moments.iter().flat_map(of_moment).filter(|(_, it)| it.metric == metric).collect()
}

/// A line of values and a line of verdicts.
fn values(simulation: &Simulation, metric: &str, width: usize, end: Duration) -> String {
    let measured = measured(simulation, metric);
    let numbers: Vec<f64> = measured.iter().filter_map(|(_, it)| it.number).collect();
    let (low, high) = bounds(&numbers);
    let (mut line, mut verdicts) = (vec![' '; width], vec![' '; width]);
    for (at, it) in &measured {
        let column = place(*at, width, end);
        if let Some(number) = it.number {
            let share = if high > low { (number - low) / (high - low) } else { 0.5 };
            line[column] = BLOCKS[1 + eighth(share * 7.0).min(7)];
        } else {
            line[column] = '·';
        }
        // Of several in one column the worst is shown.
        let mark = mark(it.phase);
        if verdicts[column] == ' ' || mark != '+' {
            verdicts[column] = mark;
        }
    }
    let shown = |letters: Vec<char>| letters.into_iter().collect::<String>().trim_end().to_owned();
    let scale = if numbers.is_empty() { "no numbers".to_owned() } else { format!("{low} … {high}") };
    format!(
        "{metric}: {scale}   (+ good, x bad, ? inconclusive, ! error)\n{:>12} │{}\n{:>12} │{}\n",
        "",
        shown(line),
        "",
        shown(verdicts)
    )
}

const fn mark(phase: Phase) -> char {
    match phase {
        Phase::Successful => '+',
        Phase::Failed => 'x',
        Phase::Error => '!',
        _ => '?',
    }
}

/// The least and the largest number.
pub(super) fn bounds(numbers: &[f64]) -> (f64, f64) {
    let low = numbers.iter().copied().fold(f64::INFINITY, f64::min);
    let high = numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if low.is_finite() && high.is_finite() { (low, high) } else { (0.0, 0.0) }
}

fn block(level: f64, line: usize, height: usize) -> char {
    let lines = u32::try_from(height).unwrap_or(1);
    let below = u32::try_from(line).unwrap_or(0);
    let filled = level.clamp(0.0, 1.0) * f64::from(lines) - f64::from(below);
    BLOCKS[eighth(filled.clamp(0.0, 1.0) * 8.0).min(8)]
}

/// A number that is known to be small and not negative, as an index.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is rounded and not negative")]
fn eighth(number: f64) -> usize {
    number.max(0.0).round() as usize
}

/// The time of a column.
fn time(column: usize, width: usize, end: Duration) -> Duration {
    let (column, width) = (u32::try_from(column).unwrap_or(0), u32::try_from(width.max(2)).unwrap_or(2));
    end.mul_f64(f64::from(column) / f64::from(width - 1))
}

/// The column of a time.
fn place(at: Duration, width: usize, end: Duration) -> usize {
    if end.is_zero() {
        return 0;
    }
    let columns = u32::try_from(width - 1).unwrap_or(1);
    eighth(at.as_secs_f64() / end.as_secs_f64() * f64::from(columns)).min(width - 1)
}

fn times(width: usize, end: Duration) -> String {
    let mut line = vec![' '; width + 1];
    for quarter in 0..=4_u32 {
        let at = end.mul_f64(f64::from(quarter) / 4.0);
        let label = Span(Duration::from_secs(at.as_secs())).to_string();
        let centre = place(at, width, end);
        let first = centre.saturating_sub(label.len() / 2).min((width + 1).saturating_sub(label.len()));
        for (index, letter) in label.chars().enumerate() {
            if let Some(cell) = line.get_mut(first + index) {
                *cell = letter;
            }
        }
    }
    format!("{:>13} {}\n", "", line.into_iter().collect::<String>().trim_end())
}
