//! The settings of `fastsa`: the paper's, and what measured best.

use std::num::NonZeroU64;

use remat_core::TransferRates;

use super::objective::Objective;
use super::propose::Aim;
use crate::method::parameters::{ParameterKind, ParameterSpec, Parameters};

const MILLION: ParameterKind = ParameterKind::IntegerOrAuto { min: 0, max: 1_000_000_000_000 };
const SWITCH: ParameterKind = ParameterKind::Choice(&["auto", "on", "off"]);

/// All of them; `auto` is what the preset says.
pub const PARAMETERS: &[ParameterSpec] = &[
    ParameterSpec {
        name: "preset",
        default: "best",
        kind: ParameterKind::Choice(&["best", "paper"]),
        help: "best: what measured best, steered by the time limit where there is one; paper: the settings of appendix D.4",
    },
    ParameterSpec {
        name: "iterations",
        default: "auto",
        kind: MILLION,
        help: "best: mutations in all, instead of the time limit (20 million without one); paper: of the first stage (20 million)",
    },
    ParameterSpec {
        name: "objective",
        default: "auto",
        kind: ParameterKind::Choice(&["auto", "product", "elu"]),
        help: "product (paper): equation (1); elu (best): that of footnote 2, for budgets that have to be met (Tables 1 and 2)",
    },
    ParameterSpec {
        name: "proposals",
        default: "auto",
        kind: ParameterKind::Choice(&["auto", "uniform", "aimed"]),
        help: "uniform: the paper's; aimed (best): half of them add what a step reads shortly before it, or move steps by distances of any magnitude",
    },
    ParameterSpec {
        name: "grouping",
        default: "auto",
        kind: SWITCH,
        help: "whether the annealing starts with groups of operators (Algorithm 1): on in the paper; best: where operators alone miss the budget",
    },
    ParameterSpec {
        name: "initial-ppm",
        default: "auto",
        kind: MILLION,
        help: "initial temperature in millionths of the initial objective: 1000 in the paper; best: 3000, and 1000 from a start",
    },
    ParameterSpec {
        name: "early-stop",
        default: "auto",
        kind: SWITCH,
        help: "paper only: whether the first stage ends as soon as the budget is met (on)",
    },
    ParameterSpec {
        name: "second-iterations",
        default: "auto",
        kind: MILLION,
        help: "paper only: mutations of the second stage (2 million)",
    },
    ParameterSpec {
        name: "reheats",
        default: "0",
        kind: ParameterKind::Integer { min: 0, max: 1000 },
        help: "paper only, and not in it: annealings of the best sequence of operators after the second stage, each from half the temperature of the one before",
    },
    ParameterSpec {
        name: "reheat-iterations",
        default: "10000000",
        kind: ParameterKind::Integer { min: 0, max: 1_000_000_000_000 },
        help: "mutations of each of them",
    },
    ParameterSpec {
        name: "tree",
        default: "max",
        kind: ParameterKind::Choice(&["max", "logaddexp"]),
        help: "the peak, or the logarithm of the sum of exponentials of the memory at all steps (appendix C.2)",
    },
    ParameterSpec {
        name: "mutations",
        default: "all",
        kind: ParameterKind::Choice(&["all", "order"]),
        help: "all: recomputation and order; order: topological orders only (appendix B.2)",
    },
    ParameterSpec {
        name: "implementations",
        default: "all",
        kind: ParameterKind::Choice(&["all", "fastest"]),
        help: "all: a step may run with another implementation; fastest: the paper's model",
    },
    ParameterSpec {
        name: "offload",
        default: "0",
        kind: ParameterKind::Integer { min: 0, max: 1_000_000_000_000_000_000 },
        help: "bytes per 1000 units of time (MB/s where times are ns) at which tensors are copied to the host and back (appendix B.3); 0: none are",
    },
    ParameterSpec {
        name: "start",
        default: "order",
        kind: ParameterKind::Choice(&["order", "checkmate-ilp", "moccasin", "rotor-persistent"]),
        help: "order: that of the instance, as in the paper; else, not in the paper, a method whose schedule the annealing starts from; it has half of the time limit, a minute at most",
    },
];

/// Methods that a schedule to start from may come from.
const STARTS: [&str; 3] = ["checkmate-ilp", "moccasin", "rotor-persistent"];

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

/// Whether an annealing begins with groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grouping {
    /// Always.
    On,
    /// Never.
    Off,
    /// Where the budget is missed without.
    Needed,
}

/// The settings, read.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Stages.
    pub preset: Preset,
    /// Objective function.
    pub objective: Objective,
    /// Price of memory beyond the budget over the paper's.
    pub penalty: f64,
    /// Whether the objective sees the logaddexp instead of the peak.
    pub soft: bool,
    /// Which proposals are drawn.
    pub aim: Aim,
    /// Whether the annealing begins with groups.
    pub grouping: Grouping,
    /// Whether all implementations may be used.
    pub alternatives: bool,
    /// Initial temperature over the initial objective, where it is given.
    pub initial: Option<f64>,
    /// Final temperature over the initial one.
    pub last: f64,
    /// Rates of transfers, where there are any.
    pub rates: Option<TransferRates>,
    /// The method to start from, where it is not the instance's order.
    pub start: Option<&'static str>,
}

/// Final temperature over the initial one (appendix D.4).
const LAST: f64 = 1e-4;

impl Settings {
    /// Reads the settings.
    pub fn new(parameters: &Parameters) -> Self {
        let is = |name, word| parameters.word(name) == word;
        let given = |name, default| parameters.integer(name).unwrap_or(default);
        let paper = is("preset", "paper");
        let order = is("mutations", "order");
        let preset = if paper {
            Preset::Paper {
                iterations: [given("iterations", 20_000_000), given("second-iterations", 2_000_000)],
                early_stop: !is("early-stop", "off"),
                reheats: (given("reheats", 0), given("reheat-iterations", 0)),
            }
        } else {
            Preset::Best { iterations: parameters.integer("iterations") }
        };
        let product = is("objective", "product") || paper && is("objective", "auto");
        Self {
            preset,
            objective: if product { Objective::Product } else { Objective::Elu },
            penalty: 1.0,
            soft: is("tree", "logaddexp"),
            aim: Aim { reorder_only: order, aimed: is("proposals", "aimed") || !paper && is("proposals", "auto") },
            grouping: match parameters.word("grouping") {
                _ if order => Grouping::Off,
                "on" => Grouping::On,
                "off" => Grouping::Off,
                _ if paper => Grouping::On,
                _ => Grouping::Needed,
            },
            alternatives: is("implementations", "all") && !order,
            initial: parameters.integer("initial-ppm").map(|millionths| millionths as f64 / 1e6),
            last: LAST,
            rates: parameters
                .integer("offload")
                .and_then(NonZeroU64::new)
                .map(|rate| TransferRates { offload: rate, fetch: rate }),
            start: STARTS.into_iter().find(|&method| is("start", method)),
        }
    }
}
