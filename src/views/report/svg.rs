//! Figures within a page: the colours of paper and ink are the page's, so that they suit light and dark alike.

use maud::{Markup, PreEscaped};

use crate::ground::failure::Failure;
use crate::views::plot::Named;

/// What the drawing library writes, and the page's word for it. Colours of methods stay, but for black, which
/// no dark page shows.
const COLOURS: [(&str, &str); 5] = [
    ("\"#FFFFFF\"", "\"var(--paper)\""),
    ("\"#1E1E1E\"", "\"var(--ink)\""),
    ("\"#6E6E6E\"", "\"var(--muted)\""),
    ("\"#E1E1E1\"", "\"var(--line)\""),
    ("\"#000000\"", "\"var(--black)\""),
];

/// A figure as part of the page.
///
/// # Errors
/// It cannot be drawn.
pub fn inline(named: &Named) -> Result<Markup, Failure> {
    let text = named.figure.svg().map_err(|error| Failure::failed(format!("{}: {error}", named.file)))?;
    let mut text = COLOURS.iter().fold(text, |text, (from, to)| text.replace(from, to));
    let name = named.figure.title.replace(['"', '<', '&'], " ");
    if let Some(at) = text.find("<svg ") {
        text.insert_str(at + 5, &format!("class=\"figure\" role=\"img\" aria-label=\"{name}\" "));
    }
    Ok(PreEscaped(text))
}
