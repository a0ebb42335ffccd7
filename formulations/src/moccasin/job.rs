//! One budget of `moccasin`: what can be said at once, the start, and either strategy.

use std::time::{Duration, Instant};

use remat_solvers::cp::{CpBackend, CpOutcome, CpRequest, Emphasis, Variable};

use crate::checkmate::CheckmateIlp;
use crate::checkmate::joint::Joint;
use crate::checkmate::stages::Stages;
use crate::method::parameters::Parameters;
use crate::method::report::{Progress, Silent};
use crate::method::{Answer, Context, Limits, Method, MethodError, Termination};
use crate::moccasin::anneal::{Plan, anneal};
use crate::moccasin::greedy;
use crate::moccasin::improve::{Found, Search, Task};
use crate::moccasin::published::{Memory, Phase, Published};
use crate::moccasin::starts::{self, Start};

/// One budget.
pub struct Job<'a> {
    context: &'a Context<'a>,
    /// In the order to keep.
    joint: &'a Joint,
    solver: &'static dyn CpBackend,
    /// Position of the budget among those of the call.
    index: usize,
    budget: Option<u64>,
    deadline: Option<Instant>,
    /// A start that is there already, whatever the parameters say.
    given: Option<Stages>,
}

impl<'a> Job<'a> {
    /// The budget at a position, to be answered before a deadline.
    pub fn new(
        context: &'a Context<'a>,
        joint: &'a Joint,
        solver: &'static dyn CpBackend,
        index: usize,
        deadline: Option<Instant>,
    ) -> Self {
        Self { context, joint, solver, index, budget: context.budgets[index], deadline, given: None }
    }

    /// The same with a start that is there already.
    #[must_use]
    pub fn starting_from(self, stages: Stages) -> Self {
        Self { given: Some(stages), ..self }
    }

    /// The answer; `build` is the time spent on it before.
    ///
    /// # Errors
    /// The solver refuses, or a start's method fails.
    pub fn answer(&self, build: Duration) -> Result<Answer, MethodError> {
        let began = Instant::now();
        let found = match self.at_once() {
            Some(found) => found,
            None if self.word("strategy") == "improved" => self.improved()?,
            None => self.as_published()?,
        };
        let claimed = found.stages.as_ref().map(|stages| stages.claim(self.joint, self.workspace()));
        Ok(Answer {
            budget: self.budget,
            termination: found.termination,
            schedule: found.stages.as_ref().map(|stages| stages.schedule(self.context.instance, self.joint)),
            claimed,
            lower_bound: found.lower_bound,
            build: build + found.build,
            solve: began.elapsed().saturating_sub(found.build),
            note: found.note,
        })
    }

    fn word(&self, name: &str) -> &str {
        self.context.parameters.word(name)
    }

    fn workspace(&self) -> bool {
        self.word("workspace") == "on"
    }

    fn copies(&self) -> u64 {
        self.context.parameters.integer("copies").unwrap_or(2)
    }

    fn fixed_time(&self) -> u64 {
        self.joint.operators.iter().map(|operator| operator.first.time).sum()
    }

    fn limits(&self) -> greedy::Limits {
        greedy::Limits {
            budget: self.budget.unwrap_or(u64::MAX),
            workspace: self.workspace(),
            copies: self.copies(),
            deadline: self.deadline,
        }
    }

    /// What can be said without a solver: a budget below what one operator needs has no schedule, and one
    /// that store-all meets needs none better.
    fn at_once(&self) -> Option<Found> {
        let least = self.joint.least_peak(self.workspace());
        let store_all = Stages::store_all(self.joint);
        let peak = store_all.claim(self.joint, self.workspace()).peak_bytes;
        match self.budget {
            Some(budget) if budget < least => Some(Found {
                note: format!("one operator alone needs {least}; no solver asked"),
                ..Found::of(Termination::Infeasible)
            }),
            Some(budget) if budget < peak => None,
            _ => Some(Found {
                stages: Some(store_all),
                lower_bound: Some(self.fixed_time()),
                note: "store-all fits; no solver asked".into(),
                ..Found::of(Termination::Optimal)
            }),
        }
    }

    /// Reports progress of this budget.
    fn hears(&self, progress: &Progress, stages: Option<&Stages>) {
        let incumbent = stages.map(|stages| {
            let claim = stages.claim(self.joint, self.workspace());
            (stages.schedule(self.context.instance, self.joint), claim)
        });
        let report = Progress { incumbent, lower_bound: progress.lower_bound, effort: progress.effort };
        self.context.reporter.report(self.index, report);
    }

    /// The start that is asked for, whether it meets the budget or not.
    fn start(&self) -> Result<Start, MethodError> {
        if let Some(stages) = &self.given {
            return Ok(self.repaired("the schedule that the order comes from", stages.clone()));
        }
        let limits = starts::limits(3, self.limits());
        let stages = match self.word("start") {
            "auto" | "none" => None,
            "trivial" => Some(Stages::store_all(self.joint)),
            "greedy" => greedy::greedy(self.joint, limits),
            "anneal" => self.annealed(&Stages::store_all(self.joint), limits),
            id => {
                let time = limits.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
                let context = Context { limits: Limits { time, ..self.context.limits }, ..*self.context };
                let start = starts::of_method(id, &context, self.joint, self.budget, self.copies())?;
                let Some(stages) = start.stages else { return Ok(start) };
                return Ok(self.repaired(&format!("the schedule of {id}"), stages));
            }
        };
        Ok(Start { stages, words: String::new() })
    }

    /// The same stages where they meet the budget, annealed ones otherwise; and what it came to.
    fn repaired(&self, what: &str, stages: Stages) -> Start {
        let peak = stages.claim(self.joint, self.workspace()).peak_bytes;
        let budget = self.budget.unwrap_or(u64::MAX);
        if peak <= budget {
            return Start { stages: Some(stages), words: String::new() };
        }
        let annealed = self.annealed(&stages, starts::limits(3, self.limits()));
        let became = if annealed.is_some() { "annealed" } else { "annealed in vain" };
        let words = format!("{what} needs {peak} in these stages, more than the budget: {became}; ");
        Start { stages: annealed, words }
    }

    fn annealed(&self, start: &Stages, limits: greedy::Limits) -> Option<Stages> {
        let mut best = None;
        let seed = self.context.limits.seed;
        anneal(self.joint, limits, Plan::of(self.joint), start, seed, &mut |stages| best = Some(stages.clone()));
        best
    }

    fn improved(&self) -> Result<Found, MethodError> {
        let hears = |progress: &Progress, stages: Option<&Stages>| self.hears(progress, stages);
        let opinion = |time| self.coarse(time);
        let task = Task {
            joint: self.joint,
            budget: self.budget.unwrap_or(u64::MAX),
            workspace: self.workspace(),
            copies: self.copies(),
            solver: self.solver,
            deadline: self.deadline,
            threads: self.context.limits.threads,
            seed: self.context.limits.seed,
            hears: &hears,
            opinion: (self.word("relaxation") == "both" && self.given.is_none()).then_some(&opinion),
        };
        let mut search = Search::new(&task);
        let start = self.start()?;
        match start.stages {
            Some(stages) => {
                search.offer(stages);
            }
            None if self.word("start") == "auto" => {
                search.start_greedily();
                let chain = starts::of_method("chain", self.context, self.joint, self.budget, self.copies())?;
                if let Some(stages) = chain.stages {
                    search.offer(stages);
                }
                search.anneal_unless_found();
            }
            None => {}
        }
        let found = search.run()?;
        Ok(Found { note: format!("{}{}", start.words, found.note), ..found })
    }

    /// What Checkmate's relaxation over blocks of stages says: its bound holds for any number of runs.
    fn coarse(&self, time: Option<Duration>) -> Result<(Option<Stages>, Option<u64>), MethodError> {
        let given = [("strategy", "coarse"), ("workspace", self.word("workspace"))];
        let given = given.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let parameters = Parameters::new(CheckmateIlp.about().parameters, &given)
            .map_err(|error| MethodError::Internal(format!("parameters of checkmate-ilp: {error}")))?;
        let limits = Limits { time, ..self.context.limits };
        let budgets = [self.budget];
        let context =
            Context { parameters: &parameters, budgets: &budgets, limits, reporter: &Silent, ..*self.context };
        let Some(answer) = CheckmateIlp.answers(&context)?.pop() else { return Ok((None, None)) };
        let follow = |schedule| starts::follow(self.context.instance, self.joint, schedule, self.copies());
        Ok((answer.schedule.as_ref().map(follow), answer.lower_bound))
    }

    fn phase(&self, published: &Published<'_>, hint: &[(Variable, i64)], parts: u32) -> Result<CpOutcome, MethodError> {
        let left = self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()) / parts);
        let request = CpRequest {
            time: left,
            threads: self.context.limits.threads,
            seed: self.context.limits.seed,
            emphasis: Emphasis::Default,
            hint,
            interrupt: None,
        };
        let outcome = self.solver.solve(&published.model, &request);
        outcome.map_err(|error| MethodError::Internal(error.to_string()))
    }

    /// Both phases of the paper.
    fn as_published(&self) -> Result<Found, MethodError> {
        let memory = if self.word("memory") == "reservoir" { Memory::Reservoir } else { Memory::Cumulative };
        let budget = self.budget.unwrap_or(u64::MAX);
        let most = Stages::store_all(self.joint).claim(self.joint, self.workspace()).peak_bytes;
        let room = (budget - self.joint.base_bytes, most - self.joint.base_bytes);
        let mut build = Duration::ZERO;
        let mut model = |phase| {
            let began = Instant::now();
            let model = Published::new(self.joint, room, self.copies(), self.workspace(), memory, phase);
            build += began.elapsed();
            model
        };
        let start = self.start()?;
        let first = model(Phase::Memory);
        let hint = start.stages.map(|stages| first.hint(&stages)).unwrap_or_default();
        let outcome = self.phase(&first, &hint, 2)?;
        let size = format!("{} variables, {} constraints", first.model.domains.len(), first.model.constraints.len());
        let said =
            |phase, outcome: &CpOutcome| format!("phase {phase} {} in {:.1} s", outcome.raw_status, outcome.seconds);
        let mut note = format!("{}{}: {size}; {}", start.words, outcome.solver, said(1, &outcome));
        let within =
            |capacity: i64| u64::try_from(capacity).is_ok_and(|capacity| capacity * first.memory_unit() <= room.0);
        let start = outcome.values.as_ref().filter(|_| outcome.objective.is_some_and(within));
        let Some(values) = start else {
            let least = outcome.bound.is_some_and(|bound| !within(bound));
            let termination = if least { Termination::Infeasible } else { outcome.stop.into() };
            let termination = if termination == Termination::Optimal { Termination::Infeasible } else { termination };
            let lower_bound = (termination != Termination::Infeasible).then(|| self.fixed_time());
            return Ok(Found { termination, stages: None, lower_bound, note, build });
        };
        let feasible = first.stages(values);
        self.hears(&Progress::default(), Some(&feasible));
        let second = model(Phase::Duration);
        let hint = second.hint(&feasible);
        let outcome = self.phase(&second, &hint, 1)?;
        note = format!("{note}; {}", said(2, &outcome));
        let stages = outcome.values.as_ref().map_or(feasible, |values| second.stages(values));
        let bound = outcome.bound.and_then(|bound| u64::try_from(bound).ok()).unwrap_or(0);
        let lower_bound = self.fixed_time() + bound * second.time_unit();
        let termination = outcome.stop.into();
        Ok(Found { termination, stages: Some(stages), lower_bound: Some(lower_bound), note, build })
    }
}
