//! A page for each method, from its doc comment and from what it says of itself. The comments are read from
//! the checkout's `formulations/src`, so pages can be made only there.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use remat_formulations::{BudgetUse, METHODS, Method};

use crate::ground::failure::Failure;
use crate::ground::library::Library;
use crate::ground::output;

/// Writes `ID.md` for every method and `README.md` with a list of them; returns how many methods.
///
/// # Errors
/// The sources are not there, a method has no doc comment, or the folder cannot be written.
pub fn write(library: &Library, folder: &Path) -> Result<usize, Failure> {
    let sources = Sources::read(&library.root.join("formulations/src"))?;
    std::fs::create_dir_all(folder).map_err(Failure::cannot("write", folder))?;
    let mut index = String::from(
        "# Methods\n\nMade by `bench methods --pages docs/methods` from the doc comments in `formulations/src/`; do not edit.\n\n",
    );
    index += "| id | claim | what it is |\n|---|---|---|\n";
    for method in METHODS {
        let about = method.about();
        let id = method.id();
        let path = folder.join(format!("{id}.md"));
        output::replace_file(&path, page(*method, &sources)?)?;
        // Writing to a text cannot fail.
        let _ = writeln!(index, "| [{id}]({id}.md) | {} | {} |", method.usual_claim(), cell(about.title));
    }
    output::replace_file(&folder.join("README.md"), index)?;
    Ok(METHODS.len())
}

/// A text as a cell of a Markdown table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

fn page(method: &dyn Method, sources: &Sources) -> Result<String, Failure> {
    let about = method.about();
    let id = method.id();
    let name = method.type_name().rsplit("::").next().unwrap_or_default();
    let (file, comment) = sources.comment_of(name).ok_or_else(|| {
        Failure::input(format!("method {id}: no doc comment stands above `pub struct {name}` under formulations/src"))
    })?;
    let budgets = if about.budgets == BudgetUse::Used { "used" } else { "ignored" };
    let mut page = format!("# {id}\n\n{}\n\n", about.title);
    let facts = [
        ("claim", method.usual_claim().to_string()),
        ("budgets", budgets.into()),
        ("reference", about.reference.into()),
        ("source", format!("[{file}](../../{file})")),
    ];
    page += "| | |\n|---|---|\n";
    for (what, text) in facts {
        let _ = writeln!(page, "| {what} | {} |", cell(&text));
    }
    if !about.parameters.is_empty() {
        page += "\n## Parameters\n\n| name | default | values | meaning |\n|---|---|---|---|\n";
        for spec in about.parameters {
            let kind = cell(&spec.kind.to_string());
            let _ = writeln!(page, "| `{}` | `{}` | {kind} | {} |", spec.name, spec.default, cell(spec.help));
        }
    }
    let _ = write!(page, "\n## What it is\n\n{}", markdown(&comment));
    Ok(page)
}

/// A doc comment as a section of a page: headings one level down, links to items as their names.
fn markdown(comment: &str) -> String {
    let mut text = String::new();
    let mut code = false;
    for line in comment.lines() {
        code ^= line.trim_start().starts_with("```");
        if line.starts_with('#') && !code {
            text += "#";
        }
        text += &if code { line.to_owned() } else { without_item_links(line) };
        text.push('\n');
    }
    text
}

/// A name in brackets and backticks is a link in the documentation of the code, and a name anywhere else.
fn without_item_links(line: &str) -> String {
    line.replace("[`", "`").replace("`]", "`")
}

/// The source files, with their paths in the checkout.
struct Sources {
    files: Vec<(String, String)>,
}

impl Sources {
    fn read(folder: &Path) -> Result<Self, Failure> {
        let mut paths = Vec::new();
        collect(folder, &mut paths).map_err(|error| {
            Failure::at(folder)(format!("cannot read the methods' sources: {error}; run inside a checkout"))
        })?;
        paths.sort();
        let mut files = Vec::new();
        for path in paths {
            let text = std::fs::read_to_string(&path).map_err(Failure::unreadable(&path))?;
            let inside = path.strip_prefix(folder).unwrap_or(&path);
            files.push((format!("formulations/src/{}", inside.display()), text));
        }
        Ok(Self { files })
    }

    /// File and doc comment of a type.
    fn comment_of(&self, name: &str) -> Option<(&str, String)> {
        self.files.iter().find_map(|(path, text)| Some((path.as_str(), comment_above(text, name)?)))
    }
}

/// The doc comment above `pub struct NAME`, attributes between the two aside.
fn comment_above(text: &str, name: &str) -> Option<String> {
    let lines: Vec<_> = text.lines().collect();
    let declares = |line: &&str| {
        let rest = line.strip_prefix("pub struct ").and_then(|rest| rest.strip_prefix(name));
        rest.is_some_and(|rest| rest.starts_with([';', ' ', '(', '{', '<']))
    };
    let at = lines.iter().position(declares)?;
    let above = lines[..at].iter().rev().skip_while(|line| line.starts_with("#["));
    let mut comment: Vec<_> = above.map_while(|line| line.strip_prefix("///")).collect();
    comment.reverse();
    let lines: Vec<_> = comment.iter().map(|line| line.strip_prefix(' ').unwrap_or(line)).collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

fn collect(folder: &Path, paths: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for item in std::fs::read_dir(folder)? {
        let path = item?.path();
        if path.is_dir() {
            collect(&path, paths)?;
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            paths.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_comment_is_what_stands_above_the_type() {
        let text = "/// No.\npub struct Other;\n\n/// First\n///\n/// # Claim\n/// [`x`] holds.\n#[derive(Clone)]\npub struct Name {\n";
        assert_eq!(comment_above(text, "Name").as_deref(), Some("First\n\n# Claim\n[`x`] holds."));
        assert_eq!(comment_above(text, "Na"), None);
        assert_eq!(comment_above("pub struct Bare;", "Bare"), None);
    }

    #[test]
    fn headings_go_one_level_down_and_links_to_items_become_names() {
        assert_eq!(markdown("# Claim\n[`x`] holds.\n```\n# code\n```"), "## Claim\n`x` holds.\n```\n# code\n```\n");
    }
}
