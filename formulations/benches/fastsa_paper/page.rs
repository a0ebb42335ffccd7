//! results/paper-fastsa.md from the rows: ours beside the published figures.

use std::fmt::Write as _;

use crate::measure::{AIMED, HEAVY, PAPER};
use crate::rows::{Row, distinct, number, read, spread, text};

const HEAD: &str = "# FastSA's evaluation

Written by `just fastsa` (`cargo bench -p remat-formulations --bench fastsa_paper`) from results/fastsa/*.csv. One thread,
one budget per annealing, costs in units unless said otherwise; CPU seconds on two cores shared with other work.
Budgets are shares of the peak of the given order, cost increases are over its time, memory is the simulated peak as a
share of it. Of several seeds: median (least to most). [x]* k of m: k of m seeds miss the budget, and the figures are those of
the schedules nearest to it.
";

const TABLES: &str = "
## Tables 1 and 2

*published*: fastsa-2023, one figure each. All else with `preset=paper`. *paper*: `fastsa[objective=elu]` with 3 million mutations in the
first stage instead of 20. *aimed*, not in the paper:
`objective=elu,proposals=aimed,grouping=off,early-stop=off,initial-ppm=3000`, with the 20 and 2 million mutations of the paper.
*heavier*, RL 4 only: a byte beyond the budget counts six times, and the final temperature is 0.003 of the initial one. RL 1 to
RL 4, CM 1 and CM 2 are the graphs that Moccasin's authors published (instances/published/). VGG11 and
ResNet18 are our traces, with views folded (60 and 142 operators instead of 69 and 171 nodes).

| graph | n | budget | seeds | published CI, memory | paper CI | memory | CPU s | aimed CI | memory | CPU s | heavier CI | memory |
|---|---:|---:|---:|---|---|---|---:|---|---|---:|---|---|
";

const MODELS: &str = "
## Figures 4, 10 and 11

Unit costs: the models of Tables 3 to 5 at half and a quarter of their peak. `fastsa` has the paper's settings;
`fastsa[reheats=3]` anneals its best schedule three more times, half a million mutations each. CPU seconds are of the
latter, both stages included.

| model | operators | seeds | 50 %: `fastsa` | `reheats=3` | memory | 25 %: `fastsa` | `reheats=3` | memory | CPU s |
|---|---:|---:|---|---|---|---|---|---|---:|
";

/// The page.
pub fn page() -> String {
    let mut page = HEAD.to_owned();
    tables(&mut page);
    models(&mut page);
    crate::hybrid::section(&mut page);
    times(&mut page);
    others(&mut page);
    page
}

/// Adds a line.
pub fn line(page: &mut String, words: &str) {
    writeln!(page, "{words}").expect("strings can be written to");
}

/// Median, least and most of the cost increase, with an asterisk where a seed misses the budget; and of the memory.
pub fn cell(rows: &[&Row]) -> (String, String) {
    let of = |column| spread(rows.iter().map(|row| number(row, column)).collect());
    let shown = |[middle, least, most]: [f64; 3], digits: usize| {
        if (least - most).abs() < 0.005 {
            return format!("{middle:.digits$}");
        }
        format!("{middle:.digits$} ({least:.digits$}-{most:.digits$})")
    };
    let cost = of("cost_increase_percent").map_or(String::new(), |values| shown(values, 2));
    let memory = of("memory_percent").map_or(String::new(), |values| format!("{:.1}", values[0]));
    let missed = rows.iter().filter(|row| text(row, "met") == "false").count();
    if cost.is_empty() && missed > 0 {
        return ("none".into(), String::new());
    }
    if missed == 0 { (cost, memory) } else { (format!("[{cost}]* {missed} of {}", rows.len()), memory) }
}

/// Median of the CPU seconds, where there are any.
pub fn seconds(rows: &[&Row]) -> String {
    spread(rows.iter().map(|row| number(row, "cpu_seconds")).collect())
        .map_or(String::new(), |s| format!("{:.1}", s[0]))
}

/// The cost increase that the paper prints for a cell of its tables.
fn published_cost<'a>(figures: &'a [Row], cell: &Row) -> &'a str {
    let same = |row: &&Row| {
        let budget = format!("0.{}x", text(cell, "budget_percent").trim_end_matches('0'));
        let of_annealer = text(row, "method").starts_with("fastsa") && text(row, "quantity") == "overhead";
        of_annealer && text(row, "instance") == text(cell, "instance") && text(row, "budget") == budget
    };
    text(figures.iter().find(same).expect("every cell of fastsa-tables.csv has its cost in fastsa.csv"), "printed")
}

fn tables(page: &mut String) {
    let (published, ours) = (read("published/fastsa-tables.csv"), read("fastsa/tables.csv"));
    let figures = read("published/fastsa.csv");
    page.push_str(TABLES);
    for row in &published {
        let (graph, budget) = (text(row, "graph"), text(row, "budget_percent"));
        let of = |variant: &str| -> Vec<&Row> {
            let same = |row: &&Row| text(row, "graph") == graph && text(row, "budget_percent") == budget;
            ours.iter().filter(same).filter(|row| text(row, "variant") == variant).collect()
        };
        let (paper, aimed) = (of(PAPER.0), of(AIMED.0));
        let operators = paper.first().map_or("", |row| text(row, "operators"));
        let seeds = paper.len().min(aimed.len());
        let (paper_cost, paper_memory) = cell(&paper);
        let (aimed_cost, aimed_memory) = cell(&aimed);
        let (heavier_cost, heavier_memory) = cell(&of(HEAVY.0));
        let (ci, memory) = (published_cost(&figures, row), text(row, "memory_percent"));
        let (slow, fast) = (seconds(&paper), seconds(&aimed));
        line(
            page,
            &format!(
                "| {graph} | {operators} | {budget} | {seeds} | {ci}, {memory} | {paper_cost} | {paper_memory} | {slow} | {aimed_cost} | {aimed_memory} | {fast} | {heavier_cost} | {heavier_memory} |"
            ),
        );
    }
}

/// Medians over seeds by model and budget: cost increase and memory.
fn medians(rows: &[Row], variant: &str, budget: &str) -> Vec<(String, f64, f64, bool)> {
    let chosen: Vec<Row> = rows
        .iter()
        .filter(|row| text(row, "variant") == variant && text(row, "budget_percent") == budget)
        .cloned()
        .collect();
    let of = |graph: &str, column: &str| {
        spread(chosen.iter().filter(|row| text(row, "graph") == graph).map(|row| number(row, column)).collect())
    };
    let met = |graph: &str| chosen.iter().any(|row| text(row, "graph") == graph && text(row, "met") == "true");
    let names = distinct(&chosen, "graph");
    let one = |name: String| {
        let (cost, memory) = of(&name, "cost_increase_percent").zip(of(&name, "memory_percent"))?;
        let met = met(&name);
        Some((name, cost[0], memory[0], met))
    };
    names.into_iter().filter_map(one).collect()
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let logarithms: Vec<f64> = values.map(f64::ln).collect();
    (logarithms.iter().sum::<f64>() / logarithms.len().max(1) as f64).exp()
}

/// Geometric means as the paper takes them: over all models, met or not; and over the 23 without VGG11 and ResNet18.
pub fn means(page: &mut String, rows: &[Row], variants: &[&str]) {
    line(
        page,
        "\n| geometric mean over the 23 models of Figures 10 and 11 | cost increase, 50 % | memory | cost increase, 25 % | memory |",
    );
    line(page, "|---|---:|---:|---:|---:|");
    line(page, "| published | 7 | 50 | 18 | 27 |");
    for &variant in variants {
        let part = |budget: &str| {
            let all = medians(rows, variant, budget);
            let small = |name: &str| name.starts_with("vgg11") || name.starts_with("resnet18");
            let kept: Vec<_> = all.into_iter().filter(|(name, ..)| !small(name)).collect();
            let cost = 100.0 * (mean(kept.iter().map(|(_, cost, ..)| 1.0 + cost / 100.0)) - 1.0);
            let missed = kept.iter().filter(|(_, _, _, met)| !met).count();
            let note = if missed == 0 { String::new() } else { format!(" ({missed} miss the budget)") };
            format!("{cost:.1} | {:.1}{note}", mean(kept.iter().map(|&(_, _, memory, _)| memory)))
        };
        line(page, &format!("| `{variant}` | {} | {} |", part("50"), part("25")));
    }
}

const PLAIN: &str = "fastsa[reheats=3] before reheats";
const REHEATED: &str = crate::measure::MODELS.0;

fn models(page: &mut String) {
    let rows = read("fastsa/models.csv");
    page.push_str(MODELS);
    for name in distinct(&rows, "graph") {
        let of = |variant: &str, budget: &str| -> Vec<&Row> {
            let same = |row: &&Row| text(row, "graph") == name && text(row, "budget_percent") == budget;
            rows.iter().filter(same).filter(|row| text(row, "variant") == variant).collect()
        };
        let operators = of(REHEATED, "50").first().map_or("", |row| text(row, "operators"));
        let mut cells = Vec::new();
        for budget in ["50", "25"] {
            let (plain, _) = cell(&of(PLAIN, budget));
            let (reheated, memory) = cell(&of(REHEATED, budget));
            cells.extend([plain, reheated, memory]);
        }
        let both: Vec<&Row> = ["50", "25"].iter().flat_map(|budget| of(REHEATED, budget)).collect();
        line(
            page,
            &format!(
                "| {} | {operators} | {} | {} | {} |",
                name.trim_end_matches("-unit"),
                of(REHEATED, "25").len(),
                cells.join(" | "),
                seconds(&both)
            ),
        );
    }
    means(page, &rows, &[PLAIN, REHEATED]);
    line(page, "\n![Figure 4, 10 and 11 at 50 %](fastsa/models-50.svg)\n\n![at 25 %](fastsa/models-25.svg)");
}

fn times(page: &mut String) {
    let rows = read("fastsa/times.csv");
    if rows.is_empty() {
        return;
    }
    line(
        page,
        "\n## The same with modelled times\n\nTimes of an A100 by the profiler's model instead of units, one seed.",
    );
    means(page, &rows, &[PLAIN, REHEATED]);
}

fn others(page: &mut String) {
    let convergence = read("fastsa/convergence.csv");
    if !convergence.is_empty() {
        line(
            page,
            "\n## Figures 7 and 8\n\n4 (Figure 7) and 2 million mutations (Figure 8) in the first stage, which does not end early, and 1 million in the\nsecond; objective (1) over the budget times the cost of the given order. LLaMA at a tenth of what recomputation can\nspare (parameters and their gradients are more than a tenth of the whole), ViT (small) at 25 %.\n",
        );
        line(
            page,
            "| figure | series | objective after the first stage's last point | at the end | memory, % |\n|---|---|---:|---:|---:|",
        );
        for figure in distinct(&convergence, "figure") {
            let of: Vec<Row> = convergence.iter().filter(|row| text(row, "figure") == figure).cloned().collect();
            for series in distinct(&of, "series") {
                let points: Vec<&Row> = of.iter().filter(|row| text(row, "series") == series).collect();
                let Some(last) = points.last() else { continue };
                let middle = points.iter().rfind(|row| number(row, "mutations") <= number(last, "mutations") - 1e6);
                let middle = middle.map_or(f64::NAN, |row| number(row, "objective"));
                line(
                    page,
                    &format!(
                        "| {figure} | {series} | {middle:.3} | {:.3} | {} |",
                        number(last, "objective"),
                        text(last, "memory_percent")
                    ),
                );
            }
        }
        line(page, "\n![Figure 7](fastsa/figure7.svg)\n\n![Figure 8](fastsa/figure8.svg)");
    }
    if !read("fastsa/stability.csv").is_empty() {
        line(
            page,
            "\n## Figure 9\n\nBudgets of 15 to 100 %, five seeds, 3 and 1 million mutations. A point that misses its budget stands at the memory reached.\n",
        );
        line(page, "![ResNet18](fastsa/figure9-resnet18.svg)\n\n![ViT (small)](fastsa/figure9-vit-small.svg)");
    }
    let quality = read("fastsa/quality.csv");
    if quality.is_empty() {
        return;
    }
    line(
        page,
        "\n## What is reached after some seconds\n\nCost increase in %, CPU seconds of one thread, one annealing after another, from the streamed schedules. The layered\ngraphs with aimed proposals and without groups, the networks with three reheats of a million.\n",
    );
    line(page, "| graph | operators | budget, % | 1 s | 3 s | 10 s | 30 s |\n|---|---:|---:|---:|---:|---:|---:|");
    for graph in distinct(&quality, "graph") {
        let of: Vec<&Row> = quality.iter().filter(|row| text(row, "graph") == graph).collect();
        let reached: Vec<String> = of
            .iter()
            .map(|row| text(row, "cost_increase_percent"))
            .map(|cell| cell.parse::<f64>().map_or("none".into(), |cost| format!("{cost:.2}")))
            .collect();
        let first = of[0];
        line(
            page,
            &format!(
                "| {graph} | {} | {} | {} |",
                text(first, "operators"),
                text(first, "budget_percent"),
                reached.join(" | ")
            ),
        );
    }
    line(page, "\n![Cost increase against CPU seconds](fastsa/quality.svg)");
}
