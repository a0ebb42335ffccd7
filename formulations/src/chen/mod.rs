//! `chen-sqrt`, `chen-greedy`, `ap-sqrt`, `ap-greedy`, `linearized-sqrt`, `linearized-greedy`: the
//! baselines of Checkmate's comparison that choose checkpoints and recompute each segment once.
//!
//! [`candidates`] says which operators may be checkpoints, [`rules`] which of them are, [`segments`]
//! what then runs when. Builds on the joint graph and the stages of [`crate::checkmate`].

pub mod candidates;
pub mod rules;
pub mod segments;

use remat_core::Instance;

use crate::method::parameters::Parameters;
use crate::method::{About, BudgetUse, Claim, Class, Context, Method, MethodError, SkipReason};
use crate::search::sweep::Sweep;
use crate::staged::graph::Operator;
use crate::staged::joint::Joint;
use crate::{setting, settings};
use candidates::{Candidates, ForwardGraph};
use segments::Segments;

/// Checkpoints by a rule of thumb; each segment between them is recomputed once.
///
/// # Problem
/// Choose checkpoints among candidate operators of the forward pass. What a checkpoint makes is kept;
/// everything else of a segment is dropped when the forward pass has read it for the last time, and
/// made again, all at once, when the backward pass first reads anything of the segment.
///
/// # Variables
/// The candidates C: every operator of a linear network (`chen-*`), the articulation points of the
/// forward graph (`ap-*`), or every operator in the order of the instance (`linearized-*`). Of them
/// `*-sqrt` takes every floor(sqrt |C|)-th. `*-greedy` takes a candidate as soon as the operators since
/// the last checkpoint make more than b bytes.
///
/// # Constraints
/// S from the checkpoints; R the least with which S is valid (Checkmate, section 5.1, second phase):
/// what a segment needs from beyond its checkpoints (a skip connection) runs again too.
///
/// # Size
/// O(reads + runs) for each value of b. At most O(n^2) values of b lead to different choices; beyond 2^28 steps
/// of their enumeration those that are left are doubled from one to the next.
///
/// # Departures from the paper
/// Chen et al. try six values of b around sqrt(x y); Checkmate's sweep is not described. Here b takes
/// every value that makes a difference, at most `settings` of them, spread evenly; the fastest whose
/// simulated peak is within the budget counts. The last segment is kept, not dropped and made again at
/// once. The forward pass recomputes nothing: skip connections stay until it has read them. An operator
/// with several results is one candidate and keeps all of them. Operators that are on no path from the
/// input to the loss (constants, counters) are no candidates, for they would make articulation points
/// that cut nothing. Implementations: the fastest.
///
/// # Claim
/// Baseline: time and peak are the simulator's.
///
/// # Reference
/// Chen et al. 2016, sections 4.1 and 4.2, Algorithm 3; Checkmate (Jain et al., `MLSys` 2020), section
/// 6.1 and its appendix on generalised baselines.
pub struct Chen {
    id: &'static str,
    title: &'static str,
    candidates: Candidates,
    rule: Rule,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    Sqrt,
    Greedy,
}

/// Chen et al.'s sqrt(n) on linear networks.
pub static CHEN_SQRT: Chen = Chen {
    id: "chen-sqrt",
    title: "every sqrt(n)-th operator of a linear network is kept",
    candidates: Candidates::Linear,
    rule: Rule::Sqrt,
};

/// Chen et al.'s segments by memory on linear networks.
pub static CHEN_GREEDY: Chen = Chen {
    id: "chen-greedy",
    title: "segments of about b bytes of a linear network",
    candidates: Candidates::Linear,
    rule: Rule::Greedy,
};

/// Checkmate's AP sqrt(n).
pub static AP_SQRT: Chen = Chen {
    id: "ap-sqrt",
    title: "every sqrt(n)-th articulation point of the forward graph is kept",
    candidates: Candidates::ArticulationPoints,
    rule: Rule::Sqrt,
};

/// Checkmate's AP greedy.
pub static AP_GREEDY: Chen = Chen {
    id: "ap-greedy",
    title: "segments of about b bytes between articulation points",
    candidates: Candidates::ArticulationPoints,
    rule: Rule::Greedy,
};

/// Checkmate's linearized sqrt(n).
pub static LINEARIZED_SQRT: Chen = Chen {
    id: "linearized-sqrt",
    title: "every sqrt(n)-th operator in the instance's order is kept",
    candidates: Candidates::Linearized,
    rule: Rule::Sqrt,
};

/// Checkmate's linearized greedy.
pub static LINEARIZED_GREEDY: Chen = Chen {
    id: "linearized-greedy",
    title: "segments of about b bytes in the instance's order",
    candidates: Candidates::Linearized,
    rule: Rule::Greedy,
};

setting! {
    /// b: bytes beyond which a segment ends; auto: the best of every value that makes a difference
    SegmentBytes("segment-bytes"): auto or number from 0 to 4_611_686_018_427_387_904
}

setting! {
    /// values of b that are tried at most, spread evenly over those that make a difference
    Most("settings"): number from 2 to 1_000_000 = 500
}

impl Method for Chen {
    fn about(&self) -> About {
        let (parameters, budgets): (&'static [_], _) = match self.rule {
            Rule::Sqrt => (&[], BudgetUse::Ignored),
            Rule::Greedy => (settings![SegmentBytes, Most], BudgetUse::Used),
        };
        let reference = match self.candidates {
            Candidates::Linear => "Chen et al. 2016, sections 4.1 and 4.2",
            _ => "Checkmate (Jain et al., MLSys 2020), section 6.1; Chen et al. 2016",
        };
        About { id: self.id, title: self.title, reference, parameters, budgets }
    }

    fn claim(&self, _: &Parameters) -> Claim {
        Claim::baseline(Class::STAGES)
    }

    fn supports(&self, instance: &Instance) -> Result<(), SkipReason> {
        Problem::new(self, instance).map(|_| ())
    }

    fn solve(&self, context: &Context<'_>) -> Result<(), MethodError> {
        let mut sweep = Sweep::new(context);
        let problem = Problem::new(self, context.instance)?;
        sweep.end_building();
        let greedy = |bytes| (rules::greedy(&problem.candidates, &problem.sizes, bytes), format!(", b = {bytes}"));
        let given = match self.rule {
            Rule::Sqrt => Some((rules::sqrt(&problem.candidates), String::new())),
            Rule::Greedy => context.parameters.get::<SegmentBytes>().map(greedy),
        };
        if let Some((checkpoints, words)) = given {
            problem.offer(&mut sweep, &checkpoints, &words)?;
            sweep.answer("");
            return Ok(());
        }
        let all = rules::thresholds(&problem.candidates, &problem.sizes);
        let count = all.len();
        let most = context.parameters.count::<Most>();
        for (checkpoints, words) in rules::spread(all, most).into_iter().map(greedy) {
            if sweep.is_over() {
                break;
            }
            problem.offer(&mut sweep, &checkpoints, &words)?;
        }
        let words = format!("{} of {count} values of b tried", sweep.tried());
        sweep.answer(&words);
        Ok(())
    }
}

/// An instance as these methods see it.
struct Problem<'a> {
    instance: &'a Instance,
    joint: Joint,
    candidates: Vec<usize>,
    /// What each forward operator makes, by position.
    sizes: Vec<u64>,
}

impl<'a> Problem<'a> {
    fn new(method: &Chen, instance: &'a Instance) -> Result<Self, SkipReason> {
        let joint = Joint::new(instance)?;
        let candidates = method.candidates.of(&ForwardGraph::new(instance, &joint)?)?;
        let forward = |operator: &&Operator| instance.operator(operator.id).phase.is_forward();
        let made = |operator: &Operator| operator.makes.iter().map(|&value| joint.values[value].bytes).sum();
        let sizes = joint.operators.iter().map(|operator| Some(operator).filter(forward).map_or(0, made)).collect();
        Ok(Self { instance, joint, candidates, sizes })
    }

    fn offer(&self, sweep: &mut Sweep<'_>, checkpoints: &[usize], words: &str) -> Result<(), MethodError> {
        let stages = Segments::new(self.instance, &self.joint, checkpoints).stages(&self.joint);
        let words = format!("{} checkpoints{words}", checkpoints.len());
        sweep.offer(&stages.schedule(self.instance, &self.joint), &words).map(|_| ())
    }
}
