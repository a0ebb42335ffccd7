//! `bench instances show`.

use clap::Args;
use remat_core::Instance;
use remat_core::chain_view::ChainView;
use remat_core::format::{Origin, Phase, Provenance, TensorKind, TimeUnit};

use crate::ground::failure::Failure;
use crate::ground::format::{self, Format};
use crate::ground::grid::Grid;
use crate::ground::library::Library;
use crate::ground::output;
use crate::harness::baseline::Baseline;
use crate::harness::run::plan::Subject;

/// Stages shown at either end where not all are asked for.
const SHOWN_STAGES: usize = 4;

/// Arguments of `bench instances show`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  bench instances show resnet50-224-b32\n  bench instances show rotor-toms-figure4-n10 --stages"
)]
pub struct Arguments {
    /// Instance file, or a name under instances/
    instance: String,
    /// Show every stage of the chain view
    #[arg(long)]
    stages: bool,
}

/// Shows an instance.
///
/// # Errors
/// There is no such instance.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let subject = Subject::read(Library::locate().find(&arguments.instance)?)?;
    let instance = &subject.instance;
    let mut text = format!("{} ({})  {}\n", instance.name(), instance.hash(), subject.path.display());
    text.push_str(&provenance(instance.provenance()));
    text.push_str(&counts(instance));
    text.push_str(&bytes(instance));
    text.push_str(&store_all(instance, subject.baseline));
    text.push_str(&chain(instance, arguments.stages));
    output::result(&text)
}

fn line(name: &str, value: &str) -> String {
    format!("{name:<16}{value}\n")
}

fn provenance(provenance: &Provenance) -> String {
    let mut text = line("model", &provenance.model);
    let shapes: Vec<_> = provenance.input_shapes.iter().map(|shape| shape_text(shape)).collect();
    let optional = [
        ("batch size", provenance.batch_size.map(|batch| batch.to_string())),
        ("input shapes", (!shapes.is_empty()).then(|| shapes.join(", "))),
        ("dtype", provenance.dtype.clone()),
        ("framework", provenance.framework.as_ref().map(|f| format!("{} {}", f.name, f.version))),
        ("device", provenance.device.as_ref().map(|device| device.name.clone())),
        ("sizes", Some(origin(&provenance.sizes))),
        ("times", Some(origin(&provenance.times))),
        ("workspaces", Some(origin(&provenance.workspaces))),
        ("made by", provenance.command.clone()),
    ];
    for (name, value) in optional.iter().filter_map(|(name, value)| Some((name, value.as_ref()?))) {
        text.push_str(&line(name, value));
    }
    for note in &provenance.notes {
        text.push_str(&line("note", note));
    }
    text
}

fn shape_text(shape: &[u64]) -> String {
    shape.iter().map(ToString::to_string).collect::<Vec<_>>().join("x")
}

fn origin(origin: &Origin) -> String {
    let list = |parameters: &std::collections::BTreeMap<String, f64>| {
        let pairs: Vec<_> = parameters.iter().map(|(name, value)| format!("{name}={value}")).collect();
        if pairs.is_empty() { String::new() } else { format!(" ({})", pairs.join(", ")) }
    };
    match origin {
        Origin::Measured { samples, statistic } => format!("measured: {statistic} of {samples}"),
        Origin::Modelled { model, .. } => format!("modelled: {model}"),
        Origin::Published { paper, location } => format!("published: {paper}, {location}"),
        Origin::Generated { generator, parameters, seed } => {
            let seed = seed.map_or(String::new(), |seed| format!(", seed {seed}"));
            format!("generated: {generator}{}{seed}", list(parameters))
        }
        Origin::Exact {} => "exact".into(),
    }
}

fn counts(instance: &Instance) -> String {
    let of = |phase: Phase| instance.operators().iter().filter(|operator| operator.phase == phase).count();
    let implementations: usize = instance.operators().iter().map(|operator| operator.implementations.len()).sum();
    let flagged =
        |predicate: fn(&remat_core::Operator) -> bool| instance.operators().iter().filter(|o| predicate(o)).count();
    let text = line(
        "operators",
        &format!(
            "{}: {} forward, {} loss, {} backward; {implementations} implementations",
            instance.operators().len(),
            of(Phase::Forward),
            of(Phase::Loss),
            of(Phase::Backward)
        ),
    );
    text + &line(
        "of them",
        &format!(
            "{} random, {} update state, {} forward ones may not be recomputed",
            flagged(|o| o.random),
            flagged(|o| o.updates_state),
            flagged(|o| o.phase.is_forward() && !o.recomputable)
        ),
    )
}

fn bytes(instance: &Instance) -> String {
    let unit = instance.units().memory;
    let mut text = vec![line("tensors", &instance.tensors().len().to_string())];
    for kind in TensorKind::ALL {
        let count = instance.tensors().iter().filter(|tensor| tensor.kind == kind).count();
        if count > 0 {
            let sum = format::bytes(instance.bytes_of(|tensor| tensor.kind == kind), unit);
            text.push(format!("  {:<14}{count:>6}  {sum:>12}\n", kind.name()));
        }
    }
    text.push(format!("  {:<14}{:>6}  {:>12}\n", "fixed", "", format::bytes(instance.fixed_bytes(), unit)));
    text.concat()
}

fn store_all(instance: &Instance, baseline: Baseline) -> String {
    let units = instance.units();
    let cost = |time, peak| {
        let throughput = match (instance.provenance().batch_size, units.time) {
            (Some(batch), TimeUnit::Ns) if time > 0 => {
                format!(", {} images/s", format::three_digits(batch as f64 * 1e9 / time as f64))
            }
            _ => String::new(),
        };
        format!("time {}, peak {}{throughput}", format::time(time, units.time), format::bytes(peak, units.memory))
    };
    line("store-all", &cost(baseline.time, baseline.peak_bytes))
        + &line("  as framework", &cost(baseline.default_time, baseline.default_peak_bytes))
}

fn chain(instance: &Instance, all: bool) -> String {
    let view = match ChainView::new(instance) {
        Ok(view) => view,
        Err(reason) => return line("chain view", &format!("none: {reason}")),
    };
    let units = instance.units();
    let (time, bytes) = (|t| format::time(t, units.time), |b| format::bytes(b, units.memory));
    let signed = |b: i64| format!("{}{}", if b < 0 { "-" } else { "" }, format::bytes(b.unsigned_abs(), units.memory));
    let count = view.chain.len();
    let header = [
        "stage",
        "operators",
        "ends with",
        "u_f",
        "u_b",
        "w_a",
        "w_abar",
        "w_delta",
        "kept",
        "o_f saving",
        "o_f passing",
        "o_b",
    ];
    let mut grid = Grid::new(header).numeric_from(3);
    for (index, (stage, operators)) in view.chain.stages.iter().zip(&view.stages).enumerate() {
        let middle = index >= SHOWN_STAGES && index + SHOWN_STAGES < count;
        if middle && !all {
            if index == SHOWN_STAGES {
                grid.row(std::iter::once("...").chain(std::iter::repeat_n("", header.len() - 1)));
            }
            continue;
        }
        let saving = &stage.savings[0];
        let last = operators.forward.last().map(|&id| instance.operator(id).name.clone()).unwrap_or_default();
        grid.row([
            (index + 1).to_string(),
            format!("{}+{}", operators.forward.len(), operators.backward.len()),
            last,
            time(saving.forward_time),
            time(saving.backward_time),
            bytes(stage.activation_bytes),
            bytes(saving.saved_bytes),
            bytes(stage.gradient_bytes),
            bytes(stage.kept_bytes),
            signed(saving.forward_overhead),
            signed(stage.passing_overhead),
            signed(saving.backward_overhead),
        ]);
    }
    let more = if all || count <= 2 * SHOWN_STAGES { "" } else { "; --stages shows all" };
    format!(
        "{}\n{}",
        line("chain view", &format!("{count} stages, the loss included{more}")),
        grid.render(Format::Text)
    )
}
