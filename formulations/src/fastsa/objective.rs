//! The objective functions: equation (1), and the one of footnote 2; beyond the paper, a heavier penalty for either.

/// Which function f(S) is minimised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Objective {
    /// Equation (1): max(budget, M(S)) C(S).
    Product,
    /// Footnote 2: L(Elu(L^-1(M(S)))) C(S)^0.6, L linear with L(0) = budget and L(-100) = 0.
    Elu,
}

/// An objective function with its budget.
#[derive(Clone, Copy, Debug)]
pub struct Goal {
    objective: Objective,
    budget: f64,
    /// What a byte beyond the budget counts, over what it counts in the paper.
    penalty: f64,
}

impl Goal {
    /// The goal of a budget, as published.
    pub fn new(objective: Objective, budget: u64) -> Self {
        Self { objective, budget: (budget as f64).max(1.0), penalty: 1.0 }
    }

    /// The same with every byte beyond the budget counted `penalty` times, which is at least 1.
    #[must_use]
    pub fn with_penalty(self, penalty: f64) -> Self {
        Self { penalty, ..self }
    }

    /// The factor that depends on the cost; where everything is for free only memory counts.
    #[inline]
    fn weight(&self, cost: u64) -> f64 {
        let cost = (cost as f64).max(1.0);
        match self.objective {
            Objective::Product => cost,
            Objective::Elu => cost.powf(0.6),
        }
    }

    /// f(S) from M(S) and C(S).
    pub fn value(&self, memory: f64, cost: u64) -> f64 {
        let factor = match self.objective {
            Objective::Product => self.budget + self.penalty * (memory - self.budget).max(0.0),
            Objective::Elu => {
                let x = 100.0 * (memory / self.budget - 1.0);
                let elu = if x > 0.0 { self.penalty * x } else { x.exp_m1() };
                self.budget * (1.0 + elu / 100.0)
            }
        };
        factor * self.weight(cost)
    }

    /// The largest M(S) with which f(S) is within a limit; nothing if there is none.
    #[inline]
    pub fn allowed(&self, cost: u64, limit: f64) -> Option<f64> {
        let factor = limit / self.weight(cost);
        if factor >= self.budget {
            return Some(self.budget + (factor - self.budget) / self.penalty);
        }
        match self.objective {
            Objective::Product => None,
            Objective::Elu => {
                let share = 1.0 + 100.0 * (factor / self.budget - 1.0);
                (share > 0.0).then(|| self.budget * (1.0 + share.ln() / 100.0))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_allowed_is_just_within_the_limit() {
        for objective in [Objective::Product, Objective::Elu] {
            for goal in [Goal::new(objective, 1000), Goal::new(objective, 1000).with_penalty(6.0)] {
                for (memory, cost) in [(1500.0, 7), (1000.0, 7), (999.0, 3), (940.0, 100)] {
                    let value = goal.value(memory, cost);
                    let allowed = goal.allowed(cost, value * (1.0 + 1e-12)).expect("its own memory is");
                    assert!(allowed >= memory * (1.0 - 1e-6), "{goal:?} {memory}: {allowed}");
                    assert!(goal.value(allowed, cost) <= value * (1.0 + 1e-9));
                    assert!(goal.allowed(cost, value / 100.0).is_none());
                }
            }
        }
    }

    #[test]
    fn a_penalty_counts_beyond_the_budget_only() {
        for objective in [Objective::Product, Objective::Elu] {
            let (plain, heavy) = (Goal::new(objective, 1000), Goal::new(objective, 1000).with_penalty(6.0));
            assert!(
                (plain.value(990.0, 7) - heavy.value(990.0, 7)).abs() < 1e-9,
                "{objective:?}: equal within the budget"
            );
            let beyond = |goal: Goal| goal.value(1010.0, 7) - goal.value(1000.0, 7);
            assert!((beyond(heavy) - 6.0 * beyond(plain)).abs() < 1e-6, "{objective:?}: six times as much beyond it");
        }
    }

    #[test]
    fn elu_is_linear_above_the_budget_and_flat_below() {
        let goal = Goal::new(Objective::Elu, 1000);
        assert!((goal.value(1010.0, 1) - 1010.0).abs() < 1e-9);
        assert!((goal.value(1000.0, 1) - 1000.0).abs() < 1e-9);
        assert!((goal.value(0.0, 1) - 990.0).abs() < 1e-6);
        assert!((goal.value(1000.0, 32) - 8000.0).abs() < 1e-6, "the cost counts to the power of 0.6");
    }
}
