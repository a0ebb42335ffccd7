//! Figures within a page: the colours of paper and ink are the page's, so that they suit light and dark alike.

use std::fmt::Write;

use maud::{Markup, PreEscaped};
use plotters::style::RGBColor;

use crate::ground::failure::Failure;
use crate::views::plot::{Named, style};

/// What the drawing library writes, and the page's word for it.
const COLOURS: [(&str, &str); 4] = [
    ("\"#FFFFFF\"", "\"var(--paper)\""),
    ("\"#1E1E1E\"", "\"var(--ink)\""),
    ("\"#6E6E6E\"", "\"var(--muted)\""),
    ("\"#E1E1E1\"", "\"var(--line)\""),
];

/// A figure as part of the page.
///
/// # Errors
/// It cannot be drawn.
pub fn inline(named: &Named) -> Result<Markup, Failure> {
    let text = named.figure.svg().map_err(|error| Failure::failed(format!("{}: {error}", named.file)))?;
    let (mut text, dark) = for_both_papers(text);
    if let Some(at) = text.find('>').filter(|_| !dark.is_empty()) {
        text.insert_str(
            at + 1,
            &format!("<style>@media (prefers-color-scheme: dark) {{ .figure {{ {dark}}} }}</style>"),
        );
    }
    let name = named.figure.title.replace(['"', '<', '&'], " ");
    if let Some(at) = text.find("<svg ") {
        text.insert_str(at + 5, &format!("class=\"figure\" role=\"img\" aria-label=\"{name}\" "));
    }
    Ok(PreEscaped(text))
}

/// The text of a figure with the page's colours, and the colours of methods that dark paper needs in place of its own.
fn for_both_papers(text: String) -> (String, String) {
    let mut text = COLOURS.iter().fold(text, |text, (from, to)| text.replace(from, to));
    let mut dark = String::new();
    for colour in style::colours() {
        let (light, other) = (hex(colour), hex(style::on_dark(colour)));
        let from = format!("\"#{light}\"");
        if light != other && text.contains(&from) {
            text = text.replace(&from, &format!("\"var(--c{light}, #{light})\""));
            let _ = write!(dark, "--c{light}: #{other}; ");
        }
    }
    (text, dark)
}

/// A colour as the drawing library writes it, without the sign.
pub fn hex(RGBColor(red, green, blue): RGBColor) -> String {
    format!("{red:02X}{green:02X}{blue:02X}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dark_colours_of_methods_are_exchanged_on_dark_paper_and_others_stay() {
        let (text, dark) = for_both_papers("<a fill=\"#000000\"/><b fill=\"#0072B2\"/><c fill=\"#FFFFFF\"/>".into());
        assert_eq!(text, "<a fill=\"var(--c000000, #000000)\"/><b fill=\"#0072B2\"/><c fill=\"var(--paper)\"/>");
        assert_eq!(dark, "--c000000: #F2F2F2; ");
    }
}
