//! Algorithm 1 as branch and bound: Pareto lists of labels per lower set, and only those from which V can
//! be reached at no more than a given cost. That limit starts at a lower bound and grows until there is a
//! sequence, which then is the best, or until it meets the best of the pruned family.

use fixedbitset::FixedBitSet;

use super::family::Stop;
use super::knapsack::Knapsack;
use super::program::Goal;
use super::reach::{Reach, check};
use super::scan::Keys;
use super::steps::{MOST, Steps};
use crate::search::clock::Clock;

/// A way to reach a lower set.
#[derive(Clone, Copy, Debug)]
struct Label {
    /// Time-centric t; memory-centric T(U_i), which is what t lacks.
    cost: u64,
    /// m = M(U_i).
    cached: u64,
    /// The lower set before and the label there.
    from: (u32, u32),
}

/// The search for one budget and goal.
pub struct Search<'s, 'g> {
    steps: &'s Steps<'g>,
    goal: Goal,
    budget: u64,
    knapsack: Knapsack,
    /// By set: what the rest of a sequence costs at least; none where nothing fits.
    least: Vec<Option<u64>>,
    /// A sequence within the budget, once one is known; as [`Self::best`] gives it.
    pub incumbent: Option<Vec<usize>>,
}

/// A sequence's cost and its positions in the family, the empty set left out.
type Priced = (u64, Vec<usize>);

impl<'s, 'g> Search<'s, 'g> {
    /// For sequences within a budget.
    pub fn new(steps: &'s Steps<'g>, budget: u64, goal: Goal) -> Self {
        let budget = budget.min(MOST);
        let knapsack = Knapsack::new(steps, budget);
        let least = |(position, set): (usize, &FixedBitSet)| match goal {
            Goal::TimeCentric => {
                knapsack.bounds((position, set), std::iter::once(steps.boundary_bytes(position))).pop().flatten()
            }
            Goal::MemoryCentric => Some(0),
        };
        let least = steps.sets.iter().enumerate().map(least).collect();
        Self { steps, goal, budget, knapsack, least, incumbent: None }
    }

    /// The best sequence, as positions in the family, the empty set left out; none where none meets the budget.
    ///
    /// # Errors
    /// The time is over.
    pub fn best(&mut self, clock: Clock) -> Result<Option<Vec<usize>>, Stop> {
        let Some(pruned) = self.steps.pruned(clock)? else { return self.best_of_few(clock) };
        let mut search = Search::new(&pruned, self.budget, self.goal);
        let best = search.best_of_few(clock);
        let position = |&at: &usize| self.steps.sets.iter().position(|set| *set == pruned.sets[at]);
        self.incumbent = search.incumbent.and_then(|sequence| sequence.iter().map(position).collect());
        let Some(sequence) = best? else {
            // Perhaps there is none at all: to find that out with one number per set is cheap.
            let any = Reach::new(self.steps, self.budget, clock)?.ends(self.steps);
            let found = if any { self.deepen((self.worst(), false), clock)? } else { None };
            return Ok(found.map(|found| found.1));
        };
        self.improve(pruned.cost(self.goal, &sequence), false, clock)
    }

    /// The same over few sets, where only the number of different sums can become large: with rounded times
    /// a sequence within the budget is there at once.
    fn best_of_few(&mut self, clock: Clock) -> Result<Option<Vec<usize>>, Stop> {
        let rounded = self.steps.rounded(clock)?;
        let mut search = Search::new(&rounded, self.budget, self.goal);
        let Some((_, sequence)) = search.deepen((search.worst(), true), clock)? else { return Ok(None) };
        let cost = self.steps.cost(self.goal, &sequence);
        self.incumbent = Some(sequence);
        self.improve(cost, true, clock)
    }

    /// The best sequence of all, if it costs less than the incumbent.
    fn improve(&mut self, cost: u64, pruned: bool, clock: Clock) -> Result<Option<Vec<usize>>, Stop> {
        if let Some(less) = cost.checked_sub(1)
            && let Some((_, better)) = self.deepen((less, pruned), clock)?
        {
            self.incumbent = Some(better);
        }
        Ok(self.incumbent.clone())
    }

    /// No sequence costs more than T(V).
    fn worst(&self) -> u64 {
        self.steps.times(self.steps.sets.len() - 1).0
    }

    /// The best sequence that costs at most `most`, by limits that grow: slowly where an attempt with a
    /// limit that is too high takes long, which is so for all lower sets.
    fn deepen(&mut self, (most, pruned): (u64, bool), clock: Clock) -> Result<Option<Priced>, Stop> {
        let Some(bound) = self.least[0].filter(|&bound| bound <= most) else { return Ok(None) };
        let mut gap = ((most - bound) >> 10).max(1);
        loop {
            let limit = most.min(bound.saturating_add(gap));
            let found = self.attempt(limit, clock)?;
            if found.is_some() || limit == most {
                return Ok(found);
            }
            gap += if pruned { gap } else { (gap / 4).max(1) };
        }
    }

    /// The best sequence that costs at most `most`.
    fn attempt(&mut self, mut most: u64, clock: Clock) -> Result<Option<Priced>, Stop> {
        let last = self.steps.sets.len() - 1;
        let keys = self.keys();
        let mut lists = vec![List::default(); last];
        lists[0].labels.push(Label { cost: 0, cached: 0, from: (0, 0) });
        let mut best: Option<Label> = None;
        let mut found = Vec::new();
        for from in 0..last {
            if lists[from].labels.is_empty() {
                continue;
            }
            check(clock)?;
            let mut list = std::mem::take(&mut lists[from]);
            list.prune();
            self.bound(from, &mut list, most);
            let (Some(first), Some(leanest)) = (list.labels.first(), list.labels.last()) else { continue };
            found.clear();
            let above = -(most - first.cost).saturating_add(self.credit(from)).cast_signed() - 1;
            self.steps.find(from, leanest.cached, self.budget, (&keys, above), &mut found);
            for to in found.iter().map(|&to| to as usize) {
                let labels = self.step((from, &list.labels), to, most);
                if to < last {
                    labels.for_each(|label| lists[to].offer(label));
                } else if let Some(label) = labels.min_by_key(|label| label.cost)
                    && best.is_none_or(|best| label.cost < best.cost)
                {
                    most = label.cost;
                    best = Some(label);
                }
            }
            lists[from] = list;
        }
        Ok(best.map(|label| (label.cost, path(&lists, last, label))))
    }

    /// The labels to which a step leads from labels that it fits, if V can then be reached for `most`.
    fn step<'l>(
        &self,
        (from, labels): (usize, &'l [Label]),
        to: usize,
        most: u64,
    ) -> impl Iterator<Item = Label> + use<'l> {
        let (more, time) = self.steps.price(from, to);
        let cost = match self.goal {
            Goal::TimeCentric => time,
            Goal::MemoryCentric => self.steps.times(to).0 - self.steps.times(from).0 - time,
        };
        let after = self.least[to].expect("sets that nothing fits into are not found");
        let dearest = most.checked_sub(cost + after);
        let end = dearest.map_or(0, |dearest| labels.partition_point(|label| label.cost <= dearest));
        let first = if end == 0 { 0 } else { self.fitting((from, labels), to).min(end) };
        let from = position(from);
        (first..end).map(move |index| {
            let label = labels[index];
            Label { cost: label.cost + cost, cached: label.cached + more, from: (from, position(index)) }
        })
    }

    /// The first of the labels that leaves a step the memory that it needs.
    fn fitting(&self, (from, labels): (usize, &[Label]), to: usize) -> usize {
        if labels[0].cached + self.steps.need_at_most(from, to) <= self.budget {
            return 0;
        }
        let room = self.budget.checked_sub(self.steps.need(from, to));
        labels.partition_point(|label| room.is_none_or(|room| label.cached > room))
    }

    /// Leaves out labels from which V is out of reach.
    fn bound(&self, set: usize, list: &mut List, most: u64) {
        if self.goal == Goal::TimeCentric {
            let cached = list.labels.iter().map(|label| label.cached);
            let mut bounds = self.knapsack.bounds((set, &self.steps.sets[set]), cached).into_iter();
            let reaches = |label: &Label, bound: Option<u64>| bound.is_some_and(|bound| label.cost + bound <= most);
            list.labels.retain(|label| reaches(label, bounds.next().flatten()));
        }
        list.labels.retain(|label| label.cost <= most);
    }

    /// By set: above a threshold, which depends on the set before and its [`credit`](Self::credit), if a step there
    /// can be part of a sequence that is cheap enough.
    fn keys(&self) -> Keys {
        let last = self.steps.sets.len() - 1;
        let mut keys = Keys::new(self.steps.sets.len(), i64::MIN);
        for set in 0..=last {
            let Some(least) = self.least[set] else { continue };
            let (time, boundary) = self.steps.times(set);
            let level = match self.goal {
                // The last group may cost nothing.
                Goal::TimeCentric if set == last && self.steps.keeps_last() => 0,
                // A step costs at least T(L') - T(boundary(L')) - T(L).
                Goal::TimeCentric => time - boundary + least,
                // A step costs at least T(boundary(L')) - T(boundary(L)).
                Goal::MemoryCentric => boundary,
            };
            keys.set(set, -level.cast_signed());
        }
        keys
    }

    /// What a step from a set costs less than its keys say, at most.
    fn credit(&self, from: usize) -> u64 {
        let (time, boundary) = self.steps.times(from);
        if self.goal == Goal::TimeCentric { time } else { boundary }
    }
}

fn path(lists: &[List], last: usize, label: Label) -> Vec<usize> {
    let mut path = vec![last];
    let mut from = label.from;
    while from.0 > 0 {
        path.push(from.0 as usize);
        from = lists[from.0 as usize].labels[from.1 as usize].from;
    }
    path.reverse();
    path
}

fn position(index: usize) -> u32 {
    u32::try_from(index).expect("lists and families stay far below 2^32")
}

/// Labels in order of cost, those that are no better than another one left out now and then.
#[derive(Clone, Debug, Default)]
struct List {
    labels: Vec<Label>,
    pruned: usize,
}

impl List {
    /// Adds a label, unless one at the front, where the best usually are, is no worse.
    fn offer(&mut self, label: Label) {
        let mut front = self.labels.iter().take(4);
        if front.any(|known| known.cost <= label.cost && known.cached <= label.cached) {
            return;
        }
        self.labels.push(label);
        if self.labels.len() > 2 * self.pruned + 256 {
            self.prune();
        }
    }

    /// Leaves costs ascending and caches descending, both strictly.
    fn prune(&mut self) {
        self.labels.sort_unstable_by_key(|label| (label.cost, label.cached));
        let mut least = None;
        self.labels.retain(|label| {
            let better = least.is_none_or(|least| label.cached < least);
            if better {
                least = Some(label.cached);
            }
            better
        });
        self.pruned = self.labels.len();
    }
}
