//! A page per paper: what it prints beside what came out here.

use maud::{Markup, html};

use super::frame::{Cell, Page, table};
use super::{Output, Site};
use crate::ground::failure::Failure;
use crate::ground::names::file_name;
use crate::views::report::parts::grid;
use crate::views::reproduce::catalogue::{Catalogue, Kind, Paper};
use crate::views::reproduce::list::verdict;
use crate::views::reproduce::outcome::{self, Counts};
use crate::views::reproduce::verdict::Verdict;

pub fn write(site: &Site<'_>, output: &mut Output<'_>) -> Result<(), Failure> {
    // A folder without a catalogue of papers has a site none the less.
    let there = site.library.folder().join("reproduce").is_dir();
    let catalogue = there.then(|| Catalogue::read(site.library)).transpose()?;
    let papers = catalogue.as_ref().map_or(&[][..], |catalogue| &catalogue.papers);
    let mut rows = Vec::new();
    for paper in papers {
        let counts = Counts::of_paper(site.library, paper)?;
        let mut row = vec![
            Cell::Link(format!("paper/{}.html", file_name(&paper.key)), paper.key.clone()),
            Cell::Text(paper.title.clone()),
            Cell::count(paper.entries.iter().filter(|entry| entry.kind != Kind::Not).count()),
            Cell::count(counts.judged()),
        ];
        let verdicts = [Verdict::Match, Verdict::Better, Verdict::Worse, Verdict::Differs];
        row.extend(verdicts.map(|verdict| Cell::count(counts.count(verdict))));
        rows.push(row);
    }
    let columns =
        ["paper", "title", "#tables and figures", "#figures judged", "#match", "#better", "#worse", "#differ"];
    let body = html! {
        @if rows.is_empty() { p { "There is no catalogue of papers beside these results." } }
        @else { (table("papers", "Papers", &columns, &rows)) }
    };
    output.page("papers.html", &Page { title: "Papers", section: "Papers", depth: 0, viewer: false, body })?;
    for (catalogue, paper) in catalogue.iter().flat_map(|catalogue| papers.iter().map(move |paper| (catalogue, paper)))
    {
        let body = comparisons(site, catalogue, paper)?;
        let page = Page { title: &paper.key, section: "Papers", depth: 1, viewer: false, body };
        output.page(&format!("paper/{}.html", file_name(&paper.key)), &page)?;
    }
    Ok(())
}

/// Each table and figure: how it is reproduced, the verdict, and every printed figure beside ours.
fn comparisons(site: &Site<'_>, catalogue: &Catalogue, paper: &Paper) -> Result<Markup, Failure> {
    let mut sections = Vec::new();
    for entry in &paper.entries {
        let compared = catalogue.compared_as(entry);
        let rows = outcome::last(site.library, &compared.id)?;
        sections.push(html! {
            section id=(file_name(&entry.id)) {
                h2 { (entry.item) ": " (entry.shows) }
                p { "Reproduced: " (entry.kind.label()) ". " (verdict(compared, &rows)) "." }
                p.note { (entry.why) "." }
                @if !rows.is_empty() && entry.same_as.is_none() {
                    details { summary { "Printed beside ours" }
                        (grid(&format!("{}-rows", file_name(&entry.id)), &entry.shows, &outcome::grid(&rows, false))) }
                }
            }
        });
    }
    Ok(html! { p { (paper.title) } @for section in &sections { (section) } })
}
