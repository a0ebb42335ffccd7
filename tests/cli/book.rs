//! The book (docs/) and the pages beside it: links lead somewhere, lists are complete, and the errata's commands
//! print what the page says.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::checkout::Done;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap()
}

/// The binary in the checkout itself; single quotes around an argument are the shell's.
fn here(arguments: &str) -> Done {
    let arguments = arguments.split_whitespace().map(|argument| argument.trim_matches('\''));
    let mut command = Command::new(env!("CARGO_BIN_EXE_bench"));
    command.args(arguments).current_dir(root()).env("BENCH_CACHE", "").output().unwrap().into()
}

/// Every Markdown page of the checkout.
fn pages() -> Vec<PathBuf> {
    let mut pages = Vec::new();
    let mut folders = vec![root().to_owned()];
    while let Some(folder) = folders.pop() {
        for item in std::fs::read_dir(&folder).unwrap() {
            let path = item.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            if path.is_dir() {
                if !name.starts_with('.')
                    && !["target", "tutorial"].contains(&name)
                    && !path.join(".gitignore").exists()
                {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|ending| ending == "md") {
                pages.push(path);
            }
        }
    }
    pages.sort();
    pages
}

/// The lines of a page outside of code, with inline code blanked.
fn prose(text: &str) -> Vec<String> {
    let mut code = false;
    let mut lines = Vec::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            code = !code;
        } else if !code {
            lines.push(line.split('`').step_by(2).collect::<Vec<_>>().join("code"));
        }
    }
    lines
}

/// What the links and images of a page lead to.
fn targets(text: &str) -> Vec<String> {
    let lines = prose(text).join("\n");
    let ends = lines.split("](").skip(1).map(|rest| rest.split([')', ' ']).next().unwrap().to_owned());
    ends.filter(|target| !target.contains("://") && !target.starts_with("mailto:")).collect()
}

/// The anchors of a page's headings, as GitHub and mdBook name them.
fn anchors(text: &str) -> HashSet<String> {
    let mut code = false;
    let mut anchors = HashSet::new();
    for line in text.lines() {
        code ^= line.starts_with("```");
        let heading = line.trim_start_matches('#');
        if code || heading == line || !heading.starts_with(' ') {
            continue;
        }
        let kept = heading.trim().chars().filter(|&c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        anchors.insert(kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect());
    }
    anchors
}

#[test]
fn every_link_of_every_page_leads_somewhere() {
    let mut lost = Vec::new();
    for page in pages() {
        let text = std::fs::read_to_string(&page).unwrap();
        for target in targets(&text) {
            let (file, anchor) = target.split_once('#').unwrap_or((&target, ""));
            let path = if file.is_empty() { page.clone() } else { page.parent().unwrap().join(file) };
            let named =
                anchor.is_empty() || anchors(&std::fs::read_to_string(&path).unwrap_or_default()).contains(anchor);
            if !path.exists() || !named {
                lost.push(format!("{}: {target}", page.strip_prefix(root()).unwrap().display()));
            }
        }
    }
    assert!(lost.is_empty(), "links that lead nowhere:\n{}", lost.join("\n"));
}

#[test]
fn every_page_under_docs_is_in_the_summary() {
    let summary: HashSet<_> = targets(&read("docs/SUMMARY.md")).into_iter().collect();
    let docs = root().join("docs");
    let missing: Vec<_> = pages()
        .into_iter()
        .filter_map(|page| Some(page.strip_prefix(&docs).ok()?.to_str().unwrap().to_owned()))
        // Pages of methods are put there when the book is built (scripts/book.py).
        .filter(|page| page != "SUMMARY.md" && !page.starts_with("methods/") && !summary.contains(page))
        .collect();
    assert!(missing.is_empty(), "docs/SUMMARY.md lacks {missing:?}");
}

#[test]
fn every_shipped_suite_is_on_the_page_of_suites() {
    let page = read("docs/reference/suites.md");
    for item in std::fs::read_dir(root().join("instances/suites")).unwrap() {
        let path = item.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        assert!(page.contains(&format!("| `{name}` |")), "docs/reference/suites.md lacks {name}");
    }
}

#[test]
fn every_folder_of_instances_is_on_the_page_of_instances() {
    let page = read("docs/reference/instances.md");
    for item in std::fs::read_dir(root().join("instances")).unwrap() {
        let path = item.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() {
            let named = [format!("`{name}`"), format!("`{name}/`")].iter().any(|word| page.contains(word));
            assert!(named, "docs/reference/instances.md lacks {name}");
        }
    }
}

#[test]
fn every_view_of_tables_is_on_the_page_of_tables() {
    let page = read("docs/reference/tables.md");
    let line = read("docs/reference/command-line.md");
    let (_, rest) = line.split_once("--show <VIEW>").unwrap();
    let (_, values) = rest.split_once("Possible values:\n").unwrap();
    let (values, _) = values.split_once("\n\n").unwrap();
    for value in values.lines().filter_map(|line| line.trim().strip_prefix("- ")) {
        let name = value.split(':').next().unwrap();
        assert!(page.contains(&format!("`{name}`")), "docs/reference/tables.md lacks {name}");
    }
}

/// In blocks of `console`, a line that begins with `$` is a command, and the lines after it are in its output.
#[test]
fn the_commands_of_the_errata_print_what_the_page_says() {
    let page = read("docs/errata.md");
    let mut commands = 0;
    for block in page.split("```console\n").skip(1) {
        let block = block.split("```").next().unwrap();
        for command in block.split("$ bench ").skip(1) {
            let (arguments, expected) = command.split_once('\n').unwrap();
            let done = here(arguments);
            let output = done.stdout + &done.stderr;
            for line in expected.lines().filter(|line| !line.is_empty()) {
                assert!(
                    output.lines().any(|printed| printed == line),
                    "bench {arguments}: {line:?} is not in\n{output}"
                );
            }
            commands += 1;
        }
    }
    assert!(commands > 15, "the page has {commands} commands");
}

#[test]
fn the_page_of_the_command_line_is_what_the_command_would_write() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("page.md");
    let done = here(&format!("man --page {}", path.display()));
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let made = std::fs::read_to_string(path).unwrap();
    assert!(made == read("docs/reference/command-line.md"), "docs/reference/command-line.md is old: run `just pages`");
}
