//! The list of views: every table that `bench table` prints, pages hold and reports embed. A new one is a row here.

use std::cell::OnceCell;
use std::path::Path;

use crate::ground::failure::Failure;
use crate::ground::format::Format;
use crate::ground::library::Library;
use crate::ground::output;
use crate::harness::plans::{self, Planned};
use crate::harness::records::Record;
use crate::harness::records::batches::{self as searches, BatchRow};
use crate::harness::replay::{self, Execution};
use crate::harness::suite::Suite;
use crate::views::aggregate::{Arena, Table, claims, overview, planning};
use crate::views::batches;
use crate::views::published::Published;
use crate::views::table::{self, digest, ratios, replay as executions, rows};
use crate::views::trajectory::{self, Trajectory};

/// What a view comes to; nothing where the results have nothing of the kind.
type Made<T> = Result<Option<T>, Failure>;

/// A view of recorded results.
pub struct View {
    /// What `--show` calls it.
    pub name: &'static str,
    /// One line of help.
    pub help: &'static str,
    /// Where it is shown without being asked for.
    pub place: Place,
    /// The table; none where the results have nothing of the kind.
    table: fn(&Material<'_>) -> Made<Table>,
    /// Its text, where that is not the table as it stands.
    text: Option<fn(&Material<'_>, Format) -> Made<String>>,
    /// What would bring something to show.
    remedy: &'static str,
}

/// Where a view is shown without being asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// On a terminal, in `tables.md` and on the page.
    Everywhere,
    /// On the page.
    Page,
    /// Nowhere.
    Nowhere,
}

/// Every view, in the order of pages.
pub const VIEWS: &[View] = &[
    View {
        name: "summary",
        help: "Over all cases: schedules, proofs, means with their shift, PAR2",
        place: Place::Page,
        table: |material| Ok(Some(overview::summary(material.arena()?))),
        text: None,
        remedy: "",
    },
    View {
        name: "ratios",
        help: "Ratios to the optimum of the fixed order, beside published ones",
        place: Place::Everywhere,
        table: |material| {
            let title = "Ratios to the optimum of the fixed order";
            let table = ratios::table(material.records, material.published()?);
            Ok(table.map(|(caption, grid)| Table { title, caption, grid }))
        },
        text: Some(|material, format| Ok(ratios::render(material.records, material.published()?, format))),
        remedy: "no row claims the optimum of the fixed order; run checkmate-ilp on these instances",
    },
    View {
        name: "batches",
        help: "Largest batches, beside published ones",
        place: Place::Everywhere,
        table: |material| {
            let (rows, published) = (material.searches()?, material.published()?);
            let (title, caption) = ("Largest batches", batches::caption(rows, published));
            Ok((!rows.is_empty()).then(|| Table { title, caption, grid: batches::grid(rows, published, true) }))
        },
        text: Some(|material, format| {
            let rows = material.searches()?;
            let text = || Ok(batches::render(rows, material.published()?, format));
            if rows.is_empty() { Ok(None) } else { text().map(Some) }
        }),
        remedy: "max-batch.csv holds no row; run a suite that has [max_batch]",
    },
    View {
        name: "replay",
        help: "Errors of simulated time and peak against executed ones, by method",
        place: Place::Everywhere,
        table: |material| material.executions(executions::Group::Method),
        text: None,
        remedy: "nothing was executed; run bench replay",
    },
    View {
        name: "replay-networks",
        help: "The same by network",
        place: Place::Page,
        table: |material| material.executions(executions::Group::Instance),
        text: None,
        remedy: "nothing was executed; run bench replay",
    },
    View {
        name: "overheads",
        help: "Overhead per budget",
        place: Place::Everywhere,
        table: |material| {
            let grid = table::grid(&table::summarise(material.records));
            Ok(Some(Table { title: "Overhead per budget", caption: table::CAPTION.into(), grid }))
        },
        text: Some(|material, format| {
            Ok(Some(table::render(&table::summarise(material.records), format, material.suite)))
        }),
        remedy: "",
    },
    View {
        name: "digest",
        help: "One screen: mean overheads, what was solved and proved, what planning took, and what follows",
        place: Place::Page,
        table: |material| Ok(Some(digest::table(material.arena()?))),
        text: Some(|material, format| material.digest(format).map(Some)),
        remedy: "",
    },
    View {
        name: "statuses",
        help: "Rows by status",
        place: Place::Page,
        table: |material| Ok(Some(overview::statuses(material.records))),
        text: None,
        remedy: "",
    },
    View {
        name: "virtual-best",
        help: "The fastest schedule of each case, and whose",
        place: Place::Page,
        table: |material| Ok(Some(overview::virtual_best(material.arena()?))),
        text: None,
        remedy: "",
    },
    View {
        name: "profile",
        help: "Performance profiles of Dolan and Moré",
        place: Place::Page,
        table: |material| Ok(Some(overview::profiles(material.arena()?))),
        text: None,
        remedy: "",
    },
    View {
        name: "quality",
        help: "Quality after planning for 1, 10 and 100 s, and the primal integral",
        place: Place::Page,
        table: |material| Ok(Some(planning::quality(material.arena()?))),
        text: None,
        remedy: "",
    },
    View {
        name: "gaps",
        help: "Planning time to 5, 2 and 1 % of the best, and of the bound",
        place: Place::Page,
        table: |material| Ok(Some(planning::gaps(material.arena()?))),
        text: None,
        remedy: "",
    },
    View {
        name: "claims",
        help: "Claimed against simulated (and executed) time and peak",
        place: Place::Page,
        table: |material| Ok(Some(claims::table(material.records, material.executed()?))),
        text: None,
        remedy: "",
    },
    View {
        name: "rows",
        help: "Every row: overhead, peak, bound, gap, seconds to the first and the best schedule and to gaps, arena of a plan, published figures",
        place: Place::Nowhere,
        table: |material| {
            Ok(Some(rows::table(material.records, material.trajectories()?, material.plans()?, material.published()?)))
        },
        text: None,
        remedy: "",
    },
];

/// The view with a name.
pub fn find(name: &str) -> Option<&'static View> {
    VIEWS.iter().find(|view| view.name == name)
}

/// What views are made of; read and computed when a view asks for it.
pub struct Material<'a> {
    library: &'a Library,
    records: &'a [Record],
    folder: &'a Path,
    suite: Option<&'a Suite>,
    published: OnceCell<Published>,
    executed: OnceCell<Vec<Execution>>,
    searches: OnceCell<Vec<BatchRow>>,
    trajectories: OnceCell<Vec<Trajectory>>,
    plans: OnceCell<Vec<Planned>>,
    arena: OnceCell<Arena>,
}

/// What a cell holds, made where it is asked for first.
fn cell<T>(cell: &OnceCell<T>, make: impl FnOnce() -> Result<T, Failure>) -> Result<&T, Failure> {
    if let Some(there) = cell.get() {
        return Ok(there);
    }
    let made = make()?;
    Ok(cell.get_or_init(|| made))
}

impl<'a> Material<'a> {
    /// The rows of a folder, and the suite that was run, where it is known.
    pub fn new(library: &'a Library, records: &'a [Record], folder: &'a Path, suite: Option<&'a Suite>) -> Self {
        Self {
            library,
            records,
            folder,
            suite,
            published: OnceCell::new(),
            executed: OnceCell::new(),
            searches: OnceCell::new(),
            trajectories: OnceCell::new(),
            plans: OnceCell::new(),
            arena: OnceCell::new(),
        }
    }

    /// The published figures that the suite names; none where it names none.
    fn published(&self) -> Result<&Published, Failure> {
        cell(&self.published, || {
            let path = self.suite.and_then(|suite| suite.published.as_ref());
            let read = |path| Published::read(&self.library.root.join(path));
            path.map(read).transpose().map(Option::unwrap_or_default)
        })
    }

    fn executed(&self) -> Result<&[Execution], Failure> {
        cell(&self.executed, || replay::read(self.folder)).map(Vec::as_slice)
    }

    fn searches(&self) -> Result<&[BatchRow], Failure> {
        cell(&self.searches, || searches::read(self.folder)).map(Vec::as_slice)
    }

    fn trajectories(&self) -> Result<&[Trajectory], Failure> {
        cell(&self.trajectories, || trajectory::read_all(self.records, self.folder)).map(Vec::as_slice)
    }

    /// The plans of addresses that were made of the rows' schedules.
    ///
    /// # Errors
    /// `plans.csv` cannot be read.
    pub fn plans(&self) -> Result<&[Planned], Failure> {
        cell(&self.plans, || plans::read(self.folder)).map(Vec::as_slice)
    }

    /// Methods and cases of the rows.
    ///
    /// # Errors
    /// A trace cannot be read.
    pub fn arena(&self) -> Result<&Arena, Failure> {
        cell(&self.arena, || Ok(Arena::new(self.records, self.trajectories()?)))
    }

    fn executions(&self, group: executions::Group) -> Result<Option<Table>, Failure> {
        let executed = self.executed()?;
        Ok((!executed.is_empty()).then(|| executions::table(self.records, executed, group)))
    }

    /// Whether a view is shown without being asked for: ratios only where the suite wants them.
    fn wants(&self, view: &View) -> bool {
        view.name != "ratios" || self.suite.is_some_and(|suite| suite.ratios)
    }

    /// The tables of the page, in its order.
    ///
    /// # Errors
    /// A file that belongs to the rows cannot be read.
    pub fn page(&self) -> Result<Vec<Table>, Failure> {
        let views = VIEWS.iter().filter(|view| view.place != Place::Nowhere && self.wants(view));
        let tables = views.map(|view| (view.table)(self)).collect::<Result<Vec<_>, _>>()?;
        Ok(tables.into_iter().flatten().collect())
    }

    /// Every view that is shown everywhere, in the formats for people; the overheads alone in the others.
    ///
    /// # Errors
    /// As [`Self::page`].
    pub fn all(&self, format: Format) -> Result<String, Failure> {
        let people = matches!(format, Format::Text | Format::Md);
        let shown = |view: &&View| view.place == Place::Everywhere && self.wants(view);
        let views = VIEWS.iter().filter(|view| if people { shown(view) } else { view.name == "overheads" });
        let texts = views.map(|view| self.text(view, format)).collect::<Result<Vec<_>, _>>()?;
        Ok(texts.into_iter().flatten().collect::<Vec<_>>().join("\n"))
    }

    /// The digest.
    ///
    /// # Errors
    /// As [`Self::page`].
    pub fn digest(&self, format: Format) -> Result<String, Failure> {
        Ok(digest::render(self.arena()?, format, output::width()))
    }

    /// One view, in any format.
    ///
    /// # Errors
    /// As [`Self::page`]; or the results have nothing of the kind.
    pub fn one(&self, view: &View, format: Format) -> Result<String, Failure> {
        self.text(view, format)?.ok_or_else(|| Failure::input(format!("{}: {}", self.folder.display(), view.remedy)))
    }

    fn text(&self, view: &View, format: Format) -> Result<Option<String>, Failure> {
        match view.text {
            Some(text) => text(self, format),
            None => Ok((view.table)(self)?.map(|table| table.render(format))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_have_names_of_their_own() {
        for (at, view) in VIEWS.iter().enumerate() {
            assert!(VIEWS[..at].iter().all(|other| other.name != view.name) && find(view.name).is_some());
        }
    }
}
