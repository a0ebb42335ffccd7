//! Which rows belong together, which of them counts, and what a setting is called: what tables, plots and searches share.

use std::collections::{BTreeMap, HashMap};

use remat_formulations::{Claim, Class, METHODS, find};

use super::Record;
use crate::ground::size::Budget;

/// The setting of a row as people write it: parameters at their defaults are left out.
pub fn label(method: &str, parameters: &str) -> String {
    let specs = find(method).map_or(&[][..], |method| method.about().parameters);
    let shown: Vec<_> = pairs(parameters)
        .filter(|(name, value)| !specs.iter().any(|spec| spec.name == *name && spec.default == *value))
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    if shown.is_empty() { method.into() } else { format!("{method}[{}]", shown.join(",")) }
}

/// By series, what is claimed of all its rows: their claim, or where they differ (a method says of each answer what it
/// claims) that its schedules are schedules.
pub fn claims<'a>(records: impl IntoIterator<Item = &'a Record>) -> BTreeMap<String, Claim> {
    let mut claims = BTreeMap::new();
    for row in records {
        let known = *claims.entry(series_label(row)).or_insert(row.claim);
        if known != row.claim {
            claims.insert(series_label(row), Claim::heuristic(Class::ALL));
        }
    }
    claims
}

/// The rows of each series, by what is claimed of them, place in the registry and label.
pub fn by_method<'a>(
    records: impl IntoIterator<Item = &'a Record> + Clone,
) -> BTreeMap<(Claim, usize, String), Vec<&'a Record>> {
    let claims = claims(records.clone());
    let mut series: BTreeMap<_, Vec<&Record>> = BTreeMap::new();
    for row in records {
        let label = series_label(row);
        series.entry((claims[&label], rank(&row.method), label)).or_default().push(row);
    }
    series
}

/// The label that the points of one sweep share: whole-number parameters vary within it.
pub fn series_label(record: &Record) -> String {
    if record.budget_size.is_some() {
        return label(&record.method, &record.parameters);
    }
    let fixed: Vec<_> = pairs(&record.parameters)
        .filter(|(_, value)| value.parse::<u64>().is_err())
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    label(&record.method, &fixed.join(","))
}

fn pairs(parameters: &str) -> impl Iterator<Item = (&str, &str)> {
    parameters.split(',').filter_map(|pair| pair.split_once('='))
}

/// Position of a method in the registry: the order of tables and legends.
pub fn rank(method: &str) -> usize {
    METHODS.iter().position(|known| known.id() == method).unwrap_or(usize::MAX)
}

/// Rows by instance, in order of first appearance; of rows with the same identity the last counts.
pub fn by_instance(records: &[Record]) -> Vec<(String, Vec<&Record>)> {
    let mut order: HashMap<&str, usize> = HashMap::new();
    let mut instances: Vec<(String, Vec<&Record>)> = Vec::new();
    for row in records {
        if *order.entry(&row.instance).or_insert(instances.len()) == instances.len() {
            instances.push((row.instance.clone(), vec![]));
        }
    }
    for row in latest_named(records) {
        instances[order[row.instance.as_str()]].1.push(row);
    }
    instances
}

/// The budgets of some rows as written, fractions before sizes, each ascending.
pub fn written_budgets(records: &[Record]) -> Vec<&str> {
    let mut budgets: Vec<&str> = Vec::new();
    for record in records.iter().filter(|record| !record.budget.is_empty()) {
        if !budgets.contains(&record.budget.as_str()) {
            budgets.push(&record.budget);
        }
    }
    budgets.sort_by_key(|text| text.parse::<Budget>().map(|budget| budget.sort_key()).ok());
    budgets
}

/// The lower median by simulated time of the rows with a schedule: those of several seeds, say.
pub fn median<'a>(rows: &[&'a Record]) -> Option<&'a Record> {
    middle(&rows.iter().copied().filter(|row| row.is_solved()).collect::<Vec<_>>())
}

/// The lower median by simulated time of some rows; one without a schedule counts as slower than all others.
pub fn middle<'a>(rows: &[&'a Record]) -> Option<&'a Record> {
    let mut rows = rows.to_vec();
    rows.sort_by_key(|row| row.simulated_time.filter(|_| row.is_solved()).unwrap_or(u64::MAX));
    rows.get(rows.len().saturating_sub(1) / 2).copied()
}

/// What a series comes to at a budget.
#[derive(Clone, Debug)]
pub enum AtBudget<'a> {
    /// Rows of this budget, one for each seed.
    Seeds(Vec<&'a Record>),
    /// A method that ignores budgets has the same points at each of them.
    Points {
        /// All of them.
        all: Vec<&'a Record>,
        /// The fastest whose simulated peak meets the budget.
        best: Option<&'a Record>,
    },
}

/// What the rows of a series come to at a budget; none where it did not run, or a fraction of store-all's peak is not known.
pub fn at_budget<'a>(rows: &[&'a Record], budget: &str) -> Option<AtBudget<'a>> {
    let of = |name: &str| rows.iter().copied().filter(|row| row.budget == name).collect::<Vec<_>>();
    let seeds = of(budget);
    if !seeds.is_empty() {
        return Some(AtBudget::Seeds(seeds));
    }
    let all = of("");
    let limit = budget.parse::<Budget>().ok()?.resolve(all.first()?.store_all_peak)?;
    let meets = |row: &&Record| row.is_solved() && row.simulated_peak.is_some_and(|peak| peak <= limit);
    let best = all.iter().copied().filter(meets).min_by_key(|row| row.simulated_time);
    Some(AtBudget::Points { all, best })
}

/// The last row of each name that files are kept by: a later one has replaced the schedules of those before.
pub fn latest_named(rows: &[Record]) -> Vec<&Record> {
    fn name(row: &Record) -> (&str, &str, &str, &str, u64) {
        let Record { instance, method, parameters, budget, seed, .. } = row;
        (instance, method, parameters, budget, *seed)
    }
    let last: HashMap<_, _> = rows.iter().map(|row| (name(row), std::ptr::from_ref(row))).collect();
    rows.iter().filter(|row| std::ptr::eq(last[&name(row)], *row)).collect()
}
