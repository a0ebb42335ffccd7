//! Models as text, with a header of metadata in comments, for every solver that is not built in.
//!
//! Columns and rows are named by whoever built the model, so that a solution can be read back by name
//! (`solution.rs`).

use std::fmt;
use std::io::{self, Write};
use std::path::Path;

use crate::cp::CpModel;
use crate::cp::proto::{Message, fields};
use crate::model::{Column, Kind, Model, Names, Row};

/// Forms of text in which a model can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// Free MPS.
    Mps,
    /// LP (the dialect of CPLEX).
    Lp,
    /// CP-SAT's `CpModelProto` as text.
    CpModel,
}

impl Format {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Mps, Self::Lp, Self::CpModel];

    /// The one that a file's name ends in.
    pub fn of(path: &Path) -> Option<Self> {
        let ending = path.extension()?;
        Self::ALL.into_iter().find(|format| ending == format.ending())
    }

    /// The ending of its files, which is also what it is called.
    pub fn ending(self) -> &'static str {
        match self {
            Self::Mps => "mps",
            Self::Lp => "lp",
            Self::CpModel => "cp-model",
        }
    }

    /// What stands before a comment.
    pub fn comment(self) -> &'static str {
        match self {
            Self::Mps => "*",
            Self::Lp => "\\",
            Self::CpModel => "#",
        }
    }
}

/// What the head of an exported file says: pairs of a key and a value.
pub type Metadata<'a> = [(&'a str, String)];

fn header(out: &mut dyn Write, format: Format, model: Option<&Model>, metadata: &Metadata<'_>) -> io::Result<()> {
    let comment = format.comment();
    for (key, value) in metadata {
        writeln!(out, "{comment} {key}: {}", value.replace(['\n', '\r'], " "))?;
    }
    model.map_or(Ok(()), |model| writeln!(out, "{comment} size: {}", model.size()))
}

/// Writes a constraint program as CP-SAT's `CpModelProto` in text form.
///
/// # Errors
/// Those of `out`.
pub fn write_cp_model(out: &mut dyn Write, model: &CpModel, metadata: &Metadata<'_>) -> io::Result<()> {
    header(out, Format::CpModel, None, metadata)?;
    fields(model, &[]).try_for_each(|field| out.write_all(Message(vec![field]).text().as_bytes()))
}

/// A number in at most 24 characters: CBC takes none of 26 or more.
struct Number(f64);

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(value) = self;
        if *value == 0.0 || (1e-5..1e16).contains(&value.abs()) { write!(f, "{value}") } else { write!(f, "{value:e}") }
    }
}

/// Which sides a row has.
enum Sides {
    Free,
    Equal(f64),
    AtMost(f64),
    AtLeast(f64),
    Between(f64, f64),
}

fn sides(model: &Model, row: usize) -> Sides {
    let (lower, upper) = (model.rows.lower[row], model.rows.upper[row]);
    match (lower.is_finite(), upper.is_finite()) {
        (false, false) => Sides::Free,
        (true, true) if lower.to_bits() == upper.to_bits() => Sides::Equal(lower),
        (true, true) => Sides::Between(lower, upper),
        (false, true) => Sides::AtMost(upper),
        (true, false) => Sides::AtLeast(lower),
    }
}

/// Writes LP text (the dialect that CPLEX, Gurobi, SCIP, HiGHS and CBC read). A row with two
/// different sides becomes two rows, the second one's name ending in `.upper`.
///
/// # Errors
/// Those of `out`.
pub fn write_lp(out: &mut dyn Write, model: &Model, names: &dyn Names, metadata: &Metadata<'_>) -> io::Result<()> {
    header(out, Format::Lp, Some(model), metadata)?;
    writeln!(out, "Minimize\n obj:")?;
    let costs = model.costs.iter().enumerate().filter(|(_, cost)| **cost != 0.0);
    terms(out, names, costs.map(|(column, &cost)| (Column::from_index(column), cost)))?;
    if model.offset != 0.0 {
        writeln!(out, "  {} {}", sign(model.offset), Number(model.offset.abs()))?;
    }
    writeln!(out, "Subject To")?;
    for row in 0..model.rows.len() {
        let name = names.row(Row::from_index(row));
        let mut side = |suffix: &str, relation: &str, value: f64| -> io::Result<()> {
            writeln!(out, " {name}{suffix}:")?;
            terms(out, names, model.rows.terms(row))?;
            writeln!(out, "  {relation} {}", Number(value))
        };
        match sides(model, row) {
            Sides::Free => {}
            Sides::Equal(value) => side("", "=", value)?,
            Sides::AtMost(value) => side("", "<=", value)?,
            Sides::AtLeast(value) => side("", ">=", value)?,
            Sides::Between(lower, upper) => {
                side("", ">=", lower)?;
                side(".upper", "<=", upper)?;
            }
        }
    }
    lp_bounds(out, model, names)?;
    writeln!(out, "End")
}

fn sign(value: f64) -> char {
    if value < 0.0 { '-' } else { '+' }
}

/// Terms, a few to the line: some readers limit its length.
fn terms(out: &mut dyn Write, names: &dyn Names, terms: impl Iterator<Item = (Column, f64)>) -> io::Result<()> {
    let mut count = 0;
    for (column, value) in terms {
        write!(
            out,
            "{}{} {} {}",
            if count % 6 == 0 { "  " } else { " " },
            sign(value),
            Number(value.abs()),
            names.column(column)
        )?;
        count += 1;
        if count % 6 == 0 {
            writeln!(out)?;
        }
    }
    if count % 6 == 0 { Ok(()) } else { writeln!(out) }
}

fn lp_bounds(out: &mut dyn Write, model: &Model, names: &dyn Names) -> io::Result<()> {
    writeln!(out, "Bounds")?;
    for column in 0..model.columns() {
        let name = names.column(Column::from_index(column));
        let (lower, upper) = (Number(model.lower[column]), Number(model.upper[column]));
        match (lower.0, upper.0) {
            (f64::NEG_INFINITY, f64::INFINITY) => writeln!(out, " {name} free")?,
            (f64::NEG_INFINITY, _) => writeln!(out, " -inf <= {name} <= {upper}")?,
            (_, f64::INFINITY) => writeln!(out, " {name} >= {lower}")?,
            _ => writeln!(out, " {lower} <= {name} <= {upper}")?,
        }
    }
    let whole: Vec<usize> = (0..model.columns()).filter(|&c| model.kinds[c] == Kind::Integer).collect();
    if !whole.is_empty() {
        writeln!(out, "General")?;
        for column in whole {
            writeln!(out, " {}", names.column(Column::from_index(column)))?;
        }
    }
    Ok(())
}

/// Writes free-format MPS.
///
/// # Errors
/// Those of `out`.
pub fn write_mps(out: &mut dyn Write, model: &Model, names: &dyn Names, metadata: &Metadata<'_>) -> io::Result<()> {
    header(out, Format::Mps, Some(model), metadata)?;
    // CBC 2.10 takes lines for those of the fixed format unless it is told.
    writeln!(out, "NAME model FREE\nROWS\n N obj")?;
    let row_names: Vec<String> = (0..model.rows.len()).map(|row| names.row(Row::from_index(row))).collect();
    for (row, name) in row_names.iter().enumerate() {
        let kind = match sides(model, row) {
            Sides::Free => 'N',
            Sides::Equal(_) => 'E',
            Sides::AtMost(_) => 'L',
            Sides::AtLeast(_) | Sides::Between(..) => 'G',
        };
        writeln!(out, " {kind} {name}")?;
    }
    mps_columns(out, model, names, &row_names)?;
    writeln!(out, "RHS")?;
    if model.offset != 0.0 {
        writeln!(out, " rhs obj {}", Number(-model.offset))?;
    }
    let value = |row| match sides(model, row) {
        Sides::Free => 0.0,
        Sides::Equal(value) | Sides::AtMost(value) | Sides::AtLeast(value) | Sides::Between(value, _) => value,
    };
    for (row, name) in row_names.iter().enumerate().filter(|&(row, _)| value(row) != 0.0) {
        writeln!(out, " rhs {name} {}", Number(value(row)))?;
    }
    writeln!(out, "RANGES")?;
    for (row, name) in row_names.iter().enumerate() {
        if let Sides::Between(lower, upper) = sides(model, row) {
            writeln!(out, " rng {name} {}", Number(upper - lower))?;
        }
    }
    mps_bounds(out, model, names)?;
    writeln!(out, "ENDATA")
}

fn mps_columns(out: &mut dyn Write, model: &Model, names: &dyn Names, row_names: &[String]) -> io::Result<()> {
    writeln!(out, "COLUMNS")?;
    let mut marked = false;
    for (column, entries) in model.rows.by_column(model.columns()).into_iter().enumerate() {
        let whole = model.kinds[column] == Kind::Integer;
        if whole != marked {
            writeln!(out, " marker 'MARKER' {}", if whole { "'INTORG'" } else { "'INTEND'" })?;
            marked = whole;
        }
        let name = names.column(Column::from_index(column));
        if model.costs[column] != 0.0 || entries.is_empty() {
            writeln!(out, " {name} obj {}", Number(model.costs[column]))?;
        }
        for (row, value) in entries {
            writeln!(out, " {name} {} {}", row_names[row], Number(value))?;
        }
    }
    if marked { writeln!(out, " marker 'MARKER' 'INTEND'") } else { Ok(()) }
}

fn mps_bounds(out: &mut dyn Write, model: &Model, names: &dyn Names) -> io::Result<()> {
    writeln!(out, "BOUNDS")?;
    for column in 0..model.columns() {
        let name = names.column(Column::from_index(column));
        let (lower, upper) = (Number(model.lower[column]), Number(model.upper[column]));
        if lower.0.to_bits() == upper.0.to_bits() {
            writeln!(out, " FX bnd {name} {lower}")?;
            continue;
        }
        match (lower.0.is_finite(), upper.0.is_finite()) {
            (false, false) => writeln!(out, " FR bnd {name}")?,
            (false, true) => writeln!(out, " MI bnd {name}\n UP bnd {name} {upper}")?,
            (true, true) => writeln!(out, " LO bnd {name} {lower}\n UP bnd {name} {upper}")?,
            // Said aloud: readers disagree on the upper bound of integer columns without one.
            (true, false) => writeln!(out, " LO bnd {name} {lower}\n PL bnd {name}")?,
        }
    }
    Ok(())
}
