//! The neutral constraint program: minimise a sum subject to rules, over whole numbers.
//!
//! Carries no names: whoever built the model can name its parts when somebody asks. [`CpModel::broken`]
//! evaluates every rule by itself; no backend's word is taken for feasibility.

use std::ops::Not;

use crate::position::position;

/// Position of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Variable(u32);

/// Position of an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Interval(u32);

position!(Variable);
position!(Interval);

/// A variable with domain 0 to 1, or its negation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Literal {
    /// The variable.
    pub variable: Variable,
    /// Whether it is true where the variable is 0.
    pub negated: bool,
}

impl Not for Literal {
    type Output = Self;
    fn not(self) -> Self {
        Self { negated: !self.negated, ..self }
    }
}

impl From<Variable> for Literal {
    fn from(variable: Variable) -> Self {
        Self { variable, negated: false }
    }
}

impl Literal {
    /// Whether it is true.
    pub fn holds(self, values: &[i64]) -> bool {
        (values[self.variable.index()] != 0) != self.negated
    }
}

/// What an interval consists of: it is there where `present` is true (or there is no such literal), and
/// then `start + size = end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntervalParts {
    /// First moment.
    pub start: Variable,
    /// Length, not negative.
    pub size: Variable,
    /// First moment beyond.
    pub end: Variable,
    /// Whether it is there.
    pub present: Option<Literal>,
}

/// What must hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rule {
    /// `lower <= terms <= upper`. A variable must not occur twice.
    Linear {
        /// Variables and factors.
        terms: Vec<(Variable, i64)>,
        /// Least value.
        lower: i64,
        /// Greatest value.
        upper: i64,
    },
    /// A variable is one of some values, ascending.
    Among {
        /// The variable.
        variable: Variable,
        /// Its values, none twice.
        values: Vec<i64>,
    },
    /// One of these is true.
    Clause(Vec<Literal>),
    /// At most one of these is true.
    AtMostOne(Vec<Literal>),
    /// Present intervals that contain a moment demand no more than the capacity, at every moment.
    Cumulative {
        /// Intervals and what each demands, not negative.
        demands: Vec<(Interval, i64)>,
        /// The capacity.
        capacity: Variable,
    },
    /// The changes of all active events up to any moment sum to a level within bounds, which contain 0.
    Reservoir {
        /// The events.
        events: Vec<Event>,
        /// Level before all events: this variable's value.
        from: Option<Variable>,
        /// Least level.
        lower: i64,
        /// Greatest level.
        upper: i64,
    },
}

/// An event of a reservoir.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its moment.
    pub time: Variable,
    /// By how much the level changes.
    pub change: i64,
    /// Whether it happens; it does where there is no literal. Not negated: on two random programs with
    /// such ones CP-SAT 9.15 aborted the process in its own final check.
    pub active: Option<Literal>,
}

/// A rule that must hold where all of some literals are true.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Constraint {
    /// The literals; only linear rules and clauses may have any.
    pub enforced: Vec<Literal>,
    /// The rule.
    pub rule: Rule,
}

/// A constraint program; always a minimisation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpModel {
    /// Least and greatest value of each variable.
    pub domains: Vec<(i64, i64)>,
    /// The intervals.
    pub intervals: Vec<IntervalParts>,
    /// What must hold.
    pub constraints: Vec<Constraint>,
    /// Terms of the objective; without any, every solution is optimal.
    pub objective: Vec<(Variable, i64)>,
}

impl CpModel {
    /// Adds a variable.
    pub fn variable(&mut self, lower: i64, upper: i64) -> Variable {
        self.domains.push((lower, upper));
        Variable::from_index(self.domains.len() - 1)
    }

    /// Adds a variable that is 0 or 1.
    pub fn boolean(&mut self) -> Variable {
        self.variable(0, 1)
    }

    /// Adds an interval; that start and size make up the end is stated here.
    pub fn interval(&mut self, parts: IntervalParts) -> Interval {
        let terms = vec![(parts.start, 1), (parts.size, 1), (parts.end, -1)];
        self.enforced(parts.present.into_iter().collect(), Rule::Linear { terms, lower: 0, upper: 0 });
        self.intervals.push(parts);
        Interval::from_index(self.intervals.len() - 1)
    }

    /// Adds a rule.
    pub fn rule(&mut self, rule: Rule) {
        self.enforced(Vec::new(), rule);
    }

    /// Adds a rule that holds where all of the literals are true.
    ///
    /// # Panics
    /// When a rule other than linear ones and clauses is given literals, or an event a negated one.
    pub fn enforced(&mut self, enforced: Vec<Literal>, rule: Rule) {
        let conditional = matches!(rule, Rule::Linear { .. } | Rule::Clause(_));
        assert!(enforced.is_empty() || conditional, "only linear rules and clauses may be conditional");
        if let Rule::Reservoir { events, .. } = &rule {
            let negated = events.iter().any(|event| event.active.is_some_and(|active| active.negated));
            assert!(!negated, "CP-SAT aborts on negated literals of events");
        }
        self.constraints.push(Constraint { enforced, rule });
    }

    /// Adds `terms <= upper`.
    pub fn at_most(&mut self, terms: Vec<(Variable, i64)>, upper: i64) {
        self.rule(Rule::Linear { terms, lower: i64::MIN, upper });
    }

    /// The objective of a vector.
    pub fn objective_of(&self, values: &[i64]) -> i64 {
        sum(&self.objective, values)
    }

    /// The first thing that a vector breaks, in words; none where it is a solution.
    pub fn broken(&self, values: &[i64]) -> Option<String> {
        if values.len() != self.domains.len() {
            return Some(format!("{} values for {} variables", values.len(), self.domains.len()));
        }
        let outside = values.iter().zip(&self.domains).position(|(value, (low, high))| value < low || value > high);
        if let Some(at) = outside {
            return Some(format!("variable {at} is {} outside of {:?}", values[at], self.domains[at]));
        }
        let broken = self.constraints.iter().position(|constraint| !self.holds(constraint, values));
        broken.map(|at| format!("constraint {at} does not hold: {:.200}", format!("{:?}", self.constraints[at])))
    }

    fn holds(&self, constraint: &Constraint, values: &[i64]) -> bool {
        if !constraint.enforced.iter().all(|literal| literal.holds(values)) {
            return true;
        }
        match &constraint.rule {
            Rule::Linear { terms, lower, upper } => (*lower..=*upper).contains(&sum(terms, values)),
            Rule::Among { variable, values: among } => among.binary_search(&values[variable.index()]).is_ok(),
            Rule::Clause(literals) => literals.iter().any(|literal| literal.holds(values)),
            Rule::AtMostOne(literals) => literals.iter().filter(|literal| literal.holds(values)).count() <= 1,
            Rule::Cumulative { demands, capacity } => self.fits(demands, values[capacity.index()], values),
            Rule::Reservoir { events, from, lower, upper } => {
                let before = from.map_or(0, |from| values[from.index()]);
                stays(events, before, (*lower, *upper), values)
            }
        }
    }

    fn fits(&self, demands: &[(Interval, i64)], capacity: i64, values: &[i64]) -> bool {
        let there: Vec<(i64, i64, i64)> = demands
            .iter()
            .map(|&(interval, demand)| (self.intervals[interval.index()], demand))
            .filter(|(parts, _)| parts.present.is_none_or(|present| present.holds(values)))
            .map(|(parts, demand)| (values[parts.start.index()], values[parts.end.index()], demand))
            .collect();
        // Usage is greatest at some start.
        there.iter().all(|&(moment, end, _)| {
            let within = there.iter().filter(|(start, end, _)| *start <= moment && moment < *end);
            moment >= end || within.map(|(_, _, demand)| demand).sum::<i64>() <= capacity
        })
    }
}

/// Whether a level stays within bounds after all events of each moment.
fn stays(events: &[Event], before: i64, (lower, upper): (i64, i64), values: &[i64]) -> bool {
    let happens = |event: &&Event| event.active.is_none_or(|active| active.holds(values));
    let mut active: Vec<(i64, i64)> =
        events.iter().filter(happens).map(|event| (values[event.time.index()], event.change)).collect();
    active.sort_unstable();
    let mut level = before;
    let mut within = (lower..=upper).contains(&level);
    for (at, &(moment, change)) in active.iter().enumerate() {
        level += change;
        let last = active.get(at + 1).is_none_or(|&(next, _)| next > moment);
        within &= !last || (lower..=upper).contains(&level);
    }
    within
}

fn sum(terms: &[(Variable, i64)], values: &[i64]) -> i64 {
    terms.iter().map(|&(variable, factor)| factor * values[variable.index()]).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pinned(model: &mut CpModel, value: i64) -> Variable {
        model.variable(value, value)
    }

    #[test]
    fn intervals_may_touch_but_not_overlap_beyond_the_capacity() {
        for (second_start, allowed) in [(2, false), (3, true)] {
            let mut model = CpModel::default();
            let parts = |model: &mut CpModel, start, size| {
                let (start, size, end) = (pinned(model, start), pinned(model, size), pinned(model, start + size));
                model.interval(IntervalParts { start, size, end, present: None })
            };
            let first = parts(&mut model, 0, 3);
            let second = parts(&mut model, second_start, 2);
            let capacity = pinned(&mut model, 5);
            model.rule(Rule::Cumulative { demands: vec![(first, 3), (second, 3)], capacity });
            let values: Vec<i64> = model.domains.iter().map(|domain| domain.0).collect();
            assert_eq!(model.broken(&values).is_none(), allowed, "{:?}", model.broken(&values));
        }
    }

    #[test]
    fn events_of_one_moment_count_together() {
        let mut model = CpModel::default();
        let (early, late, active) = (pinned(&mut model, 1), pinned(&mut model, 2), model.boolean());
        let event = |time, change, active| Event { time, change, active };
        let on = Some(Literal::from(active));
        let events = vec![event(early, 4, None), event(late, -4, on), event(late, 3, None)];
        model.rule(Rule::Reservoir { events, from: None, lower: 0, upper: 4 });
        assert_eq!(model.broken(&[1, 2, 1]), None);
        assert!(model.broken(&[1, 2, 0]).is_some_and(|text| text.contains("constraint 0")));
    }

    #[test]
    fn a_condition_that_does_not_hold_frees_its_rule() {
        let mut model = CpModel::default();
        let (x, y) = (model.variable(0, 9), model.boolean());
        model.enforced(vec![y.into()], Rule::Linear { terms: vec![(x, 2)], lower: 4, upper: 6 });
        assert!(model.broken(&[1, 0]).is_none() && model.broken(&[2, 1]).is_none());
        assert!(model.broken(&[1, 1]).is_some() && model.broken(&[10, 0]).is_some());
    }
}
