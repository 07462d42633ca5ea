//! Tables as kubectl prints them.

use std::fmt::Write as _;

/// Between two columns.
const GAP: &str = "   ";

/// Rows under headings, every column as wide as its widest cell.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    headings: Vec<&'static str>,
    rows: Vec<Vec<String>>,
    widths: Vec<usize>,
}

impl Table {
    /// An empty table.
    pub(crate) fn new(headings: impl Into<Vec<&'static str>>) -> Self {
        let headings = headings.into();
        let widths = headings.iter().map(|heading| heading.chars().count()).collect();
        Self { headings, rows: Vec::new(), widths }
    }

    /// Adds a row. An empty cell is shown as such, a missing one as empty.
    pub(crate) fn push(&mut self, row: Vec<String>) {
        for (width, cell) in self.widths.iter_mut().zip(&row) {
            *width = (*width).max(cell.chars().count());
        }
        self.rows.push(row);
    }

    /// Whether there is no row.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The whole table, each line after some spaces.
    pub(crate) fn render(&self, indent: usize) -> String {
        let headings: Vec<String> = self.headings.iter().map(|heading| (*heading).to_owned()).collect();
        std::iter::once(&headings).chain(&self.rows).map(|row| self.row(row, indent)).collect()
    }

    /// Rows alone, as wide as the table is: what a watch goes on with.
    pub(crate) fn render_rows(&mut self, rows: Vec<Vec<String>>) -> String {
        self.rows.clear();
        for row in rows {
            self.push(row);
        }
        self.rows.iter().map(|row| self.row(row, 0)).collect()
    }

    fn row(&self, row: &[String], indent: usize) -> String {
        let mut line = " ".repeat(indent);
        for (column, (cell, width)) in row.iter().zip(&self.widths).enumerate() {
            if column > 0 {
                line.push_str(GAP);
            }
            let _ = write!(line, "{cell:<width$}");
        }
        format!("{}\n", line.trim_end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new(["NAME", "AGE"]);
        table.push(vec!["web".into(), "10m".into()]);
        table.push(vec!["größer".into(), "3s".into()]);
        assert_eq!(table.render(0), "NAME     AGE\nweb      10m\ngrößer   3s\n");
        assert_eq!(table.render_rows(vec![vec!["x".into(), "1s".into()]]), "x        1s\n");
    }
}
