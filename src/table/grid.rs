//! A grid of texts, printed in any of the formats. Knows nothing of what the texts mean.

use std::ops::Range;

use comfy_table::{CellAlignment, Table, presets};

use crate::format::Format;
use crate::text;

/// Rows under a header.
#[derive(Clone, Debug, Default)]
pub struct Grid {
    header: Vec<String>,
    rows: Vec<Vec<String>>,
    /// Rows before which a rule is drawn.
    rules: Vec<usize>,
    /// Columns that hold numbers, and are set flush right.
    numeric: Vec<usize>,
}

impl Grid {
    /// An empty grid.
    pub fn new(header: &[&str]) -> Self {
        Self { header: header.iter().map(|&name| name.to_owned()).collect(), ..Self::default() }
    }

    /// Sets the columns from `first` on flush right.
    #[must_use]
    pub fn numeric_from(self, first: usize) -> Self {
        let end = self.header.len();
        self.numeric(first..end)
    }

    /// Sets some columns flush right.
    #[must_use]
    pub fn numeric(mut self, columns: Range<usize>) -> Self {
        self.numeric = columns.collect();
        self
    }

    /// The names of the columns, and whether each holds numbers.
    pub fn columns(&self) -> impl Iterator<Item = (&str, bool)> {
        self.header.iter().enumerate().map(|(at, name)| (name.as_str(), self.numeric.contains(&at)))
    }

    /// The rows.
    pub fn rows(&self) -> &[Vec<String>] {
        &self.rows
    }

    /// Adds a row.
    pub fn row<T: AsRef<str>>(&mut self, cells: impl IntoIterator<Item = T>) {
        self.rows.push(cells.into_iter().map(|cell| cell.as_ref().to_owned()).collect());
    }

    /// Draws a rule before the next row.
    pub fn rule(&mut self) {
        self.rules.push(self.rows.len());
    }

    /// The text of the grid.
    pub fn render(&self, format: Format) -> String {
        match format {
            Format::Text => self.text(),
            Format::Md => self.markdown(),
            Format::Csv => self.csv(),
            Format::Json => self.json(),
            Format::Latex => self.latex(),
        }
    }

    fn text(&self) -> String {
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_header(&self.header);
        for row in &self.rows {
            table.add_row(row.iter().map(|cell| text::line(cell)));
        }
        for (index, column) in table.column_iter_mut().enumerate() {
            column.set_padding((0, 2));
            if self.numeric.contains(&index) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        let lines = table.to_string();
        let width = lines.lines().map(|line| line.trim_end().chars().count()).max().unwrap_or(0);
        let mut text = String::new();
        for (index, line) in lines.lines().enumerate() {
            if index == 1 || (index > 1 && self.rules.contains(&(index - 1))) {
                text.push_str(&"─".repeat(width));
                text.push('\n');
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }

    fn markdown(&self) -> String {
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let escape = |cells: &[String]| cells.iter().map(|cell| text::markdown(cell)).collect();
        let dashes = (0..self.header.len()).map(|i| if self.numeric.contains(&i) { "---:" } else { "---" }.to_owned());
        let mut text = line(escape(&self.header)) + &line(dashes.collect());
        self.rows.iter().for_each(|row| text.push_str(&line(escape(row))));
        text
    }

    fn csv(&self) -> String {
        let mut writer = csv::Writer::from_writer(Vec::new());
        for row in std::iter::once(&self.header).chain(&self.rows) {
            let cells = row.iter().map(|cell| text::cell(cell).into_owned());
            writer.write_record(cells).expect("a vector takes everything, and all rows are as long as the header");
        }
        let bytes = writer.into_inner().expect("a vector takes everything");
        String::from_utf8(bytes).expect("texts stay texts")
    }

    fn json(&self) -> String {
        let object = |row: &Vec<String>| {
            let pairs = self.header.iter().cloned().zip(row.iter().map(|cell| cell.clone().into()));
            serde_json::Value::Object(pairs.collect())
        };
        let rows: Vec<_> = self.rows.iter().map(object).collect();
        serde_json::to_string_pretty(&rows).expect("texts always serialise")
    }

    fn latex(&self) -> String {
        let line = |cells: &[String]| {
            format!("  {} \\\\\n", cells.iter().map(|cell| text::latex(cell)).collect::<Vec<_>>().join(" & "))
        };
        let columns: String =
            (0..self.header.len()).map(|i| if self.numeric.contains(&i) { 'r' } else { 'l' }).collect();
        let mut text = format!("\\begin{{tabular}}{{{columns}}}\n  \\toprule\n{}  \\midrule\n", line(&self.header));
        for (index, row) in self.rows.iter().enumerate() {
            if index > 0 && self.rules.contains(&index) {
                text.push_str("  \\midrule\n");
            }
            text.push_str(&line(row));
        }
        text + "  \\bottomrule\n\\end{tabular}\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Grid {
        let mut grid = Grid::new(&["name", "50 %"]).numeric_from(1);
        grid.row(["a|b", "1.0"]);
        grid.rule();
        grid.row(["m[k=2]_x", "-"]);
        grid
    }

    #[test]
    fn text_is_aligned_and_ruled() {
        insta::assert_snapshot!(example().render(Format::Text), @"
        name      50 %
        ──────────────
        a|b        1.0
        ──────────────
        m[k=2]_x     -
        ");
    }

    #[test]
    fn latex_and_markdown_escape_what_they_must() {
        insta::assert_snapshot!(example().render(Format::Latex), @r"
        \begin{tabular}{lr}
          \toprule
          name & 50 \% \\
          \midrule
          a|b & 1.0 \\
          \midrule
          m{[}k=2{]}\_x & - \\
          \bottomrule
        \end{tabular}
        ");
        insta::assert_snapshot!(example().render(Format::Md), @r"
        | name | 50 % |
        | --- | ---: |
        | a\|b | 1.0 |
        | m[k=2]_x | - |
        ");
    }
}
