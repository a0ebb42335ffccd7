//! `microlp`, in pure Rust, through `good_lp`: the bridge to every other solver that `good_lp` supports.
//!
//! `good_lp` merges limits into one status and passes on neither bounds, node counts, node limits, cutoffs nor progress.
//! Nothing but its time limit stops it. For small models.

use std::time::Instant;

use good_lp::solvers::{SolutionStatus, WithInitialSolution, WithTimeLimit};
use good_lp::{Expression, ResolutionError, Solution, SolverModel, Variable, variable, variables};

use crate::backend::{Backend, SolverError, usable_start};
use crate::model::{Kind, Model};
use crate::outcome::{Outcome, Stop};
use crate::request::Request;

/// `microlp` through `good_lp`.
pub struct Microlp;

const ID: &str = "microlp";

impl Backend for Microlp {
    fn id(&self) -> &'static str {
        ID
    }

    fn version(&self) -> String {
        "microlp 0.6 through good_lp 1.15".into()
    }

    fn solve(&self, model: &Model, request: &Request<'_>) -> Result<Outcome, SolverError> {
        let mut outcome = Outcome::empty(Stop::Error, model.size(), self.version());
        if let Some(row) = impossible_row(model) {
            outcome.stop = Stop::Infeasible;
            outcome.raw_status = format!("row {row} has no terms and cannot hold; not asked");
            return Ok(outcome);
        }
        let mut declared = variables!();
        let columns: Vec<Variable> =
            (0..model.columns()).map(|c| declared.add(definition(model, request, c))).collect();
        let mut objective = Expression::with_capacity(model.columns());
        for (&column, &cost) in columns.iter().zip(&model.costs).filter(|(_, cost)| **cost != 0.0) {
            objective.add_mul(cost, column);
        }
        let mut problem = declared.minimise(objective).using(good_lp::solvers::microlp::microlp);
        add_rows(&mut problem, model, &columns);
        if let Some(time) = request.time {
            problem = problem.with_time_limit(time.as_secs_f64());
        }
        if let Some(values) = usable_start(model, request) {
            problem = problem.with_initial_solution(columns.iter().copied().zip(values.iter().copied()));
        }
        let began = Instant::now();
        match problem.solve() {
            Ok(solution) => read(&mut outcome, model, &solution, &columns),
            Err(error) => failed(&mut outcome, &error),
        }
        outcome.solve_seconds = began.elapsed().as_secs_f64();
        Ok(outcome)
    }
}

/// A row without terms that 0 does not satisfy: microlp answers those wrongly.
fn impossible_row(model: &Model) -> Option<usize> {
    (0..model.rows.len())
        .find(|&r| model.rows.terms(r).next().is_none() && (model.rows.lower[r] > 0.0 || model.rows.upper[r] < 0.0))
}

fn definition(model: &Model, request: &Request<'_>, column: usize) -> good_lp::VariableDefinition {
    let whole = model.kinds[column] == Kind::Integer && !request.relaxation;
    let definition = variable().min(model.lower[column]).max(model.upper[column]);
    if whole { definition.integer() } else { definition }
}

/// `good_lp`'s rows have one side each.
fn add_rows(problem: &mut impl SolverModel, model: &Model, columns: &[Variable]) {
    for row in 0..model.rows.len() {
        let (lower, upper) = (model.rows.lower[row], model.rows.upper[row]);
        let mut sum = Expression::with_capacity(model.rows.terms(row).count());
        for (column, value) in model.rows.terms(row) {
            sum.add_mul(value, columns[column.index()]);
        }
        if lower.to_bits() == upper.to_bits() {
            problem.add_constraint(sum.eq(lower));
            continue;
        }
        if lower > f64::NEG_INFINITY {
            problem.add_constraint(sum.clone().geq(lower));
        }
        if upper < f64::INFINITY {
            problem.add_constraint(sum.leq(upper));
        }
    }
}

fn read(outcome: &mut Outcome, model: &Model, solution: &impl Solution, columns: &[Variable]) {
    let values: Vec<f64> = columns.iter().map(|&column| solution.value(column)).collect();
    let objective = model.objective(&values);
    let status = solution.status();
    outcome.raw_status = format!("{status:?}");
    outcome.stop = match status {
        SolutionStatus::Optimal => Stop::Optimal,
        SolutionStatus::GapLimit => Stop::GapReached,
        SolutionStatus::TimeLimit => Stop::TimeLimit,
    };
    outcome.dual_bound = (outcome.stop == Stop::Optimal).then_some(objective);
    outcome.objective = Some(objective);
    outcome.incumbent = Some(values);
}

fn failed(outcome: &mut Outcome, error: &ResolutionError) {
    outcome.raw_status = error.to_string();
    outcome.stop = match error {
        ResolutionError::Infeasible => Stop::Infeasible,
        ResolutionError::Unbounded => Stop::Unbounded,
        ResolutionError::Other(text) if text.contains("Time limit") => Stop::TimeLimit,
        _ => Stop::Error,
    };
}
