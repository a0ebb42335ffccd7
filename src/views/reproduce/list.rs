//! The catalogue with the verdicts of the last pass, and the sections of texts that are spliced from it.

use std::fmt::Write as _;
use std::path::Path;

use super::catalogue::{Catalogue, Entry, Kind};
use super::outcome::{Counts, Row, last, summary};
use super::verdict::Verdict;
use crate::ground::failure::Failure;
use crate::ground::format::Format;
use crate::ground::grid::Grid;
use crate::ground::library::Library;
use crate::ground::text::wrap;

/// The verdict on an entry, from the rows of its last pass.
pub fn verdict(entry: &Entry, rows: &[Row]) -> String {
    let shown = rows.is_empty() && entry.figures.is_empty();
    match entry.kind {
        Kind::Not => "-".into(),
        _ if shown && entry.runs.is_empty() => "shown; no printed figure".into(),
        _ if shown => "drawn; no printed figure".into(),
        _ => summary(rows, &entry.agreement),
    }
}

/// The last rows of an entry, or of the one that stands for it.
fn rows_of(library: &Library, catalogue: &Catalogue, entry: &Entry) -> Result<Vec<Row>, Failure> {
    last(library, &catalogue.compared_as(entry).id)
}

/// Everything, with the reasons.
///
/// # Errors
/// A file of outcomes is none of ours.
pub fn render(library: &Library, catalogue: &Catalogue, format: Format) -> Result<String, Failure> {
    if format == Format::Text { text(library, catalogue) } else { Ok(grid(library, catalogue)?.render(format)) }
}

fn text(library: &Library, catalogue: &Catalogue) -> Result<String, Failure> {
    let mut text = String::new();
    for paper in &catalogue.papers {
        // Writing to a text cannot fail.
        let _ = write!(text, "{}\n{}\n\n", paper.key, paper.title);
        for entry in &paper.entries {
            let compared = catalogue.compared_as(entry);
            let rows = last(library, &compared.id)?;
            let _ = writeln!(text, "  {:<26} {:<8} {}", entry.id, entry.kind.label(), verdict(compared, &rows));
            let stands = entry.same_as.as_ref().map_or(String::new(), |id| format!(" As {id}."));
            let why = entry.why.trim_end();
            let stop = if why.is_empty() || why.ends_with('.') { "" } else { "." };
            for line in wrap(&format!("{}. {why}{stop}{stands}", entry.shows), 100).lines() {
                let _ = writeln!(text, "      {line}");
            }
        }
        text += "\n";
    }
    Ok(text)
}

fn grid(library: &Library, catalogue: &Catalogue) -> Result<Grid, Failure> {
    let mut grid = Grid::new(["id", "paper", "item", "shows", "reproduced", "verdict of the last pass", "why"]);
    for paper in &catalogue.papers {
        grid.rule();
        for entry in &paper.entries {
            let rows = rows_of(library, catalogue, entry)?;
            let verdict = verdict(catalogue.compared_as(entry), &rows);
            let (id, item, shows, why) = (&entry.id, &entry.item, &entry.shows, &entry.why);
            grid.row([id, &paper.key, item, shows, &entry.kind.label().to_owned(), &verdict, why]);
        }
    }
    Ok(grid)
}

/// A line per paper: what is reproduced how, and how the figures compare.
fn overview(library: &Library, catalogue: &Catalogue) -> Result<String, Failure> {
    let mut grid = Grid::new([
        "paper",
        "tables and figures",
        "exact",
        "in kind",
        "not",
        "figures judged",
        "match",
        "better",
        "worse",
        "differ",
    ])
    .numeric_from(1);
    for paper in &catalogue.papers {
        let kinds = |kind| paper.entries.iter().filter(|entry| entry.kind == kind).count();
        let counts = Counts::of_paper(library, paper)?;
        let numbers = [
            paper.entries.len(),
            kinds(Kind::Exact),
            kinds(Kind::OwnInstances),
            kinds(Kind::Not),
            counts.judged(),
            counts.count(Verdict::Match),
            counts.count(Verdict::Better),
            counts.count(Verdict::Worse),
            counts.count(Verdict::Differs),
        ];
        grid.row(std::iter::once(paper.key.clone()).chain(numbers.map(|number| number.to_string())));
    }
    Ok(grid.render(Format::Md))
}

/// Every entry whose figures were compared, in a line.
fn compared(library: &Library, catalogue: &Catalogue) -> Result<String, Failure> {
    let mut grid = Grid::new(["`bench reproduce ...`", "shows", "reproduced", "verdict of the last pass"]);
    for entry in catalogue.entries() {
        let rows = last(library, &entry.id)?;
        if !rows.is_empty() {
            grid.row([&entry.id, &entry.shows, &entry.kind.label().to_owned(), &summary(&rows, &entry.agreement)]);
        }
    }
    Ok(grid.render(Format::Md))
}

const END: &str = "<!-- bench reproduce: end -->";

/// A text with each section between `<!-- bench reproduce: NAME -->` and [`END`] made anew; the names are
/// `overview`, `compared` and `list`.
///
/// # Errors
/// A section has no end or another name, or there is none.
pub fn splice(library: &Library, catalogue: &Catalogue, path: &Path, text: &str) -> Result<String, Failure> {
    const BEGIN: &str = "<!-- bench reproduce: ";
    let wrong = |words: &str| Failure::input(format!("{}: {words}", path.display()));
    let mut spliced = String::new();
    let mut rest = text;
    while let Some(start) = rest.find(BEGIN) {
        let after = &rest[start + BEGIN.len()..];
        let (name, inside) =
            after.split_once(" -->").ok_or_else(|| wrong("a marker \"<!-- bench reproduce:\" is not closed by -->"))?;
        let end =
            inside.find(END).ok_or_else(|| wrong(&format!("section {name:?} has no end; write {END} below it")))?;
        let made = match name {
            "overview" => overview(library, catalogue)?,
            "compared" => compared(library, catalogue)?,
            "list" => grid(library, catalogue)?.render(Format::Md),
            _ => return Err(wrong(&format!("no section {name:?}; expected overview, compared or list"))),
        };
        // Writing to a text cannot fail.
        let _ = write!(spliced, "{}{BEGIN}{name} -->\n\n{}\n\n{END}", &rest[..start], made.trim());
        rest = &inside[end + END.len()..];
    }
    if spliced.is_empty() {
        return Err(wrong(&format!("has no section to fill; write <!-- bench reproduce: overview --> and {END}")));
    }
    Ok(spliced + rest)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn spliced(text: &str) -> Result<String, String> {
        let library = Library::locate();
        let catalogue = Catalogue::read(&library).unwrap();
        splice(&library, &catalogue, Path::new("a.md"), text).map_err(|failure| failure.to_string())
    }

    #[test]
    fn sections_are_replaced_and_all_else_stays() {
        let text = format!("before\n<!-- bench reproduce: overview -->\nold\n{END}\nafter\n");
        let once = spliced(&text).unwrap();
        assert!(once.starts_with("before\n<!-- bench reproduce: overview -->\n\n| paper"), "{once}");
        assert!(once.ends_with(&format!("|\n\n{END}\nafter\n")) && !once.contains("old"));
        assert_eq!(spliced(&once).unwrap(), once);
    }

    #[test]
    fn a_text_without_sections_or_with_broken_ones_is_refused() {
        assert!(spliced("nothing").unwrap_err().contains("has no section to fill"));
        assert!(spliced("<!-- bench reproduce: list -->").unwrap_err().contains("has no end"));
        let other = format!("<!-- bench reproduce: other -->{END}");
        assert!(spliced(&other).unwrap_err().contains("expected overview, compared or list"));
    }
}
