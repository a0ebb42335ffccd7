//! The digest as a table: on a terminal one screen, at most so many columns wide; in the other formats one grid.

use crate::ground::format::Format;
use crate::ground::grid::Grid;
use crate::ground::text::{count, markdown, wrap};
use crate::views::aggregate::arena::Arena;
use crate::views::aggregate::digest::{Digest, Group, Row};
use crate::views::aggregate::findings::{label, sentences};
use crate::views::aggregate::{Table, seconds};

/// Columns of the digest, whatever the terminal has more.
pub const WIDTH: usize = 100;

/// Lines that the tables of further groups may bring the digest to.
const MOST_LINES: usize = 34;

const TITLE: &str = "Overhead over store-all in %, geometric mean over networks";
const CAPTION: &str = "Geometric mean over instances of simulated time over store-all's, less 1, in %. An instance counts at a \
budget if all methods that are averaged there have a schedule on it; (k/n): a schedule on k of the n instances, too few to be \
averaged with the others. solved: cases (an instance at a budget) with a checked schedule; proved: an optimum, a gap or that there \
is no schedule, within the claim; cut: stopped by a limit (*). plan s: shifted geometric mean (shift 1 s) of the seconds of \
planning of a case.";

/// The digest and what follows from it, as text at most `width` columns wide.
pub fn text(arena: &Arena, width: usize) -> String {
    let digest = Digest::new(arena);
    let width = width.min(WIDTH);
    let shown = shown(&digest);
    let groups = digest.groups.iter().take(shown).enumerate();
    let mut parts: Vec<String> = groups.map(|(at, group)| block(arena, &digest, group, at > 0, width)).collect();
    let left: usize = digest.groups.iter().skip(shown).map(|group| group.instances.len()).sum();
    if left > 0 {
        parts.push(format!("{}, on which other methods took part: --details\n", count(left, "more network")));
    }
    let findings: Vec<String> = sentences(arena, &digest).iter().map(|sentence| item(sentence, width)).collect();
    if !findings.is_empty() {
        parts.push(findings.concat());
    }
    if !arena.unsupported.is_empty() {
        parts.push(wrap(&format!("no instance is supported by: {}", arena.unsupported.join(", ")), width));
    }
    parts.join("\n")
}

/// How many groups fit a screen; at least one.
fn shown(digest: &Digest) -> usize {
    let rows = digest.groups.iter().scan(0, |sum, group| {
        *sum += group.rows.len() + 4;
        Some(*sum)
    });
    rows.take_while(|&sum| sum <= MOST_LINES).count().max(1)
}

/// A sentence as an item of a list.
fn item(sentence: &str, width: usize) -> String {
    let lines = wrap(sentence, width.saturating_sub(2));
    let indented: Vec<&str> = lines.trim_end().split('\n').collect();
    format!("* {}\n", indented.join("\n  "))
}

/// The table of a group; classes of claims are not said twice.
fn block(arena: &Arena, digest: &Digest, group: &Group, again: bool, width: usize) -> String {
    let mut header = vec!["method"];
    header.extend(digest.budgets.iter().map(String::as_str));
    header.extend(["solved", "proved", "plan s"]);
    let numbers = header.len();
    header.extend((!again).then_some("over which schedules"));
    let mut grid = Grid::new(header.iter().copied()).numeric(1..numbers).gap(1);
    let mut networks = vec!["networks".to_owned()];
    networks.extend(group.counted.iter().map(|cases| cases.len().to_string()));
    grid.row(filled(networks, header.len()));
    let mut strength = None;
    let (rows, idle): (Vec<&Row>, Vec<&Row>) = group.rows.iter().partition(|row| row.solved + row.proved > 0);
    for row in rows {
        let claim = arena.contestants[row.contestant].claim;
        if !again && strength != Some(claim.strength) {
            grid.row(filled(vec![format!("{}:", claim.strength.word())], header.len()));
            strength = Some(claim.strength);
        }
        let mut cells = vec![format!("  {}", label(arena, row))];
        cells.extend(numbers_of(row, group));
        cells.push(claim.class.to_string());
        cells.truncate(header.len());
        grid.row(cells);
    }
    let idle: Vec<&str> = idle.into_iter().map(|row| label(arena, row)).collect();
    let nothing =
        if idle.is_empty() { String::new() } else { format!("no schedule at any budget: {}\n", idle.join(", ")) };
    format!("{}{}{}", wrap(&title(group, again), width), grid.folded(width), wrap(&nothing, width).trim_start())
}

fn title(group: &Group, again: bool) -> String {
    let names = group.names();
    if again { format!("{names}:") } else { format!("{TITLE}: {names}") }
}

fn filled(mut cells: Vec<String>, length: usize) -> Vec<String> {
    cells.resize(length, String::new());
    cells
}

fn numbers_of(row: &Row, group: &Group) -> impl Iterator<Item = String> {
    let instances = group.instances.len();
    let cells = row.cells.iter().map(move |cell| cell.text(instances));
    cells.chain([format!("{}/{}", row.solved, row.cases), row.proved.to_string(), seconds(Some(row.planning))])
}

/// The digest as a table of the kind of the others.
pub fn table(arena: &Arena) -> Table {
    let digest = Digest::new(arena);
    let budgets = digest.budgets.iter().map(String::as_str);
    let header = ["networks", "claim", "method"].into_iter().chain(budgets);
    let mut grid = Grid::new(header.chain(["solved", "proved", "plan s", "cut"])).numeric_from(3);
    for group in &digest.groups {
        grid.rule();
        for row in &group.rows {
            let claim = arena.contestants[row.contestant].claim.to_string();
            let head = [group.instances.join(" "), claim, label(arena, row).to_owned()];
            grid.row(head.into_iter().chain(numbers_of(row, group)).chain([row.cut.to_string()]));
        }
    }
    Table { title: "Digest", caption: CAPTION.into(), grid }
}

/// The digest in any format.
pub fn render(arena: &Arena, format: Format, width: usize) -> String {
    match format {
        Format::Text => text(arena, width),
        Format::Md => {
            let findings = sentences(arena, &Digest::new(arena));
            let list: Vec<String> = findings.iter().map(|sentence| format!("\n* {}", markdown(sentence))).collect();
            format!("{}{}{}", table(arena).render(format), list.concat(), if list.is_empty() { "" } else { "\n" })
        }
        _ => table(arena).render(format),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::views::aggregate::arena::tests::{self, arena};

    #[test]
    fn a_digest_says_who_is_averaged_who_is_not_and_what_follows() {
        insta::assert_snapshot!(text(&arena(), 100), @"
        Overhead over store-all in %, geometric mean over networks: net
        method           0.5x   1x solved proved plan s over which schedules
        ──────────────────────────────────────────────────────────────────────────
        networks            1    1
        baseline:
          sequential        - 10.0    1/2      0   1.00 all schedules
        optimum:
          checkmate-ilp     -  0.0    1/2      1   5.00 stages, one implementation
        heuristic:
          revolve       100.0 25.0    2/2      0   1.45 all schedules

        * Least overhead: checkmate-ilp at 1x (0.0 %).
        ");
    }

    #[test]
    fn methods_that_support_no_instance_are_named() {
        let arena = Arena { unsupported: vec!["chen-greedy".into(), "chen-sqrt".into()], ..arena() };
        let text = text(&arena, 100);
        assert!(text.ends_with("\nno instance is supported by: chen-greedy, chen-sqrt\n"), "{text}");
    }

    #[test]
    fn no_name_is_more_than_a_text_in_the_findings() {
        let arena = tests::table(&[("<img src=x>", [Some(110); 4]), ("auto", [Some(120); 4])]);
        let text = render(&arena, Format::Md, 100);
        assert!(text.contains("\n* Least overhead: &lt;img src=x>") && !text.contains('<'), "{text}");
    }

    #[test]
    fn groups_and_names_that_do_not_fit_a_screen_are_counted() {
        let mut arena = tests::table(&[("revolve", [Some(110); 4]), ("fastsa", [Some(105); 4])]);
        for case in &mut arena.cases {
            case.instance = format!("{}-{}", case.instance.repeat(40), case.instance);
        }
        assert!(text(&arena, 100).contains("geometric mean over networks: 4 instances\n"));
        arena.contestants.extend(vec![arena.contestants[0].clone(); 30]);
        arena.outcomes.extend(vec![vec![arena.outcomes[0][3].clone(), None, None, None]; 30]);
        let text = text(&arena, 100);
        assert!(text.contains("1 more network, on which other methods took part: --details"), "{text}");
    }
}
