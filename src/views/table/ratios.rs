//! The table of ratios: time over that of the optimum of a class of schedules in stages, as a geometric mean
//! over budgets, beside published figures. The class is that of the first method whose optima are such.
//!
//! Where the optimum is not proved, the ratio lies between two: over the best time known in the class, and over the
//! proved bound. A schedule outside of the class has no ratio to the bound, and may have one below 1 to the best. A method that finds nothing at a budget has no ratio there; how many budgets count is
//! a column, for a mean over easy budgets flatters.

use remat_formulations::method::claim::{Memory, Order, Runs, Strength};
use remat_formulations::{Claim, Class, Termination};

use super::{Cell, MethodRow, instance_rows};
use crate::ground::format::Format;
use crate::ground::grid::Grid;
use crate::ground::output;
use crate::ground::text::{count, wrap};
use crate::harness::records::select::{by_instance, series_label, written_budgets};
use crate::harness::records::{Ending, Record};
use crate::views::aggregate::captioned;
use crate::views::aggregate::measures::shifted_geometric_mean;
use crate::views::published::Published;

const CAPTION: &str = "Geometric mean over budgets of simulated time over the optimum of the class that is named. \
Where that is not proved: over the least time known in the class (to best known) and over the proved bound (to bound); \
the ratio to the optimum lies between. A schedule outside of the class has no ratio to the bound. budgets: those at which the method has a schedule, of those at which there is one in the class.";

/// The ratios of one instance.
struct InstanceRatios {
    name: String,
    /// The class whose optimum times are divided by.
    class: Class,
    /// Budgets at which there is a schedule in the class.
    budgets: usize,
    /// Those of them at which the optimum is proved.
    proved: usize,
    rows: Vec<RatioRow>,
}

struct RatioRow {
    claim: Claim,
    label: String,
    method: String,
    to_best: Option<f64>,
    to_bound: Option<f64>,
    solved: usize,
}

/// What is known of the optimum at a budget; times over store-all's.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Reference {
    best: f64,
    bound: Option<f64>,
    proved: bool,
}

/// The text of the table; none where no row of the records claims an optimum in stages.
pub fn render(records: &[Record], published: &Published, format: Format) -> Option<String> {
    if format == Format::Text {
        let instances = all(records)?;
        return Some(text(&instances, published) + &wrap(&caption(published), output::width()));
    }
    let (caption, grid) = table(records, published)?;
    Some(captioned(&grid, &caption, format))
}

/// All instances in one grid, with its caption; none where no row of the records claims an optimum in stages.
pub fn table(records: &[Record], published: &Published) -> Option<(String, Grid)> {
    Some((caption(published), grid(&all(records)?, published)))
}

fn all(records: &[Record]) -> Option<Vec<InstanceRatios>> {
    let instances: Vec<_> = by_instance(records)
        .into_iter()
        .filter_map(|(name, rows)| {
            let class = reference_class(&rows)?;
            Some(instance_ratios(name, class, &rows, &written_budgets(records)))
        })
        .collect();
    (!instances.is_empty()).then_some(instances)
}

fn caption(published: &Published) -> String {
    let sources = published.sources("ratio").join("; ");
    let source = if sources.is_empty() { String::new() } else { format!(" published: {sources}.") };
    format!("{CAPTION}{source}")
}

/// A method's ratio on an instance.
#[derive(Clone, Debug, PartialEq)]
pub struct Mean {
    /// Name of the instance.
    pub instance: String,
    /// Over the optimum, or over the best known where that is not proved.
    pub to_best: f64,
    /// Over the proved bound.
    pub to_bound: Option<f64>,
    /// Of the following, those at which the method has a schedule.
    pub solved: usize,
    /// Budgets at which there is a schedule in the class.
    pub budgets: usize,
}

/// The ratios of a method, by instance; of several settings the first that has a schedule counts.
pub fn means(records: &[Record], method: &str) -> Vec<Mean> {
    let budgets = written_budgets(records);
    let of = |(name, rows): (String, Vec<&Record>)| {
        let ratios = instance_ratios(name, reference_class(&rows).unwrap_or(Class::STAGES), &rows, &budgets);
        let row = ratios.rows.iter().find(|row| row.method == method && row.to_best.is_some())?;
        let (to_best, to_bound, solved) = (row.to_best?, row.to_bound, row.solved);
        Some(Mean { instance: ratios.name, to_best, to_bound, solved, budgets: ratios.budgets })
    };
    by_instance(records).into_iter().filter_map(of).collect()
}

/// The class of the first method whose optima are those of schedules in stages, memory as simulated.
fn reference_class(rows: &[&Record]) -> Option<Class> {
    let suits =
        |class: &Class| class.order == Order::Stages && class.runs == Runs::Any && class.memory == Memory::Simulated;
    let claims = rows.iter().map(|row| row.claim).filter(|claim| claim.strength == Strength::Optimum);
    claims.map(|claim| claim.class).find(suits)
}

/// Whether all schedules of a method that count at a budget are of a class.
fn is_inside(class: &Class, rows: &[&Record], method: &MethodRow, budget: &str) -> bool {
    let counts = |row: &&&Record| {
        let there = row.budget == budget || row.budget.is_empty();
        there && row.claim == method.claim && row.is_solved() && series_label(row) == method.label
    };
    rows.iter()
        .filter(counts)
        .all(|row| class.contains(&row.claim.class) || row.schedule_class.is_some_and(|found| class.contains(&found)))
}

fn instance_ratios(name: String, class: Class, rows: &[&Record], budgets: &[&str]) -> InstanceRatios {
    let methods = instance_rows(String::new(), rows, budgets).methods;
    let inside = |method: &MethodRow| -> Vec<bool> {
        budgets.iter().map(|budget| is_inside(&class, rows, method, budget)).collect()
    };
    let methods: Vec<(MethodRow, Vec<bool>)> =
        methods.into_iter().map(|method| (method.clone(), inside(&method))).collect();
    let references: Vec<_> =
        budgets.iter().enumerate().map(|(at, budget)| reference(&class, rows, &methods, at, budget)).collect();
    let has_schedule = |cell: &Cell| matches!(cell, Cell::Overhead { .. });
    let schedules = methods.iter().filter(|(row, _)| row.cells.iter().any(has_schedule));
    let rows = schedules.map(|(row, inside)| ratio_row(row, inside, &references)).collect();
    let known = || references.iter().flatten();
    let proved = known().filter(|known| known.proved).count();
    InstanceRatios { name, class, budgets: known().count(), proved, rows }
}

fn reference(
    class: &Class,
    rows: &[&Record],
    methods: &[(MethodRow, Vec<bool>)],
    at: usize,
    budget: &str,
) -> Option<Reference> {
    let there = || rows.iter().filter(|row| row.budget == budget && row.store_all_time > 0);
    let proved = there()
        .filter(|row| row.claim == Claim::optimum(*class) && row.termination == Ending::Ran(Termination::Optimal))
        .find_map(|row| row.overhead.filter(|_| row.is_solved()));
    if let Some(overhead) = proved {
        let optimum = 1.0 + overhead;
        return Some(Reference { best: optimum, bound: Some(optimum), proved: true });
    }
    let bounds = there().filter(|row| row.claim.class.contains(class));
    let bounds = bounds.filter_map(|row| Some(row.lower_bound? as f64 / row.store_all_time as f64));
    let inside = methods.iter().filter(|(_, inside)| inside[at]);
    let best = inside.filter_map(|(row, _)| time(row, at)).min_by(f64::total_cmp)?;
    Some(Reference { best, bound: bounds.max_by(f64::total_cmp), proved: false })
}

fn ratio_row(row: &MethodRow, inside: &[bool], references: &[Option<Reference>]) -> RatioRow {
    let known_there = |(at, known): (usize, &Option<Reference>)| Some((time(row, at)?, (*known)?, inside[at]));
    let pairs: Vec<(f64, Reference, bool)> = references.iter().enumerate().filter_map(known_there).collect();
    let to_best: Vec<f64> = pairs.iter().map(|(time, known, _)| time / known.best).collect();
    let to_bound = pairs.iter().filter(|(.., inside)| *inside);
    let to_bound: Vec<f64> = to_bound.filter_map(|(time, known, _)| Some(time / known.bound?)).collect();
    RatioRow {
        claim: row.claim,
        label: row.label.clone(),
        method: row.method.clone(),
        to_best: shifted_geometric_mean(&to_best, 0.0),
        // A mean over fewer budgets than the other could be the smaller one.
        to_bound: shifted_geometric_mean(&to_bound, 0.0).filter(|_| to_bound.len() == pairs.len()),
        solved: pairs.len(),
    }
}

/// Time over store-all's.
fn time(row: &MethodRow, at: usize) -> Option<f64> {
    match row.cells[at] {
        Cell::Overhead { overhead, .. } => Some(1.0 + overhead),
        Cell::Reason(_) | Cell::Blank => None,
    }
}

impl RatioRow {
    fn cells(&self, instance: &InstanceRatios, published: &Published) -> [String; 4] {
        let ratio = |ratio: Option<f64>| ratio.map_or("-".into(), |ratio| format!("{ratio:.3}"));
        [
            ratio(self.to_best),
            ratio(self.to_bound),
            format!("{}/{}", self.solved, instance.budgets),
            published.value("ratio", &instance.name, &self.method).to_owned(),
        ]
    }
}

fn text(instances: &[InstanceRatios], published: &Published) -> String {
    let mut text = Vec::new();
    for instance in instances {
        let header = ["claim", "method", "to best known", "to bound", "budgets", "published"];
        let mut grid = Grid::new(header).numeric_from(2);
        let mut previous = None;
        for row in &instance.rows {
            let claim = if previous == Some(row.claim) { String::new() } else { row.claim.to_string() };
            previous = Some(row.claim);
            grid.row([claim, row.label.clone()].into_iter().chain(row.cells(instance, published)));
        }
        let InstanceRatios { name, class, budgets, proved, .. } = instance;
        let heading =
            format!("{name}: ratios over {} to the optimum of {class}, proved at {proved}", count(*budgets, "budget"));
        text.push(format!("{heading}\n{}\n", grid.folded(output::width())));
    }
    text.concat()
}

fn grid(instances: &[InstanceRatios], published: &Published) -> Grid {
    let header = ["instance", "proved", "claim", "method", "to best known", "to bound", "budgets", "published"];
    let mut grid = Grid::new(header).numeric_from(4);
    for instance in instances {
        grid.rule();
        for row in &instance.rows {
            let proved = format!("{}/{}", instance.proved, instance.budgets);
            let head = [instance.name.clone(), proved, row.claim.to_string(), row.label.clone()];
            grid.row(head.into_iter().chain(row.cells(instance, published)));
        }
    }
    grid
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::records::tests::example;

    /// A row of an ILP, or of a heuristic, at one of three budgets.
    fn row(method: &str, budget: (&'static str, u64), ending: Termination, overhead: Option<f64>) -> Record {
        let claim =
            if method == "checkmate-ilp" { Claim::optimum(Class::STAGES) } else { Claim::heuristic(Class::ALL) };
        Record {
            claim,
            // A schedule tells more than its method claims.
            schedule_class: (method != "revolve").then_some(Class::STAGES),
            overhead,
            simulated_time: overhead.map(|_| 1),
            termination: Ending::Ran(ending),
            ..example(method, Some(budget))
        }
    }

    /// At 1x proved (1.0 against 1.5), at 0.5x a bound of 1.2 and a best of 1.5, at 0.3x nothing.
    fn rows() -> Vec<Record> {
        let [low, middle, high] = [("0.3x", 3), ("0.5x", 5), ("1x", 10)];
        let mut rows = vec![
            row("checkmate-ilp", high, Termination::Optimal, Some(0.0)),
            row("checkmate-ilp", middle, Termination::TimeLimit, Some(0.8)),
            row("checkmate-ilp", low, Termination::Infeasible, None),
            row("griewank-logn", high, Termination::Feasible, Some(0.5)),
            row("griewank-logn", middle, Termination::Feasible, Some(0.5)),
            row("griewank-logn", low, Termination::NotFound, None),
            row("revolve", high, Termination::Feasible, Some(1.0)),
            row("revolve", middle, Termination::NotFound, None),
        ];
        rows[1].lower_bound = Some(1_200_000);
        rows
    }

    #[test]
    fn ratios_are_to_the_proved_optimum_or_between_best_known_and_bound() {
        let rows = rows();
        let rows: Vec<&Record> = rows.iter().collect();
        let ratios = instance_ratios("net".into(), Class::STAGES, &rows, &["0.3x", "0.5x", "1x"]);
        assert_eq!((ratios.budgets, ratios.proved), (2, 1));
        let of = |method: &str| ratios.rows.iter().find(|row| row.method == method).expect("has a schedule");
        let close = |value: Option<f64>, expected: f64| value.is_some_and(|value| (value - expected).abs() < 1e-12);
        // sqrt(1.5 / 1.0 * 1.5 / 1.5) and sqrt(1.5 / 1.0 * 1.5 / 1.2).
        assert!(close(of("griewank-logn").to_best, 1.5_f64.sqrt()));
        assert!(close(of("griewank-logn").to_bound, 1.875_f64.sqrt()));
        assert!(close(of("checkmate-ilp").to_best, 1.2_f64.sqrt()));
        assert!(close(of("revolve").to_best, 2.0));
        assert_eq!(of("revolve").solved, 1);
        assert_eq!(of("revolve").to_bound, None, "its schedule is not known to be of the class");
    }

    #[test]
    fn without_an_optimum_in_stages_there_is_no_table() {
        assert!(render(&[example("revolve", Some(("1x", 1)))], &Published::default(), Format::Text).is_none());
    }

    #[test]
    fn the_table_names_what_is_proved_and_how_many_budgets_count() {
        let text = render(&rows(), &Published::default(), Format::Text).expect("has an ILP");
        let lines: Vec<_> = text.lines().take(6).collect();
        insta::assert_snapshot!(lines.join("\n"), @"
        net: ratios over 2 budgets to the optimum of stages, one implementation, proved at 1
        claim                                method         to best known  to bound  budgets  published
        ───────────────────────────────────────────────────────────────────────────────────────────────
        optimum: stages, one implementation  checkmate-ilp          1.095     1.225      2/2
        heuristic: all schedules             griewank-logn          1.225     1.369      2/2
                                             revolve                2.000         -      1/2
        ");
    }
}
