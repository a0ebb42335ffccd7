//! Large neighbourhood search: the exact model of a part of the best schedule is solved, again and again, and between
//! that searches without a solver begin from it or anew.
//!
//! A neighbourhood has one of six shapes in the grid of stages and columns, and a number of open cells; everywhere else
//! what is kept is as the best schedule has it. Each kind of neighbourhood has a size of its own, which grows while its
//! models are solved and shrinks where they are not; kinds are drawn by how often they were of use. Several threads may
//! search at once: what one finds is carried over to what another has found meanwhile. Deterministic for a seed with one
//! thread, as long as no time runs out.

use std::ops::{ControlFlow, RangeInclusive};
use std::sync::Arc;
use std::time::{Duration, Instant};

use remat_solvers::{Outcome, Progress, Stop};

use crate::method::MethodError;
use crate::random::Random;
use crate::search::clock::{Clock, Pace};
use crate::search::incumbent::{Incumbent, Kept};
use crate::search::problem::{Effort, Open, Staged};
use crate::search::separation::{Follower, Pass, Relaxation, Solving, Terms, separate};

/// Open cells of the first neighbourhoods.
const CELLS: f64 = 400.0;
/// Fewest.
const FEWEST: f64 = 20.0;
/// Cells, open or not, of the stages that may have some open: a model of more takes seconds to build, and gigabytes.
pub const GRID: usize = 8_000_000;
/// Branch-and-bound nodes of one solve.
const NODES: u64 = 300;
/// Time of one solve at first; as much again after every so many tries that were of no use.
const TIME: Duration = Duration::from_millis(300);
/// Time of a search without a solver for each stage, likewise, from so many stages on; below, less in proportion.
const TIME_OF_STAGE: (Duration, u32) = (Duration::from_micros(1500), 50);
/// Heat of a search without a solver from store-all, and by what its time is multiplied. Those that are hot and take long lead
/// to schedules to which others do not find the way.
const ANEW: [(f64, u32); 3] = [(1.0, 1), (4.0, 16), (8.0, 16)];
/// Parts of the time that is left, of which one that takes longer than usual gets one at most.
const PARTS: u32 = 8;
/// So many that were of no use.
const PATIENCE: u32 = 40;
/// How often [`Shape::Towards`] goes towards what a search without a solver has found, not a relaxation.
const TOWARDS_OTHER: f64 = 0.6;
/// Stages on either side of a difference that are open too.
const BESIDE: usize = 1;

/// How the open cells lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Every column, in stages that follow each other.
    Stages,
    /// Columns that follow each other, in every stage, or as many as [`GRID`] allows.
    Columns,
    /// Columns that follow each other, in stages that do.
    Both,
    /// Columns in two places, in as many stages: what one lets go of the other may keep.
    Pair,
    /// Columns that read each other, in as many stages.
    Near,
    /// Where the solution of a relaxation, or another one, differs, and the stages beside; columns that follow each other.
    Towards,
}

/// What is tried.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Try {
    /// The exact model of a neighbourhood, and the part of the stages where something may run though nothing does now.
    Model(Shape, f64),
    /// A search without a solver.
    Walk(Walk),
}

/// A search without a solver.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Walk {
    /// Whether it begins with store-all, and not with the best solution.
    anew: bool,
    /// How far it goes at first.
    heat: f64,
    /// Whether it stays close to the budget.
    near: bool,
    /// By what its usual time is multiplied.
    times: u32,
}

/// A kind of tries, and how it has done.
#[derive(Clone, Copy, Debug)]
struct Kind {
    what: Try,
    /// Open cells of the next neighbourhood.
    cells: f64,
    tries: u32,
    successes: u32,
}

impl Kind {
    fn new(what: Try) -> Self {
        Self { what, cells: CELLS, tries: 0, successes: 0 }
    }
}

/// A search over neighbourhoods.
pub struct Explorer {
    random: Random,
    kinds: Vec<Kind>,
    /// Tries since one was of use.
    useless: u32,
    /// Searches without a solver so far.
    walks: usize,
    /// What the best solution of the last of them keeps.
    other: Option<Arc<Kept>>,
    pace: Pace,
}

impl Explorer {
    /// A search that has not begun; parts with different numbers draw differently.
    pub fn new(seed: u64, part: usize) -> Self {
        let shapes = [Shape::Columns, Shape::Stages, Shape::Both, Shape::Pair, Shape::Near, Shape::Towards];
        let models = shapes.into_iter().flat_map(|shape| [Try::Model(shape, 0.0), Try::Model(shape, 1.0)]);
        let warm = |near| [0.3, 0.1].map(|heat| Walk { anew: false, heat, near, times: 1 });
        let anew = ANEW.map(|(heat, times)| Walk { anew: true, heat, near: false, times });
        let walks = [false, true].into_iter().flat_map(warm).chain(anew).map(Try::Walk);
        Self {
            random: Random::part(seed, 1 + part as u64),
            kinds: models.chain(walks).map(Kind::new).collect(),
            useless: 0,
            walks: 0,
            other: None,
            pace: Pace::OF_NEIGHBOURHOODS,
        }
    }

    /// Searches until nothing more is wanted, or the time is up.
    ///
    /// # Errors
    /// The solver refuses.
    pub fn run<P: Staged>(
        &mut self,
        incumbent: &Incumbent<'_, P>,
        solving: &Solving,
        clock: Clock,
    ) -> Result<(), MethodError> {
        while !incumbent.is_done() && self.step(incumbent, solving, clock)? {}
        Ok(())
    }

    /// Tries to find a better solution than the best, and offers it; whether there was time for that, and a way. Without a time limit nodes and moves alone are limited.
    ///
    /// # Errors
    /// The solver refuses, or a schedule is not legal.
    pub fn step<P: Staged>(
        &mut self,
        incumbent: &Incumbent<'_, P>,
        solving: &Solving,
        clock: Clock,
    ) -> Result<bool, MethodError> {
        incumbent.hear();
        if clock.is_over() {
            return Ok(false);
        }
        let problem = incumbent.judge;
        let best = incumbent.best();
        let best = best.as_ref();
        let size = problem.stages() * problem.columns();
        let models = best.filter(|_| size > 0 && self.pace.allows(size, &clock));
        let guided = self.other.is_some() || incumbent.guide().is_some();
        let usable = |what| match what {
            Try::Model(shape, _) => models.is_some() && (guided || shape != Shape::Towards),
            Try::Walk(walk) => walk.anew || best.is_some(),
        };
        let at = self.draw(usable);
        let what = self.kinds[at].what;
        let start = match what {
            Try::Walk(walk) if walk.anew => problem.store_all().map(Arc::new),
            _ => best.cloned(),
        };
        let of_use = match (what, &start) {
            (Try::Model(shape, heads), Some(best)) => {
                self.solve(incumbent, solving, best, (at, shape, heads), clock)?
            }
            (Try::Walk(walk), Some(start)) => self.walk(incumbent, start, walk, clock)?,
            (_, None) if best.is_none() => return Ok(false),
            (_, None) => false,
        };
        self.kinds[at].tries += 1;
        self.useless += 1;
        if of_use {
            self.kinds[at].successes += 1;
            self.useless = 0;
        }
        Ok(true)
    }

    /// Time of one try: the more were of no use, the longer.
    fn patient(&self, least: Duration) -> Duration {
        least * (1 + self.useless / PATIENCE)
    }

    /// Time of one solve, where there are limits of time.
    fn time_of_solve(&self, clock: Clock) -> Clock {
        if clock.is_limited() { clock.at_most(self.patient(TIME)) } else { clock }
    }

    /// A search without a solver; whether it was of use.
    fn walk<P: Staged>(
        &mut self,
        incumbent: &Incumbent<'_, P>,
        start: &P::Solution,
        walk: Walk,
        clock: Clock,
    ) -> Result<bool, MethodError> {
        let problem = incumbent.judge;
        self.walks += 1;
        let Walk { heat, near, times, .. } = walk;
        let usual = self.patient(usual_time(problem));
        let clock = match clock.left() {
            Some(left) => clock.at_most((times * usual).min((left / PARTS).max(usual))),
            None => clock,
        };
        let seed = self.random.below(u32::MAX).into();
        let effort = Effort { near, times, ..Effort::of(incumbent, 1 + self.walks, heat, seed, clock) };
        let (mut found, mut of_use): (Option<(u64, Kept)>, bool) = (None, false);
        problem.improve(start, effort, &mut |solution| {
            let time = problem.time(&solution);
            if found.as_ref().is_none_or(|found| time < found.0) && problem.fits(&solution) {
                found = Some((time, problem.kept(&solution).into_owned()));
            }
            of_use |= incumbent.offer(solution)?;
            Ok(())
        })?;
        self.other = found.map(|found| Arc::new(found.1)).or(self.other.take());
        Ok(of_use)
    }

    /// The exact model of a neighbourhood; whether it was of use.
    fn solve<P: Staged>(
        &mut self,
        incumbent: &Incumbent<'_, P>,
        solving: &Solving,
        best: &Arc<P::Solution>,
        (at, shape, heads): (usize, Shape, f64),
        clock: Clock,
    ) -> Result<bool, MethodError> {
        let problem = incumbent.judge;
        let began = Instant::now();
        let other = if self.random.unit() < TOWARDS_OTHER { self.other.clone() } else { None };
        let guide = other.or_else(|| incumbent.guide()).or_else(|| self.other.clone());
        let cells = self.kinds[at].cells.min(Pace::OF_MODELS.most(&self.time_of_solve(clock))).max(FEWEST);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive, and a count of cells")]
        let extent = Extent { shape, heads, cells: cells as usize };
        let open = draw(problem, best, guide.as_deref(), extent, &mut self.random);
        let mut trial = Trial { problem, incumbent, best, found: None, nodes: 0, solving: Duration::ZERO };
        let solved = trial.run(solving, &mut problem.within(best, &open), self.time_of_solve(clock))?;
        let factor = match trial.nodes {
            _ if !solved => 0.7,
            // At the root.
            0..2 => 1.5,
            _ => 1.15,
        };
        let kind = &mut self.kinds[at];
        kind.cells = (kind.cells * factor).max(FEWEST);
        let of_use = trial.found.is_some();
        if let Some(found) = trial.found {
            let carried = incumbent.best().and_then(|now| carry(problem, best, &found, &now));
            for found in carried.into_iter().chain([found]) {
                incumbent.offer(found)?;
            }
        }
        self.pace.learn(problem.stages() * problem.columns(), began.elapsed().saturating_sub(trial.solving));
        Ok(of_use)
    }

    /// The next kind, drawn by how often each was of use.
    fn draw(&mut self, usable: impl Fn(Try) -> bool) -> usize {
        let weight = |kind: &Kind| {
            f64::from(u8::from(usable(kind.what))) * f64::from(kind.successes + 1) / f64::from(kind.tries + 2)
        };
        let mut drawn = self.random.unit() * self.kinds.iter().map(weight).sum::<f64>();
        let reached = |kind: &Kind| {
            drawn -= weight(kind);
            drawn < 0.0
        };
        // The last one can always be tried.
        self.kinds.iter().position(reached).unwrap_or(self.kinds.len() - 1)
    }
}

/// Time of a search without a solver, at first.
pub fn usual_time<P: Staged>(problem: &P) -> Duration {
    let (time, many) = TIME_OF_STAGE;
    let stages = u32::try_from(problem.stages()).expect("fewer than 2^32 stages");
    time * stages * stages.min(many) / many
}

/// What a neighbourhood is to be like.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// How the open cells lie.
    pub shape: Shape,
    /// Part of the stages where something may run though nothing does now.
    pub heads: f64,
    /// About how many cells are open.
    pub cells: usize,
}

/// About so many open cells of a shape around a place that is drawn by what the solution takes time for.
pub fn draw<P: Staged>(
    problem: &P,
    best: &P::Solution,
    guide: Option<&Kept>,
    extent: Extent,
    random: &mut Random,
) -> Open {
    let Extent { shape, heads: share, cells: wanted } = extent;
    let (stages, columns) = (problem.stages(), problem.columns());
    let kept = problem.kept(best);
    let repeated = problem.repeated(best);
    let (stage, column) = place(problem, &repeated, random);
    let differs = |stage: usize, column: usize| {
        let near = stage.saturating_sub(BESIDE)..=(stage + BESIDE).min(kept.len() - 1);
        guide.is_some_and(|guide| near.into_iter().any(|at| guide[at][column] != kept[at][column]))
    };
    let towards = shape == Shape::Towards;
    let free = |stage: usize, column: usize| problem.is_free(stage, column) && (!towards || differs(stage, column));
    let most = GRID / columns.max(1);
    let rows = match shape {
        Shape::Stages => {
            let count = |stage| (0..columns).filter(|&column| free(stage, column)).count();
            window(stage, stages, wanted, count)
        }
        // A half to an eighth of the stages.
        Shape::Both => window(stage, stages, (stages >> (1 + random.index(3))).min(most), |_| 1),
        _ => window(stage, stages, most, |_| 1),
    };
    let count = |column: usize| rows.clone().filter(|&stage| free(stage, column)).count();
    let chosen = match shape {
        Shape::Stages => vec![true; columns],
        Shape::Columns | Shape::Both | Shape::Towards => first(&outwards(columns, &[column]), wanted, count),
        Shape::Pair => {
            let other = place(problem, &repeated, random).1;
            first(&outwards(columns, &[column, other]), wanted, count)
        }
        Shape::Near => first(&connected(problem, column), wanted, count),
    };
    let chosen: Vec<usize> = (0..columns).filter(|&column| chosen[column]).collect();
    let mut cells = vec![vec![false; columns]; stages + 1];
    for stage in rows {
        chosen.iter().filter(|&&column| free(stage, column)).for_each(|&column| cells[stage][column] = true);
    }
    let mut heads = vec![false; stages];
    for &(stage, ..) in &repeated {
        heads[stage] = true;
    }
    for (stage, head) in heads.iter_mut().enumerate() {
        *head |= random.unit() < share || stage == 0;
    }
    Open { cells, heads }
}

/// What was changed on the way from a solution to a better one, changed in another too; none where that leads to nothing
/// better.
pub fn carry<P: Staged>(problem: &P, from: &P::Solution, to: &P::Solution, other: &P::Solution) -> Option<P::Solution> {
    let (before, after) = (problem.kept(from), problem.kept(to));
    let mut kept = problem.kept(other).into_owned();
    for (stage, row) in kept.iter_mut().enumerate() {
        for (column, there) in row.iter_mut().enumerate() {
            if before[stage][column] != after[stage][column] {
                *there = after[stage][column];
            }
        }
    }
    let carried = problem.complete(kept)?;
    (problem.time(&carried) < problem.time(other).min(problem.time(to))).then_some(carried)
}

/// One neighbourhood.
struct Trial<'t, P: Staged> {
    problem: &'t P,
    incumbent: &'t Incumbent<'t, P>,
    best: &'t P::Solution,
    found: Option<P::Solution>,
    nodes: u64,
    /// Time of its solves.
    solving: Duration,
}

impl<'t, P: Staged> Trial<'t, P> {
    /// Whether the neighbourhood was solved within the limits.
    fn run(
        &mut self,
        solving: &Solving,
        relaxation: &mut P::Relaxation<'t>,
        clock: Clock,
    ) -> Result<bool, MethodError> {
        if relaxation.model().columns() == 0 {
            return Ok(true);
        }
        if !Pace::OF_MODELS.allows(relaxation.model().columns(), &clock) {
            return Ok(false);
        }
        let interrupt = Some(self.incumbent.interrupt());
        let terms = Terms { clock, nodes: Some(NODES), from: Pass::Relaxed, until: Pass::Whole, interrupt };
        let separated = separate(&Solving { threads: 1, ..*solving }, relaxation, terms, self)?;
        self.solving = separated.solving;
        Ok(matches!(separated.outcome.stop, Stop::Optimal | Stop::GapReached | Stop::Infeasible))
    }
}

impl<'p, P: Staged> Follower<P::Relaxation<'p>> for Trial<'_, P> {
    /// A fiftieth of what is to be gained at all.
    fn gap(&self) -> f64 {
        self.incumbent.open().unwrap_or(0) as f64 / 50.0
    }

    fn start(&self, relaxation: &P::Relaxation<'p>) -> Option<Vec<f64>> {
        Some(self.problem.point(relaxation, self.best))
    }

    fn hear(&mut self, _: &P::Relaxation<'p>, _: &Progress<'_>) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn solved(
        &mut self,
        relaxation: &P::Relaxation<'p>,
        outcome: &Outcome,
        pass: Pass,
    ) -> Result<ControlFlow<()>, MethodError> {
        self.nodes = self.nodes.max(outcome.nodes.unwrap_or(0));
        let Some(point) = &outcome.incumbent else { return Ok(ControlFlow::Break(())) };
        if pass == Pass::Whole {
            let time = self.problem.time(self.found.as_ref().unwrap_or(self.best));
            let found = self.problem.expand(relaxation, point);
            let found = found.filter(|found| self.problem.time(found) < time && self.problem.fits(found));
            self.found = found.or(self.found.take());
        }
        // Nothing better here.
        let bound = outcome.dual_bound.map_or(0, |bound| relaxation.bound(bound));
        let hopeless = bound.saturating_add(1) > self.problem.time(self.best);
        Ok(if hopeless { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    }
}

/// A stage that takes time and a column that runs again there, half of the time; else any.
fn place<P: Staged>(problem: &P, repeated: &[(usize, usize, u64)], random: &mut Random) -> (usize, usize) {
    let (stage, column) = (1 + random.index(problem.stages()), random.index(problem.columns()));
    let total: u64 = repeated.iter().map(|run| run.2).sum();
    let mut drawn = random.unit() * 2.0 * total as f64;
    for &(stage, column, time) in repeated {
        drawn -= time as f64;
        if drawn < 0.0 {
            return (stage, column);
        }
    }
    (stage, column)
}

/// The least stretch of stages about one that counts so much.
fn window(from: usize, last: usize, wanted: usize, count: impl Fn(usize) -> usize) -> RangeInclusive<usize> {
    let (mut low, mut high) = (from, from);
    let mut sum = count(from);
    while sum < wanted && (low, high) != (1, last) {
        if low > 1 {
            low -= 1;
            sum += count(low);
        }
        if high < last {
            high += 1;
            sum += count(high);
        }
    }
    low..=high
}

/// The columns that come first in some order, as many as count so much.
fn first(order: &[usize], wanted: usize, count: impl Fn(usize) -> usize) -> Vec<bool> {
    let mut taken = vec![false; order.len()];
    let mut sum = 0;
    for &column in order {
        taken[column] = true;
        sum += count(column);
        if sum >= wanted {
            break;
        }
    }
    taken
}

/// All columns by their distance in order from the nearest of some.
fn outwards(columns: usize, from: &[usize]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..columns).collect();
    order.sort_by_key(|&column| from.iter().map(|&from| column.abs_diff(from)).min());
    order
}

/// All columns by their distance from one, over what reads what; what is not connected comes last.
fn connected<P: Staged>(problem: &P, from: usize) -> Vec<usize> {
    let mut order = vec![from];
    let mut met = vec![false; problem.columns()];
    met[from] = true;
    let mut at = 0;
    while at < order.len() {
        for next in problem.neighbours(order[at]) {
            if !std::mem::replace(&mut met[next], true) {
                order.push(next);
            }
        }
        at += 1;
    }
    order.extend((0..met.len()).filter(|&column| !met[column]));
    order
}
