//! A grid of texts, printed in any of the formats. Knows nothing of what the texts mean.

use std::ops::Range;

use comfy_table::{CellAlignment, Table, presets};

use crate::ground::format::Format;
use crate::ground::text;

/// Spaces between two columns.
const GAP: u16 = 2;
/// A column of words is not folded to less than this.
const NARROWEST: usize = 18;

/// Rows under a header.
#[derive(Clone, Debug, Default)]
pub struct Grid {
    header: Vec<String>,
    rows: Vec<Vec<String>>,
    /// Rows before which a rule is drawn.
    rules: Vec<usize>,
    /// Columns that hold numbers, and are set flush right.
    numeric: Vec<usize>,
    /// Spaces between two columns, where not as usual.
    gap: Option<u16>,
}

impl Grid {
    /// An empty grid.
    pub fn new(header: impl IntoIterator<Item: Into<String>>) -> Self {
        Self { header: header.into_iter().map(Into::into).collect(), ..Self::default() }
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

    /// Sets columns so many spaces apart.
    #[must_use]
    pub fn gap(mut self, spaces: u16) -> Self {
        self.gap = Some(spaces);
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

    /// The grid as text at most `width` columns wide: words are folded first; then columns of numbers go into further
    /// grids below, each with the columns of words before the numbers. Those behind the numbers are in the last one.
    pub fn folded(&self, width: usize) -> String {
        let natural = self.widths();
        let all: Vec<usize> = (0..natural.len()).collect();
        let mut widths = self.fold(&natural, &all, width);
        if self.total(&widths, &all) <= width {
            return self.part(&all, &widths).text();
        }
        let last_number = self.numeric.iter().copied().max().unwrap_or(natural.len());
        let (before, behind): (Vec<usize>, Vec<usize>) = all.into_iter().partition(|&at| at <= last_number);
        widths = self.fold(&natural, &before, width);
        let mut chunks = self.chunks(&before, &widths, width);
        if let Some(last) = chunks.last_mut().filter(|_| !behind.is_empty()) {
            let with = |chunk: &[usize]| chunk.iter().chain(&behind).copied().collect::<Vec<_>>();
            let narrow = self.fold(&widths, &with(last), width);
            if self.total(&narrow, &with(last)) <= width {
                (widths, *last) = (narrow, with(last));
            } else {
                let words: Vec<usize> = before.into_iter().filter(|at| !self.numeric.contains(at)).collect();
                widths = self.fold(&widths, &with(&words), width);
                chunks.push(with(&words));
            }
        }
        let grids: Vec<String> = chunks.iter().map(|chosen| self.part(chosen, &widths).text()).collect();
        grids.join("\n")
    }

    /// Widths of some columns when those of words are made narrower until all fit, or none can be any more.
    fn fold(&self, widths: &[usize], columns: &[usize], width: usize) -> Vec<usize> {
        let mut widths = widths.to_vec();
        while self.total(&widths, columns) > width {
            let words = columns.iter().copied().filter(|at| !self.numeric.contains(at));
            let widest = words
                .max_by_key(|&at| widths[at])
                .filter(|&at| widths[at] > NARROWEST.max(self.header[at].chars().count()));
            let Some(widest) = widest else { break };
            widths[widest] -= 1;
        }
        widths
    }

    /// Characters of the longest cell of each column.
    fn widths(&self) -> Vec<usize> {
        let longest = |at: usize| {
            let cells = std::iter::once(&self.header).chain(&self.rows).filter_map(|row| row.get(at));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        (0..self.header.len()).map(longest).collect()
    }

    /// How wide some columns are together.
    fn total(&self, widths: &[usize], columns: &[usize]) -> usize {
        let gaps = usize::from(self.gap.unwrap_or(GAP)) * columns.len().saturating_sub(1);
        columns.iter().map(|&at| widths[at]).sum::<usize>() + gaps
    }

    /// Some columns in several grids: in each all of words, and as many of numbers as fit, at least one.
    fn chunks(&self, columns: &[usize], widths: &[usize], width: usize) -> Vec<Vec<usize>> {
        let words: Vec<usize> = columns.iter().copied().filter(|at| !self.numeric.contains(at)).collect();
        let mut chunks = vec![words.clone()];
        for &number in &self.numeric {
            let Some(last) = chunks.last_mut() else { break };
            let so_far: Vec<usize> = last.iter().copied().chain([number]).collect();
            if self.total(widths, &so_far) > width && last.len() > words.len() {
                chunks.push(words.iter().copied().chain([number]).collect());
            } else {
                last.push(number);
            }
        }
        for chunk in &mut chunks {
            chunk.sort_unstable();
        }
        chunks
    }

    /// Some columns, their cells folded to widths.
    fn part(&self, columns: &[usize], widths: &[usize]) -> Self {
        let of = |row: &[String]| columns.iter().map(|&at| row.get(at).cloned().unwrap_or_default()).collect();
        let numeric = (0..columns.len()).filter(|&at| self.numeric.contains(&columns[at])).collect();
        let mut part = Self { header: of(&self.header), numeric, gap: self.gap, ..Self::default() };
        for (index, row) in self.rows.iter().enumerate() {
            if self.rules.contains(&index) {
                part.rule();
            }
            let cells: Vec<Vec<String>> =
                columns.iter().map(|&at| broken(row.get(at).map_or("", String::as_str), widths[at])).collect();
            let height = cells.iter().map(Vec::len).max().unwrap_or(1);
            for line in 0..height {
                part.row(cells.iter().map(|cell| cell.get(line).map_or("", String::as_str)));
            }
        }
        part
    }

    fn text(&self) -> String {
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_header(&self.header);
        for row in &self.rows {
            table.add_row(row.iter().map(|cell| text::line(cell)));
        }
        for (index, column) in table.column_iter_mut().enumerate() {
            column.set_padding((0, self.gap.unwrap_or(GAP)));
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

/// A text in lines of at most so many characters, broken after spaces and commas and before brackets where there are any. All
/// are indented as the text is.
fn broken(text: &str, width: usize) -> Vec<String> {
    let bare = text.trim_start();
    let indent = " ".repeat(text.len() - bare.len());
    let width = width.saturating_sub(indent.len());
    let mut lines = vec![String::new()];
    for part in bare.replace(' ', " \0").replace(',', ",\0").replace('[', "\0[").split('\0') {
        let mut rest: Vec<char> = part.chars().collect();
        let used = lines.last().map_or(0, |line| line.chars().count());
        if used > 0 && used + part.trim_end().chars().count() > width {
            lines.push(String::new());
        }
        while rest.len() > width && width > 0 {
            let (head, tail) = rest.split_at(width);
            lines.last_mut().into_iter().for_each(|line| line.extend(head));
            rest = tail.to_vec();
            if !rest.is_empty() {
                lines.push(String::new());
            }
        }
        lines.last_mut().into_iter().for_each(|line| line.extend(rest.drain(..)));
    }
    lines.iter().map(|line| format!("{indent}{}", line.trim_end())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Grid {
        let mut grid = Grid::new(["name", "50 %"]).numeric_from(1);
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
    fn words_are_folded_and_numbers_go_below() {
        let mut grid = Grid::new(["claim", "0.25x", "0.50x", "0.75x"]).numeric_from(1);
        grid.row(["optimum: chain, memory-persistent", "10.5", "20.25", "3"]);
        grid.rule();
        grid.row(["  monet[modes=intermediate-activated]", "1", "2", "3"]);
        assert_eq!(grid.folded(100), grid.render(Format::Text));
        insta::assert_snapshot!(grid.folded(32), @"
        claim               0.25x  0.50x
        ────────────────────────────────
        optimum: chain,      10.5  20.25
        memory-persistent
        ────────────────────────────────
          monet                 1      2
          [modes=intermedi
          ate-activated]

        claim               0.75x
        ─────────────────────────
        optimum: chain,         3
        memory-persistent
        ─────────────────────────
          monet                 3
          [modes=intermedi
          ate-activated]
        ");
        for width in [32, 40, 50, 60] {
            assert!(grid.folded(width).lines().all(|line| line.chars().count() <= width), "{width}");
        }
    }

    #[test]
    fn words_behind_the_numbers_are_in_the_last_grid() {
        let mut grid = Grid::new(["method", "0.25x", "0.50x", "0.75x", "over which schedules"]).numeric(1..4).gap(1);
        grid.row(["  rotor", "10.5", "20.25", "3", "chain, memory-persistent"]);
        // As narrow as they may be, all columns need 46.
        insta::assert_snapshot!(grid.folded(44), @"
        method  0.25x 0.50x 0.75x
        ─────────────────────────
          rotor  10.5 20.25     3

        method  over which schedules
        ────────────────────────────────
          rotor chain, memory-persistent
        ");
        insta::assert_snapshot!(grid.folded(22), @"
        method  0.25x 0.50x
        ───────────────────
          rotor  10.5 20.25

        method  0.75x
        ─────────────
          rotor     3

        method  over which schedules
        ────────────────────────────
          rotor chain,
                memory-persistent
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
