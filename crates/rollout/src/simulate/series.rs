//! Series that measurements are replayed from: a table with a column of times and a column for each metric, or answers to
//! range queries.
//!
//! A value holds from its time until the next row, but no longer than [`Series::stale_after`]. An empty cell is a gap: it
//! is told, and counts as no data.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use windlass_api::analysis::Phase;

use crate::analysis::check;

/// What was measured at a time.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Nothing.
    Gap,
    /// Numbers: one for each series that the query found.
    Numbers(Vec<f64>),
    /// The verdict itself, whatever the conditions say.
    Verdict(Phase),
}

/// Columns of values over time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// By name of the metric, or by query; times ascend.
    columns: BTreeMap<String, Vec<(Timestamp, Cell)>>,
    /// So long a value holds.
    pub stale_after: Duration,
}

/// How long a value holds where nothing else is said: as long as Prometheus looks back.
pub const STALE_AFTER: Duration = Duration::from_secs(300);

/// Why a table cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SeriesError {
    /// There is nothing in it.
    #[error("the table is empty: the first line names the columns, the first column is the time")]
    Empty,
    /// There is only a column of times.
    #[error("the table has no column beside the time: name one for each metric")]
    NoColumn,
    /// A cell is no time.
    #[error("line {line}: `{text}` is no time: write seconds, 1m30s or 2030-01-01T00:00:00Z")]
    Time {
        /// The line, from 1.
        line: usize,
        /// What stands there.
        text: String,
    },
    /// Times do not ascend.
    #[error("line {line}: the times do not ascend")]
    Order {
        /// The line, from 1.
        line: usize,
    },
    /// A cell is no number.
    #[error(
        "line {line}, column {column}: `{text}` is no number: write numbers with ; between them, NaN, a phase such as Failed, or nothing for a gap"
    )]
    Value {
        /// The line, from 1.
        line: usize,
        /// The column's name.
        column: String,
        /// What stands there.
        text: String,
    },
    /// A quote is not closed.
    #[error("line {line}: a quoted text has no end")]
    Quote {
        /// The line, from 1.
        line: usize,
    },
}

impl Series {
    /// Reads comma-separated values. Times are points in time, or lengths of time since `start`.
    ///
    /// Gives the series and the first time: what a simulation starts with where nothing else is said.
    pub fn parse(text: &str, start: Timestamp) -> Result<(Self, Timestamp), SeriesError> {
        let mut lines = records(text)?.into_iter();
        let (_, heading) = lines.next().ok_or(SeriesError::Empty)?;
        if heading.len() < 2 {
            return Err(SeriesError::NoColumn);
        }
        let mut series = Self { stale_after: STALE_AFTER, ..Self::default() };
        let (mut first, mut last) = (None, None);
        for (line, record) in lines {
            let text = record.first().map(String::as_str).unwrap_or_default();
            let at = time(text, start)
                .ok_or_else(|| SeriesError::Time { line, text: text.chars().take(40).collect() })?;
            if last.is_some_and(|last| at <= last) {
                return Err(SeriesError::Order { line });
            }
            (first, last) = (first.or(Some(at)), Some(at));
            for (index, column) in heading.iter().enumerate().skip(1) {
                let text = record.get(index).map(|text| text.trim()).unwrap_or_default();
                let cell = cell(text).ok_or_else(|| SeriesError::Value {
                    line,
                    column: column.clone(),
                    text: text.chars().take(40).collect(),
                })?;
                series.push(column.trim(), at, cell);
            }
        }
        Ok((series, first.ok_or(SeriesError::Empty)?))
    }

    /// Adds a value. Times of a column have to ascend.
    pub fn push(&mut self, column: &str, at: Timestamp, cell: Cell) {
        self.columns.entry(column.to_owned()).or_default().push((at, cell));
    }

    /// Names of the columns.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.columns.keys().map(String::as_str)
    }

    /// The column of a metric: by its name, else by its query.
    pub fn column(&self, metric: &str, query: Option<&str>) -> Option<&[(Timestamp, Cell)]> {
        let by_query = || query.and_then(|query| self.columns.get(query.trim()));
        self.columns.get(metric).or_else(by_query).map(Vec::as_slice)
    }

    /// What a column says at a time.
    pub fn at(&self, column: &[(Timestamp, Cell)], now: Timestamp) -> Cell {
        let after = column.partition_point(|(at, _)| *at <= now);
        match after.checked_sub(1).and_then(|index| column.get(index)) {
            Some((at, cell))
                if Duration::try_from(now.duration_since(*at)).unwrap_or_default() <= self.stale_after =>
            {
                cell.clone()
            }
            _ => Cell::Gap,
        }
    }
}

fn time(text: &str, start: Timestamp) -> Option<Timestamp> {
    let text = text.trim();
    if let Ok(at) = text.parse::<Timestamp>() {
        return Some(at);
    }
    let span = text.strip_prefix('+').unwrap_or(text);
    let length = match span.parse::<f64>() {
        // So large a number of seconds is a time of Unix.
        Ok(seconds) if seconds >= 1e9 => {
            let whole = Duration::try_from_secs_f64(seconds).ok()?;
            return Timestamp::UNIX_EPOCH.checked_add(whole).ok();
        }
        Ok(seconds) => Duration::try_from_secs_f64(seconds).ok()?,
        Err(_) => check::time(span).ok()?,
    };
    start.checked_add(length).ok()
}

fn cell(text: &str) -> Option<Cell> {
    if text.is_empty() {
        return Some(Cell::Gap);
    }
    let phases = [Phase::Successful, Phase::Failed, Phase::Inconclusive, Phase::Error];
    if let Some(phase) = phases.into_iter().find(|phase| phase.as_str().eq_ignore_ascii_case(text)) {
        return Some(Cell::Verdict(phase));
    }
    let number = |text: &str| match text.trim() {
        "+Inf" => Some(f64::INFINITY),
        "-Inf" => Some(f64::NEG_INFINITY),
        text => text.parse::<f64>().ok(),
    };
    text.split(';').map(number).collect::<Option<Vec<f64>>>().map(Cell::Numbers)
}

/// Lines of a table with their numbers; quotes as RFC 4180 has them. Empty lines and lines that begin with # are left out.
fn records(text: &str) -> Result<Vec<(usize, Vec<String>)>, SeriesError> {
    let mut records = Vec::new();
    for (index, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
        let line = line.trim_end_matches('\r');
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        records.push((index + 1, fields(line).ok_or(SeriesError::Quote { line: index + 1 })?));
    }
    Ok(records)
}

fn fields(line: &str) -> Option<Vec<String>> {
    let (mut fields, mut field) = (Vec::new(), String::new());
    let (mut quoted, mut letters) = (false, line.chars().peekable());
    while let Some(letter) = letters.next() {
        match letter {
            '"' if quoted && letters.peek() == Some(&'"') => {
                letters.next();
                field.push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(std::mem::take(&mut field)),
            letter => field.push(letter),
        }
    }
    fields.push(field);
    (!quoted).then_some(fields)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn start() -> Timestamp {
        "2030-01-01T00:00:00Z".parse().unwrap()
    }

    fn after(seconds: u64) -> Timestamp {
        start() + Duration::from_secs(seconds)
    }

    #[test]
    fn a_table_is_read_with_any_way_to_write_times_and_gaps() {
        let text = "time,errors,\"sum(rate(x[1m])) by (a, b)\"\n# a remark\n0,0.1,1;2\n30s,,NaN\n2030-01-01T00:01:00Z,Failed,+Inf\n";
        let (series, first) = Series::parse(text, start()).unwrap();
        assert_eq!(first, start());
        let errors = series.column("errors", None).unwrap();
        assert_eq!(series.at(errors, after(29)), Cell::Numbers(vec![0.1]));
        assert_eq!(series.at(errors, after(30)), Cell::Gap);
        assert_eq!(series.at(errors, after(61)), Cell::Verdict(Phase::Failed));
        assert_eq!(series.at(errors, after(361)), Cell::Gap, "a value does not hold for ever");
        let query = series.column("other", Some("sum(rate(x[1m])) by (a, b)")).unwrap();
        assert_eq!(series.at(query, after(0)), Cell::Numbers(vec![1.0, 2.0]));
        assert!(series.column("other", None).is_none());
        assert_eq!(series.at(errors, start() - Duration::from_secs(1)), Cell::Gap, "before the first row");
    }

    #[test]
    fn what_is_wrong_in_a_table_is_told_with_its_line() {
        for (text, told) in [
            ("", "is empty"),
            ("time\n0", "no column"),
            ("time,a\nsoon,1", "line 2: `soon` is no time"),
            ("time,a\n10,1\n5,2", "line 3: the times do not ascend"),
            ("time,a\n0,many", "line 2, column a: `many` is no number"),
            ("time,a\n0,\"1", "line 2: a quoted text has no end"),
            ("time,a\n", "is empty"),
        ] {
            let error = Series::parse(text, start()).unwrap_err().to_string();
            assert!(error.contains(told), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_table_or_refused(text in "\\PC{0,200}") {
            let _ = Series::parse(&text, start());
        }
    }
}
