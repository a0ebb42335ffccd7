//! `checkmate-rounding`: two-phase rounding of the relaxation.

use std::time::{Duration, Instant};

use remat_core::{Instance, simulate};
use remat_solvers::{Outcome, Request, Stop};

use crate::checkmate::compact::{Compact, Rows};
use crate::checkmate::joint::Joint;
use crate::checkmate::lp::FORMULATION;
use crate::checkmate::plain::Plain;
use crate::checkmate::program::{Found, Program, SOLVER, WORKSPACE, failed};
use crate::checkmate::stages::Stages;
use crate::method::parameters::{ParameterKind, ParameterSpec, Parameters};
use crate::method::{About, BudgetUse, Claim, Context, Method, MethodError, SkipReason, Termination};
use crate::random::Random;

/// Checkmate's approximation.
///
/// # Problem
/// As `checkmate-ilp`, approximately.
///
/// # Variables
/// S* of the relaxation at (1 - eps) times the budget, rounded to S; then the least R with which S is
/// valid.
///
/// # Constraints
/// As `checkmate-lp`; then section 5.1's second phase.
///
/// # Size
/// One linear program, then O(n m) for each candidate.
///
/// # Departures from the paper
/// A candidate is accepted if it simulates within the budget (the public code updates the peak before
/// it adds the tensor). `rounding=thresholds` takes the best of 101 thresholds, as `FastSA`'s authors
/// did; `deterministic` is 0.5; `random` keeps each value with probability S*, `samples` times. What
/// cannot be made again is kept.
///
/// # Claim
/// Heuristic. No schedule within the budget is reported as none, which proves nothing.
///
/// # Reference
/// Checkmate (Jain et al., `MLSys` 2020), sections 5.1 and 5.2.
pub struct CheckmateRounding;

const ROUNDING: ParameterSpec = ParameterSpec {
    name: "rounding",
    default: "thresholds",
    kind: ParameterKind::Choice(&["deterministic", "thresholds", "random"]),
    help: "deterministic: at 0.5; thresholds: the best of 0.00, 0.01, ..., 1.00; random: with probability S*",
};

const EPS: ParameterSpec = ParameterSpec {
    name: "eps-percent",
    default: "10",
    kind: ParameterKind::Integer { min: 0, max: 99 },
    help: "how much of the budget the relaxation leaves to the rounding",
};

const SAMPLES: ParameterSpec = ParameterSpec {
    name: "samples",
    default: "100",
    kind: ParameterKind::Integer { min: 1, max: 100_000 },
    help: "number of candidates with rounding=random",
};

impl Method for CheckmateRounding {
    fn id(&self) -> &'static str {
        "checkmate-rounding"
    }

    fn about(&self) -> About {
        About {
            title: "two-phase rounding of the relaxation of checkmate-ilp",
            claim: Claim::Heuristic,
            claim_text: "a legal schedule, or none; nothing is proved",
            reference: "Checkmate (Jain et al., MLSys 2020), section 5",
            parameters: &[ROUNDING, EPS, SAMPLES, FORMULATION, WORKSPACE, SOLVER],
            budgets: BudgetUse::Used,
        }
    }

    fn is_random(&self, parameters: &Parameters) -> bool {
        parameters.word("rounding") == "random"
    }

    fn supports(&self, instance: &Instance) -> Result<(), SkipReason> {
        Joint::new(instance).map(|_| ())
    }

    fn solve(&self, context: &Context<'_>) -> Result<(), MethodError> {
        let program = Program::new(context)?;
        context.answer_each(|_, budget| {
            let found = match program.at_once(budget) {
                Some(found) => found,
                None => round(context, &program, budget)?,
            };
            let termination = match found.termination {
                // Store-all is all that a heuristic has to say of a budget that it meets.
                Termination::Optimal => Termination::Feasible,
                other => other,
            };
            Ok(program.answer(budget, Found { termination, ..found }))
        });
        Ok(())
    }
}

/// S* of the relaxation, by stage and value.
struct Relaxed {
    kept: Vec<Vec<f64>>,
    build: Duration,
    outcome: Outcome,
}

fn relax(context: &Context<'_>, program: &Program<'_>, budget: Option<u64>) -> Result<Relaxed, MethodError> {
    let began = Instant::now();
    let joint = &program.joint;
    let mut request = Request { relaxation: true, ..program.request(program.time) };
    let table = |values: Option<&Vec<f64>>, kept: &dyn Fn(usize, usize, &[f64]) -> f64| {
        let row = |stage| {
            (0..joint.values.len()).map(|value| values.map_or(0.0, |values| kept(stage, value, values))).collect()
        };
        (0..=joint.len()).map(row).collect::<Vec<Vec<f64>>>()
    };
    if context.parameters.word("formulation") == "published" {
        let plain = Plain::new(joint, budget, program.workspace);
        let build = began.elapsed();
        let outcome = program.solver.solve(&plain.model, &mut request).map_err(|error| failed(&error))?;
        let kept = table(outcome.incumbent.as_ref(), &|stage, value, values| plain.kept(stage, value, values));
        return Ok(Relaxed { kept, build, outcome });
    }
    let compact = Compact::new(joint, budget, program.workspace, Rows::All);
    let build = began.elapsed();
    let outcome = program.solver.solve(&compact.model, &mut request).map_err(|error| failed(&error))?;
    let kept = table(outcome.incumbent.as_ref(), &|stage, value, values| compact.kept(stage, value, values));
    Ok(Relaxed { kept, build, outcome })
}

fn round(context: &Context<'_>, program: &Program<'_>, budget: Option<u64>) -> Result<Found, MethodError> {
    let began = Instant::now();
    let eps = context.parameters.integer("eps-percent").unwrap_or(10);
    let reduced = budget.map(|budget| budget - u64::try_from(u128::from(budget) * u128::from(eps) / 100).unwrap_or(0));
    let Relaxed { kept, build, outcome } = relax(context, program, reduced)?;
    let words = format!("{}: {} at {}% of the budget", outcome.solver, outcome.raw_status, 100 - eps);
    let nothing = |termination| Found {
        termination,
        stages: None,
        lower_bound: None,
        build,
        solve: began.elapsed().saturating_sub(build),
        note: words.clone(),
    };
    match outcome.stop {
        Stop::Optimal => {}
        // The relaxation at a smaller budget proves nothing about this one.
        Stop::Infeasible => return Ok(nothing(Termination::NotFound)),
        Stop::TimeLimit => return Ok(nothing(Termination::TimeLimit)),
        _ => return Ok(nothing(Termination::Error)),
    }
    let mut best: Option<(u64, Stages)> = None;
    let mut legal = 0;
    let tried = candidates(context, &program.joint, &kept);
    let count = tried.len();
    for stages in tried {
        let schedule = stages.schedule(program.instance, &program.joint);
        let simulation =
            simulate(program.instance, &schedule).map_err(|error| MethodError::Internal(error.to_string()))?;
        if budget.is_none_or(|budget| simulation.peak_bytes <= budget) {
            legal += 1;
            if best.as_ref().is_none_or(|(time, _)| simulation.time < *time) {
                best = Some((simulation.time, stages));
            }
        }
    }
    let termination = if best.is_some() { Termination::Feasible } else { Termination::NotFound };
    let mut found = nothing(termination);
    found.stages = best.map(|(_, stages)| stages);
    found.note = format!("{words}; {legal} of {count} candidates within the budget");
    Ok(found)
}

fn candidates(context: &Context<'_>, joint: &Joint, kept: &[Vec<f64>]) -> Vec<Stages> {
    // Solvers leave 0.9999999 where they mean 1.
    const NOISE: f64 = 1e-6;
    let threshold = |threshold: f64| {
        Stages::complete(joint, |stage, value| kept[stage][value] > threshold - NOISE && kept[stage][value] > NOISE)
    };
    let mut candidates = match context.parameters.word("rounding") {
        "deterministic" => vec![threshold(0.5)],
        "random" => {
            let mut random = Random::new(context.limits.seed);
            let samples = context.parameters.integer("samples").unwrap_or(100);
            (0..samples)
                .map(|_| {
                    let draws: Vec<Vec<bool>> =
                        kept.iter().map(|row| row.iter().map(|&share| random.unit() < share).collect()).collect();
                    Stages::complete(joint, |stage, value| draws[stage][value])
                })
                .collect()
        }
        _ => (0..=100).map(|percent| threshold(f64::from(percent) / 100.0)).collect(),
    };
    candidates.dedup();
    candidates
}
