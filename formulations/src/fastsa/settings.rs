//! The settings of `fastsa`: the paper's, and what measured best.

use std::num::NonZeroU64;

use remat_core::TransferRates;

use super::objective::Objective;
use super::propose::Aim;
use crate::method::parameters::{ParameterSpec, Parameters};
use crate::{setting, settings};

setting! {
    /// best: what measured best, steered by the time limit where there is one; paper: the settings of appendix D.4
    pub enum Whose("preset") = Best { Best = "best", Paper = "paper" }
}

setting! {
    /// best: mutations in all, instead of the time limit (without either 20 million, fewer below 50 operators); paper: of the first stage (20 million)
    pub Iterations("iterations"): auto or number from 0 to 1_000_000_000_000
}

setting! {
    /// product (paper): equation (1); elu (best): that of footnote 2, for budgets that have to be met (Tables 1 and 2);
    /// auto: what the preset says, as in all that follow
    pub enum Function("objective") = Auto { Auto = "auto", Product = "product", Elu = "elu" }
}

setting! {
    /// uniform: the paper's; aimed (best): half of them add what a step reads shortly before it, or move steps by distances of any magnitude
    pub enum Proposals("proposals") = Auto { Auto = "auto", Uniform = "uniform", Aimed = "aimed" }
}

setting! {
    /// whether the annealing starts with groups of operators (Algorithm 1): on in the paper; best: where operators alone miss the budget
    pub enum Grouping("grouping") = Auto { Auto = "auto", On = "on", Off = "off" }
}

setting! {
    /// initial temperature in millionths of the initial objective: 1000 in the paper; best: 3000, and 1000 from a start
    pub InitialPpm("initial-ppm"): auto or number from 0 to 1_000_000_000_000
}

setting! {
    /// paper only: whether the first stage ends as soon as the budget is met (on)
    pub enum EarlyStop("early-stop") = Auto { Auto = "auto", On = "on", Off = "off" }
}

setting! {
    /// paper only: mutations of the second stage (2 million)
    pub SecondIterations("second-iterations"): auto or number from 0 to 1_000_000_000_000
}

setting! {
    /// paper only, and not in it: annealings of the best sequence of operators after the second stage, each from half the temperature of the one before
    pub Reheats("reheats"): number from 0 to 1_000 = 0
}

setting! {
    /// mutations of each of them
    pub ReheatIterations("reheat-iterations"): number from 0 to 1_000_000_000_000 = 10000000
}

setting! {
    /// the peak, or the logarithm of the sum of exponentials of the memory at all steps (appendix C.2)
    pub enum PeakTree("tree") = Max { Max = "max", LogAddExp = "logaddexp" }
}

setting! {
    /// all: recomputation and order; order: topological orders only (appendix B.2)
    pub enum Mutations("mutations") = All { All = "all", Order = "order" }
}

setting! {
    /// all: a step may run with another implementation; fastest: the paper's model
    pub enum Uses("implementations") = All { All = "all", Fastest = "fastest" }
}

setting! {
    /// bytes per 1000 units of time (MB/s where times are ns) at which tensors are copied to the host and back (appendix B.3); 0: none are
    pub Offload("offload"): number from 0 to 1_000_000_000_000_000_000 = 0
}

setting! {
    /// order: that of the instance (paper); not in the paper: auto (best), the same, and where groups, too, miss the budget, the
    /// schedule that a search with prices finds; prices: that one; else a method whose schedule the annealing starts from: it has
    /// half of the time limit, a minute at most
    pub enum From("start") = Auto {
        Auto = "auto",
        Order = "order",
        Prices = "prices",
        CheckmateIlp = "checkmate-ilp",
        Moccasin = "moccasin",
        RotorPersistent = "rotor-persistent",
    }
}

/// How much is annealed, and in which order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// What measured best; so many mutations, or as the time limit says.
    Best {
        /// Mutations in all, where they are what counts.
        iterations: Option<u64>,
    },
    /// Two stages, and what may follow them.
    Paper {
        /// Mutations of the stages.
        iterations: [u64; 2],
        /// Whether the first stage ends when the budget is met.
        early_stop: bool,
        /// Annealings after the second stage, and the mutations of each.
        reheats: (u64, u64),
    },
}

/// What an annealing starts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// The instance's order.
    Order,
    /// The same, and a search with prices where that misses the budget.
    Needed,
    /// A search with prices.
    Prices,
    /// The schedule of a method.
    Method(&'static str),
}

/// The settings, read.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Stages.
    pub preset: Preset,
    /// Objective function.
    pub objective: Objective,
    /// Whether the objective sees the logaddexp instead of the peak.
    pub soft: bool,
    /// Which proposals are drawn.
    pub aim: Aim,
    /// Whether the annealing begins with groups; auto: where the budget is missed without.
    pub grouping: Grouping,
    /// Whether all implementations may be used.
    pub alternatives: bool,
    /// Initial temperature over the initial objective, where it is given.
    pub initial: Option<f64>,
    /// Rates of transfers, where there are any.
    pub rates: Option<TransferRates>,
    /// What is started from.
    pub start: Start,
}

/// What the paper's first stage has, and what the best settings have where neither a number nor a time limit is given.
pub const MUTATIONS: u64 = 20_000_000;

impl Settings {
    /// Reads the settings.
    pub fn new(parameters: &Parameters) -> Self {
        let paper = parameters.get::<Whose>() == Whose::Paper;
        let order = parameters.get::<Mutations>() == Mutations::Order;
        let iterations = parameters.get::<Iterations>();
        let preset = if paper {
            let second = parameters.get::<SecondIterations>();
            Preset::Paper {
                iterations: [iterations.unwrap_or(MUTATIONS), second.unwrap_or(2_000_000)],
                early_stop: parameters.get::<EarlyStop>() != EarlyStop::Off,
                reheats: (parameters.get::<Reheats>(), parameters.get::<ReheatIterations>()),
            }
        } else {
            Preset::Best { iterations }
        };
        Self {
            preset,
            objective: match parameters.get::<Function>() {
                Function::Product => Objective::Product,
                Function::Auto if paper => Objective::Product,
                Function::Auto | Function::Elu => Objective::Elu,
            },
            soft: parameters.get::<PeakTree>() == PeakTree::LogAddExp,
            aim: Aim {
                reorder_only: order,
                aimed: match parameters.get::<Proposals>() {
                    Proposals::Auto => !paper,
                    given => given == Proposals::Aimed,
                },
            },
            grouping: match parameters.get::<Grouping>() {
                _ if order => Grouping::Off,
                Grouping::Auto if paper => Grouping::On,
                given => given,
            },
            alternatives: uses_alternatives(parameters),
            initial: parameters.get::<InitialPpm>().map(|millionths| millionths as f64 / 1e6),
            rates: NonZeroU64::new(parameters.get::<Offload>())
                .map(|rate| TransferRates { offload: rate, fetch: rate }),
            start: match parameters.get::<From>() {
                // Orders alone do not go on from a schedule that runs something again.
                From::Auto if !paper && !order => Start::Needed,
                From::Auto | From::Order => Start::Order,
                From::Prices => Start::Prices,
                method => Start::Method(method.word()),
            },
        }
    }
}

/// Whether all implementations may be used: topological orders alone are searched with the fastest.
pub fn uses_alternatives(parameters: &Parameters) -> bool {
    parameters.get::<Uses>() == Uses::All && parameters.get::<Mutations>() == Mutations::All
}

/// All settings.
pub const PARAMETERS: &[ParameterSpec] = settings![
    Whose,
    Iterations,
    Function,
    Proposals,
    Grouping,
    InitialPpm,
    EarlyStop,
    SecondIterations,
    Reheats,
    ReheatIterations,
    PeakTree,
    Mutations,
    Uses,
    Offload,
    From,
];
