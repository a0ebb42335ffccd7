//! The parameters of `fastsa`, with the paper's values as defaults.

use std::num::NonZeroU64;
use std::time::Duration;

use remat_core::TransferRates;

use super::objective::Objective;
use super::propose::Aim;
use crate::method::parameters::{ParameterKind, ParameterSpec, Parameters};

const MILLION: ParameterKind = ParameterKind::Integer { min: 0, max: 1_000_000_000_000 };
const SWITCH: ParameterKind = ParameterKind::Choice(&["on", "off"]);

/// Methods that a schedule to start from may come from.
const STARTS: [&str; 3] = ["checkmate-ilp", "moccasin", "rotor-persistent"];

/// All parameters.
pub const PARAMETERS: &[ParameterSpec] = &[
    ParameterSpec {
        name: "objective",
        default: "product",
        kind: ParameterKind::Choice(&["product", "elu"]),
        help: "product: equation (1); elu: that of footnote 2, for budgets that have to be met (Tables 1 and 2)",
    },
    ParameterSpec {
        name: "penalty",
        default: "1",
        kind: ParameterKind::Integer { min: 1, max: 1_000_000 },
        help: "how many times the paper's price a byte beyond the budget has; more than 1, not in the paper, for budgets that are missed otherwise",
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
        name: "proposals",
        default: "uniform",
        kind: ParameterKind::Choice(&["uniform", "aimed"]),
        help: "uniform: the paper's; aimed, not in the paper: half of them add what a step reads shortly before it, or move steps by distances of any magnitude",
    },
    ParameterSpec {
        name: "grouping",
        default: "on",
        kind: SWITCH,
        help: "whether the first stage works on groups of operators (Algorithm 1)",
    },
    ParameterSpec {
        name: "implementations",
        default: "all",
        kind: ParameterKind::Choice(&["all", "fastest"]),
        help: "all: the second stage may run a step with another implementation; fastest: the paper's model",
    },
    ParameterSpec {
        name: "iterations",
        default: "20000000",
        kind: ParameterKind::Integer { min: 0, max: 1_000_000_000_000 },
        help: "mutations of the first stage (appendix D.4)",
    },
    ParameterSpec {
        name: "early-stop",
        default: "on",
        kind: SWITCH,
        help: "whether the first stage ends as soon as the budget is met",
    },
    ParameterSpec {
        name: "second-iterations",
        default: "2000000",
        kind: ParameterKind::Integer { min: 0, max: 1_000_000_000_000 },
        help: "mutations of the second stage",
    },
    ParameterSpec {
        name: "initial-ppm",
        default: "1000",
        kind: MILLION,
        help: "initial temperature of the first stage, in millionths of the initial objective",
    },
    ParameterSpec {
        name: "final-ppm",
        default: "100",
        kind: MILLION,
        help: "final temperature of either stage, in millionths of its initial one",
    },
    ParameterSpec {
        name: "second-initial-ppm",
        default: "1000000",
        kind: MILLION,
        help: "initial temperature of the second stage, in millionths of the final one of the first",
    },
    ParameterSpec {
        name: "reheats",
        default: "0",
        kind: ParameterKind::Integer { min: 0, max: 1000 },
        help: "not in the paper: annealings of the best sequence of operators after the second stage, each from half the temperature of the one before",
    },
    ParameterSpec {
        name: "reheat-iterations",
        default: "10000000",
        kind: ParameterKind::Integer { min: 0, max: 1_000_000_000_000 },
        help: "mutations of each of them",
    },
    ParameterSpec {
        name: "offload",
        default: "0",
        kind: ParameterKind::Integer { min: 0, max: 1_000_000_000_000_000_000 },
        help: "bytes per 1000 units of time (MB/s where times are ns) at which tensors are copied to the host (appendix B.3); 0: none are",
    },
    ParameterSpec {
        name: "fetch",
        default: "auto",
        kind: ParameterKind::IntegerOrAuto { min: 1, max: 1_000_000_000_000_000_000 },
        help: "the same for the way back; auto: as fast as to the host",
    },
    ParameterSpec {
        name: "start",
        default: "order",
        kind: ParameterKind::Choice(&["order", "checkmate-ilp", "moccasin", "rotor-persistent"]),
        help: "order: that of the instance, as in the paper; else, not in the paper, a method whose schedule the second stage starts from; there is no first stage then",
    },
    ParameterSpec {
        name: "start-seconds",
        default: "60",
        kind: ParameterKind::Integer { min: 1, max: 1_000_000 },
        help: "wall time that this method has for each budget, half of what is left at most",
    },
    ParameterSpec {
        name: "length",
        default: "auto",
        kind: ParameterKind::IntegerOrAuto { min: 16, max: 1 << 28 },
        help: "steps of the sequence, nop included (the paper: 1048576); auto: 8 to 16 per operator, spread anew now and then",
    },
    ParameterSpec {
        name: "restarts",
        default: "1",
        kind: ParameterKind::Integer { min: 0, max: 1_000_000 },
        help: "annealings per budget and thread, each with a seed of its own; 0: until the time limit",
    },
];

/// The parameters, read.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent switches, each a parameter")]
pub struct Settings {
    /// Objective function.
    pub objective: Objective,
    /// Price of memory beyond the budget over the paper's.
    pub penalty: f64,
    /// Whether the objective sees the logaddexp instead of the peak.
    pub soft: bool,
    /// Which proposals are drawn.
    pub aim: Aim,
    /// Whether the first stage works on groups.
    pub grouping: bool,
    /// Whether all implementations may be used.
    pub alternatives: bool,
    /// Whether the first stage ends when the budget is met.
    pub early_stop: bool,
    /// Iterations of the two stages.
    pub iterations: [u64; 2],
    /// Initial temperature over the initial objective.
    pub initial: f64,
    /// Final temperature over the initial one.
    pub last: f64,
    /// Initial temperature of the second stage over the final one of the first.
    pub second: f64,
    /// Annealings after the second stage, and their iterations.
    pub reheats: (u64, u64),
    /// Rates of transfers, where there are any.
    pub rates: Option<TransferRates>,
    /// The method to start from, where it is not the instance's order, and its wall time.
    pub start: Option<(&'static str, Duration)>,
    /// Steps of the sequence.
    pub length: Option<u32>,
    /// Annealings per budget and thread; none: as many as there is time for.
    pub restarts: Option<u64>,
}

impl Settings {
    /// Reads the parameters.
    pub fn new(parameters: &Parameters) -> Self {
        let number = |name| parameters.integer(name).unwrap_or(0);
        let millionths = |name| number(name) as f64 / 1e6;
        let is = |name, word| parameters.word(name) == word;
        Self {
            objective: if is("objective", "elu") { Objective::Elu } else { Objective::Product },
            penalty: number("penalty") as f64,
            soft: is("tree", "logaddexp"),
            aim: Aim { reorder_only: is("mutations", "order"), aimed: is("proposals", "aimed") },
            grouping: is("grouping", "on") && !is("mutations", "order"),
            alternatives: is("implementations", "all") && !is("mutations", "order"),
            early_stop: is("early-stop", "on"),
            iterations: [number("iterations"), number("second-iterations")],
            initial: millionths("initial-ppm"),
            last: millionths("final-ppm"),
            second: millionths("second-initial-ppm"),
            reheats: (number("reheats"), number("reheat-iterations")),
            rates: rates(parameters),
            start: start(parameters),
            length: parameters.integer("length").and_then(|length| u32::try_from(length).ok()),
            restarts: parameters.integer("restarts").filter(|&restarts| restarts > 0),
        }
    }
}

fn start(parameters: &Parameters) -> Option<(&'static str, Duration)> {
    let method = STARTS.iter().find(|&&method| method == parameters.word("start"))?;
    Some((method, Duration::from_secs(parameters.integer("start-seconds").unwrap_or(60))))
}

fn rates(parameters: &Parameters) -> Option<TransferRates> {
    let offload = parameters.integer("offload").and_then(NonZeroU64::new)?;
    let fetch = parameters.integer("fetch").and_then(NonZeroU64::new).unwrap_or(offload);
    Some(TransferRates { offload, fetch })
}
