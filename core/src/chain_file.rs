//! Chain files: the arrays in which Rotor and its descendants exchange chains, as a [`Chain`] and as
//! an instance with one forward and one backward operator per stage.

use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::IgnoredAny;
use thiserror::Error;

use crate::chain::{Chain, Saving, Stage};
use crate::format::{
    FixedBytes, ImplementationDocument, InstanceDocument, MemoryUnit, OperatorDocument, Origin, Phase, Provenance,
    TensorKind, TimeUnit, Units,
};
use crate::object;
use crate::validate;

/// The arrays of a chain of `L` stages and the loss; other fields of the file are ignored.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
pub struct ChainFile {
    /// `u_f^l` at `[l - 1]`, l = 1 to L.
    pub fweight: Vec<f64>,
    /// `u_b^l` at `[l - 1]`, l = 1 to L + 1.
    pub bweight: Vec<f64>,
    /// `w_a^l` = `w_delta^l` at `[l]`, l = 0 to L.
    pub cweight: Vec<f64>,
    /// `w_abar^l` at `[l]`, l = 1 to L; entry 0 is not used.
    pub cbweight: Vec<f64>,
    /// `o_f^l` at `[l - 1]`, l = 1 to L.
    pub ftmp: Vec<f64>,
    /// `o_b^l` at `[l - 1]`, l = 1 to L + 1.
    pub btmp: Vec<f64>,
}

/// What `bench instances import` reads: the arrays at the top, under `chain`, or in a list under `instances`; or a
/// graph, of which only that it is one is kept.
#[derive(Debug, Default, Deserialize)]
#[serde(expecting = "an object with the arrays of a chain, or a graph in node-link form")]
pub struct ImportFile {
    fweight: Option<Vec<f64>>,
    bweight: Option<Vec<f64>>,
    cweight: Option<Vec<f64>>,
    cbweight: Option<Vec<f64>>,
    ftmp: Option<Vec<f64>>,
    btmp: Option<Vec<f64>>,
    #[serde(default, deserialize_with = "object::optional")]
    chain: Option<Box<ImportFile>>,
    #[serde(default, deserialize_with = "object::optional_list")]
    instances: Option<Vec<ImportFile>>,
    nodes: Option<IgnoredAny>,
    operators: Option<IgnoredAny>,
}

/// A file in which the chain that is meant was not found.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ImportError {
    /// A list, and nobody said which.
    #[error("holds {count} chains; {}", if *count > 0 { format!("choose one with --index 0 to {}", count - 1) } else { "list one under \"instances\"".into() })]
    Choose {
        /// How many there are.
        count: usize,
    },
    /// The list is shorter.
    #[error("has no chain {index}; it holds {count}, counted from 0")]
    NoSuch {
        /// Which was wanted.
        index: usize,
        /// How many there are.
        count: usize,
    },
    /// There is no list.
    #[error("holds no list under \"instances\"; leave --index out")]
    NoList,
    /// Arrays in two places.
    #[error("has something to import at {here} and under {below}; leave one of them out")]
    Both {
        /// One place.
        here: String,
        /// The other.
        below: String,
    },
    /// Something else.
    #[error(
        "is no chain file{}; expected the arrays fweight, bweight, cweight, cbweight, ftmp and btmp at the top, under \"chain\", or in a list under \"instances\"",
        if *instance { " (it is an instance already)" } else { "" }
    )]
    NoChain {
        /// Whether it has an instance's fields.
        instance: bool,
    },
    /// An array is missing.
    #[error("at {location}: missing field `{array}`")]
    Missing {
        /// Where the arrays stand.
        location: String,
        /// Name of the array.
        array: &'static str,
    },
}

impl ImportFile {
    /// Whether it is a graph in node-link form, not a chain.
    ///
    /// # Errors
    /// It has the arrays of a chain, too.
    pub fn is_graph(&self) -> Result<bool, ImportError> {
        match self.chains() {
            Some(here) if self.nodes.is_some() => Err(ImportError::Both { here: here.into(), below: "nodes".into() }),
            _ => Ok(self.nodes.is_some()),
        }
    }

    /// Where the arrays of chains stand, if there are any.
    fn chains(&self) -> Option<&'static str> {
        let places = [
            (self.fweight.is_some(), "the top"),
            (self.chain.is_some(), "chain"),
            (self.instances.is_some(), "instances"),
        ];
        places.iter().find(|place| place.0).map(|place| place.1)
    }

    /// The arrays, and where they stand; `index` chooses from a list.
    ///
    /// # Errors
    /// They are not there.
    pub fn arrays(self, index: Option<usize>) -> Result<(String, ChainFile), ImportError> {
        let here = self.chains().filter(|&here| here != "instances").map(str::to_owned);
        if let Some(mut list) = self.instances {
            if let Some(here) = here {
                return Err(ImportError::Both { here, below: "instances".into() });
            }
            let count = list.len();
            let index = index.or((count == 1).then_some(0)).ok_or(ImportError::Choose { count })?;
            if index >= count {
                return Err(ImportError::NoSuch { index, count });
            }
            return list
                .swap_remove(index)
                .placed(&format!("instances[{index}]"), &format!("instances[{index}].chain"));
        }
        match index {
            Some(_) => Err(ImportError::NoList),
            None => self.placed("the top", "chain"),
        }
    }

    fn placed(self, here: &str, below: &str) -> Result<(String, ChainFile), ImportError> {
        let instance = self.operators.is_some();
        match (self.fweight.is_some(), self.chain) {
            (true, Some(chain)) if chain.fweight.is_some() => {
                Err(ImportError::Both { here: here.to_owned(), below: below.to_owned() })
            }
            (true, _) => Self { chain: None, ..self }.complete(here),
            (false, Some(chain)) if chain.fweight.is_some() => chain.complete(below),
            _ => Err(ImportError::NoChain { instance }),
        }
    }

    fn complete(self, location: &str) -> Result<(String, ChainFile), ImportError> {
        let given = |array: &'static str, values: Option<Vec<f64>>| {
            values.ok_or_else(|| ImportError::Missing { location: location.to_owned(), array })
        };
        let file = ChainFile {
            fweight: given("fweight", self.fweight)?,
            bweight: given("bweight", self.bweight)?,
            cweight: given("cweight", self.cweight)?,
            cbweight: given("cbweight", self.cbweight)?,
            ftmp: given("ftmp", self.ftmp)?,
            btmp: given("btmp", self.btmp)?,
        };
        Ok((location.to_owned(), file))
    }
}

/// Factors that turn the numbers of a chain file into integers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    /// Nanoseconds per unit of time; none keeps the file's unit, which must then be whole.
    pub time: Option<f64>,
    /// Bytes per unit of size; none keeps the file's unit, which must then be whole.
    pub memory: Option<f64>,
}

/// Arrays that are no chain.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum ChainFileError {
    /// The arrays do not fit each other.
    #[error("{array} has {found} entries, but fweight's {stages} stages call for {expected}")]
    Length {
        /// Name of the array.
        array: &'static str,
        /// Entries that it has.
        found: usize,
        /// Entries that it should have.
        expected: usize,
        /// L.
        stages: usize,
    },
    /// There are more stages than a program for chains could answer.
    #[error("fweight has {0} entries; expected at most {MOST_STAGES} stages")]
    Long(usize),
    /// There is no stage.
    #[error("fweight is empty; a chain has at least one stage")]
    Empty,
    /// A number is negative, not finite or beyond 2^53.
    #[error("{array}[{index}] is {value}; expected a number from 0 to 2^53")]
    Range {
        /// Name of the array.
        array: &'static str,
        /// Position.
        index: usize,
        /// What stands there.
        value: f64,
    },
    /// A number is not whole and no scale was given.
    #[error("{array}[{index}] is {value}, not whole; give {option} (say how many {unit} one unit is)")]
    Fraction {
        /// Name of the array.
        array: &'static str,
        /// Position.
        index: usize,
        /// What stands there.
        value: f64,
        /// The option of the command line that helps.
        option: &'static str,
        /// `ns` or `bytes`.
        unit: &'static str,
    },
}

/// A stage of six numbers becomes two operators and five tensors: of more, an instance would be too large to be read.
const MOST_STAGES: usize = 80_000;

impl ChainFile {
    /// The chain, exactly as the arrays say.
    ///
    /// # Errors
    /// Arrays of the wrong length, or numbers out of range.
    pub fn chain(&self, scale: Scale) -> Result<Chain, ChainFileError> {
        let length = self.lengths()?;
        let time = |name, values: &[f64]| integers(name, values, scale.time, ("--time-scale", "ns"));
        let bytes = |name, values: &[f64]| integers(name, values, scale.memory, ("--memory-scale", "bytes"));
        let (forward, backward) = (time("fweight", &self.fweight)?, time("bweight", &self.bweight)?);
        let (activation, saved) = (bytes("cweight", &self.cweight)?, bytes("cbweight", &self.cbweight)?);
        let (forward_overhead, backward_overhead) = (bytes("ftmp", &self.ftmp)?, bytes("btmp", &self.btmp)?);
        let at = |values: &[u64], index: usize| values.get(index).copied().unwrap_or(0);
        let stages = (1..=length + 1).map(|l| {
            let loss = l > length;
            Stage {
                name: if loss { "loss".into() } else { format!("stage{l}") },
                forward_time: at(&forward, l - 1),
                activation_bytes: at(&activation, l),
                gradient_bytes: at(&activation, l),
                kept_bytes: 0,
                passing_overhead: at(&forward_overhead, l - 1).cast_signed(),
                savings: vec![Saving {
                    name: "default".into(),
                    forward_time: at(&forward, l - 1),
                    backward_time: at(&backward, l - 1),
                    saved_bytes: if loss { 0 } else { at(&saved, l) },
                    forward_overhead: at(&forward_overhead, l - 1).cast_signed(),
                    backward_overhead: at(&backward_overhead, l - 1).cast_signed(),
                }],
            }
        });
        Ok(Chain {
            fixed_bytes: 0,
            input_bytes: activation[0],
            input_gradient_bytes: activation[0],
            stages: stages.collect(),
        })
    }

    fn lengths(&self) -> Result<usize, ChainFileError> {
        let stages = self.fweight.len();
        if stages == 0 {
            return Err(ChainFileError::Empty);
        }
        if stages > MOST_STAGES {
            return Err(ChainFileError::Long(stages));
        }
        let arrays = [
            ("bweight", self.bweight.len(), stages + 1),
            ("cweight", self.cweight.len(), stages + 1),
            ("cbweight", self.cbweight.len(), stages + 1),
            ("ftmp", self.ftmp.len(), stages),
            ("btmp", self.btmp.len(), stages + 1),
        ];
        match arrays.into_iter().find(|(_, found, expected)| found != expected) {
            Some((array, found, expected)) => Err(ChainFileError::Length { array, found, expected, stages }),
            None => Ok(stages),
        }
    }
}

fn integers(
    array: &'static str,
    values: &[f64],
    scale: Option<f64>,
    (option, unit): (&'static str, &'static str),
) -> Result<Vec<u64>, ChainFileError> {
    let integer = |(index, &value): (usize, &f64)| {
        let scaled = value * scale.unwrap_or(1.0);
        let whole = validate::whole(scaled).ok_or(ChainFileError::Range { array, index, value })?;
        if scale.is_none() && scaled.fract() != 0.0 {
            return Err(ChainFileError::Fraction { array, index, value, option, unit });
        }
        Ok(whole)
    };
    values.iter().enumerate().map(integer).collect()
}

/// The instance of a published chain: per stage one forward operator, saving or passing, and one
/// backward. Where a stage saves less than its own output (rounding in a published table), the saved
/// bytes are raised to the output's, and a note says so.
pub fn instance_of(name: &str, chain: &Chain, units: Units, origin: &Origin) -> InstanceDocument {
    let fixed_bytes = FixedBytes { workspace: chain.fixed_bytes, ..FixedBytes::default() };
    let document = InstanceDocument::new(name, units, Provenance::new(name, origin));
    let mut document = InstanceDocument { fixed_bytes, ..document };
    let mut outputs = vec![document.add_tensor("a0", chain.input_bytes, TensorKind::Input)];
    let mut gradients = vec![document.add_tensor("delta0", chain.input_gradient_bytes, TensorKind::Gradient)];
    let last = chain.len();
    let mut rests = Vec::new();
    for (index, stage) in chain.stages.iter().enumerate() {
        let l = index + 1;
        let saved = stage.savings[0].saved_bytes;
        if saved < stage.activation_bytes {
            document.provenance.notes.push(format!(
                "stage {l} saves {saved} but makes {}: raised to the latter, since what it saves includes its output",
                stage.activation_bytes
            ));
        }
        let kind = if l == last { TensorKind::Output } else { TensorKind::Activation };
        outputs.push(document.add_tensor(format!("a{l}"), stage.activation_bytes, kind));
        let rest = saved.saturating_sub(stage.activation_bytes);
        rests.push(document.add_tensor(format!("rest{l}"), rest, TensorKind::Saved));
        if l < last {
            gradients.push(document.add_tensor(format!("delta{l}"), stage.gradient_bytes, TensorKind::Gradient));
        }
        let saving = &stage.savings[0];
        let saving = implementation("saving", saving.forward_time, saving.forward_overhead);
        let saving = ImplementationDocument { saves: vec![rests[index]], ..saving };
        let passing = implementation("passing", stage.forward_time, stage.passing_overhead);
        let phase = if l == last { Phase::Loss } else { Phase::Forward };
        document.add_operator(OperatorDocument {
            inputs: vec![outputs[index]],
            outputs: vec![outputs[l]],
            implementations: vec![saving, passing],
            ..OperatorDocument::new(number(index), format!("F{l}"), "stage.forward", phase)
        });
    }
    for (index, stage) in chain.stages.iter().enumerate().rev() {
        let mut inputs = vec![outputs[index], outputs[index + 1], rests[index]];
        inputs.extend(gradients.get(index + 1));
        let saving = &stage.savings[0];
        let (id, name) = (number(document.operators.len()), format!("B{}", index + 1));
        document.add_operator(OperatorDocument {
            differentiates: Some(number(index)),
            inputs,
            outputs: vec![gradients[index]],
            implementations: vec![implementation("default", saving.backward_time, saving.backward_overhead)],
            ..OperatorDocument::new(id, name, "stage.backward", Phase::Backward)
        });
    }
    document
}

fn number(operator: usize) -> u32 {
    u32::try_from(operator).expect("a chain is short")
}

/// Units of an instance made with a scale: what was not scaled stays abstract.
pub fn units_of(scale: Scale) -> Units {
    Units {
        time: if scale.time.is_some() { TimeUnit::Ns } else { TimeUnit::Abstract },
        memory: if scale.memory.is_some() { MemoryUnit::Bytes } else { MemoryUnit::Abstract },
    }
}

fn implementation(name: &str, time: u64, overhead: i64) -> ImplementationDocument {
    ImplementationDocument::plain(name, time, u64::try_from(overhead).unwrap_or(0))
}
