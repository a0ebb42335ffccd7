//! Formulations that other solvers can be given: a model as text, and the way back from a solution to a
//! schedule.
//!
//! A method joins by returning an [`Encode`] from [`crate::Method::formulation`]; linear ones need no more than a
//! [`LinearEncoding`]. Nothing here calls a solver.

use std::io::{self, Write};

use remat_core::{Instance, Schedule};
pub use remat_solvers::export::Format;
use remat_solvers::export::{write_lp, write_mps};
use remat_solvers::solution::{SolutionError, parse};
use remat_solvers::{Kind, Model, Names};
use thiserror::Error;

use crate::method::parameters::Parameters;
use crate::method::{Claimed, MethodError};

/// The model of an instance for one budget; `None` means unlimited memory.
///
/// # Errors
/// There is no model: the budget is impossible, or the parameters ask for none.
pub type Encode = for<'a> fn(&'a Instance, &Parameters, Option<u64>) -> Result<Box<dyn Encoding + 'a>, MethodError>;

/// One model, and what its solutions mean.
pub trait Encoding {
    /// The forms in which it can be written.
    fn formats(&self) -> &'static [Format];
    /// What a reader of the model needs to know: units, what the columns are.
    fn facts(&self) -> Vec<(&'static str, String)>;
    /// Writes it, behind a head of comments.
    ///
    /// # Errors
    /// Those of `out`.
    fn write(&self, format: Format, out: &mut dyn Write, head: &[(&str, String)]) -> io::Result<()>;
    /// The schedule that the text of a solution file says. Not simulated: that is the harness's part.
    ///
    /// # Errors
    /// The text is no solution of this model, or the solution says no schedule.
    fn decode(&self, text: &str) -> Result<Decoded, DecodeError>;
}

/// What a solution says.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoded {
    /// The schedule.
    pub schedule: Schedule,
    /// What the formulation claims of it.
    pub claimed: Claimed,
    /// The solver's words about it, where the file has any.
    pub status: Option<String>,
}

/// A solution file that says no schedule.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum DecodeError {
    /// It cannot be read as a solution of the model.
    #[error(transparent)]
    Solution(#[from] SolutionError),
    /// It is no response to the model.
    #[error("{0}")]
    Response(String),
    /// A whole variable is not whole.
    #[error("a zero-one variable is {0} away from a whole number; solve the model as a mixed-integer program")]
    Fractional(f64),
    /// A whole variable is outside of its bounds.
    #[error("a variable is {value}, where the model has it from {lower} to {upper}")]
    Outside {
        /// Its value.
        value: f64,
        /// Its lower bound.
        lower: f64,
        /// Its upper bound.
        upper: f64,
    },
    /// The model is a relaxation.
    #[error("the model is a relaxation: its objective is a lower bound, and its solutions are no schedules")]
    Relaxation,
}

/// Distance from a whole number that counts as none.
pub const INTEGRALITY: f64 = 1e-5;

/// A mixed-integer model as an [`Encoding`].
pub struct LinearEncoding<'a> {
    model: Model,
    /// What its columns and rows are called.
    names: Box<dyn Names + 'a>,
    facts: Vec<(&'static str, String)>,
    read: Reader<'a>,
}

/// From a vector to a schedule and what is claimed of it.
type Reader<'a> = Box<dyn Fn(&[f64]) -> Result<(Schedule, Claimed), DecodeError> + 'a>;

impl<'a> LinearEncoding<'a> {
    /// A model, whole or relaxed, with what its columns are called, what a reader needs to know, and the schedule that a
    /// whole vector says.
    pub fn boxed(
        mut model: Model,
        names: impl Names + 'a,
        mut facts: Vec<(&'static str, String)>,
        relaxed: bool,
        read: impl Fn(&[f64]) -> Result<(Schedule, Claimed), DecodeError> + 'a,
    ) -> Box<dyn Encoding + 'a> {
        let bounds = |at| (model.lower[at], model.upper[at]);
        let wholes = (0..model.columns()).filter(|&at| model.kinds[at] == Kind::Integer);
        let wholes: Vec<(usize, (f64, f64))> = wholes.map(|at| (at, bounds(at))).collect();
        if relaxed {
            model.kinds.fill(Kind::Continuous);
            facts.push(("integrality", "none: the relaxation".into()));
        }
        let read = move |vector: &[f64]| {
            let away = wholes.iter().map(|&(at, _)| (vector[at] - vector[at].round()).abs()).fold(0.0, f64::max);
            let outside = |&&(at, (lower, upper)): &&(usize, (f64, f64))| {
                !(lower - INTEGRALITY..=upper + INTEGRALITY).contains(&vector[at])
            };
            match () {
                () if relaxed => Err(DecodeError::Relaxation),
                () if away > INTEGRALITY => Err(DecodeError::Fractional(away)),
                () if let Some(&(at, (lower, upper))) = wholes.iter().find(outside) => {
                    Err(DecodeError::Outside { value: vector[at], lower, upper })
                }
                () => read(vector),
            }
        };
        Box::new(Self { model, names: Box::new(names), facts, read: Box::new(read) })
    }
}

impl Encoding for LinearEncoding<'_> {
    fn formats(&self) -> &'static [Format] {
        &[Format::Mps, Format::Lp]
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        self.facts.clone()
    }

    fn write(&self, format: Format, out: &mut dyn Write, head: &[(&str, String)]) -> io::Result<()> {
        match format {
            Format::Mps => write_mps(out, &self.model, self.names.as_ref(), head),
            Format::Lp => write_lp(out, &self.model, self.names.as_ref(), head),
            Format::CpModel => Err(io::Error::from(io::ErrorKind::Unsupported)),
        }
    }

    fn decode(&self, text: &str) -> Result<Decoded, DecodeError> {
        let solution = parse(text)?;
        let vector = solution.vector(&self.model, self.names.as_ref())?;
        let (schedule, claimed) = (self.read)(&vector)?;
        Ok(Decoded { schedule, claimed, status: solution.status })
    }
}
