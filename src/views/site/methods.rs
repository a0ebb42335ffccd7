//! The list of methods, and a page for each: what the book says of it, and what it did for the library.

use maud::{Markup, html};
use remat_formulations::{METHODS, Method, Spec};

use super::frame::{Cell, Page, table};
use super::{Output, Site};
use crate::ground::failure::Failure;
use crate::harness::best::{CLASSES, Entry, Status};
use crate::views::plot::library;
use crate::views::report::parts::method as label;
use crate::views::report::svg;

pub fn write(site: &Site<'_>, output: &mut Output<'_>) -> Result<(), Failure> {
    let row = |method: &&dyn Method| {
        let id = method.id();
        vec![
            Cell::Markup(html! { a href={ "method/" (id) ".html" } { (label(id)) } }),
            Cell::Text(method.usual_claim().to_string()),
            Cell::Text(method.about().title.into()),
            Cell::count(site.entries.iter().filter(|entry| is_by(&entry.found_by, id)).count()),
            Cell::count(site.entries.iter().filter(|entry| is_by(&entry.bound_by, id)).count()),
        ]
    };
    let methods: Vec<&dyn Method> = METHODS.iter().map(|method| *method as &dyn Method).collect();
    let rows: Vec<Vec<Cell>> = methods.iter().map(row).collect();
    let body = html! {
        p { "What each claims is exact: a schedule is optimal, and a bound holds, for the schedules that the claim names." }
        (table("methods", "Methods", &["method", "claim", "what it is", "#schedules in the library", "#proofs in the library"], &rows))
    };
    output.page("methods.html", &Page { title: "Methods", section: "Methods", depth: 0, viewer: false, body })?;
    methods.iter().try_for_each(|method| one(site, *method, output))
}

/// Whether a label is one of a method, whatever its parameters.
fn is_by(label: &str, id: &str) -> bool {
    label.parse::<Spec>().is_ok_and(|spec| spec.id == id)
}

fn one(site: &Site<'_>, method: &dyn Method, output: &mut Output<'_>) -> Result<(), Failure> {
    let id = method.id();
    let body = html! {
        section { h2 { "In the library" } (profile(site, id)?) }
        section.doc { (document(site, method)?) }
    };
    let page = Page { title: id, section: "Methods", depth: 1, viewer: false, body };
    output.page(&format!("method/{id}.html"), &page)
}

/// The book's page; where there is no book, what the method says of itself.
fn document(site: &Site<'_>, method: &dyn Method) -> Result<Markup, Failure> {
    let page = site.book_page(&format!("methods/{}.md", method.id()))?;
    let own = || html! { p { (method.about().title) } p { (method.usual_claim().to_string()) } };
    Ok(page.unwrap_or_else(own))
}

/// How many cases have their best schedule, or their proof, from a method, and how far the former are from the bound.
fn profile(site: &Site<'_>, id: &str) -> Result<Markup, Failure> {
    let found: Vec<&Entry> = site.entries.iter().filter(|entry| is_by(&entry.found_by, id)).collect();
    let figure = library::gaps(&found, false).as_ref().map(svg::inline).transpose()?;
    let row = |(name, class): &(&str, remat_formulations::Class)| {
        let of_class = || site.entries.iter().filter(|entry| entry.class == *class);
        let found: Vec<&Entry> = of_class().filter(|entry| is_by(&entry.found_by, id)).collect();
        let proved: Vec<&Entry> = of_class().filter(|entry| is_by(&entry.bound_by, id)).collect();
        let within = |percent: f64| found.iter().filter(|entry| entry.gap.is_some_and(|gap| gap <= percent)).count();
        let of = |status| proved.iter().filter(|entry| entry.status == status).count();
        vec![
            Cell::Text((*name).into()),
            Cell::count(of_class().filter(|entry| entry.time.is_some()).count()),
            Cell::count(found.len()),
            Cell::count(found.iter().filter(|entry| entry.status == Status::Solved).count()),
            Cell::count(within(0.1)),
            Cell::count(within(1.0)),
            Cell::count(proved.len()),
            Cell::count(of(Status::Solved)),
            Cell::count(of(Status::Infeasible)),
        ]
    };
    let columns = [
        "schedules",
        "#cases with a schedule",
        "#best by this method",
        "#of them solved",
        "#within 0.1 % of the bound",
        "#within 1 %",
        "#bounds by this method",
        "#of solved cases",
        "#infeasible proved",
    ];
    let rows: Vec<Vec<Cell>> = CLASSES.iter().map(row).collect();
    Ok(html! {
        (table("profile", "In the library", &columns, &rows))
        @if let Some(figure) = &figure { div.figures { (figure) } }
        p.caption { "A best schedule that several methods found is counted for the first of them; a method that ran only where others had left a gap has fewer chances." }
    })
}
