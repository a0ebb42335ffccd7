//! What came out: `results/reproduce/ENTRY.csv` (or `ENTRY-quick.csv`), one row per printed figure, and the
//! summary of such a file. The full pass counts where there is one.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::catalogue::{Agreement, Paper};
use super::cells::Pass;
use super::verdict::Verdict;
use crate::ground::failure::Failure;
use crate::ground::format::{Format, three_digits};
use crate::ground::grid::Grid;
use crate::ground::library::Library;
use crate::ground::rows;

/// A printed figure, ours, and the verdict.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// Id of the entry.
    pub entry: String,
    /// How much was run.
    pub pass: Pass,
    /// Wall seconds that each row had at most, where suite and entry would have given it more.
    #[serde(default)]
    pub most_seconds: Option<f64>,
    /// Paper and place.
    pub source: String,
    /// Instance, or the pattern over instances.
    pub instance: String,
    /// Method.
    pub method: String,
    /// Budget, as suites write it.
    pub budget: String,
    /// What it measures.
    pub quantity: String,
    /// Unit of both figures.
    pub unit: String,
    /// As printed.
    pub printed: String,
    /// Ours; empty where nothing was run.
    pub ours: String,
    /// Ours over the printed one, minus 1.
    pub deviation_percent: Option<f64>,
    /// The verdict.
    pub verdict: Verdict,
    /// Why, and what to know.
    pub note: String,
}

/// Where the rows of an entry are.
pub fn path_of(library: &Library, entry: &str, pass: Pass) -> PathBuf {
    let ending = if pass == Pass::Quick { "-quick" } else { "" };
    library.root.join("results/reproduce").join(format!("{entry}{ending}.csv"))
}

/// Whether the rows of a file had more time each than a pass gives them: what was found with it stays.
///
/// # Errors
/// The file is none of ours.
pub fn had_more_time(path: &Path, most_seconds: Option<f64>) -> Result<bool, Failure> {
    let Some(most) = most_seconds.filter(|_| path.is_file()) else { return Ok(false) };
    let rows: Vec<Row> = rows::read(path, "remove the file, and run the entry again")?;
    Ok(rows.iter().any(|row| row.most_seconds.is_none_or(|other| other > most)))
}

/// The rows of an entry's last full pass, or else of its last quick one; none before the first.
///
/// # Errors
/// The file is none of ours.
pub fn last(library: &Library, entry: &str) -> Result<Vec<Row>, Failure> {
    for pass in [Pass::Full, Pass::Quick] {
        let path = path_of(library, entry, pass);
        if path.is_file() {
            return rows::read(&path, "remove the file, and run the entry again");
        }
    }
    Ok(vec![])
}

/// How many rows have each verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// By [`Verdict`], in its order.
    by: [usize; 6],
}

const VERDICTS: [Verdict; 6] =
    [Verdict::Match, Verdict::Better, Verdict::Worse, Verdict::Differs, Verdict::NotComparable, Verdict::NotRun];

impl Counts {
    /// Counts.
    pub fn of<'a>(rows: impl IntoIterator<Item = &'a Row>) -> Self {
        let mut counts = Self::default();
        for row in rows {
            counts.by[row.verdict as usize] += 1;
        }
        counts
    }

    /// Counts over all tables and figures of a paper, as of their last passes.
    ///
    /// # Errors
    /// A file of outcomes is none of ours.
    pub fn of_paper(library: &Library, paper: &Paper) -> Result<Self, Failure> {
        let rows = paper.entries.iter().map(|entry| last(library, &entry.id)).collect::<Result<Vec<_>, _>>()?;
        Ok(Self::of(rows.iter().flatten()))
    }

    /// `12 match within 5 %, 3 better, 1 worse`.
    pub fn text(&self, agreement: &Agreement) -> String {
        let parts = VERDICTS.iter().zip(self.by).filter(|(_, count)| *count > 0);
        let within = |verdict| if verdict == Verdict::Match { agreement.words() } else { String::new() };
        let part = |(verdict, count): (&Verdict, usize)| format!("{count} {}{}", verdict.label(), within(*verdict));
        let parts: Vec<_> = parts.map(part).collect();
        if parts.is_empty() { "no figure".into() } else { parts.join(", ") }
    }

    /// Figures that were judged.
    pub fn judged(&self) -> usize {
        self.by[..Verdict::NotComparable as usize].iter().sum()
    }

    /// Figures of a verdict.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.by[verdict as usize]
    }
}

/// The verdict on an entry as a whole.
pub fn summary(rows: &[Row], agreement: &Agreement) -> String {
    let Some(first) = rows.first() else { return "not run yet".into() };
    let most = first.most_seconds.map_or(String::new(), |most| format!(", at most {most} s a row"));
    format!("{} ({} pass{most})", Counts::of(rows).text(agreement), first.pass.label())
}

/// Comparisons as a grid; those of several entries say which one it is.
pub fn grid(rows: &[Row], of_several: bool) -> Grid {
    let header =
        ["instance", "method", "budget", "quantity", "unit", "printed", "ours", "deviation", "verdict", "note"];
    let mut grid = Grid::new(of_several.then_some("entry").into_iter().chain(header));
    let mut previous = "";
    for row in rows {
        if row.source != previous {
            grid.rule();
        }
        previous = &row.source;
        let deviation = row.deviation_percent.map_or(String::new(), signed_percent);
        let cells = [
            row.instance.as_str(),
            &row.method,
            &row.budget,
            &row.quantity,
            &row.unit,
            &row.printed,
            &row.ours,
            &deviation,
            row.verdict.label(),
            &row.note,
        ];
        grid.row(of_several.then_some(row.entry.as_str()).into_iter().chain(cells));
    }
    grid
}

/// The comparison of an entry as a table for people.
pub fn render(rows: &[Row], agreement: &Agreement, format: Format) -> String {
    let mut text = grid(rows, false).render(format);
    if format == Format::Text {
        // Writing to a text cannot fail.
        let _ = writeln!(text, "{}", summary(rows, agreement));
    }
    text
}

fn signed_percent(percent: f64) -> String {
    let sign = if percent < 0.0 { '-' } else { '+' };
    format!("{sign}{} %", three_digits(percent.abs()))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    pub(crate) fn row(entry: &str, verdict: Verdict) -> Row {
        Row {
            entry: entry.into(),
            pass: Pass::Quick,
            most_seconds: None,
            source: "paper, Table 1".into(),
            instance: "net".into(),
            method: "m[a=1]".into(),
            budget: "0.5x".into(),
            quantity: "overhead".into(),
            unit: "%".into(),
            printed: "10.0".into(),
            ours: "9.00".into(),
            deviation_percent: Some(-10.0),
            verdict,
            note: "a, b".into(),
        }
    }

    #[test]
    fn rows_are_read_as_they_were_written_and_the_full_pass_counts() {
        let folder = tempfile::tempdir().unwrap();
        let library = Library { root: folder.path().to_owned() };
        assert_eq!(last(&library, "e").unwrap(), []);
        let quick = vec![row("e", Verdict::Better), row("e", Verdict::NotComparable)];
        rows::write(&path_of(&library, "e", Pass::Quick), &quick).unwrap();
        assert_eq!(last(&library, "e").unwrap(), quick);
        let full = vec![Row { pass: Pass::Full, deviation_percent: None, ..row("e", Verdict::Match) }];
        rows::write(&path_of(&library, "e", Pass::Full), &full).unwrap();
        assert_eq!(last(&library, "e").unwrap(), full);
        let agreement = Agreement::default();
        assert_eq!(summary(&quick, &agreement), "1 better, 1 not comparable (quick pass)");
        assert_eq!(summary(&full, &agreement), "1 match within 5 % (full pass)");
        let path = path_of(&library, "e", Pass::Full);
        assert!(had_more_time(&path, Some(60.0)).unwrap() && !had_more_time(&path, None).unwrap());
        let cut = [Row { most_seconds: Some(60.0), ..full[0].clone() }];
        rows::write(&path, &cut).unwrap();
        assert!(had_more_time(&path, Some(30.0)).unwrap() && !had_more_time(&path, Some(60.0)).unwrap());
        assert_eq!(summary(&cut, &agreement), "1 match within 5 % (full pass, at most 60 s a row)");
    }

    #[test]
    fn figures_that_cannot_be_compared_are_counted_and_not_judged() {
        let verdicts = [Verdict::Match, Verdict::NotComparable, Verdict::Match, Verdict::NotRun];
        let rows = verdicts.map(|verdict| row("e", verdict));
        let counts = Counts::of(&rows);
        assert_eq!((counts.judged(), counts.count(Verdict::Match)), (2, 2));
        let text = |within, points| counts.text(&Agreement { within, points });
        assert_eq!(text(0.0, 0.0), "2 match exactly, 1 not comparable, 1 not run");
        assert_eq!(text(0.1, 0.5), "2 match within 10 % or 0.5, 1 not comparable, 1 not run");
        assert_eq!(text(0.0, 5.0), "2 match within 5, 1 not comparable, 1 not run");
    }
}
