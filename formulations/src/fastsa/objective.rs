//! The objective functions: equation (1), and the one of footnote 2.

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
}

impl Goal {
    /// The goal of a budget.
    pub fn new(objective: Objective, budget: u64) -> Self {
        Self { objective, budget: (budget as f64).max(1.0) }
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
            Objective::Product => memory.max(self.budget),
            Objective::Elu => {
                let x = 100.0 * (memory / self.budget - 1.0);
                let elu = if x > 0.0 { x } else { x.exp_m1() };
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
            return Some(factor);
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
            let goal = Goal::new(objective, 1000);
            for (memory, cost) in [(1500.0, 7), (1000.0, 7), (999.0, 3), (940.0, 100)] {
                let value = goal.value(memory, cost);
                let allowed = goal.allowed(cost, value * (1.0 + 1e-12)).expect("its own memory is");
                assert!(allowed >= memory * (1.0 - 1e-6), "{objective:?} {memory}: {allowed}");
                assert!(goal.value(allowed, cost) <= value * (1.0 + 1e-9));
                assert!(goal.allowed(cost, value / 100.0).is_none());
            }
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
