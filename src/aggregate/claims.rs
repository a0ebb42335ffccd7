//! Claimed against simulated against executed, per method: how far a method's own model is from the
//! simulator's, and the simulator's from the device.

use serde_json::Value;

use super::Table;
use super::overview::{Grouped, by_method};
use crate::records::Record;

/// What is compared with what: the name of the columns, and the two columns of the records.
const PAIRS: [(&str, &str, &str); 4] = [
    ("claimed time", "claimed_time_ns", "simulated_time_ns"),
    ("claimed peak", "claimed_peak_bytes", "simulated_peak_bytes"),
    ("simulated time", "simulated_time_ns", "executed_time_ns"),
    ("simulated peak", "simulated_peak_bytes", "executed_peak_bytes"),
];

/// The pairs that some row has, by name: rows without an execution have no such columns.
fn present(rows: &[Value]) -> Vec<(&'static str, &'static str, &'static str)> {
    let there = |pair: &(&str, &str, &str)| rows.iter().any(|row| error(row, pair.1, pair.2).is_some());
    PAIRS.into_iter().filter(there).collect()
}

/// By how many per cent one column of a row lies above another.
fn error(row: &Value, said: &str, found: &str) -> Option<f64> {
    let number = |name: &str| row.get(name).and_then(Value::as_f64);
    let (said, found) = (number(said)?, number(found)?);
    (found > 0.0).then(|| 100.0 * (said / found - 1.0))
}

/// The table.
pub fn table(records: &[Record]) -> Table {
    let solved: Vec<Record> = records.iter().filter(|row| row.is_solved()).cloned().collect();
    let values: Vec<Value> = solved.iter().map(as_value).collect();
    let pairs = present(&values);
    let names: Vec<String> =
        pairs.iter().flat_map(|(name, ..)| ["median", "largest"].map(|what| format!("{name}, {what} %"))).collect();
    let columns: Vec<&str> = std::iter::once("schedules").chain(names.iter().map(String::as_str)).collect();
    let mut grid = Grouped::new(&columns);
    for ((claim, _, label), rows) in by_method(&solved) {
        let values: Vec<Value> = rows.iter().map(|row| as_value(row)).collect();
        let cells = pairs.iter().flat_map(|(_, said, found)| {
            let mut errors: Vec<f64> = values.iter().filter_map(|row| error(row, said, found)).collect();
            errors.sort_by(|a, b| a.abs().total_cmp(&b.abs()));
            let middle = errors.get(errors.len().saturating_sub(1) / 2);
            [middle, errors.last()].map(|error| super::number(error.copied(), 2))
        });
        let cells: Vec<_> = std::iter::once(rows.len().to_string()).chain(cells).collect();
        grid.row(claim.label(), &label, cells);
    }
    Table {
        title: "Claimed, simulated, executed",
        caption: "By how much what is said lies above what is found: the method's claim against the simulator, and the \
                  simulator against the device where schedules were executed. Median and largest by absolute value, over the \
                  method's schedules. A claim below the simulated figure is an error, and its row has no schedule."
            .into(),
        grid: grid.finish(),
    }
}

fn as_value(row: &Record) -> Value {
    serde_json::to_value(row).expect("numbers and texts always serialise")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Format;
    use crate::records::tests::example;
    use serde_json::json;

    #[test]
    fn errors_are_relative_to_what_is_found() {
        let claim = |claimed: u64| Record { claimed_peak_bytes: Some(claimed), ..example("revolve", Some(("1x", 1))) };
        let rows = [claim(1 << 30), claim((1 << 30) + (1 << 29)), claim((1 << 30) + (1 << 28))];
        insta::assert_snapshot!(table(&rows).grid.render(Format::Csv), @r#"
        claim,method,schedules,"claimed time, median %","claimed time, largest %","claimed peak, median %","claimed peak, largest %"
        baseline,revolve,3,0.00,0.00,25.00,50.00
        "#);
    }

    #[test]
    fn executions_show_where_there_are_any() {
        let without = as_value(&example("revolve", Some(("1x", 1))));
        assert_eq!(present(std::slice::from_ref(&without)).len(), 2);
        let mut with = without;
        with["executed_peak_bytes"] = json!(1_u64 << 31);
        assert_eq!(present(std::slice::from_ref(&with)).len(), 3);
        assert_eq!(error(&with, "simulated_peak_bytes", "executed_peak_bytes"), Some(-50.0));
    }
}
