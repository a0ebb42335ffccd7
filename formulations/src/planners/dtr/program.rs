//! What an online policy sees: operators as they are called, and when their results are let go.

/// A program: storages, the tensors that stand for them, operators, and what happens in which order.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// Bytes, by storage.
    pub storages: Vec<u64>,
    /// Storage and operator, by tensor. Several tensors may share a storage.
    pub tensors: Vec<(usize, usize)>,
    /// Operators, in the order of their first runs.
    pub calls: Vec<Call>,
    /// In the order of the program.
    pub events: Vec<Event>,
    /// Bytes that are there all the time.
    pub base: u64,
}

/// An operator.
#[derive(Clone, Debug)]
pub struct Call {
    /// Tensors that it reads.
    pub reads: Vec<usize>,
    /// Tensors that it makes.
    pub makes: Vec<usize>,
    /// Bytes that it allocates; what it makes in the storage of something that it reads takes none.
    pub bytes: u64,
    /// Bytes that it needs beside them while it runs.
    pub workspace: u64,
    /// Duration of the first run.
    pub time: u64,
    /// Duration of each further run; none where there must be no such run.
    pub again: Option<u64>,
}

/// Something that the program does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Calls an operator.
    Call(usize),
    /// Takes one more reference to a tensor.
    Get(usize),
    /// Gives up a reference to a tensor.
    Release(usize),
    /// Wants a tensor, and wants it to stay.
    Pin(usize),
}

impl Program {
    /// A storage with one tensor, made by an operator.
    pub fn storage(&mut self, bytes: u64, call: usize) -> usize {
        self.storages.push(bytes);
        self.tensors.push((self.storages.len() - 1, call));
        self.tensors.len() - 1
    }

    /// Time of all first runs.
    pub fn time(&self) -> u64 {
        self.calls.iter().map(|call| call.time).sum()
    }
}
