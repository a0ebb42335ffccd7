//! Solution files of solvers that are not built in, read by name.
//!
//! Understood: HiGHS (raw style), SCIP, CBC, Gurobi, COPT and MIPLIB (pairs of a name and a value), and
//! CPLEX's XML. A file is taken as a whole or refused with the line at which it goes wrong: a name that
//! the model does not have usually means that the file belongs to another model.

use std::collections::BTreeMap;

use thiserror::Error;

use crate::model::{Column, Model, Names};

/// What a solution file says.
#[derive(Clone, Debug, PartialEq)]
pub struct SolutionText {
    /// The solver's words on what it found, where it says any.
    pub status: Option<String>,
    /// Name, value and line of each variable listed.
    pub values: Vec<(String, f64, usize)>,
}

/// Who wrote a file, as far as the text tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dialect {
    /// HiGHS, raw style: sections with headings.
    Highs,
    /// SCIP: `name value (obj:cost)`.
    Scip,
    /// CBC: `index name value cost`.
    Cbc,
    /// CPLEX: XML.
    CplexXml,
    /// `name value`: Gurobi, COPT, MIPLIB.
    Pairs,
}

/// A solution file that cannot be used.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum SolutionError {
    /// It lists no variable.
    #[error("lists no values; expected lines of a name and a number{}", status.as_ref().map(|words| format!("; its status is {words:?}")).unwrap_or_default())]
    Empty {
        /// The solver's words, if any.
        status: Option<String>,
    },
    /// A line is no pair of a name and a number.
    #[error("line {line}: {text:?} is not a name and a number")]
    Line {
        /// Its number, from 1.
        line: usize,
        /// What stands there.
        text: String,
    },
    /// A value is no finite number.
    #[error("line {line}: the value of {name} is {value}; expected a finite number")]
    Value {
        /// Its number, from 1.
        line: usize,
        /// The variable.
        name: String,
        /// What stands there.
        value: f64,
    },
    /// A name is not one of the model's.
    #[error("line {line}: the model has no variable {name:?}; is this the solution of another model?")]
    Unknown {
        /// Its number, from 1.
        line: usize,
        /// The name.
        name: String,
    },
    /// A name stands there twice.
    #[error("line {line}: {name} has a value already")]
    Twice {
        /// Its number, from 1.
        line: usize,
        /// The name.
        name: String,
    },
}

/// Reads a solution file.
///
/// # Errors
/// The first thing that is wrong with it.
pub fn parse(text: &str) -> Result<SolutionText, SolutionError> {
    let mut solution = SolutionText { status: None, values: Vec::new() };
    match dialect(text) {
        Dialect::CplexXml => xml(text, &mut solution)?,
        Dialect::Highs => sections(text, &mut solution)?,
        dialect => lines(text, dialect, &mut solution)?,
    }
    if solution.values.is_empty() {
        return Err(SolutionError::Empty { status: solution.status });
    }
    let wrong = solution.values.iter().find(|(_, value, _)| !value.is_finite());
    match wrong {
        Some((name, value, line)) => Err(SolutionError::Value { line: *line, name: name.clone(), value: *value }),
        None => Ok(solution),
    }
}

impl SolutionText {
    /// The vector of a model's columns; what is not listed is zero, as these files have it.
    ///
    /// # Errors
    /// A name is unknown, or stands there twice.
    pub fn vector(&self, model: &Model, names: &dyn Names) -> Result<Vec<f64>, SolutionError> {
        let all = (0..model.columns()).map(Column::from_index);
        let columns: BTreeMap<String, Column> = all.map(|column| (names.column(column), column)).collect();
        let mut vector: Vec<Option<f64>> = vec![None; model.columns()];
        for (name, value, line) in &self.values {
            let (line, name) = (*line, name.clone());
            let Some(column) = columns.get(&name) else { return Err(SolutionError::Unknown { line, name }) };
            if vector[column.index()].replace(*value).is_some() {
                return Err(SolutionError::Twice { line, name });
            }
        }
        Ok(vector.into_iter().map(Option::unwrap_or_default).collect())
    }
}

fn dialect(text: &str) -> Dialect {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.next().unwrap_or_default();
    let lower = first.to_ascii_lowercase();
    if first.starts_with("<?xml") || first.starts_with("<CPLEXSolution") {
        Dialect::CplexXml
    } else if lower == "model status" || text.lines().any(|line| line.trim() == "# Primal solution values") {
        Dialect::Highs
    } else if lower.starts_with("solution status:") || lower.starts_with("no solution available") {
        Dialect::Scip
    } else if lower.contains("objective value") && !first.starts_with(['#', '=']) {
        Dialect::Cbc
    } else {
        Dialect::Pairs
    }
}

fn number(word: &str) -> Option<f64> {
    word.parse().ok()
}

/// HiGHS: a status, then the columns under "# Primal solution values", up to "# Rows" or the duals.
fn sections(text: &str, solution: &mut SolutionText) -> Result<(), SolutionError> {
    let (mut primal, mut columns) = (false, false);
    let mut rest = text.lines().enumerate().map(|(at, line)| (at + 1, line.trim()));
    while let Some((line, words)) = rest.next() {
        if words.eq_ignore_ascii_case("model status") {
            solution.status = rest.next().map(|(_, status)| status.to_owned());
        } else if let Some(heading) = words.strip_prefix('#') {
            let heading = heading.trim();
            primal |= heading == "Primal solution values";
            columns = primal && heading.starts_with("Columns");
            if heading.starts_with("Dual") || heading.starts_with("Basis") {
                return Ok(());
            }
        } else if columns && !words.is_empty() {
            solution.values.push(pair(words, line, words.split_whitespace())?);
        }
    }
    Ok(())
}

/// SCIP, CBC, and plain pairs.
fn lines(text: &str, dialect: Dialect, solution: &mut SolutionText) -> Result<(), SolutionError> {
    for (at, line) in text.lines().enumerate() {
        let words = line.trim();
        let lower = words.to_ascii_lowercase();
        let told = words.starts_with('#') || words.starts_with("=obj=") || lower.starts_with("objective value:");
        if told || words.is_empty() {
            continue;
        }
        if solution.values.is_empty() && is_status(&lower, dialect) {
            solution.status = Some(words.trim_start_matches("solution status:").trim().to_owned());
        } else {
            // CBC marks what is outside of its bounds with two stars.
            let words = words.trim_start_matches("**").trim();
            let skip = usize::from(dialect == Dialect::Cbc);
            solution.values.push(pair(words, at + 1, words.split_whitespace().skip(skip))?);
        }
    }
    Ok(())
}

fn is_status(lower: &str, dialect: Dialect) -> bool {
    match dialect {
        Dialect::Scip => lower.starts_with("solution status:") || lower.starts_with("no solution available"),
        Dialect::Cbc => lower.contains("objective value"),
        _ => false,
    }
}

/// A name and a number; SCIP and CBC write a cost behind them, which is passed over.
fn pair<'a>(
    text: &str,
    line: usize,
    mut words: impl Iterator<Item = &'a str>,
) -> Result<(String, f64, usize), SolutionError> {
    let wrong = || SolutionError::Line { line, text: text.chars().take(80).collect() };
    let name = words.next().ok_or_else(wrong)?;
    let value = words.next().and_then(number).ok_or_else(wrong)?;
    Ok((name.to_owned(), value, line))
}

/// CPLEX: one `<variable name="..." index="..." value="..."/>` for each.
fn xml(text: &str, solution: &mut SolutionText) -> Result<(), SolutionError> {
    for (at, line) in text.lines().enumerate() {
        if solution.status.is_none() {
            solution.status = attribute(line, "solutionStatusString").map(str::to_owned);
        }
        for element in line.split("<variable ").skip(1) {
            let value = attribute(element, "value").and_then(number);
            let (Some(name), Some(value)) = (attribute(element, "name"), value) else {
                return Err(SolutionError::Line { line: at + 1, text: line.trim().chars().take(80).collect() });
            };
            solution.values.push((name.to_owned(), value, at + 1));
        }
    }
    Ok(())
}

/// The value of an attribute; our names need no escapes.
fn attribute<'a>(element: &'a str, name: &str) -> Option<&'a str> {
    let mut rest = element;
    loop {
        let at = rest.find(name)?;
        let before = rest[..at].chars().next_back();
        rest = &rest[at + name.len()..];
        if before.is_none_or(char::is_whitespace)
            && let Some(value) = rest.strip_prefix("=\"")
        {
            return value.split('"').next();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Numbered;

    /// Three columns, x0 = 1, x1 absent or 0, x2 = 0.25, as each solver writes it.
    const FILES: [(Dialect, &str); 6] = [
        (
            Dialect::Highs,
            "Model status\nOptimal\n\n# Primal solution values\nFeasible\nObjective 3\n# Columns 3\nx0 1\nx1 0\nx2 0.25\n# Rows 1\nr0 9\n\n# Dual solution values\nFeasible\n# Columns 3\nx0 7\nx1 7\nx2 7\n",
        ),
        (
            Dialect::Scip,
            "solution status: optimal solution found\nobjective value:                                    3\nx0                                                  1 \t(obj:3)\nx2                                               0.25 \t(obj:0)\n",
        ),
        (
            Dialect::Cbc,
            "Optimal - objective value 3.00000000\n      0 x0                     1                       3\n**    2 x2                  0.25                       0\n",
        ),
        (Dialect::Pairs, "# Solution for model model\n# Objective value = 3\nx0 1\nx1 0\nx2 2.5e-01\n"),
        (Dialect::Pairs, "=obj= 3\nx0 1\nx2 0.25\n"),
        (
            Dialect::CplexXml,
            "<?xml version = \"1.0\"?>\n<CPLEXSolution version=\"1.2\">\n <header objectiveValue=\"3\" solutionStatusString=\"integer optimal solution\"/>\n <variables>\n  <variable name=\"x0\" index=\"0\" value=\"1\"/>\n  <variable name=\"x2\" index=\"2\" value=\"0.25\"/>\n </variables>\n</CPLEXSolution>\n",
        ),
    ];

    fn model() -> Model {
        let mut model = Model::default();
        for _ in 0..3 {
            model.binary(1.0);
        }
        model
    }

    #[test]
    fn the_files_of_six_solvers_say_the_same() {
        for (written_by, text) in FILES {
            assert_eq!(dialect(text), written_by);
            let vector = parse(text).and_then(|solution| solution.vector(&model(), &Numbered));
            assert_eq!(vector, Ok(vec![1.0, 0.0, 0.25]), "{written_by:?}");
        }
    }

    #[test]
    fn what_cannot_be_used_is_refused_with_its_line() {
        let message = |text: &str| {
            let vector = parse(text).and_then(|solution| solution.vector(&model(), &Numbered));
            vector.expect_err("refused").to_string()
        };
        let cases = [
            ("", "lists no values; expected lines of a name and a number"),
            (
                "Model status\nInfeasible\n\n# Primal solution values\nNone\n",
                "lists no values; expected lines of a name and a number; its status is \"Infeasible\"",
            ),
            (
                "no solution available\n",
                "lists no values; expected lines of a name and a number; its status is \"no solution available\"",
            ),
            ("x0 1\nx1\n", "line 2: \"x1\" is not a name and a number"),
            ("x0 one\n", "line 1: \"x0 one\" is not a name and a number"),
            ("x0 nan\n", "line 1: the value of x0 is NaN; expected a finite number"),
            ("x0 1\ny 1\n", "line 2: the model has no variable \"y\"; is this the solution of another model?"),
            ("x0 1\nx0 0\n", "line 2: x0 has a value already"),
        ];
        for (text, expected) in cases {
            assert_eq!(message(text), expected, "{text:?}");
        }
    }
}
