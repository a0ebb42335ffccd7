//! Claimed against simulated against executed, per method: how far a method's own model is from the
//! simulator's, and the simulator's from the device.

use std::collections::BTreeSet;

use serde_json::Value;

use super::Table;
use super::overview::Grouped;
use crate::harness::records::Record;
use crate::harness::records::select::by_method;
use crate::harness::replay::Execution;

/// What is compared with what: the name of the columns, and the two fields of a row.
type Pair = (String, String, String);

/// The pairs that some row has: the claims against the simulator, and the simulator against each device.
fn present<'a, I: Iterator<Item = &'a Value>>(rows: impl Fn() -> I, executed: &[Execution]) -> Vec<Pair> {
    let pair = |name: &str, said: &str, found: &str| (name.to_owned(), said.to_owned(), found.to_owned());
    let mut pairs = vec![
        pair("claimed time", "claimed_time", "simulated_time"),
        pair("claimed peak", "claimed_peak", "simulated_peak"),
    ];
    let devices: BTreeSet<&str> = executed.iter().map(|execution| execution.device.as_str()).collect();
    for device in devices {
        for (name, said, found) in [
            ("simulated time", "simulated_time", "executed_time_ns"),
            ("simulated peak", "simulated_peak", "executed_peak_bytes"),
        ] {
            pairs.push(pair(&format!("{name}, {device}"), said, &field(found, device)));
        }
    }
    pairs.retain(|(_, said, found)| rows().any(|row| error(row, said, found).is_some()));
    pairs
}

/// The field of an execution's column within a row: a schedule may have been executed on several devices.
fn field(column: &str, device: &str) -> String {
    format!("{column}@{device}")
}

/// By how many per cent one field of a row lies above another.
fn error(row: &Value, said: &str, found: &str) -> Option<f64> {
    let number = |name: &str| row.get(name).and_then(Value::as_f64);
    let (said, found) = (number(said)?, number(found)?);
    (found > 0.0).then(|| 100.0 * (said / found - 1.0))
}

/// The table.
pub fn table(records: &[Record], executed: &[Execution]) -> Table {
    let solved = by_method(records.iter().filter(|row| row.is_solved())).into_iter();
    let values = |rows: Vec<&Record>| rows.into_iter().map(|row| as_value(row, executed)).collect();
    let methods: Vec<(_, Vec<Value>)> = solved.map(|(method, rows)| (method, values(rows))).collect();
    let pairs = present(|| methods.iter().flat_map(|(_, rows)| rows), executed);
    let names = pairs.iter().flat_map(|(name, ..)| ["median", "largest"].map(|what| format!("{name}, {what} %")));
    let mut grid = Grouped::new(std::iter::once("schedules".into()).chain(names));
    for ((claim, _, label), rows) in &methods {
        let cells = pairs.iter().flat_map(|(_, said, found)| {
            let mut errors: Vec<f64> = rows.iter().filter_map(|row| error(row, said, found)).collect();
            errors.sort_by(|a, b| a.abs().total_cmp(&b.abs()));
            let middle = errors.get(errors.len().saturating_sub(1) / 2);
            [middle, errors.last()].map(|error| super::number(error.copied(), 2))
        });
        let cells: Vec<_> = std::iter::once(rows.len().to_string()).chain(cells).collect();
        grid.row(claim, label, cells);
    }
    Table {
        title: "Claimed, simulated, executed",
        caption: "By how much what is said lies above what is found: the method's claim against the simulator, and the \
                  simulator against the device where schedules were executed. Median and largest by absolute value, over the \
                  method's schedules; times only say something where the instance's were measured on that device. A claim below the simulated figure is an error, and its row has no schedule."
            .into(),
        grid: grid.finish(),
    }
}

/// A row by name of its columns, with its executions.
fn as_value(row: &Record, executed: &[Execution]) -> Value {
    let mut value = serde_json::to_value(row).expect("numbers and texts always serialise");
    for execution in executed.iter().filter(|execution| execution.is_of(row)) {
        value[field("executed_time_ns", &execution.device)] = execution.executed_time_ns.into();
        value[field("executed_peak_bytes", &execution.device)] = execution.executed_peak_bytes.into();
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ground::format::Format;
    use crate::harness::records::tests::example;
    use crate::harness::replay::tests::execution;

    #[test]
    fn errors_are_relative_to_what_is_found() {
        let claim = |claimed: u64| Record { claimed_peak: Some(claimed), ..example("revolve", Some(("1x", 1))) };
        let rows = [claim(1 << 30), claim((1 << 30) + (1 << 29)), claim((1 << 30) + (1 << 28))];
        insta::assert_snapshot!(table(&rows, &[]).grid.render(Format::Csv), @r#"
        claim,method,schedules,"claimed time, median %","claimed time, largest %","claimed peak, median %","claimed peak, largest %"
        baseline: all schedules,revolve,3,0.00,0.00,25.00,50.00
        "#);
    }

    #[test]
    fn executions_show_where_there_are_any() {
        let row = example("revolve", Some(("1x", 1)));
        assert!(!table(std::slice::from_ref(&row), &[]).grid.render(Format::Csv).contains("cpu"));
        let other = execution("rotor-persistent", "1x", 1, 1);
        let ours = execution("revolve", "1x", 2_000_000, 1 << 31);
        let text = table(std::slice::from_ref(&row), &[other, ours]).grid.render(Format::Csv);
        assert!(text.contains("\"simulated time, cpu, median %\",\"simulated time, cpu, largest %\""), "{text}");
        assert!(text.ends_with("-50.00,-50.00,-50.00,-50.00\n"), "{text}");
    }
}
