//! A log of DTR's authors as an instance.

use std::collections::BTreeSet;

use remat_core::format::{
    ImplementationDocument, InstanceDocument, OperatorDocument, Origin, Phase, Provenance, TensorDocument, TensorKind,
    Units,
};
use thiserror::Error;

use super::log::{Log, LogError, read};
use super::program::Event;

/// A log that makes no instance.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ImportError {
    /// It is no log.
    #[error(transparent)]
    Log(#[from] LogError),
    /// There is more than an instance can number.
    #[error("the log has {0} tensors; an instance has less than 2^32")]
    TooMany(usize),
}

/// The instance of a log, whose rules (sums that overflow, say) are checked as for every other.
///
/// Constants are its inputs. A view of a storage becomes a tensor without bytes, and who reads it reads the storage too. What still has
/// a name at the end of the log is a result. Every operator may run again, as in the authors' simulator.
///
/// # Errors
/// The text is no log.
pub fn instance_of(name: &str, text: &str, origin: &Origin) -> Result<InstanceDocument, ImportError> {
    let log = read(text)?;
    let program = &log.program;
    u32::try_from(program.tensors.len()).map_err(|_| ImportError::TooMany(program.tensors.len()))?;
    let of = Tensors::new(&log);
    let mut document = InstanceDocument::new(name, Units::default(), provenance(name, origin));
    document.tensors = (0..program.tensors.len()).map(|tensor| of.document(tensor)).collect();
    for (at, (call, operator)) in program.calls.iter().zip(&log.operators).enumerate() {
        let Some(operator) = operator else { continue };
        let id = number(document.operators.len());
        let inputs: BTreeSet<usize> = call.reads.iter().flat_map(|&read| [of.first(read), read]).collect();
        let is_backward = log.backward_from.is_some_and(|from| at >= from);
        let phase = if is_backward { Phase::Backward } else { Phase::Forward };
        document.operators.push(OperatorDocument {
            inputs: inputs.into_iter().map(number).collect(),
            outputs: call.makes.iter().copied().map(number).collect(),
            recomputable: Some(true),
            implementations: vec![ImplementationDocument::plain("default", call.time, 0)],
            ..OperatorDocument::new(id, format!("op{id}"), operator, phase)
        });
        document.order.push(id);
    }
    Ok(document)
}

fn number(index: usize) -> u32 {
    u32::try_from(index).expect("there are less than 2^32 tensors, and each operator makes one")
}

/// What is known of tensors.
struct Tensors<'a> {
    log: &'a Log,
    /// By storage, the tensor that it was made for.
    first: Vec<usize>,
    /// By storage, whether it is wanted at the end.
    result: Vec<bool>,
}

impl<'a> Tensors<'a> {
    fn new(log: &'a Log) -> Self {
        let program = &log.program;
        let mut of =
            Self { log, first: vec![usize::MAX; program.storages.len()], result: vec![false; program.storages.len()] };
        for (at, &(storage, _)) in program.tensors.iter().enumerate() {
            of.first[storage] = of.first[storage].min(at);
        }
        for event in &program.events {
            let Event::Pin(tensor) = *event else { continue };
            let storage = program.tensors[tensor].0;
            // Of a constant too it pins what is there anyway.
            of.result[storage] = !of.is_constant(program.tensors[of.first[storage]].1);
        }
        of
    }

    /// The tensor that a tensor's storage was made for.
    fn first(&self, tensor: usize) -> usize {
        self.first[self.log.program.tensors[tensor].0]
    }

    fn is_constant(&self, call: usize) -> bool {
        self.log.operators[call].is_none()
    }

    fn document(&self, tensor: usize) -> TensorDocument {
        let (storage, call) = self.log.program.tensors[tensor];
        let view = self.first[storage] != tensor;
        let name = format!("{}{tensor}", if view { "view" } else { "tensor" });
        let bytes = if view { 0 } else { self.log.program.storages[storage] };
        let kind = match self.result[storage] {
            _ if self.is_constant(call) => TensorKind::Input,
            true => TensorKind::Output,
            false if self.log.backward_from.is_some_and(|from| call >= from) => TensorKind::Gradient,
            false => TensorKind::Activation,
        };
        TensorDocument::new(number(tensor), name, bytes, kind)
    }
}

fn provenance(name: &str, origin: &Origin) -> Provenance {
    Provenance::of_graph(
        name,
        origin,
        "a log of dynamic tensor rematerialization: every operator may run again, there is no workspace, and views are tensors \
         without bytes",
    )
}
