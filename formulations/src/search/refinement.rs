//! From coarse to fine: the relaxation over blocks of stages is solved, what its solution comes to is improved into a
//! schedule, and blocks are split where that solution, stage by stage, exceeds the budget or costs more. Every round
//! leaves a bound on all schedules; over single stages the relaxation is nearly exact.

use std::cmp::Ordering;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use remat_solvers::{Outcome, Progress, Stop};

use crate::method::MethodError;
use crate::search::blocks::{Block, places};
use crate::search::clock::{Clock, Pace};
use crate::search::incumbent::{Incumbent, TOLERANCE, proves};
use crate::search::neighbourhoods::{Explorer, usual_time};
use crate::search::problem::{Effort, Staged};
use crate::search::separation::{Follower, Pass, Relaxation, Separated, Solving, Terms, separate};
use crate::search::splitting::Splitter;

/// Nodes of the first round without a time limit; each round may use twice as many as the last.
const NODES: u64 = 50;
/// How often what does not fit is tried again with more left free.
const TRIES: usize = 3;
/// A part of what is left of the gap.
const LITTLE: f64 = 0.1;
/// How far between a bound and a point a cutoff is at first, and at most.
const REACH: [f64; 2] = [0.25, 0.75];
/// Neighbourhoods after each round without a time limit.
const STEPS: usize = 12;
/// Parts of the time that is left, of which a round gets one.
const PARTS: u32 = 6;
/// Parts of the time that is left, of which schedules get one at least after each round; but no more than so many tries of the
/// usual length take, since a small network needs none of that.
const LEAST: (u32, u32) = (20, 10);
/// With less time left no further round begins.
const LAST: Duration = Duration::from_millis(200);

/// The state of a refinement of one budget.
pub struct Refinement<'s, P: Staged> {
    problem: &'s P,
    incumbent: &'s Incumbent<'s, P>,
    solving: Solving,
    clock: Clock,
    /// When it is over, a round that does little for the bound is the last one: something else has its turn.
    turn: Option<Clock>,
    /// Other threads that search neighbourhoods.
    explorers: usize,
    explorer: Explorer,
    splitter: Splitter<'s, 's, P>,
    /// Which part of the gap that is left a relaxation may leave.
    part: f64,
    /// How far between a bound and a point the next cutoff is.
    reach: f64,
    /// How long the next round has at least: as long as one that was cut short had, or twice as long where it begins anew.
    least: Duration,
    /// Time for schedules, for each second of a relaxation.
    weight: f64,
    round: usize,
    pace: Pace,
    /// What became of it, in words.
    pub note: String,
}

/// What comes after a round.
enum Next {
    /// The same relaxation once more.
    Same,
    /// Finer blocks.
    Finer(Vec<Block>),
    /// Nothing that is left to be split.
    Nothing,
}

/// Follows the solution of one round's relaxation.
pub(super) struct Round<'r, P: Staged> {
    incumbent: &'r Incumbent<'r, P>,
    gap: f64,
    /// A time beyond which points do not matter.
    cutoff: Option<u64>,
    /// Whether bounds of the model are bounds on all schedules.
    bounding: bool,
}

impl<'r, P: Staged> Round<'r, P> {
    /// One whose bounds are all that is of interest.
    pub(super) fn of_bounds(incumbent: &'r Incumbent<'r, P>) -> Self {
        Self { incumbent, gap: 0.0, cutoff: None, bounding: true }
    }
}

impl<'p, P: Staged> Follower<P::Relaxation<'p>> for Round<'_, P> {
    fn gap(&self) -> f64 {
        self.gap
    }

    fn cutoff(&self) -> Option<u64> {
        self.cutoff
    }

    fn start(&self, relaxation: &P::Relaxation<'p>) -> Option<Vec<f64>> {
        let best = self.incumbent.best().filter(|_| self.bounding && self.cutoff.is_none());
        best.map(|best| self.incumbent.judge.point(relaxation, &best))
    }

    fn hear(&mut self, relaxation: &P::Relaxation<'p>, event: &Progress<'_>) -> ControlFlow<()> {
        if let Some(bound) = event.bound.filter(|_| self.bounding) {
            self.incumbent.raise(relaxation.bound(bound));
        }
        self.incumbent.flow()
    }

    fn solved(
        &mut self,
        relaxation: &P::Relaxation<'p>,
        outcome: &Outcome,
        _: Pass,
    ) -> Result<ControlFlow<()>, MethodError> {
        if let Some(bound) = outcome.dual_bound.filter(|_| self.bounding) {
            self.incumbent.raise(relaxation.bound(bound));
        }
        Ok(self.incumbent.flow())
    }
}

impl<'s, P: Staged> Refinement<'s, P> {
    /// A refinement within some time, beside other threads that search neighbourhoods.
    pub fn new(incumbent: &'s Incumbent<'s, P>, solving: Solving, clock: Clock, explorers: usize) -> Self {
        Self {
            problem: incumbent.judge,
            incumbent,
            solving,
            clock,
            turn: None,
            explorers,
            explorer: Explorer::new(solving.seed, 0),
            splitter: Splitter::new(incumbent, solving),
            part: 8.0,
            reach: REACH[0],
            least: Duration::ZERO,
            weight: 1.0,
            round: 0,
            pace: Pace::OF_MODELS,
            note: String::new(),
        }
    }

    /// The same where something else has its turn once this clock is over and a round does little for the bound.
    #[must_use]
    pub fn until(self, turn: Clock) -> Self {
        Self { turn: Some(turn), ..self }
    }

    /// Refines until nothing is left to be split or the time is up; none where the question is still open.
    ///
    /// # Errors
    /// The solver refuses, or contradicts a schedule that there is.
    pub fn run(&mut self) -> Result<Option<Stop>, MethodError> {
        let mut blocks = self.problem.first_blocks();
        let (mut before, mut same) = (None, None);
        loop {
            let size = size(self.problem, blocks.len());
            if !self.pace.allows(size, &self.clock) || self.clock.has_less_than(self.least / 2) {
                self.note = format!("no time for {} blocks of stages, after {} rounds", blocks.len(), self.round);
                return Ok(Some(Stop::TimeLimit));
            }
            self.incumbent.hear();
            if let Some(stop) = self.incumbent.stop() {
                return Ok(Some(stop));
            }
            self.round += 1;
            let (began, bound) = (Instant::now(), self.incumbent.bound());
            let mut relaxation = same.take().unwrap_or_else(|| self.problem.over(&blocks, before.as_ref()));
            let Separated { outcome, solving, .. } = self.solve(&mut relaxation, Pass::Whole, true, None)?;
            self.pace.learn(size, began.elapsed().saturating_sub(solving));
            if outcome.stop == Stop::TimeLimit && self.refutes() {
                let known = outcome.objective.map(|objective| relaxation.bound(objective));
                self.refute(&mut relaxation, known)?;
            }
            self.least = if outcome.stop == Stop::TimeLimit { solving } else { Duration::ZERO };
            self.note = format!(
                "{}: {}; {} blocks of stages in {} rounds; {}",
                outcome.solver,
                outcome.raw_status,
                blocks.len(),
                self.round,
                outcome.size
            );
            if outcome.stop == Stop::Infeasible {
                self.incumbent.refuted(&self.note)?;
                return Ok(Some(Stop::Infeasible));
            }
            let expanded = self.expand(&relaxation, &outcome);
            let raised = self.incumbent.bound().saturating_sub(bound);
            self.schedules(expanded.as_ref(), began.elapsed(), raised)?;
            if let Some(stop) = self.incumbent.stop() {
                return Ok(Some(stop));
            }
            let helps = self.incumbent.open().is_some() && !self.is_little(raised);
            if self.turn.is_some_and(|turn| turn.is_over() && !helps) || self.clock.has_less_than(LAST) {
                return Ok(Some(Stop::TimeLimit));
            }
            match self.next(&relaxation, &blocks, expanded.as_ref(), &outcome)? {
                Next::Same => same = Some(relaxation),
                Next::Finer(finer) => (before, blocks) = (Some(relaxation), finer),
                Next::Nothing => return Ok(None),
            }
        }
    }

    /// What a solution comes to, stage by stage; neighbourhoods are drawn towards it.
    fn expand(&self, relaxation: &P::Relaxation<'s>, outcome: &Outcome) -> Option<P::Solution> {
        let expanded = self.problem.expand(relaxation, outcome.incumbent.as_ref()?)?;
        self.incumbent.set_guide(self.problem.kept(&expanded).into_owned());
        Some(expanded)
    }

    /// Schedules from what a round's solution comes to, and from elsewhere where that does not do; the round took some time
    /// and raised the bound by so much. Schedules get as much time as relaxations, and more or less of it as they or the
    /// bound gain more in that; as before where neither gains.
    fn schedules(&mut self, expanded: Option<&P::Solution>, took: Duration, raised: u64) -> Result<(), MethodError> {
        let clock = match self.clock.left() {
            Some(left) => {
                let least = (left / LEAST.0).min(LEAST.1 * usual_time(self.problem));
                self.clock.at_most(took.mul_f64(self.weight).max(least))
            }
            None => self.clock,
        };
        let (began, before) = (Instant::now(), self.incumbent.time());
        if let Some(expanded) = expanded {
            self.improve(expanded, clock)?;
        }
        if !self.incumbent.is_done() && expanded.is_none_or(|expanded| !self.problem.fits(expanded)) {
            self.search_short(clock)?;
        }
        // Rounds that do little for the bound leave time for schedules.
        if self.explorers == 0 || self.is_little(raised) {
            self.explore(clock)?;
        }
        if let (Some(before), Some(now)) = (before, self.incumbent.time()) {
            let rate = |gain: u64, time: Duration| gain as f64 / time.as_secs_f64().max(1e-9);
            let (found, proved) = (rate(before.saturating_sub(now), began.elapsed()), rate(raised, took));
            let factor = match found.total_cmp(&proved) {
                Ordering::Less => 0.5,
                Ordering::Equal => 1.0,
                Ordering::Greater => 2.0,
            };
            self.weight = (self.weight * factor).clamp(0.25, 16.0);
        }
        Ok(())
    }

    /// Whether a round that raised the bound by so much did little for it.
    fn is_little(&self, raised: u64) -> bool {
        self.incumbent.open().is_some_and(|open| (raised as f64) < LITTLE * open as f64)
    }

    /// Schedules from what a solution comes to.
    fn improve(&self, expanded: &P::Solution, clock: Clock) -> Result<(), MethodError> {
        let seed = self.solving.seed.wrapping_add(self.round as u64);
        let effort = Effort::of(self.incumbent, self.round, 0.3, seed, clock.share(3));
        self.problem.improve(expanded, effort, &mut |solution| self.incumbent.offer(solution).map(drop))
    }

    /// Schedules without relaxations until a clock's time is up; without a time limit, so many tries.
    ///
    /// # Errors
    /// A schedule is not legal, or the solver refuses.
    pub fn explore(&mut self, clock: Clock) -> Result<(), MethodError> {
        let mut steps = 0;
        // A try that has begun may take longer.
        let whole = if self.clock.is_over() { clock } else { self.clock };
        while !self.incumbent.is_done() && !clock.is_over() && (clock.is_limited() || steps < STEPS) {
            if !self.explorer.step(self.incumbent, &self.solving, whole)? {
                break;
            }
            steps += 1;
        }
        Ok(())
    }

    /// Whether there is time to build the exact model.
    pub fn allows_exact(&self, clock: &Clock) -> bool {
        self.pace.allows(self.problem.stages() * self.problem.columns(), clock)
    }

    /// Schedules from the relaxation over short blocks, shorter from round to round: what does not fit when it is
    /// expanded is left free there next time.
    fn search_short(&mut self, clock: Clock) -> Result<(), MethodError> {
        let mut margin = vec![0; self.problem.stages()];
        let mut before = None;
        for _ in 0..TRIES {
            let short = self.problem.short(self.round, &margin, before.as_ref());
            let Some((blocks, mut relaxation)) = short else { return Ok(()) };
            let bounding = margin.iter().all(|&margin| margin == 0);
            let outcome = self.solve(&mut relaxation, Pass::Relaxed, bounding, None)?.outcome;
            let Some(expanded) = self.expand(&relaxation, &outcome) else { return Ok(()) };
            self.improve(&expanded, clock)?;
            if self.problem.fits(&expanded) || self.incumbent.is_done() {
                return Ok(());
            }
            self.widen(&mut margin, &blocks, &expanded);
            before = Some(relaxation);
        }
        Ok(())
    }

    /// Leaves half of what a block exceeds the capacity by free in its stages.
    fn widen(&self, margin: &mut [u64], blocks: &[Block], expanded: &P::Solution) {
        let needs = self.problem.needs(expanded);
        for block in blocks {
            let stages = block.first..=block.last;
            let need = needs[stages.clone()].iter().max().copied().unwrap_or(0);
            let over = need.saturating_sub(self.problem.capacity());
            margin[stages].iter_mut().for_each(|margin| *margin += over / 2);
        }
    }

    /// Whether bounds are raised by cutoffs: where other threads search schedules meanwhile.
    fn refutes(&self) -> bool {
        self.explorers > 0 && self.solving.solver.cuts_off()
    }

    /// Raises the bound of a relaxation that was cut short, of whose points one is known: as long as the solver shows in the
    /// time of a round that there is none below a cutoff between both.
    fn refute(&mut self, relaxation: &mut P::Relaxation<'s>, mut known: Option<u64>) -> Result<(), MethodError> {
        let [_, most] = REACH;
        while let (Some(time), Some(open)) = (known.take(), self.incumbent.open()) {
            let bound = self.incumbent.bound();
            let left = time.saturating_sub(bound).min(open) as f64;
            if self.incumbent.is_done() || self.clock.has_less_than(LAST) || left <= LITTLE * open as f64 {
                break;
            }
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not negative, and below 2^63")]
            let cutoff = bound + (self.reach * left) as u64;
            match self.solve(relaxation, Pass::Whole, true, Some(cutoff))?.outcome.stop {
                Stop::Cutoff if self.incumbent.bound() > bound => {
                    self.reach = (1.5 * self.reach).min(most);
                    known = Some(time);
                }
                Stop::TimeLimit => self.reach /= 2.0,
                _ => {}
            }
        }
        Ok(())
    }

    fn solve(
        &self,
        relaxation: &mut P::Relaxation<'s>,
        until: Pass,
        bounding: bool,
        cutoff: Option<u64>,
    ) -> Result<Separated, MethodError> {
        let clock = match (until, self.clock.left()) {
            (Pass::Relaxed, _) | (_, None) => self.clock.share(2 * PARTS),
            (Pass::Whole, Some(left)) => self.clock.at_most((left / PARTS).max(self.least)),
        };
        let terms = Terms {
            clock,
            nodes: (!self.clock.is_limited()).then(|| NODES << self.round.min(20)),
            from: Pass::Relaxed,
            until,
            interrupt: Some(self.incumbent.interrupt()),
        };
        let gap = self.gap_wanted();
        let mut follower = Round { incumbent: self.incumbent, gap, cutoff, bounding };
        separate(&self.solving, relaxation, terms, &mut follower)
    }

    /// A part of the gap that is left: there is no use in solving a relaxation better than the schedules that come of it.
    fn gap_wanted(&self) -> f64 {
        // Without a schedule, or with a bad one, a solution within a few per mille says enough.
        let most = self.incumbent.bound() as f64 / 50.0;
        (self.incumbent.open().map_or(most, |open| open as f64).min(most) / self.part).max(0.5)
    }

    /// What comes after a round.
    fn next(
        &mut self,
        relaxation: &P::Relaxation<'s>,
        blocks: &[Block],
        expanded: Option<&P::Solution>,
        outcome: &Outcome,
    ) -> Result<Next, MethodError> {
        let Some(expanded) = expanded else {
            if outcome.stop != Stop::TimeLimit {
                return Ok(Next::Nothing);
            }
            self.least *= 2;
            return Ok(Next::Same);
        };
        let (needs, capacity) = (self.problem.needs(expanded), self.problem.capacity());
        let exceed = places(blocks, &needs, |_, need| need > capacity);
        if !exceed.is_empty() {
            return self.splitter.split(relaxation, blocks, exceed, &self.clock, &self.pace).map(Next::Finer);
        }
        let left = outcome.objective.zip(outcome.dual_bound).map_or(0.0, |(objective, bound)| objective - bound);
        let left = left * relaxation.scale().time;
        let time = self.problem.time(expanded);
        let solved = outcome.incumbent.as_ref().filter(|_| left <= TOLERANCE * time as f64 + 1.0);
        let cost_more = solved.map_or(Vec::new(), |point| {
            places(blocks, &needs, |at, _| self.problem.costs_more(relaxation, point, expanded, at))
        });
        if !cost_more.is_empty() {
            return self.splitter.split(relaxation, blocks, cost_more, &self.clock, &self.pace).map(Next::Finer);
        }
        let bound = outcome.dual_bound.map_or(0, |bound| relaxation.bound(bound));
        if left > 0.5 && !proves(bound, time) {
            // A better solution of the same relaxation may be another one.
            self.part *= 4.0;
            self.least *= 2;
            return Ok(Next::Same);
        }
        Ok(Next::Nothing)
    }
}

/// Size of a relaxation over so many blocks, what its solution comes to stage by stage included: for each cell of that table
/// a small part of what a cell of the model takes.
pub(super) fn size<P: Staged>(problem: &P, blocks: usize) -> usize {
    blocks * problem.columns() + problem.stages() * problem.columns() / 2000
}

/// Raises the bound by the relaxation over blocks without integrality, split where its solution does not fit or costs
/// more, until nothing is split or the time is up; the finest that was solved, and what became of it.
///
/// # Errors
/// The solver refuses.
pub fn bound_by_blocks<'p, P: Staged>(
    incumbent: &Incumbent<'p, P>,
    solving: Solving,
    clock: Clock,
) -> Result<(P::Relaxation<'p>, Outcome), MethodError> {
    let problem = incumbent.judge;
    let mut blocks = problem.first_blocks();
    let mut before: Option<(P::Relaxation<'p>, Outcome)> = None;
    let mut pace = Pace::OF_MODELS;
    let mut splitter = Splitter::new(incumbent, solving);
    loop {
        let (size, began) = (size(problem, blocks.len()), Instant::now());
        let mut relaxation = problem.over(&blocks, before.as_ref().map(|before| &before.0));
        let terms = Terms { clock, nodes: None, from: Pass::Relaxed, until: Pass::Relaxed, interrupt: None };
        let mut follower = Round::of_bounds(incumbent);
        let Separated { outcome, solving: solved_for, .. } = separate(&solving, &mut relaxation, terms, &mut follower)?;
        pace.learn(size, began.elapsed().saturating_sub(solved_for));
        let solved = matches!(outcome.stop, Stop::Optimal | Stop::GapReached);
        // A round that was cut short leaves the one before, whose solution is one.
        if let Some((relaxation, before)) = before.take().filter(|_| !solved && outcome.stop != Stop::Infeasible) {
            return Ok((relaxation, Outcome { stop: outcome.stop, ..before }));
        }
        let point = outcome.incumbent.as_ref().filter(|_| solved);
        let expanded = point.and_then(|point| Some((point, problem.expand(&relaxation, point)?)));
        let places = expanded.map_or(Vec::new(), |(point, expanded)| {
            let (needs, capacity) = (problem.needs(&expanded), problem.capacity());
            let wanted = |at: usize, need| need > capacity || problem.costs_more(&relaxation, point, &expanded, at);
            places(&blocks, &needs, wanted)
        });
        let most = self::size(problem, blocks.len() + places.len());
        if places.is_empty() || clock.has_less_than(LAST) || !pace.allows(most, &clock) {
            return Ok((relaxation, outcome));
        }
        blocks = splitter.split(&relaxation, &blocks, places, &clock, &pace)?;
        before = Some((relaxation, outcome));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use remat_core::Instance;
    use remat_core::generate::layered::{Layered, layered};

    use super::*;
    use crate::method::report::Silent;
    use crate::search::driver::search;
    use crate::search::incumbent::Judge;
    use crate::staged::joint::Joint;
    use crate::staged::stages::Stages;
    use crate::staged::task::Task;

    #[test]
    fn bounds_by_cutoffs_are_bounds() {
        let solver = remat_solvers::backend("highs").expect("always built in");
        let solving = Solving { solver, threads: 1, seed: 0 };
        let mut raised = 0;
        for seed in 0..4 {
            let instance = Instance::new(&layered("layered", &Layered::moccasin(10, 0.4), seed)).expect("valid");
            let joint = Arc::new(Joint::new(&instance).expect("supported"));
            let mut task = Task::new(&instance, joint, None);
            let most = task.claim(&Stages::store_all(&task.joint)).peak_bytes;
            task.budget = Some((most * 8 / 10).max(task.joint.least_peak()));
            let known = Incumbent::new(&task, &Silent, 0, 0.0);
            search(&known, solving, Clock::start(None)).expect("solved");
            let Some(best) = known.best().filter(|_| known.is_optimal()) else { continue };

            // The exact model, of which only that schedule is known.
            let incumbent = Incumbent::new(&task, &Silent, 0, 0.0);
            incumbent.offer((*best).clone()).expect("legal");
            let clock = Clock::start(Some(Duration::from_secs(3600)));
            let (mut exact, time) = (task.exact(), task.time(&best));
            Refinement::new(&incumbent, solving, clock, 1).refute(&mut exact, Some(time)).expect("no contradiction");
            assert!(incumbent.bound() <= time, "{seed}: {} exceeds the optimum, {time}", incumbent.bound());
            raised += usize::from(incumbent.bound() > task.least_time());
        }
        assert!(raised > 0, "no bound was raised");
    }
}
