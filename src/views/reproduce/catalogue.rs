//! The catalogue: every table and figure of the papers, what is done about it, and how it is compared.
//! One file per paper, `instances/reproduce/*.toml`.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::cells::Pass;
use super::quantity::{Direction, Quantity};
use super::verdict::Rule;
use crate::ground::failure::Failure;
use crate::ground::library::Library;
use crate::ground::names::nearest;
use crate::harness::suite::Curves;
use crate::views::plot::tick;

/// A paper's file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Paper {
    /// Key, as in `results/published/`: `monet-iclr-2021`.
    #[serde(rename = "paper")]
    pub key: String,
    /// Authors, title, place.
    pub title: String,
    /// Tables that it has: `Table 1` to this one have an entry each.
    pub tables: usize,
    /// Figures, likewise.
    pub figures: usize,
    /// What it shows.
    #[serde(rename = "entry")]
    pub entries: Vec<Entry>,
}

/// A table or a figure.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// `monet-table-2`.
    pub id: String,
    /// `Table 2`.
    pub item: String,
    /// What it shows, in a line.
    pub shows: String,
    /// How it is reproduced.
    pub kind: Kind,
    /// Why so, and what differs.
    pub why: String,
    /// Printed figures.
    #[serde(default)]
    pub figures: Vec<Source>,
    /// What is run.
    #[serde(default, rename = "run")]
    pub runs: Vec<Cells>,
    /// When two figures agree.
    #[serde(default)]
    pub agreement: Agreement,
    /// Quantities that are shown and not judged, with the reason.
    #[serde(default)]
    pub incomparable: BTreeMap<String, String>,
    /// Curves to draw of what was run.
    #[serde(default)]
    pub plot: Option<Curves>,
    /// Files of the checkout that show more.
    #[serde(default)]
    pub see: Vec<String>,
    /// The entry that shows the same, and is compared there.
    #[serde(default)]
    pub same_as: Option<String>,
}

/// How something is reproduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// From the same published data.
    Exact,
    /// On instances of our own.
    #[serde(rename = "in-kind")]
    OwnInstances,
    /// Not at all.
    Not,
}

impl Kind {
    /// As people write it.
    pub fn label(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::OwnInstances => "in kind",
            Self::Not => "not",
        }
    }
}

/// Where printed figures are.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// File of `results/published/`.
    pub file: String,
    /// Its rows with this `where`.
    #[serde(rename = "where")]
    pub location: String,
}

/// When two figures agree: within a share of the printed one, or within so many of its units.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Agreement {
    /// Share of the printed figure.
    #[serde(default)]
    pub within: f64,
    /// Units of the printed figure; hundredths of a share.
    #[serde(default)]
    pub points: f64,
}

impl Agreement {
    /// What stands behind "match": ` within 5 %`.
    pub fn words(&self) -> String {
        let share = format!("{} %", tick(100.0 * self.within));
        match (self.within > 0.0, self.points > 0.0) {
            (false, false) => " exactly".into(),
            (true, false) => format!(" within {share}"),
            (false, true) => format!(" within {}", tick(self.points)),
            (true, true) => format!(" within {share} or {}", tick(self.points)),
        }
    }
}

impl Default for Agreement {
    fn default() -> Self {
        Self { within: 0.05, points: 0.0 }
    }
}

/// A call of `bench run`; empty lists stand for all of the suite.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cells {
    /// Suite.
    pub suite: String,
    /// Patterns over instances.
    #[serde(default)]
    pub instances: Vec<String>,
    /// Methods with their parameters.
    #[serde(default)]
    pub methods: Vec<String>,
    /// Budgets.
    #[serde(default)]
    pub budgets: Vec<String>,
    /// Seeds.
    #[serde(default)]
    pub seeds: Vec<u64>,
    /// Wall seconds of each row.
    #[serde(default)]
    pub time_seconds: Option<f64>,
    /// What replaces these fields in a quick pass.
    #[serde(default)]
    pub quick: Part,
    /// Whether the suite's searches for the largest batch belong to it.
    #[serde(default)]
    pub batches: bool,
}

/// What of a suite a pass runs.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Part {
    /// Nothing.
    pub skip: bool,
    /// Patterns over instances.
    pub instances: Vec<String>,
    /// Methods with their parameters.
    pub methods: Vec<String>,
    /// Budgets.
    pub budgets: Vec<String>,
    /// Seeds.
    pub seeds: Vec<u64>,
    /// Wall seconds of each row.
    pub time_seconds: Option<f64>,
}

impl Cells {
    /// What a pass runs; none for nothing.
    pub fn part(&self, pass: Pass) -> Option<Part> {
        let quick = if pass == Pass::Quick { self.quick.clone() } else { Part::default() };
        let or = |less: Vec<String>, full: &Vec<String>| if less.is_empty() { full.clone() } else { less };
        let part = Part {
            skip: quick.skip,
            instances: or(quick.instances, &self.instances),
            methods: or(quick.methods, &self.methods),
            budgets: or(quick.budgets, &self.budgets),
            seeds: if quick.seeds.is_empty() { self.seeds.clone() } else { quick.seeds },
            time_seconds: quick.time_seconds.or(self.time_seconds),
        };
        Some(part).filter(|part| !part.skip)
    }
}

impl Entry {
    /// How a quantity of a method is judged.
    pub fn rule_for(&self, quantity: &Quantity, method: &str) -> Rule {
        // What store-all takes is a fact about the instance: neither more nor less of it is better.
        let direction = if method.starts_with("store-all") { Direction::Neither } else { quantity.direction() };
        let share = if *quantity == Quantity::LeastPeakRatio { 0.01 } else { 1.0 };
        Rule {
            within: self.agreement.within,
            points: self.agreement.points * share,
            direction,
            incomparable: self.incomparable.get(&quantity.to_string()).cloned(),
        }
    }
}

/// All papers, in the order of their files.
#[derive(Clone, Debug)]
pub struct Catalogue {
    /// The papers.
    pub papers: Vec<Paper>,
}

impl Catalogue {
    /// Reads `instances/reproduce/*.toml`.
    ///
    /// # Errors
    /// There is none, or a file breaks a rule.
    pub fn read(library: &Library) -> Result<Self, Failure> {
        let folder = library.folder().join("reproduce");
        let files = std::fs::read_dir(&folder).map_err(|error| {
            Failure::at(&folder)(format!("cannot list the catalogue: {error}; run inside a checkout"))
        })?;
        let mut paths: Vec<_> = files.flatten().map(|file| file.path()).collect();
        paths.retain(|path| path.extension().is_some_and(|ending| ending == "toml"));
        paths.sort();
        let papers = paths.iter().map(|path| read_paper(path)).collect::<Result<Vec<_>, _>>()?;
        let catalogue = Self { papers };
        catalogue.check().map_err(Failure::at(&folder))?;
        Ok(catalogue)
    }

    /// All entries, in order.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.papers.iter().flat_map(|paper| &paper.entries)
    }

    /// The entry with an id.
    ///
    /// # Errors
    /// There is none; the message has the nearest ids.
    pub fn find(&self, id: &str) -> Result<&Entry, Failure> {
        self.entries().find(|entry| entry.id == id).ok_or_else(|| {
            let near = nearest(id, self.entries().map(|entry| entry.id.as_str()));
            Failure::input(format!(
                "no table or figure {id:?}; nearest: {}; `bench reproduce --list` names all",
                near.join(", ")
            ))
        })
    }

    /// The entry itself, or the one that it is the same as.
    pub fn compared_as<'a>(&'a self, entry: &'a Entry) -> &'a Entry {
        let other = entry.same_as.as_ref().and_then(|id| self.entries().find(|other| other.id == *id));
        other.unwrap_or(entry)
    }

    fn check(&self) -> Result<(), String> {
        self.papers.iter().try_for_each(complete)?;
        let mut ids = HashSet::new();
        for entry in self.entries() {
            let id = &entry.id;
            if !ids.insert(id) {
                return Err(format!("{id} is there twice; ids are unique"));
            }
            if entry.why.trim().is_empty() || entry.shows.trim().is_empty() {
                return Err(format!("{id}: `shows` and `why` are empty; say what it is and why it is treated so"));
            }
            let made = !entry.runs.is_empty() || !entry.see.is_empty() || entry.same_as.is_some();
            match entry.kind {
                Kind::Not if made && entry.see.is_empty() => {
                    return Err(format!("{id}: is not reproduced and has something to run; give it another kind"));
                }
                Kind::Exact | Kind::OwnInstances if !made => {
                    return Err(format!("{id}: is reproduced, but has neither `run` nor `see` nor `same_as`"));
                }
                _ => {}
            }
        }
        for entry in self.entries() {
            let other = entry.same_as.as_ref().map(|id| (id, self.entries().find(|other| other.id == *id)));
            match other {
                Some((id, None)) => return Err(format!("{}: same_as names {id}, which is not there", entry.id)),
                Some((id, Some(other))) if other.same_as.is_some() => {
                    return Err(format!("{}: same_as names {id}, which itself stands for another", entry.id));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// None of a paper's tables and figures is forgotten, or there twice.
fn complete(paper: &Paper) -> Result<(), String> {
    for (word, count) in [("Table", paper.tables), ("Figure", paper.figures)] {
        for number in 1..=count {
            let item = format!("{word} {number}");
            let entries = paper.entries.iter().filter(|entry| entry.item == item).count();
            if entries != 1 {
                return Err(format!("{}: {item} has {entries} entries; each has one", paper.key));
            }
        }
    }
    Ok(())
}

fn read_paper(path: &Path) -> Result<Paper, Failure> {
    let text = std::fs::read_to_string(path).map_err(Failure::unreadable(path))?;
    toml::from_str(&text).map_err(|error| {
        let line = error.span().map_or(0, |span| text[..span.start.min(text.len())].matches('\n').count() + 1);
        Failure::at(path)(format!("line {line}: {}", error.message().trim().replace('\n', ", ")))
    })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn shipped() -> (Library, Catalogue) {
        let library = Library::locate();
        let catalogue = Catalogue::read(&library).unwrap();
        (library, catalogue)
    }

    #[test]
    fn a_table_or_figure_without_an_entry_is_noticed() {
        let mut catalogue = shipped().1;
        assert_eq!(catalogue.check(), Ok(()));
        assert!(catalogue.papers.len() >= 6);
        let paper = &mut catalogue.papers[0];
        paper.tables += 1;
        let expected = format!("{}: Table {} has 0 entries; each has one", paper.key, paper.tables);
        assert_eq!(catalogue.check(), Err(expected));
    }

    #[test]
    fn printed_figures_are_there_for_what_is_run_and_can_be_read() {
        let (library, catalogue) = shipped();
        for entry in catalogue.entries() {
            for source in &entry.figures {
                let figures = super::super::figures(&library, entry).unwrap();
                assert!(figures.iter().any(|figure| figure.location == source.location), "{}", entry.id);
                for figure in figures {
                    figure.quantity.parse::<Quantity>().unwrap();
                    figure.printed.parse::<super::super::verdict::Printed>().unwrap();
                }
            }
            assert!(entry.runs.is_empty() || !entry.figures.is_empty() || entry.plot.is_some(), "{}", entry.id);
        }
    }

    #[test]
    fn suites_files_and_quantities_that_entries_name_exist() {
        let (library, catalogue) = shipped();
        for entry in catalogue.entries() {
            for cells in &entry.runs {
                let file = crate::harness::suite::read(&library, &cells.suite).unwrap();
                let parts: Vec<_> = [Pass::Full, Pass::Quick].iter().filter_map(|&pass| cells.part(pass)).collect();
                for pattern in parts.iter().flat_map(|part| &part.instances) {
                    assert!(!library.matching(std::slice::from_ref(pattern)).unwrap().is_empty());
                }
                assert_eq!(file.suite.name, cells.suite);
            }
            for path in &entry.see {
                assert!(library.root.join(path).exists(), "{}: {path}", entry.id);
            }
            for quantity in entry.incomparable.keys() {
                quantity.parse::<Quantity>().unwrap();
            }
        }
    }

    #[test]
    fn points_of_a_share_are_hundredths() {
        // A tolerance of 1 would let every share match.
        let catalogue = shipped().1;
        let table = catalogue.find("monet-table-3").unwrap();
        let points = |quantity| table.rule_for(&quantity, "monet").points;
        assert_eq!((points(Quantity::OverheadAtLeastPeak), points(Quantity::LeastPeakRatio)), (1.0, 0.01));
    }

    #[test]
    fn a_wrong_id_is_answered_with_the_nearest() {
        let error = shipped().1.find("monet-tabel-2").unwrap_err().to_string();
        assert!(error.contains("nearest: monet-table-2"), "{error}");
    }
}
