//! What all pages have in common: head, navigation, tables with links in them.

use maud::{Markup, html};

use crate::ground::format;
use crate::views::report::parts::{document, is_long, sortable, tools};

/// What the site adds to the look of reports.
pub const STYLE: &str = include_str!("site.css");

/// The sections, with their pages.
const SECTIONS: [(&str, &str); 6] = [
    ("index.html", "Home"),
    ("networks.html", "Networks"),
    ("methods.html", "Methods"),
    ("papers.html", "Papers"),
    ("open.html", "Open problems"),
    ("submit.html", "Submit"),
];

/// A page.
pub struct Page<'a> {
    /// Heading, and name of the window.
    pub title: &'a str,
    /// The section that it belongs to.
    pub section: &'a str,
    /// Folders between the page and the site's own.
    pub depth: usize,
    /// Whether it shows schedules.
    pub viewer: bool,
    /// What it says.
    pub body: Markup,
}

impl Page<'_> {
    /// The whole page.
    pub fn markup(&self) -> Markup {
        let up = "../".repeat(self.depth);
        let title = format!("{} · rematerialization library", self.title);
        let style = html! { link rel="stylesheet" href={ (up) "style.css" }; };
        let body = html! {
            a.skip href="#content" { "Skip to the content" }
            header {
                p.kicker { "bench · the library of rematerialization" }
                h1 { (self.title) }
                nav aria-label="Sections" {
                    @for (page, name) in SECTIONS {
                        a href={ (up) (page) } aria-current=[(name == self.section).then_some("page")] { (name) }
                    }
                }
            }
            main #content { (self.body) }
            script src={ (up) "tables.js" } {}
            @if self.viewer { script src={ (up) "viewer.js" } {} }
        };
        document(&title, &style, &body)
    }
}

/// A cell: what is shown, and for columns of numbers what it is sorted by.
pub enum Cell {
    /// A text.
    Text(String),
    /// A text that leads to another page.
    Link(String, String),
    /// Anything else.
    Markup(Markup),
    /// A number and its text; none: the cell stays empty, and comes last.
    Number(Option<f64>, String),
}

impl Cell {
    /// A whole number.
    pub fn count(number: usize) -> Self {
        Self::Number(Some(number as f64), number.to_string())
    }

    /// Per cent.
    pub fn percent(value: Option<f64>) -> Self {
        Self::Number(value, value.map_or(String::new(), format::percent))
    }

    fn markup(&self) -> Markup {
        html! {
            @match self {
                Self::Text(text) => td.long[is_long(text)] { (text) },
                Self::Link(target, text) => td.long[is_long(text)] { a href=(target) { (text) } },
                Self::Markup(markup) => td { (markup) },
                Self::Number(value, text) => td.number data-sort=[value.as_ref()] { (text) },
            }
        }
    }
}

/// A table that can be sorted, and filtered where it is long. A column whose name begins with `#` holds numbers.
pub fn table(id: &str, title: &str, columns: &[&str], rows: &[Vec<Cell>]) -> Markup {
    let head = columns.iter().map(|name| (name.trim_start_matches('#'), name.starts_with('#')));
    let body = html! { @for row in rows { tr { @for cell in row { (cell.markup()) } } } };
    html! {
        @if rows.len() > 8 { (tools(id)) }
        (sortable(id, title, head, &body))
    }
}
