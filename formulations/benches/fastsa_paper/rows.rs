//! The rows of results/fastsa/*.csv: written one by one as they are measured, so that a run that was stopped goes on
//! where it was; read for drawings and the page.

use std::collections::BTreeMap;

use crate::results;

/// One row: values by column. Every file has columns of its own.
pub type Row = BTreeMap<String, String>;

/// A row of some columns.
pub fn row(columns: &[(&str, String)]) -> Row {
    columns.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
}

/// Adds a row to a file of the results; columns in alphabetical order.
pub fn append(part: &str, row: &Row) {
    let folder = results().join("fastsa");
    std::fs::create_dir_all(&folder).expect("results can be written");
    let path = folder.join(format!("{part}.csv"));
    let mut text = std::fs::read_to_string(&path).unwrap_or_default();
    if text.is_empty() {
        text = row.keys().map(String::as_str).collect::<Vec<_>>().join(",") + "\n";
    }
    text += &(row.values().map(String::as_str).collect::<Vec<_>>().join(",") + "\n");
    std::fs::write(path, text).expect("results can be written");
}

/// Whether a file of the results has a row with these values already: then it is not measured again.
pub fn has(part: &str, values: &[(&str, String)]) -> bool {
    let same = |row: &Row| values.iter().all(|(column, value)| text(row, column) == value);
    read(&format!("fastsa/{part}.csv")).iter().any(same)
}

/// The rows of a file below the results; none where it is missing.
pub fn read(path: &str) -> Vec<Row> {
    let Ok(text) = std::fs::read_to_string(results().join(path)) else { return Vec::new() };
    let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let header = lines.next().unwrap_or_default();
    let row = |cells: Vec<&str>| header.iter().zip(cells).map(|(&name, cell)| (name.into(), cell.into())).collect();
    lines.map(row).collect()
}

/// A column as a number.
pub fn number(row: &Row, column: &str) -> f64 {
    row.get(column).and_then(|cell| cell.parse().ok()).unwrap_or(f64::NAN)
}

/// A column as text.
pub fn text<'a>(row: &'a Row, column: &str) -> &'a str {
    row.get(column).map_or("", String::as_str)
}

/// The different values of a column, in the order of the file.
pub fn distinct(rows: &[Row], column: &str) -> Vec<String> {
    let mut values: Vec<String> = Vec::new();
    for row in rows {
        if !values.iter().any(|value| value == text(row, column)) {
            values.push(text(row, column).to_owned());
        }
    }
    values
}

/// Median, least and most.
pub fn spread(mut values: Vec<f64>) -> Option<[f64; 3]> {
    values.retain(|value| value.is_finite());
    values.sort_by(f64::total_cmp);
    let (least, most) = (*values.first()?, *values.last()?);
    let middle = f64::midpoint(values[(values.len() - 1) / 2], values[values.len() / 2]);
    Some([middle, least, most])
}
