//! Claims as data: over which schedules something is claimed, and what.
//!
//! A [`Class`] is a set of schedules, together with how their memory and time are counted. A [`Claim`] says
//! what an answer is within a class: a schedule, its optimum, or a lower bound. Tables group by claims, and a
//! bound is used only against schedules that its class contains ([`Class::contains`]).
//!
//! The text of a claim is stable, and can be read back: `optimum: stages, one implementation`. What is not
//! named is not restricted.

use std::fmt;
use std::str::FromStr;

use remat_core::{Instance, Schedule, Step};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use thiserror::Error;

use crate::setting;
use crate::staged::joint::Joint;

/// What an answer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Claim {
    /// What it is within the class.
    pub strength: Strength,
    /// Over which schedules.
    pub class: Class,
}

/// What is claimed of an answer within its class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Strength {
    /// A fixed schedule, or the best of a fixed family: nothing is optimised.
    Baseline,
    /// `optimal` and `gap_reached` are proved for the class, and so are bounds.
    Optimum,
    /// A lower bound on the time of the class, and no schedule.
    Bound,
    /// A schedule of the class, about which nothing is proved.
    Heuristic,
}

/// A set of schedules, and how their memory and time are counted. `infeasible` means that no schedule of the
/// set, counted so, meets the budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Class {
    /// In which order operators run.
    pub order: Order,
    /// How often each runs.
    pub runs: Runs,
    /// Which implementations they use.
    pub implementations: Implementations,
    /// What is kept.
    pub kept: Kept,
    /// How memory is counted.
    pub memory: Memory,
    /// How time is counted.
    pub time: Time,
    /// Whether tensors may go to the host and come back.
    pub transfers: bool,
}

/// In which order operators run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Order {
    /// Any.
    Free,
    /// Every operator runs, and first runs follow the instance's order.
    Given,
    /// The same, and between two first runs operators run again in that order, each at most once.
    Stages,
    /// The stages of `MONeT`'s program: the forward pass, then before each backward operator some forward operators in order.
    Passes,
    /// Sequences of the chain view, with its implementations.
    Chain,
}

/// Most runs of one operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Runs {
    /// So many.
    AtMost(u64),
    /// Any number.
    Any,
}

/// Which implementations operators use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Implementations {
    /// Each operator its own, the fastest that is consistent; see [`fixed_implementations`].
    One,
    /// Those that some of `MONeT`'s `modes` allow, forward ones in place or not.
    Modes {
        /// The value of `modes`.
        modes: Modes,
        /// Whether forward operators may run in place.
        in_place: bool,
    },
    /// Any that the order offers, for each run anew.
    Chosen,
}

setting! {
    /// which alternatives may be chosen: none, algorithms, backward operators that read outputs, or what is saved
    /// for them, or all
    pub enum Modes("modes") = All {
        Noop = "noop",
        Conv = "conv",
        OutputActivated = "output-activated",
        IntermediateActivated = "intermediate-activated",
        All = "all",
    }
}

/// What is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kept {
    /// Whatever serves.
    Any,
    /// Weakly persistent sequences (rotor-toms-2024, Definition 4.3).
    Weak,
    /// Memory-persistent sequences (Definition 4.1).
    Persistent,
    /// Of these, the ones with `F_all` right before each backward.
    SaveLast,
    /// Memory-persistent sequences over blocks of stages and options of theirs that the method has found. Which they are
    /// depends on its settings: what is proved of them holds for no other answer.
    Options,
    /// Canonical strategies: boundaries of an increasing sequence of lower sets, each group recomputed once.
    LowerSets,
    /// The same, the last group not recomputed.
    LastGroupKept,
}

/// How memory is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Memory {
    /// As the simulator does.
    Simulated,
    /// The same, without workspace.
    WithoutWorkspace,
    /// As the chain view does: never less than the simulator.
    Chain,
    /// Likewise, sizes rounded up to so many slots in the largest useful budget.
    Slots(u64),
    /// By what a group of lower sets needs, never less than the simulator.
    Groups,
    /// By that or Kusumoto's equation (2), whichever is more.
    Equation2,
    /// As `MONeT`'s program counts: neither a lower nor an upper bound on the rest.
    Released,
}

/// How time is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Time {
    /// The instance's times.
    Exact,
    /// As the chain view does: never less than the simulator.
    Chain,
    /// By Kusumoto's equation (1): the forward operators that groups recompute.
    Equation1,
    /// 10 for a convolution, 1 for any other operator.
    UnitCosts,
    /// `MONeT`'s program: each rounded up to 0.01 ms.
    Released,
}

/// A text that is no claim.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0:?} is no claim; expected baseline, optimum, bound or heuristic, a colon, and a class of schedules")]
pub struct ClaimError(String);

impl Claim {
    /// A fixed schedule, or the best of a fixed family.
    pub const fn baseline(class: Class) -> Self {
        Self { strength: Strength::Baseline, class }
    }

    /// The optimum of a class.
    pub const fn optimum(class: Class) -> Self {
        Self { strength: Strength::Optimum, class }
    }

    /// A lower bound on a class.
    pub const fn bound(class: Class) -> Self {
        Self { strength: Strength::Bound, class }
    }

    /// A schedule of a class.
    pub const fn heuristic(class: Class) -> Self {
        Self { strength: Strength::Heuristic, class }
    }

    /// Whether bounds and ends are proved for the class.
    pub const fn proves(&self) -> bool {
        matches!(self.strength, Strength::Optimum | Strength::Bound)
    }
}

impl Class {
    /// All schedules that the simulator accepts, transfers aside.
    pub const ALL: Self = Self {
        order: Order::Free,
        runs: Runs::Any,
        implementations: Implementations::Chosen,
        kept: Kept::Any,
        memory: Memory::Simulated,
        time: Time::Exact,
        transfers: false,
    };

    /// Checkmate's: stages of the instance's order, one implementation per operator.
    pub const STAGES: Self = Self { order: Order::Stages, implementations: Implementations::One, ..Self::ALL };

    /// Sequences of the chain view, memory and time as it counts.
    pub const CHAIN: Self = Self { order: Order::Chain, memory: Memory::Chain, time: Time::Chain, ..Self::ALL };

    /// Whether every schedule of another class that meets a budget there meets it here, too: then a bound
    /// ([`Answer::lower_bound`](crate::Answer::lower_bound)) and `infeasible` here hold there. Where it does not know, it says no.
    pub fn contains(&self, other: &Self) -> bool {
        self.order.contains(other.order)
            && self.runs >= other.runs
            && self.implementations.contains(other.implementations)
            && self.kept.contains(other.kept)
            && self.memory.contains(other.memory)
            && self.transfers >= other.transfers
    }

    /// Whether what meets a budget in another class meets it here as far as memory goes.
    pub fn memory_contains(&self, other: &Self) -> bool {
        self.memory.contains(other.memory)
    }

    /// The smallest of these classes, but for those of particular methods, in which a schedule is.
    pub fn of(instance: &Instance, schedule: &Schedule) -> Self {
        let computes: Vec<(usize, usize)> = schedule.runs().map(|(id, way)| (id.index(), way)).collect();
        let mut runs = vec![0; instance.operators().len()];
        let fixed = fixed_implementations(instance);
        let mut one = fixed.is_some();
        for &(operator, implementation) in &computes {
            let (first, again) = fixed.as_ref().map_or((0, None), |fixed| fixed[operator]);
            one &= if runs[operator] == 0 { first == implementation } else { again == Some(implementation) };
            runs[operator] += 1;
        }
        Self {
            order: order_of(instance, &computes),
            runs: Runs::AtMost(runs.into_iter().max().unwrap_or(0).max(1)),
            implementations: if one { Implementations::One } else { Implementations::Chosen },
            transfers: schedule.steps.iter().any(|step| matches!(step, Step::Offload(_) | Step::Fetch(_))),
            ..Self::ALL
        }
    }

    /// How time is counted where the text does not say.
    fn usual_time(&self) -> Time {
        match (self.order, self.kept) {
            (Order::Chain, _) => Time::Chain,
            (_, Kept::LowerSets | Kept::LastGroupKept) => Time::Equation1,
            _ => Time::Exact,
        }
    }

    /// How memory is counted where the text does not say.
    fn usual_memory(&self) -> Memory {
        match (self.order, self.kept) {
            (Order::Chain, _) => Memory::Chain,
            (_, Kept::LowerSets | Kept::LastGroupKept) => Memory::Equation2,
            _ => Memory::Simulated,
        }
    }
}

/// The first and the further implementation of each operator in classes with [`Implementations::One`], by
/// operator; none where the instance cannot be run so.
pub fn fixed_implementations(instance: &Instance) -> Option<Vec<(usize, Option<usize>)>> {
    let joint = Joint::of_fastest(instance).ok()?;
    let mut fixed = vec![(0, None); instance.operators().len()];
    for operator in &joint.operators {
        let again = operator.again.first().map(|way| way.implementation);
        fixed[operator.id.index()] = (operator.first[0].implementation, again);
    }
    Some(fixed)
}

fn order_of(instance: &Instance, computes: &[(usize, usize)]) -> Order {
    let position = instance.positions();
    // The next first run, and where the stage is: one beyond the last position that ran again in it.
    let (mut next, mut reached, mut stages) = (0, 0, true);
    for &(operator, _) in computes {
        let at = position[operator];
        if at > next {
            return Order::Free;
        }
        if at == next {
            (next, reached) = (next + 1, 0);
        } else {
            stages &= at >= reached && next < position.len();
            reached = at + 1;
        }
    }
    match (next == position.len(), stages) {
        (false, _) => Order::Free,
        (true, false) => Order::Given,
        (true, true) => Order::Stages,
    }
}

impl Order {
    fn contains(self, other: Self) -> bool {
        match self {
            Self::Free => true,
            Self::Given => matches!(other, Self::Given | Self::Stages),
            Self::Stages | Self::Passes | Self::Chain => self == other,
        }
    }
}

impl Implementations {
    fn contains(self, other: Self) -> bool {
        match (self, other) {
            // In every mode an operator has the implementation that it has without alternatives.
            (Self::Chosen, _) | (Self::Modes { .. }, Self::One) => true,
            (Self::Modes { modes, in_place }, Self::Modes { modes: fewer, in_place: less }) => {
                (modes == fewer || modes == Modes::All) && in_place >= less
            }
            _ => self == other,
        }
    }
}

impl Kept {
    fn contains(self, other: Self) -> bool {
        match self {
            Self::Any => true,
            Self::Weak => matches!(other, Self::Weak | Self::Persistent | Self::SaveLast),
            Self::Persistent => matches!(other, Self::Persistent | Self::SaveLast),
            Self::SaveLast | Self::LowerSets | Self::LastGroupKept => self == other,
            Self::Options => false,
        }
    }
}

impl Memory {
    fn contains(self, other: Self) -> bool {
        match self {
            Self::WithoutWorkspace => other != Self::Released,
            Self::Simulated => !matches!(other, Self::Released | Self::WithoutWorkspace),
            Self::Chain => matches!(other, Self::Chain | Self::Slots(_)),
            Self::Groups => matches!(other, Self::Groups | Self::Equation2),
            Self::Slots(_) | Self::Equation2 | Self::Released => self == other,
        }
    }
}

/// How the parts of a class are written, and read.
macro_rules! words {
    ($($type:ident { $($variant:ident = $word:literal),+ $(; $other:pat = $text:literal)? })+) => { $(
        impl $type {
            /// The word for it.
            pub fn word(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ $($other => $text,)? }
            }

            fn read(text: &str) -> Option<Self> {
                [$(Self::$variant),+].into_iter().find(|known| known.word() == text)
            }
        }
    )+ };
}

words! {
    Strength { Baseline = "baseline", Optimum = "optimum", Bound = "bound", Heuristic = "heuristic" }
    Order { Free = "", Given = "given order", Stages = "stages", Passes = "passes", Chain = "chain" }
    Kept {
        Any = "",
        Weak = "weakly persistent",
        Persistent = "memory-persistent",
        SaveLast = "checkpoints only",
        Options = "memory-persistent over options",
        LowerSets = "lower sets",
        LastGroupKept = "lower sets without recomputing the last group"
    }
    Memory {
        Simulated = "memory as simulated",
        WithoutWorkspace = "memory without workspace",
        Chain = "memory of the chain",
        Groups = "memory of groups",
        Equation2 = "memory by equation (2)",
        Released = "memory as released";
        Self::Slots(_) = "memory in slots"
    }
    Time {
        Exact = "times as simulated",
        Chain = "times of the chain",
        Equation1 = "times by equation (1)",
        UnitCosts = "unit costs",
        Released = "times as released"
    }
}

const TRANSFERS: &str = "transfers to the host";

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words = vec![self.order.word().to_owned(), self.kept.word().to_owned()];
        words.push(match self.runs {
            Runs::Any => String::new(),
            Runs::AtMost(1) => "one run each".into(),
            Runs::AtMost(runs) => format!("at most {runs} runs each"),
        });
        words.push(match self.implementations {
            Implementations::Chosen => String::new(),
            Implementations::One => "one implementation".into(),
            Implementations::Modes { modes, in_place: true } => format!("modes {}", modes.word()),
            Implementations::Modes { modes, in_place: false } => format!("modes {} out of place", modes.word()),
        });
        words.push(match self.memory {
            memory if memory == self.usual_memory() => String::new(),
            Memory::Slots(slots) => format!("{slots} slots"),
            memory => memory.word().into(),
        });
        words.push(if self.time == self.usual_time() { String::new() } else { self.time.word().into() });
        words.push(if self.transfers { TRANSFERS.into() } else { String::new() });
        words.retain(|word| !word.is_empty());
        if words.is_empty() { write!(f, "all schedules") } else { write!(f, "{}", words.join(", ")) }
    }
}

impl FromStr for Class {
    type Err = ClaimError;

    fn from_str(text: &str) -> Result<Self, ClaimError> {
        let mut class = Self::ALL;
        let (mut memory, mut time) = (None, None);
        for word in text.split(", ").filter(|_| text != "all schedules") {
            if !class.read_word(word, &mut memory, &mut time) {
                return Err(ClaimError(text.into()));
            }
        }
        class.memory = memory.unwrap_or_else(|| class.usual_memory());
        class.time = time.unwrap_or_else(|| class.usual_time());
        Ok(class)
    }
}

impl Class {
    /// Takes a restriction from the text of a class; whether it is one.
    fn read_word(&mut self, word: &str, memory: &mut Option<Memory>, time: &mut Option<Time>) -> bool {
        let between = |before: &str, after: &str| word.strip_prefix(before).and_then(|word| word.strip_suffix(after));
        let number = |text: Option<&str>| text.and_then(|text| text.parse::<u64>().ok());
        if word.is_empty() {
            return false;
        } else if let Some(order) = Order::read(word) {
            self.order = order;
        } else if let Some(kept) = Kept::read(word) {
            self.kept = kept;
        } else if let Some(known) = Time::read(word) {
            *time = Some(known);
        } else if let Some(slots) = number(word.strip_suffix(" slots")) {
            *memory = Some(Memory::Slots(slots));
        } else if let Some(known) = Memory::read(word) {
            *memory = Some(known);
        } else if let Some(runs) = number(between("at most ", " runs each")) {
            self.runs = Runs::AtMost(runs);
        } else if word == "one run each" {
            self.runs = Runs::AtMost(1);
        } else if word == "one implementation" {
            self.implementations = Implementations::One;
        } else if word == TRANSFERS {
            self.transfers = true;
        } else if let Some(modes) = word.strip_prefix("modes ") {
            let (modes, in_place) = modes.strip_suffix(" out of place").map_or((modes, true), |modes| (modes, false));
            let Some(modes) = Modes::read(modes) else { return false };
            self.implementations = Implementations::Modes { modes, in_place };
        } else {
            return false;
        }
        true
    }
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.strength.word(), self.class)
    }
}

impl FromStr for Claim {
    type Err = ClaimError;

    fn from_str(text: &str) -> Result<Self, ClaimError> {
        let error = || ClaimError(text.into());
        let (word, class) = text.split_once(": ").ok_or_else(error)?;
        let strength = Strength::read(word).ok_or_else(error)?;
        Ok(Self { strength, class: class.parse().map_err(|_| error())? })
    }
}

/// Written as their texts.
macro_rules! as_text {
    ($($type:ty),*) => { $(
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
            }
        }
    )* };
}

as_text!(Class, Claim);
