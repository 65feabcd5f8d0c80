//! Aligned columns: as wide as their contents, no lines drawn, nothing that a terminal would obey.

use std::fmt;

/// The longest cell. Longer ones are cut: `-o json` has the whole text.
const CELL_MAX: usize = 72;

/// Rows under a heading.
#[derive(Debug)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
    columns: usize,
}

impl Table {
    /// An empty table with these headings.
    pub(crate) fn new(headings: &[&str]) -> Self {
        Self { rows: vec![headings.iter().map(|h| (*h).to_owned()).collect()], columns: headings.len() }
    }

    /// Adds a row; missing cells are empty.
    pub(crate) fn row<S: AsRef<str>>(&mut self, cells: impl IntoIterator<Item = S>) {
        let mut row: Vec<String> = cells.into_iter().map(|cell| tame(cell.as_ref())).collect();
        row.resize(self.columns, String::new());
        self.rows.push(row);
    }

    /// Leaves out every column that is empty in all rows, so that a table stays narrow.
    #[must_use]
    pub(crate) fn without_empty_columns(mut self) -> Self {
        if self.rows.len() == 1 {
            return self;
        }
        let used: Vec<bool> =
            (0..self.columns).map(|c| self.rows[1..].iter().any(|r| !r[c].is_empty())).collect();
        for row in &mut self.rows {
            let mut c = 0;
            row.retain(|_| {
                c += 1;
                used[c - 1]
            });
        }
        self.columns = used.iter().filter(|used| **used).count();
        self
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = |c: usize| self.rows.iter().map(|row| row[c].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..self.columns).map(width).collect();
        for row in &self.rows {
            let mut line = String::new();
            for (cell, width) in row.iter().zip(&widths) {
                line.push_str(&format!("{cell:<width$}  "));
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// Text from elsewhere, made harmless for a terminal and short enough for a cell.
pub(crate) fn tame(text: &str) -> String {
    let clean = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    if text.chars().count() <= CELL_MAX {
        return clean.collect();
    }
    clean.take(CELL_MAX - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_empty_ones_left_out() {
        let mut table = Table::new(&["ID", "NOTHING", "STATUS"]);
        table.row(["a", "", "done"]);
        table.row(["order:789", "", "dead"]);
        assert_eq!(
            table.without_empty_columns().to_string(),
            "ID         STATUS\na          done\norder:789  dead\n"
        );
    }

    #[test]
    fn cells_cannot_steer_the_terminal_and_are_cut() {
        let mut table = Table::new(&["REASON"]);
        table.row(["\u{1b}[31mred\nnext".to_owned() + &"x".repeat(100)]);
        let text = table.to_string();
        assert!(!text.contains('\u{1b}') && text.lines().count() == 2, "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= CELL_MAX) && text.contains('…'), "{text}");
    }
}
