//! Texts that nobody vouches for, made harmless for what shows them: one function per medium.
//!
//! Names, notes and errors come from files and from solvers. Escaping happens where something is written, so that what
//! is stored in memory stays as it was. HTML is escaped by `maud` as it is built.

use std::borrow::Cow;
use std::fmt::Write;

use serde::de::DeserializeOwned;

/// For a cell of CSV, and for fields of rows: `#[serde(with = "text::csv")]`.
pub use remat_core::cell::{self as csv, cell};

/// For a terminal, or a log: control characters and those that turn the direction of text are spelled out, as in JSON.
/// Line breaks and tabs stay.
pub fn terminal(text: &str) -> Cow<'_, str> {
    let harmful = |c: char| (c.is_control() && c != '\n' && c != '\t') || is_format(c);
    if !text.contains(harmful) {
        return text.into();
    }
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if harmful(c) {
            write!(shown, "\\u{:04x}", u32::from(c)).expect("a string takes everything");
        } else {
            shown.push(c);
        }
    }
    shown.into()
}

/// For one line of a terminal.
pub fn line(text: &str) -> String {
    terminal(text).replace(['\n', '\t'], " ")
}

/// Characters that are not seen, but change what is: marks and overrides of direction.
fn is_format(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// For SVG and HTML: without the characters that XML forbids even when they are escaped.
pub fn xml(text: &str) -> Cow<'_, str> {
    let forbidden = |c: char| (c < ' ' && !"\t\n\r".contains(c)) || matches!(c, '\u{fffe}' | '\u{ffff}');
    if text.contains(forbidden) { text.replace(forbidden, "\u{fffd}").into() } else { text.into() }
}

/// For a cell of a Markdown table: no cell, element of HTML or link begins or ends in it.
pub fn markdown(text: &str) -> String {
    let escaped = line(text).replace('\\', "\\\\").replace('|', "\\|");
    escaped.replace('<', "&lt;").replace("](", "]\\(")
}

/// For a cell of a LaTeX table.
pub fn latex(text: &str) -> String {
    let mut escaped = String::new();
    for c in line(text).chars() {
        match c {
            '&' | '%' | '$' | '#' | '_' | '{' | '}' => escaped.extend(['\\', c]),
            // Text fonts have other characters in these places.
            '<' | '>' => escaped.extend(['$', c, '$']),
            '~' => escaped.push_str("\\textasciitilde{}"),
            '^' => escaped.push_str("\\textasciicircum{}"),
            '\\' => escaped.push_str("\\textbackslash{}"),
            // At the start of a row a bracket would be taken for an argument of the line break.
            '[' | ']' => escaped.extend(['{', c, '}']),
            other => escaped.push(other),
        }
    }
    escaped
}

/// For a command line: one word of a shell.
pub fn shell(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=@:,+".contains(c);
    if !text.is_empty() && text.chars().all(plain) { text.into() } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

/// `1 row`, `2 rows`.
pub fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// Breaks a text into lines.
pub fn wrap(text: &str, width: usize) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        if lines.last().is_some_and(|line| line.len() + 1 + word.len() > width) {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines.join("\n") + "\n"
}

/// Reads TOML.
///
/// # Errors
/// `line N: MESSAGE`, on one line.
pub fn parse_toml<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    toml::from_str(text).map_err(|error| {
        let line = error.span().map_or(0, |span| text[..span.start.min(text.len())].matches('\n').count() + 1);
        format!("line {line}: {}", error.message().trim().replace('\n', ", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_spelled_out_on_terminals() {
        assert_eq!(terminal("a\u{1b}[31mb\r\u{9b}c\n\td"), "a\\u001b[31mb\\u000d\\u009bc\n\td");
        assert_eq!(terminal("gnp\u{202e}.exe"), "gnp\\u202e.exe");
        assert_eq!(terminal("résumé → µs"), "résumé → µs");
        assert_eq!(line("a\nb\u{7}"), "a b\\u0007");
    }

    #[test]
    fn formulas_are_texts_in_csv_and_numbers_stay_numbers() {
        for text in ["=1+1", "+cmd|' /C calc'!A0", "-1+1", "@SUM(A1)", "\t=1", "'quoted"] {
            assert_eq!(cell(text), format!("'{text}"));
        }
        for text in ["-1.5", "+3", "-", "", "a=b", "resnet", "-inf"] {
            assert_eq!(cell(text), text);
        }
    }

    #[test]
    fn no_cell_of_markdown_or_latex_leaves_its_place() {
        assert_eq!(markdown("a|b\\|c\n<b>[x](y)"), "a\\|b\\\\\\|c &lt;b>[x]\\(y)");
        assert_eq!(latex("\\input{x}"), "\\textbackslash{}input\\{x\\}");
    }

    #[test]
    fn paths_are_one_word_to_a_shell() {
        assert_eq!(["/a/b.json", "/a b/it's", ""].map(shell), ["/a/b.json", r"'/a b/it'\''s'", "''"]);
    }

    #[test]
    fn xml_has_no_forbidden_character() {
        assert_eq!(xml("a\u{1b}b\nc"), "a\u{fffd}b\nc");
    }
}
