//! The schedules of a report: what the one simulator says of each step, encoded for the viewer.
//!
//! The page does not simulate: memory during each step, and what enters and leaves memory, are recorded here
//! while [`simulate_observed`] runs, and the viewer only replays them.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use remat_allocation::plan::PlanDocument;
use remat_core::format::{MemoryUnit, Phase, TensorKind, TimeUnit};
use remat_core::io::{read_json, read_schedule};
use remat_core::simulate::{Observer, simulate_observed};
use remat_core::{Instance, Schedule, Step, TensorId};
use serde::Serialize;

use crate::harness::plans::plan_path;
use crate::harness::recorded::Instances;
use crate::harness::records::Record;
use crate::harness::records::paths::schedule_path;
use crate::harness::records::select::{label, series_label};

/// What the viewer is given.
#[derive(Default, Serialize)]
pub struct Embedded {
    instances: Vec<InstanceData>,
    schedules: Vec<ScheduleData>,
    /// Schedule of each row that has one here, by the row's position.
    #[serde(skip)]
    pub of_row: HashMap<usize, usize>,
    /// Rows with a schedule that was left out because the page would become too large.
    #[serde(skip)]
    pub left_out: usize,
    /// What was wrong with schedules and plans that should have been here, and with how many.
    #[serde(skip)]
    pub problems: BTreeMap<String, usize>,
}

/// Name, time and workspace of an implementation.
type Way = (String, u64, u64);

/// What all schedules of an instance have in common.
#[derive(Serialize)]
pub struct InstanceData {
    name: String,
    bytes: bool,
    ns: bool,
    fixed: u64,
    /// Name, size and position in [`TensorKind::ALL`].
    tensors: Vec<(String, u64, usize)>,
    /// Name, type, and implementations.
    operators: Vec<(String, String, Vec<Way>)>,
}

/// A schedule, encoded.
#[derive(Serialize)]
pub struct ScheduleData {
    instance: usize,
    label: String,
    budget: String,
    budget_bytes: Option<u64>,
    time: u64,
    peak: u64,
    peak_step: Option<usize>,
    recomputations: u64,
    /// Per step: `operator`, `operator.implementation` where it is not the first, or `-tensor`.
    actions: String,
    /// Per step: forward `f`, forward again `r`, backward `b`, free `x`.
    phases: String,
    /// Per step: memory, less that of the step before.
    memory: Vec<i64>,
    /// Per step: workspace; empty where no step has any.
    workspace: Vec<u64>,
    /// Per step, separated by `;`: tensors that enter (`+t`) and leave (`-t`) memory before its memory is read.
    changes: String,
    /// Its plan of addresses, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<PlanData>,
}

/// A plan of addresses.
#[derive(Serialize)]
pub struct PlanData {
    height: u64,
    bound: u64,
    alignment: u64,
    method: String,
    buffers: Vec<BufferData>,
}

/// First step, first step after it, first address, size, and what is in it from which step on: the position of a tensor, or
/// -1 less the position of the operator whose workspace it is.
type BufferData = (u64, u64, u64, u64, Vec<(u64, i64)>);

impl Embedded {
    /// Whether there is anything to be seen.
    pub fn is_empty(&self) -> bool {
        self.schedules.is_empty()
    }

    /// The position of a row's instance, which is added where it is new.
    fn instance(&mut self, row: &Record, instances: &mut Instances) -> usize {
        let known = self.instances.iter().position(|known| known.name == row.instance);
        known.unwrap_or_else(|| {
            let instance = instances.get(row).expect("its schedule has just been simulated on it");
            self.instances.push(instance_data(instance));
            self.instances.len() - 1
        })
    }

    fn note(&mut self, row: &Record, problem: &str) {
        *self.problems.entry(format!("{}: {problem}", row.instance)).or_default() += 1;
    }

    /// How many schedules there are.
    pub fn len(&self) -> usize {
        self.schedules.len()
    }

    /// The schedules of the viewer's menu, by instance: position, and words.
    pub fn menu(&self) -> Vec<(&str, Vec<(usize, String)>)> {
        let mut menu: BTreeMap<usize, Vec<(usize, String)>> = BTreeMap::new();
        for (at, schedule) in self.schedules.iter().enumerate() {
            let budget = if schedule.budget.is_empty() { String::new() } else { format!(" at {}", schedule.budget) };
            menu.entry(schedule.instance).or_default().push((at, format!("{}{budget}", schedule.label)));
        }
        menu.into_iter().map(|(instance, schedules)| (self.instances[instance].name.as_str(), schedules)).collect()
    }

    /// The data as JSON that may stand within a script element.
    pub fn json(&self) -> String {
        let json = serde_json::to_string(self).expect("numbers and texts always serialise");
        json.replace('<', "\\u003c")
    }
}

/// Embeds schedules of rows until they have `most` steps together: of each series (an instance and a method)
/// one, then of each another, and so on, in each turn the short ones first: so every series that fits is there
/// before any is complete.
pub fn embed(rows: &[&Record], folder: &Path, most: usize) -> Embedded {
    let mut embedded = Embedded::default();
    let mut instances = Instances::new(folder);
    let mut steps = 0;
    let schedules = folder.join("schedules");
    let size = |row: &Record| std::fs::metadata(schedule_path(&schedules, row)).map_or(0, |file| file.len());
    for at in in_turns(rows, size) {
        let row = rows[at];
        if steps >= most {
            embedded.left_out += 1;
            continue;
        }
        match one(row, folder, &mut instances) {
            Err(problem) => embedded.note(row, &problem),
            Ok((schedule, length, problem)) if steps + length <= most => {
                steps += length;
                if let Some(problem) = problem {
                    embedded.note(row, &problem);
                }
                embedded.of_row.insert(at, embedded.schedules.len());
                let instance = embedded.instance(row, &mut instances);
                embedded.schedules.push(ScheduleData { instance, ..schedule });
            }
            Ok(_) => embedded.left_out += 1,
        }
    }
    embedded
}

/// The rows with a schedule: the first of every series, then the second, and so on. The first is the one in the
/// middle of its series, where neither everything fits nor nothing does. In each turn by size.
fn in_turns(rows: &[&Record], size: impl Fn(&Record) -> u64) -> Vec<usize> {
    let mut series: BTreeMap<(&str, String), Vec<usize>> = BTreeMap::new();
    for (at, row) in rows.iter().enumerate().filter(|(_, row)| row.simulated_time.is_some()) {
        series.entry((&row.instance, series_label(row))).or_default().push(at);
    }
    let mut turns: Vec<(usize, u64, usize)> = Vec::new();
    for positions in series.values() {
        let middle = positions.len() / 2;
        let turn = |(index, &at): (usize, &usize)| (index.abs_diff(middle), size(rows[at]), at);
        turns.extend(positions.iter().enumerate().map(turn));
    }
    turns.sort_unstable();
    turns.into_iter().map(|(.., at)| at).collect()
}

/// The schedule of a row, how many steps it has, and what is wrong with its plan, which then is not shown.
fn one(
    row: &Record,
    folder: &Path,
    instances: &mut Instances,
) -> Result<(ScheduleData, usize, Option<String>), String> {
    let instance = instances.get(row)?;
    let path = schedule_path(&folder.join("schedules"), row);
    let (_, schedule) = read_schedule(&path, instance).map_err(|error| error.to_string())?;
    let label = label(&row.method, &row.parameters)
        + &if row.seed == 0 { String::new() } else { format!(", seed {}", row.seed) };
    let mut data = schedule_data(instance, &schedule, label, (&row.budget, row.budget_size))
        .map_err(|error| format!("{}: {error}", path.display()))?;
    if row.simulated_time != Some(data.time) || row.simulated_peak != Some(data.peak) {
        return Err(format!("{}: is not what the row says; `bench check` has the difference", path.display()));
    }
    let planned = plan_data(instance, &schedule, &plan_path(folder, row));
    let (plan, problem) = planned.map_or_else(|problem| (None, Some(problem)), |plan| (plan, None));
    data.plan = plan;
    Ok((data, schedule.steps.len(), problem))
}

/// The plan in a file, where there is one.
fn plan_data(instance: &Instance, schedule: &Schedule, path: &Path) -> Result<Option<PlanData>, String> {
    if !path.exists() {
        return Ok(None);
    }
    let plan: PlanDocument = read_json(path).map_err(|error| error.to_string())?;
    plan.check(None)
        .and_then(|()| plan.check_against(instance, schedule))
        .map_err(|error| format!("{}: {error}; run bench allocate --results again", path.display()))?;
    let tensors: HashMap<u32, usize> =
        instance.tensor_ids().map(|id| (instance.tensor(id).file_id, id.index())).collect();
    let operators: HashMap<u32, usize> =
        instance.operator_ids().map(|id| (instance.operator(id).file_id, id.index())).collect();
    let place = |places: &HashMap<u32, usize>, id: u32| places.get(&id).and_then(|&at| i64::try_from(at).ok());
    let buffers = plan.buffers.iter().map(|buffer| {
        let tensors = buffer.tensors.iter().filter_map(|held| Some((held.from, place(&tensors, held.tensor)?)));
        let workspace = buffer.workspace_of.and_then(|id| Some((buffer.lower, -1 - place(&operators, id)?)));
        (buffer.lower, buffer.upper, buffer.offset, buffer.size, tensors.chain(workspace).collect())
    });
    let buffers = buffers.collect();
    let PlanDocument { height, bound, alignment, method, .. } = plan;
    Ok(Some(PlanData { height, bound, alignment, method, buffers }))
}

/// What the viewer is given of an instance.
pub fn instance_data(instance: &Instance) -> InstanceData {
    let tensors = instance.tensors().iter().map(|tensor| (tensor.name.clone(), tensor.bytes, tensor.kind as usize));
    let operators = instance.operators().iter().map(|operator| {
        let ways = operator.implementations.iter().map(|way| (way.name.clone(), way.time, way.workspace_bytes));
        (operator.name.clone(), operator.op_type.clone(), ways.collect())
    });
    InstanceData {
        name: instance.name().into(),
        bytes: instance.units().memory == MemoryUnit::Bytes,
        ns: instance.units().time == TimeUnit::Ns,
        fixed: instance.fixed_bytes(),
        tensors: tensors.collect(),
        operators: operators.collect(),
    }
}

/// Simulates a schedule, and encodes it with what the simulator says of each step.
///
/// # Errors
/// The schedule is illegal.
pub fn schedule_data(
    instance: &Instance,
    schedule: &Schedule,
    label: String,
    (budget, budget_bytes): (&str, Option<u64>),
) -> Result<ScheduleData, String> {
    let mut watcher = Watcher::default();
    let simulation =
        simulate_observed(instance, schedule, &mut watcher).map_err(|error| format!("illegal schedule: {error}"))?;
    let mut ran = vec![false; instance.operators().len()];
    let mut phase = |step: &Step| match *step {
        Step::Free(_) => 'x',
        Step::Offload(_) | Step::Fetch(_) => 't',
        Step::Compute { operator, .. } if instance.operator(operator).phase == Phase::Backward => 'b',
        Step::Compute { operator, .. } => {
            if std::mem::replace(&mut ran[operator.index()], true) {
                'r'
            } else {
                'f'
            }
        }
    };
    let action = |step: &Step| match *step {
        Step::Free(tensor) => format!("-{}", tensor.index()),
        Step::Offload(tensor) => format!(">{}", tensor.index()),
        Step::Fetch(tensor) => format!("<{}", tensor.index()),
        Step::Compute { operator, implementation: 0 } => operator.index().to_string(),
        Step::Compute { operator, implementation } => format!("{}.{implementation}", operator.index()),
    };
    let actions: Vec<_> = schedule.steps.iter().map(action).collect();
    let before = std::iter::once(0).chain(simulation.timeline.iter().copied());
    let memory = simulation.timeline.iter().zip(before).map(|(now, before)| now.cast_signed() - before.cast_signed());
    let used = watcher.workspace.iter().any(|&bytes| bytes > 0);
    Ok(ScheduleData {
        instance: 0,
        label,
        budget: budget.into(),
        budget_bytes,
        time: simulation.time,
        peak: simulation.peak_bytes,
        peak_step: simulation.peak_step,
        recomputations: simulation.recomputations(),
        phases: schedule.steps.iter().map(&mut phase).collect(),
        actions: actions.join(" "),
        memory: memory.collect(),
        workspace: if used { watcher.workspace } else { vec![] },
        changes: watcher.changes,
        plan: None,
    })
}

/// Writes down what the simulator does.
#[derive(Default)]
struct Watcher {
    changes: String,
    workspace: Vec<u64>,
}

impl Watcher {
    fn change(&mut self, sign: char, tensor: TensorId) {
        self.changes.push(sign);
        self.changes.push_str(&tensor.index().to_string());
    }
}

impl Observer for Watcher {
    fn allocated(&mut self, tensor: TensorId) {
        self.change('+', tensor);
    }
    fn dropped(&mut self, tensor: TensorId) {
        self.change('-', tensor);
    }
    fn during(&mut self, _bytes: u64, workspace: u64) {
        self.workspace.push(workspace);
        self.changes.push(';');
    }
}

/// Names of the kinds of tensors, by position.
pub fn kinds() -> Vec<&'static str> {
    TensorKind::ALL.iter().map(|kind| kind.name()).collect()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::harness::records::tests::example;
    use remat_core::generate::figure4;
    use remat_core::liveness::with_liveness;
    use remat_core::plan::Plan;

    /// What the viewer does, with sums that it leaves to the simulator.
    #[test]
    fn what_is_replayed_fills_the_memory_of_every_step() {
        let instance = Instance::new(&figure4("n", 6, 4)).unwrap();
        let schedule = with_liveness(&instance, &Plan::fastest(&instance).store_all(&instance));
        let data = schedule_data(&instance, &schedule, "store-all".into(), ("", None)).unwrap();
        let steps: Vec<&str> = data.changes.split(';').collect();
        // The last entry has what the last step, a free, leaves behind.
        assert_eq!(steps.len(), schedule.steps.len() + 1);
        let sizes = instance_data(&instance).tensors;
        let (mut there, mut memory) = (instance.fixed_bytes().cast_signed(), 0);
        for (step, changes) in steps[..schedule.steps.len()].iter().enumerate() {
            let mut rest = *changes;
            while !rest.is_empty() {
                let end = rest[1..].find(['+', '-']).map_or(rest.len(), |at| at + 1);
                let size = sizes[rest[1..end].parse::<usize>().unwrap()].1.cast_signed();
                there += if rest.starts_with('+') { size } else { -size };
                rest = &rest[end..];
            }
            memory += data.memory[step];
            let workspace = data.workspace.get(step).copied().unwrap_or(0).cast_signed();
            assert_eq!(there + workspace, memory, "step {step}");
        }
        assert_eq!(data.phases.chars().filter(|&phase| phase == 'r').count(), 0);
    }

    #[test]
    fn data_within_a_script_element_cannot_end_it() {
        let mut document = figure4("n", 6, 4);
        document.operators[0].name = "</script><b>".into();
        let instance = instance_data(&Instance::new(&document).unwrap());
        let embedded = Embedded { instances: vec![instance], ..Embedded::default() };
        assert!(!embedded.json().contains('<'));
        let read: serde_json::Value = serde_json::from_str(&embedded.json()).unwrap();
        assert_eq!(read["instances"][0]["operators"][0][0], "</script><b>");
    }

    #[test]
    fn every_series_has_a_schedule_before_any_has_two() {
        let rows: Vec<_> = ["a", "a", "a", "b"].map(|method| example(method, Some(("1x", 1)))).into();
        let without = Record { simulated_time: None, ..example("c", None) };
        let all: Vec<&Record> = rows.iter().chain(std::iter::once(&without)).collect();
        assert_eq!(in_turns(&all, |_| 1), [1, 3, 0, 2]);
        let small_b = |row: &Record| if row.method == "b" { 1 } else { 2 };
        assert_eq!(in_turns(&all, small_b), [3, 1, 0, 2]);
    }
}
