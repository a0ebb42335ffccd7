//! Options of a block: schedules of it that an exact program finds, along the frontier of saved bytes, peak and time, or on
//! a grid. What two answers leave open between them bounds what a missing option could gain.

use remat_core::liveness::Compute;
use remat_core::{Instance, Operator};

use super::block::{Block, Point};
use super::method;
use crate::method::parameters::Parameters;
use crate::method::{Context, Limits, Method, MethodError, Termination};
use crate::search::clock::Clock;

/// An option.
#[derive(Clone, Debug)]
pub struct Known {
    /// What it costs.
    pub point: Point,
    /// What it runs.
    pub computes: Vec<Compute>,
}

/// The options of a block.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// All that were found, in this order.
    pub known: Vec<Known>,
    /// Questions to the exact program.
    pub asked: usize,
    /// Questions of which the time was over.
    pub cut: usize,
    /// Whether the search ended before the goal was reached.
    pub unfinished: bool,
}

/// Which options are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// All, until a missing one could gain no more than this part of the block's time, in millionths; but no more
    /// questions than so many.
    Frontier {
        /// Part of the block's time, in millionths.
        tolerance: u64,
        /// Most questions to the exact program.
        questions: usize,
    },
    /// Those of a grid: so many peaks, and so many saved bytes for each.
    Grid {
        /// Number of peaks.
        peaks: u64,
        /// Number of saved bytes for each.
        saves: u64,
    },
}

/// An answer: no schedule with so little saved and so small a peak takes less.
struct Answered {
    saved: u64,
    peak: u64,
    bound: u64,
}

/// A search for the options of a block.
pub struct Search<'a> {
    block: &'a Block,
    context: &'a Context<'a>,
    clock: Clock,
    /// The program that is asked.
    method: &'static dyn Method,
    parameters: Parameters,
    /// Least saved bytes and least peak that are asked for.
    least: (u64, u64),
    /// The most of both: enough for anything.
    enough: u64,
    answered: Vec<Answered>,
    found: Found,
}

/// Parts of the time left, one for a question.
const PARTS: u32 = 8;

/// The exact program for a block: with one implementation per operator Checkmate's, else MONeT's.
fn exact(instance: &Instance) -> &'static str {
    let chooses = instance.operators().iter().any(Operator::has_choice);
    if chooses { "monet" } else { "checkmate-ilp" }
}

impl<'a> Search<'a> {
    /// Options of a block: the two that nothing is asked for, and what the exact program finds.
    ///
    /// # Errors
    /// The exact program is not at hand, or fails.
    pub fn options(block: &'a Block, context: &'a Context<'a>, goal: Goal, clock: Clock) -> Result<Found, MethodError> {
        let id = exact(&block.instance);
        let method = method(context, id)?;
        let gap = if let Goal::Frontier { tolerance, .. } = goal { tolerance / 4 } else { 0 };
        let given = [("gap-ppm".to_owned(), gap.to_string())].into();
        let parameters = Parameters::new(method.about().parameters, &given)
            .map_err(|error| MethodError::Internal(error.to_string()))?;
        let least = block.instance.base_bytes();
        let mut search = Self {
            block,
            context,
            clock,
            method,
            parameters,
            least: (least, least),
            enough: least,
            answered: Vec::new(),
            found: Found::default(),
        };
        for computes in block.free() {
            search.take(computes);
        }
        search.least.0 += block.handed_on();
        // Enough for anything: keeping everything is not always the fastest where operators have alternatives.
        let workspace = |operator: &Operator| operator.implementations.iter().map(|way| way.workspace_bytes).max();
        let workspace = block.instance.operators().iter().filter_map(workspace).max().unwrap_or(0);
        search.enough = block.instance.fixed_bytes() + block.instance.bytes_of(|_| true) + workspace;
        // An operator may have no legal first run in the block, and then nothing was found and nothing can be.
        if search.found.known.is_empty() || method.supports(&block.instance).is_err() {
            return Ok(search.found);
        }
        match goal {
            Goal::Frontier { tolerance, questions } => search.frontier(tolerance, questions)?,
            Goal::Grid { peaks, saves } => search.grid(peaks, saves)?,
        }
        Ok(search.found)
    }

    /// Takes a schedule of the block as an option.
    fn take(&mut self, computes: Vec<Compute>) {
        let Some(point) = self.block.point(&computes) else { return };
        let known = |known: &Known| {
            let other = known.point;
            other.saved <= point.saved && other.peak <= point.peak && other.time <= point.time
        };
        if !self.found.known.iter().any(known) {
            self.found.known.push(Known { point, computes });
        }
    }

    /// The fastest option within saved bytes and a peak.
    fn best(&self, saved: u64, peak: u64) -> Option<Point> {
        let points = self.found.known.iter().map(|known| known.point);
        points.filter(|point| point.saved <= saved && point.peak <= peak).min_by_key(|point| point.time)
    }

    /// What no option within saved bytes and a peak undercuts; `u64::MAX` where there is none.
    fn bound(&self, saved: u64, peak: u64) -> u64 {
        let covers = self.answered.iter().filter(|answered| answered.saved >= saved && answered.peak >= peak);
        covers.map(|answered| answered.bound).max().unwrap_or(0)
    }

    fn is_answered(&self, saved: u64, peak: u64) -> bool {
        self.answered.iter().any(|answered| (answered.saved, answered.peak) == (saved, peak))
    }

    /// Asks for the fastest schedule within saved bytes and a peak.
    fn ask(&mut self, saved: u64, peak: u64) -> Result<(), MethodError> {
        self.found.asked += 1;
        let failed = |error: String| MethodError::Internal(format!("a block cannot be planned: {error}"));
        let instance = self.block.with_rest(peak.saturating_sub(saved)).map_err(failed)?;
        let time = self.clock.left().map(|time| time / PARTS);
        let limits = Limits { time, threads: 1, seed: self.context.limits.seed };
        let budgets = [Some(peak)];
        let context = Context::new(&instance, &self.parameters, &budgets, limits);
        let answer = self.method.answers(&context)?.pop();
        let Some(answer) = answer else { return Err(failed("no answer".into())) };
        if answer.termination == Termination::Error {
            return Err(failed(answer.note));
        }
        self.found.cut += usize::from(answer.termination == Termination::TimeLimit);
        let bound =
            if answer.termination == Termination::Infeasible { u64::MAX } else { answer.lower_bound.unwrap_or(0) };
        self.answered.push(Answered { saved, peak, bound });
        if let Some(schedule) = answer.schedule {
            self.take(schedule.runs().collect());
        }
        Ok(())
    }

    /// Asks in the largest open gap until none is left: first for what lies below the hull of saved bytes and time, since
    /// blocks mix their options; then in corners, just below what an option saves and needs, where an answer finds the next
    /// option or closes the gap.
    fn frontier(&mut self, tolerance: u64, questions: usize) -> Result<(), MethodError> {
        self.ask(self.enough, self.enough)?;
        while let Some((saved, peak)) = self.below_hull(tolerance).or_else(|| self.gap(tolerance)) {
            if self.found.asked >= questions || self.clock.is_over() {
                self.found.unfinished = true;
                break;
            }
            self.ask(saved, peak)?;
        }
        Ok(())
    }

    /// Where to ask for an option that is better than every mixture of two, whatever its peak: in the middle of the saved
    /// bytes between which most could be gained.
    fn below_hull(&self, tolerance: u64) -> Option<(u64, u64)> {
        let small = self.small(tolerance) as f64;
        let peak = self.enough;
        let most = self.found.known.iter().map(|known| known.point.saved).max().unwrap_or(0);
        let narrow = most.saturating_sub(self.least.0) / 500;
        let asked = || self.answered.iter().filter(|answered| answered.peak >= peak).map(|answered| answered.saved);
        let mut widest: Option<(f64, u64)> = None;
        for pair in self.hull().windows(2) {
            let (low, high) = (pair[0], pair[1]);
            let slope = (low.time - high.time) as f64 / (high.saved - low.saved) as f64;
            let within = |saved: &u64| (low.saved + 1..high.saved).contains(saved);
            let mut ends: Vec<u64> = asked().filter(within).chain([low.saved, high.saved]).collect();
            ends.sort_unstable();
            for part in ends.windows(2).filter(|part| part[1] - part[0] > narrow) {
                let mixed = low.time as f64 - slope * (part[0] - low.saved) as f64;
                let gap = mixed - self.bound(part[1], peak) as f64;
                let middle = part[0] + (part[1] - part[0]) / 2;
                let area = gap * (part[1] - part[0]) as f64;
                if gap > small && widest.is_none_or(|(most, _)| area > most) && !self.is_answered(middle, peak) {
                    widest = Some((area, middle));
                }
            }
        }
        widest.map(|(_, saved)| (saved, peak))
    }

    /// The options that no mixture of two others undercuts, by saved bytes.
    fn hull(&self) -> Vec<Point> {
        let mut points: Vec<Point> = self.found.known.iter().map(|known| known.point).collect();
        points.sort_by_key(|point| (point.saved, point.time));
        let mut hull: Vec<Point> = Vec::new();
        for point in points {
            if hull.last().is_some_and(|last| last.time <= point.time) {
                continue;
            }
            let gains =
                |from: Point, to: Point, bytes: u64| u128::from(from.time - to.time) * u128::from(bytes - from.saved);
            while let [.., before, last] = hull[..]
                && gains(before, last, point.saved) <= gains(before, point, last.saved)
            {
                hull.pop();
            }
            hull.push(point);
        }
        hull
    }

    /// Where to ask next: in the largest gap between the best option and what is proved.
    fn gap(&self, tolerance: u64) -> Option<(u64, u64)> {
        let points = || self.found.known.iter().map(|known| known.point);
        let slowest = self.slowest();
        let small = self.small(tolerance);
        let below = |bytes: u64| bytes.checked_sub(1);
        let saves: Vec<u64> = points().filter_map(|p| below(p.saved)).chain([self.enough]).collect();
        let peaks: Vec<u64> = points().filter_map(|p| below(p.peak)).chain([self.enough]).collect();
        let mut widest: Option<(u64, u64, u64)> = None;
        for &peak in peaks.iter().filter(|&&peak| peak >= self.least.1 && peak <= self.enough) {
            for &saved in saves.iter().filter(|&&saved| saved >= self.least.0 && saved <= self.enough) {
                if self.is_answered(saved, peak) {
                    continue;
                }
                let bound = self.bound(saved, peak);
                // Without an option anything is a gain: twice the time of the slowest stands for it.
                let time = self.best(saved, peak).map_or(2 * slowest, |point| point.time);
                let gap = time.saturating_sub(bound);
                if gap > small && widest.is_none_or(|(width, ..)| gap > width) {
                    widest = Some((gap, saved, peak));
                }
            }
        }
        widest.map(|(_, saved, peak)| (saved, peak))
    }

    fn slowest(&self) -> u64 {
        self.found.known.iter().map(|known| known.point.time).max().unwrap_or(0)
    }

    /// Less than this is no gap; nor is what the solver's own tolerance leaves open.
    fn small(&self, tolerance: u64) -> u64 {
        let least = self.found.known.iter().map(|known| known.point.time).min().unwrap_or(0);
        (least.saturating_mul(tolerance) / 1_000_000).max(self.slowest() / 250_000)
    }

    /// Peaks from what the largest operator takes to what saving everything does; for each, saved bytes from the peak down
    /// to what is there in any case, until one is impossible.
    fn grid(&mut self, peaks: u64, saves: u64) -> Result<(), MethodError> {
        let between = |(low, high): (u64, u64), at: u64, parts: u64| match parts {
            1 => high,
            _ => low + (high - low) / (parts - 1) * at + (high - low) % (parts - 1) * at / (parts - 1),
        };
        let most = self.found.known[0].point.peak;
        let least = largest_operator(&self.block.instance).min(most);
        for peak in (0..peaks).rev().map(|at| between((least, most), at, peaks)) {
            let least = self.least.0.min(peak);
            for saved in (0..saves).rev().map(|at| between((least, peak), at, saves)) {
                let bound = self.bound(saved, peak);
                if bound == u64::MAX {
                    break;
                }
                let known =
                    self.best(saved, peak).is_some_and(|best| best.time <= bound.saturating_add(best.time / 250_000));
                if known || self.is_answered(saved, peak) {
                    continue;
                }
                if self.clock.is_over() {
                    self.found.unfinished = true;
                    return Ok(());
                }
                self.ask(saved, peak)?;
            }
        }
        Ok(())
    }
}

/// Bytes with which every operator can run that finds what it reads and nothing else, inputs included.
fn largest_operator(instance: &Instance) -> u64 {
    let base = instance.base_bytes();
    let bytes = |ids: &mut dyn Iterator<Item = remat_core::TensorId>| -> u64 {
        ids.filter(|&id| instance.tensor(id).producer.is_some()).map(|id| instance.tensor(id).bytes).sum()
    };
    let alone = |operator: &remat_core::Operator| {
        let way = |v: usize| {
            let implementation = &operator.implementations[v];
            let overwritten = implementation.in_place.map_or(0, |pair| instance.tensor(pair.input).bytes);
            let touched = bytes(&mut operator.makes(v)) + bytes(&mut implementation.reads.iter().copied());
            touched + implementation.workspace_bytes - overwritten
        };
        (0..operator.implementations.len()).map(way).min().unwrap_or(0)
    };
    base + instance.operators().iter().map(alone).max().unwrap_or(0)
}
