//! Why a figure came out otherwise: `instances/reproduce/reasons.csv`, a row for each.

use serde::Deserialize;

use super::outcome::Row;
use super::verdict::Verdict;
use crate::ground::failure::Failure;
use crate::ground::library::Library;
use crate::ground::rows;

/// Why a figure is worse than the printed one, differs from it or was not run.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reason {
    /// Entry of the catalogue.
    pub entry: String,
    /// Instance, method, budget and quantity, as the comparison has them.
    pub instance: String,
    /// Method.
    pub method: String,
    /// Budget.
    pub budget: String,
    /// Quantity.
    pub quantity: String,
    /// The reason.
    pub why: String,
}

impl Reason {
    /// Whether it is about a row.
    pub fn fits(&self, row: &Row) -> bool {
        let ours = [&self.entry, &self.instance, &self.method, &self.budget, &self.quantity];
        ours == [&row.entry, &row.instance, &row.method, &row.budget, &row.quantity]
    }
}

/// Whether a verdict asks for a reason.
pub fn asks(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Worse | Verdict::Differs | Verdict::NotRun)
}

/// All reasons; none where the file is not there.
///
/// # Errors
/// The file is of another shape.
pub fn read(library: &Library) -> Result<Vec<Reason>, Failure> {
    rows::read(&library.folder().join("reproduce/reasons.csv"), "take the file from git")
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::super::catalogue::Catalogue;
    use super::super::outcome::last;
    use super::*;
    use crate::views::reproduce::cells::Pass;

    #[test]
    fn every_figure_that_is_worse_differs_or_was_not_run_has_its_reason_and_no_other_has_one() {
        let library = Library::locate();
        let reasons = read(&library).unwrap();
        let catalogue = Catalogue::read(&library).unwrap();
        let rows: Vec<Row> = catalogue.entries().flat_map(|entry| last(&library, &entry.id).unwrap()).collect();
        // What a quick pass leaves out is what makes it quick.
        let asking = |row: &&Row| asks(row.verdict) && (row.verdict, row.pass) != (Verdict::NotRun, Pass::Quick);
        let unexplained: Vec<_> =
            rows.iter().filter(asking).filter(|row| !reasons.iter().any(|reason| reason.fits(row))).collect();
        assert!(unexplained.is_empty(), "{} without a reason, first: {:?}", unexplained.len(), unexplained[0]);
        for reason in &reasons {
            assert!(reason.why.len() > 20, "{reason:?}");
            assert!(rows.iter().filter(asking).any(|row| reason.fits(row)), "nothing asks for {reason:?}");
        }
    }
}
