//! The simulator: an instance and a schedule in; time, peak and what fills it out, or the first
//! illegal step. The execution semantics are docs/reference/model.md, "What a schedule means".
//!
//! Trusts no method and knows none. O(steps + reads), exact integers. A second, quadratic simulator
//! written from the same rules (`core/tests/`) is run against this one on random schedules.

use thiserror::Error;

use crate::format::{Phase, TensorKind};
use crate::instance::{Instance, OperatorId, TensorId};
use crate::schedule::{Schedule, Step, TransferRates};

/// What a legal schedule costs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Simulation {
    /// Sum of the times of all steps; frees take none.
    pub time: u64,
    /// Largest memory during a step (or before the first), fixed bytes included.
    pub peak_bytes: u64,
    /// The first step at which the peak is reached; none when it is the memory before the first step.
    pub peak_step: Option<usize>,
    /// Bytes of each kind of tensor at the peak, indexed like [`TensorKind::ALL`].
    pub peak_bytes_by_kind: [u64; TensorKind::ALL.len()],
    /// Fixed bytes, and the workspace of the step at the peak.
    pub peak_fixed_bytes: u64,
    /// Workspace of the step at the peak.
    pub peak_workspace_bytes: u64,
    /// Memory during each step, in order.
    pub timeline: Vec<u64>,
    /// How often each operator ran, by position.
    pub runs: Vec<u32>,
    /// Steps after which nothing is resident, or on the host, that was not before: legal, and a waste of time.
    pub wasted_steps: usize,
    /// Copies between device and host.
    pub transfers: Transfers,
}

/// What a schedule copies between device and host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transfers {
    /// Number of offloads.
    pub offloads: usize,
    /// Number of fetches.
    pub fetches: usize,
    /// Their share of the time.
    pub time: u64,
    /// Memory of the host at the end, where it is largest: what was offloaded stays there.
    pub host_bytes: u64,
}

impl Simulation {
    /// Runs beyond the first, over all operators.
    pub fn recomputations(&self) -> u64 {
        self.runs.iter().map(|&runs| u64::from(runs.saturating_sub(1))).sum()
    }
    /// Number of operators that run more than once.
    pub fn recomputed_operators(&self) -> usize {
        self.runs.iter().filter(|&&runs| runs > 1).count()
    }
}

/// The first illegal step of a schedule, or what is missing at its end.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SimulationError {
    /// A step breaks a rule.
    #[error("step {step} ({action}): {violation}")]
    Step {
        /// Position, from 0.
        step: usize,
        /// `compute conv1` or `free conv1.out`.
        action: String,
        /// The rule.
        violation: Violation,
    },
    /// The schedule ends too early.
    #[error("after the last step: {violation}")]
    End {
        /// What is missing.
        violation: Violation,
    },
}

/// A rule that a step, or the end of a schedule, breaks.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Violation {
    /// An input of the step is not in memory.
    #[error("reads {0}, which is not resident")]
    MissingInput(String),
    /// A freed tensor is not in memory.
    #[error("frees {0}, which is not resident")]
    FreeOfAbsent(String),
    /// Inputs stay for the whole iteration.
    #[error("frees {0}, an input, which stays for the whole iteration")]
    FreeOfInput(String),
    /// What is copied to the host must be on the device.
    #[error("offloads {0}, which is not resident")]
    OffloadOfAbsent(String),
    /// Inputs stay for the whole iteration, so a copy of one is of no use.
    #[error("offloads {0}, an input, which stays for the whole iteration")]
    OffloadOfInput(String),
    /// What is copied from the host must be there.
    #[error("fetches {0}, which was not offloaded before")]
    FetchOfAbsent(String),
    /// Nobody knows how long a transfer takes.
    #[error("is a transfer, but the schedule has no transfer rates")]
    NoRates,
    /// The operator may run once only.
    #[error("runs a second time, but may not be recomputed")]
    NotRecomputable,
    /// A second run of an operator that updates state must not update it again.
    #[error("runs again with implementation {0:?}, which updates state a second time; use one marked recompute")]
    UpdatesStateAgain(String),
    /// The first run of an operator that updates state must update it.
    #[error("runs first with implementation {0:?}, which does not update state")]
    SkipsState(String),
    /// The times of the steps overflow.
    #[error("makes the total time overflow 64 bits")]
    TimeOverflow,
    /// A result is not in memory at the end.
    #[error("{0}, a result of the iteration, is not resident")]
    MissingResult(String),
    /// An operator that must run never ran.
    #[error("operator {0} never ran, but must ({1})")]
    NeverRan(String, &'static str),
}

/// Watches a simulation: what enters and leaves memory, and the memory during each step.
///
/// What a step allocates, and the buffer that it takes over, come before its memory; what a `free` drops
/// comes after it. The inputs are allocated before the first step.
pub trait Observer {
    /// A tensor is in memory from here on.
    fn allocated(&mut self, _tensor: TensorId) {}
    /// A tensor is gone.
    fn dropped(&mut self, _tensor: TensorId) {}
    /// Memory during a step, of which so much is workspace.
    fn during(&mut self, _bytes: u64, _workspace: u64) {}
}

/// Watches nothing.
impl Observer for () {}

/// Simulates a schedule.
///
/// # Errors
/// The first illegal step.
pub fn simulate(instance: &Instance, schedule: &Schedule) -> Result<Simulation, SimulationError> {
    simulate_observed(instance, schedule, &mut ())
}

/// Simulates a schedule while somebody watches.
///
/// # Errors
/// The first illegal step.
pub fn simulate_observed(
    instance: &Instance,
    schedule: &Schedule,
    observer: &mut impl Observer,
) -> Result<Simulation, SimulationError> {
    let mut machine = Machine::new(instance, schedule.rates, observer);
    let mut simulation = Simulation {
        time: 0,
        peak_bytes: machine.bytes,
        peak_step: None,
        peak_bytes_by_kind: machine.bytes_by_kind,
        peak_fixed_bytes: instance.fixed_bytes(),
        peak_workspace_bytes: 0,
        timeline: Vec::with_capacity(schedule.steps.len()),
        runs: Vec::new(),
        wasted_steps: 0,
        transfers: Transfers::default(),
    };
    for (index, &step) in schedule.steps.iter().enumerate() {
        let during = machine.step(step).map_err(|violation| SimulationError::Step {
            step: index,
            action: action(instance, step),
            violation,
        })?;
        if during.bytes > simulation.peak_bytes {
            simulation.peak_bytes = during.bytes;
            simulation.peak_step = Some(index);
            simulation.peak_bytes_by_kind = during.bytes_by_kind;
            simulation.peak_workspace_bytes = during.workspace;
        }
        simulation.wasted_steps += usize::from(during.wasted);
        simulation.timeline.push(during.bytes);
    }
    machine.finish().map_err(|violation| SimulationError::End { violation })?;
    simulation.time = machine.time;
    simulation.runs = machine.runs;
    simulation.transfers = machine.transfers;
    Ok(simulation)
}

fn action(instance: &Instance, step: Step) -> String {
    match step {
        Step::Free(tensor) => format!("free {}", instance.tensor(tensor).label()),
        Step::Offload(tensor) => format!("offload {}", instance.tensor(tensor).label()),
        Step::Fetch(tensor) => format!("fetch {}", instance.tensor(tensor).label()),
        Step::Compute { operator, .. } => format!("compute {}", instance.operator(operator).label()),
    }
}

/// Memory and the iteration's progress between two steps.
struct Machine<'a, O> {
    instance: &'a Instance,
    observer: &'a mut O,
    rates: Option<TransferRates>,
    resident: Vec<bool>,
    on_host: Vec<bool>,
    /// Fixed bytes and all resident tensors.
    bytes: u64,
    bytes_by_kind: [u64; TensorKind::ALL.len()],
    runs: Vec<u32>,
    time: u64,
    transfers: Transfers,
}

/// Memory during one step.
struct During {
    bytes: u64,
    bytes_by_kind: [u64; TensorKind::ALL.len()],
    workspace: u64,
    wasted: bool,
}

impl<'a, O: Observer> Machine<'a, O> {
    fn new(instance: &'a Instance, rates: Option<TransferRates>, observer: &'a mut O) -> Self {
        let mut machine = Self {
            instance,
            observer,
            rates,
            resident: vec![false; instance.tensors().len()],
            on_host: vec![false; instance.tensors().len()],
            bytes: instance.fixed_bytes(),
            bytes_by_kind: [0; TensorKind::ALL.len()],
            runs: vec![0; instance.operators().len()],
            time: 0,
            transfers: Transfers::default(),
        };
        for tensor in instance.tensor_ids().filter(|&id| instance.tensor(id).kind == TensorKind::Input) {
            machine.allocate(tensor);
        }
        machine
    }

    fn allocate(&mut self, id: TensorId) {
        let tensor = self.instance.tensor(id);
        self.resident[id.index()] = true;
        self.bytes += tensor.bytes;
        self.bytes_by_kind[tensor.kind as usize] += tensor.bytes;
        self.observer.allocated(id);
    }

    fn drop_tensor(&mut self, id: TensorId) {
        let tensor = self.instance.tensor(id);
        self.resident[id.index()] = false;
        self.bytes -= tensor.bytes;
        self.bytes_by_kind[tensor.kind as usize] -= tensor.bytes;
        self.observer.dropped(id);
    }

    fn step(&mut self, step: Step) -> Result<During, Violation> {
        match step {
            Step::Compute { operator, implementation } => self.compute(operator, implementation),
            Step::Free(tensor) => self.free(tensor),
            Step::Offload(tensor) => self.offload(tensor),
            Step::Fetch(tensor) => self.fetch(tensor),
        }
    }

    fn offload(&mut self, id: TensorId) -> Result<During, Violation> {
        let tensor = self.instance.tensor(id);
        if tensor.kind == TensorKind::Input {
            return Err(Violation::OffloadOfInput(self.instance.tensor(id).label()));
        }
        if !self.resident[id.index()] {
            return Err(Violation::OffloadOfAbsent(self.instance.tensor(id).label()));
        }
        let rates = self.rates.ok_or(Violation::NoRates)?;
        self.transfer(rates.offload_time(tensor.bytes))?;
        self.transfers.offloads += 1;
        let wasted = std::mem::replace(&mut self.on_host[id.index()], true);
        if !wasted {
            self.transfers.host_bytes += tensor.bytes;
        }
        Ok(self.during(0, wasted))
    }

    fn fetch(&mut self, id: TensorId) -> Result<During, Violation> {
        if !self.on_host[id.index()] {
            return Err(Violation::FetchOfAbsent(self.instance.tensor(id).label()));
        }
        let rates = self.rates.ok_or(Violation::NoRates)?;
        self.transfer(rates.fetch_time(self.instance.tensor(id).bytes))?;
        self.transfers.fetches += 1;
        let wasted = self.resident[id.index()];
        if !wasted {
            self.allocate(id);
        }
        Ok(self.during(0, wasted))
    }

    fn transfer(&mut self, duration: Option<u64>) -> Result<(), Violation> {
        let duration = duration.ok_or(Violation::TimeOverflow)?;
        self.time = self.time.checked_add(duration).ok_or(Violation::TimeOverflow)?;
        self.transfers.time += duration;
        Ok(())
    }

    fn free(&mut self, id: TensorId) -> Result<During, Violation> {
        if self.instance.tensor(id).kind == TensorKind::Input {
            return Err(Violation::FreeOfInput(self.instance.tensor(id).label()));
        }
        if !self.resident[id.index()] {
            return Err(Violation::FreeOfAbsent(self.instance.tensor(id).label()));
        }
        let during = self.during(0, false);
        self.drop_tensor(id);
        Ok(during)
    }

    fn compute(&mut self, id: OperatorId, variant: usize) -> Result<During, Violation> {
        let operator = self.instance.operator(id);
        let implementation = &operator.implementations[variant];
        self.may_run(id, variant)?;
        if let Some(&missing) = implementation.reads.iter().find(|read| !self.resident[read.index()]) {
            return Err(Violation::MissingInput(self.instance.tensor(missing).label()));
        }
        if let Some(pair) = implementation.in_place {
            // The output takes the input's buffer over; an older copy of the output is overwritten by it.
            self.drop_tensor(pair.input);
        }
        let mut wasted = implementation.in_place.is_none();
        for made in operator.makes(variant) {
            if !self.resident[made.index()] {
                wasted = false;
                self.allocate(made);
            }
        }
        self.runs[id.index()] += 1;
        self.time = self.time.checked_add(implementation.time).ok_or(Violation::TimeOverflow)?;
        Ok(self.during(implementation.workspace_bytes, wasted))
    }

    fn may_run(&self, id: OperatorId, variant: usize) -> Result<(), Violation> {
        let operator = self.instance.operator(id);
        let implementation = &operator.implementations[variant];
        let again = self.runs[id.index()] > 0;
        if again && !operator.recomputable {
            return Err(Violation::NotRecomputable);
        }
        if operator.updates_state && again && !implementation.recompute {
            return Err(Violation::UpdatesStateAgain(implementation.name.clone()));
        }
        if operator.updates_state && !again && implementation.recompute {
            return Err(Violation::SkipsState(implementation.name.clone()));
        }
        Ok(())
    }

    fn during(&mut self, workspace: u64, wasted: bool) -> During {
        self.observer.during(self.bytes + workspace, workspace);
        During { bytes: self.bytes + workspace, bytes_by_kind: self.bytes_by_kind, workspace, wasted }
    }

    fn finish(&self) -> Result<(), Violation> {
        for id in self.instance.operator_ids() {
            let operator = self.instance.operator(id);
            let must = match (operator.phase, operator.updates_state) {
                (Phase::Backward, _) => Some("backward operators run exactly once"),
                (_, true) => Some("it updates state"),
                _ => None,
            };
            if let Some(reason) = must.filter(|_| self.runs[id.index()] == 0) {
                return Err(Violation::NeverRan(format!("{} {:?}", operator.file_id, operator.name), reason));
            }
        }
        let mut results = self.instance.tensor_ids().filter(|&id| self.instance.is_result(id));
        match results.find(|id| !self.resident[id.index()]) {
            Some(missing) => Err(Violation::MissingResult(self.instance.tensor(missing).label())),
            None => Ok(()),
        }
    }
}
