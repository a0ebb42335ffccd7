//! The library as a site of static pages: home, networks, methods, papers, open problems, how to submit.
//!
//! It lays out what others say: the lines of `best-known.csv`, what the simulator records of each schedule, the figures of
//! [`crate::views::plot`], the viewer and the tables of [`crate::views::report`], the methods' pages of the book, the comparisons of
//! [`crate::views::reproduce`]. Texts are escaped by `maud` as pages are built; Markdown's own HTML is text here.

mod frame;
mod home;
mod markdown;
mod methods;
mod networks;
mod papers;

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::Path;

use maud::Markup;

use crate::ground::failure::Failure;
use crate::ground::library::Library;
use crate::ground::names::file_name;
use crate::ground::output;
use crate::harness::best::{self, Entry, Status};
use crate::harness::recorded::Instances;
use crate::harness::run::plan::Subject;
use crate::views::report;

/// What the site is made of.
struct Site<'a> {
    library: &'a Library,
    results: &'a Path,
    entries: &'a [Entry],
    networks: Vec<Network<'a>>,
    /// Up to how many operators a network's page has a program for other solvers.
    programs: usize,
}

impl Site<'_> {
    /// A page of the book, without its title; none where there is no book.
    fn book_page(&self, name: &str) -> Result<Option<Markup>, Failure> {
        let path = self.library.root.join("docs").join(name);
        if !path.is_file() {
            return Ok(None);
        }
        let text = std::fs::read_to_string(&path).map_err(Failure::unreadable(&path))?;
        let (_, below) = text.split_once('\n').unwrap_or_default();
        Ok(Some(markdown::render(below)))
    }
}

/// A network of the library.
struct Network<'a> {
    /// Its name, in characters safe for paths and addresses.
    file: String,
    subject: Subject,
    entries: Vec<&'a Entry>,
}

impl<'a> Network<'a> {
    fn name(&self) -> &str {
        self.subject.instance.name()
    }

    /// The folder of the instance below `instances/`.
    fn family(&self, library: &Library) -> String {
        Path::new(&self.called(library)).parent().unwrap_or(Path::new("")).display().to_string()
    }

    /// What `bench` calls the instance.
    fn called(&self, library: &Library) -> String {
        let path = &self.subject.path;
        path.strip_prefix(library.folder()).unwrap_or(path).display().to_string()
    }

    /// The case in the fixed order that leaves most open: without a gap, with the widest, or else with the smallest budget.
    fn hardest(&self) -> Option<&'a Entry> {
        let (_, fixed) = best::CLASSES[0];
        let feasible =
            self.entries.iter().copied().filter(|entry| entry.class == fixed && entry.status != Status::Infeasible);
        let rank = |entry: &Entry| entry.open_gap().unwrap_or(-(entry.budget_size as f64));
        feasible.max_by(|one, other| rank(one).total_cmp(&rank(other)))
    }
}

/// Pages as they are written.
struct Output<'a> {
    folder: &'a Path,
    pages: usize,
}

impl Output<'_> {
    fn page(&mut self, name: &str, page: &frame::Page<'_>) -> Result<(), Failure> {
        self.pages += 1;
        self.file(name, page.markup().into_string().as_bytes())
    }

    fn file(&self, name: &str, contents: &[u8]) -> Result<(), Failure> {
        self.write(name, |path| output::replace_file(path, contents))
    }

    fn write<E: Display>(&self, name: &str, contents: impl FnOnce(&Path) -> Result<(), E>) -> Result<(), Failure> {
        output::write_file(&self.folder.join(name), contents)
    }
}

/// Writes the site of a folder of results, with programs for other solvers of networks of up to so many operators; returns the
/// number of pages.
///
/// # Errors
/// Files are none of ours, an instance is gone, or the folder cannot be written.
pub fn write(library: &Library, results: &Path, folder: &Path, programs: usize) -> Result<usize, Failure> {
    let entries = best::read(results)?;
    if entries.is_empty() {
        let path = best::path_in(results);
        return Err(Failure::input(format!(
            "{}: holds no value; `bench best --help` says how to get some",
            path.display()
        )));
    }
    let site = Site { library, results, entries: &entries, networks: networks_of(&entries, results)?, programs };
    let mut output = Output { folder, pages: 0 };
    output.file("style.css", format!("{}{}", report::STYLE, frame::STYLE).as_bytes())?;
    output.file("tables.js", report::TABLES.as_bytes())?;
    output.file("viewer.js", report::VIEWER.as_bytes())?;
    home::write(&site, &mut output)?;
    networks::write(&site, &mut output)?;
    methods::write(&site, &mut output)?;
    papers::write(&site, &mut output)?;
    Ok(output.pages)
}

/// The networks of some entries, by name.
fn networks_of<'a>(entries: &'a [Entry], results: &Path) -> Result<Vec<Network<'a>>, Failure> {
    let mut by_hash: BTreeMap<(&str, &str), Vec<&Entry>> = BTreeMap::new();
    for entry in entries {
        by_hash.entry((&entry.instance, &entry.instance_hash)).or_default().push(entry);
    }
    let mut instances = Instances::new(results);
    let mut networks: Vec<Network<'_>> = Vec::with_capacity(by_hash.len());
    for ((name, hash), entries) in by_hash {
        let subject = Subject::read(instances.path(name, hash).map_err(Failure::input)?)?;
        // Two instances of one name differ in their hashes.
        let taken = networks.last().is_some_and(|last| last.name() == name);
        let file = file_name(&if taken { format!("{name}-{hash}") } else { name.to_owned() });
        networks.push(Network { file, subject, entries });
    }
    Ok(networks)
}
