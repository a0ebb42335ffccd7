//! Running time of Rotor's Algorithms 1 and 3 against the length of the chain (Figure 5 of rotor-toms-2024) and
//! the number of slots: `cargo bench -p remat-formulations --bench complexity` writes results/complexity.csv and
//! results/complexity.svg.
//!
//! Chains are the first stages of the longest reference chain; one budget, 0.7 of what saving everything
//! needs; CPU seconds of the program with the table's bytes, the most that the process had in memory for it, and the
//! cells that this is for. The original C program's times are those of tests/data/rotor/README.md.
#![allow(clippy::print_stdout, reason = "a benchmark says what it measures")]

mod common;

use std::fmt::Write as _;
use std::path::Path;

use common::{cpu_seconds, peak_bytes, reference_chain};
use plotters::prelude::*;
use remat_core::chain::Chain;
use remat_formulations::chain::persistent::ranges::Ranges;
use remat_formulations::chain::persistent::table::{self, Table};
use remat_formulations::chain::rule::Rule;
use remat_formulations::chain::slots::SlottedChain;
use remat_formulations::chain::storage::Execution;
use remat_formulations::chain::weak::ranges::Ranges as WeakRanges;
use remat_formulations::chain::weak::table::{self as weak, WeakTable};

const LENGTHS: [usize; 8] = [13, 25, 50, 75, 100, 150, 200, 339];
const SLOTS: [u64; 4] = [125, 500, 2000, 8000];
const C_PROGRAM: [(usize, f64); 4] = [(50, 0.026), (100, 0.157), (200, 0.95), (339, 4.24)];

/// One measurement.
struct Row {
    program: &'static str,
    stages: usize,
    slots: u64,
    /// Of the table, computed.
    bytes: usize,
    /// Of the process at its peak beyond what was there before, measured.
    peak_bytes: usize,
    /// Subchains (Algorithm 3) or states (Algorithm 1, as thinned out) times numbers of slots.
    cells: usize,
    seconds: f64,
}

fn main() {
    let mut rows: Vec<Row> = Vec::new();
    let whole = reference_chain("tests/data/rotor/big_L339_S500_seed1.json");
    for (stages, slots) in LENGTHS.map(|n| (n, 500)).into_iter().chain(SLOTS.map(|slots| (100, slots))) {
        let chain = Chain { stages: whole.stages[..stages].to_vec(), ..whole.clone() };
        for (program, rule) in [("algorithm-3-persistent", Rule::Persistent), ("algorithm-1-weak", Rule::Weak)] {
            let row = measure(program, &chain, slots, rule);
            let per_cell = row.peak_bytes as f64 / row.cells as f64;
            println!(
                "{program}: {stages} stages, {slots} slots: {:.4} CPU seconds, table {} MB, peak {} MB, {per_cell:.2} bytes per cell",
                row.seconds,
                row.bytes / 1_000_000,
                row.peak_bytes / 1_000_000,
            );
            rows.push(row);
        }
    }
    print!("\n{}", markdown(&rows));
    let results = Path::new(env!("CARGO_MANIFEST_DIR")).join("../results");
    let mut text = String::from("program,stages,slots,bytes,peak_bytes,cells,cpu_seconds\n");
    for row in &rows {
        let Row { program, stages, slots, bytes, peak_bytes, cells, seconds } = row;
        writeln!(text, "{program},{stages},{slots},{bytes},{peak_bytes},{cells},{seconds:.5}")
            .expect("strings can be written to");
    }
    for (stages, seconds) in C_PROGRAM {
        writeln!(text, "original-c-persistent,{stages},500,,,,{seconds}").expect("strings can be written to");
    }
    std::fs::write(results.join("complexity.csv"), text).expect("results can be written");
    let svg = draw(&rows).expect("SVG needs nothing but memory");
    std::fs::write(results.join("complexity.svg"), svg).expect("results can be written");
}

/// The table of docs/findings/chains.md: 500 slots.
fn markdown(rows: &[Row]) -> String {
    let mut text = String::from(
        "| stages | Algorithm 3 | table | peak, bytes per cell | Algorithm 1 | table | peak, bytes per cell |\n\
         |---|---|---|---|---|---|---|\n",
    );
    for stages in [50, 100, 200, 339] {
        let cells = |program: &str| {
            let row = rows.iter().find(|row| (row.program, row.stages, row.slots) == (program, stages, 500));
            let row = row.expect("these lengths are measured");
            let per_cell = row.peak_bytes as f64 / row.cells as f64;
            format!("{:.3} s | {} MB | {per_cell:.1}", row.seconds, row.bytes / 1_000_000)
        };
        let (persistent, weak) = (cells("algorithm-3-persistent"), cells("algorithm-1-weak"));
        writeln!(text, "| {stages} | {persistent} | {weak} |").expect("strings can be written to");
    }
    text
}

/// Bytes and cells of the table, and the least CPU seconds of several runs.
fn measure(program: &'static str, chain: &Chain, slots: u64, rule: Rule) -> Row {
    let peak = chain.evaluate(&chain.store_all(|_| 0)).expect("saving everything is valid").peak_bytes;
    let budget = peak / 10 * 7;
    let slotted = SlottedChain::rounded(chain, budget.div_ceil(slots), rule.account());
    let capacity = slotted.slot_of_budget(budget - chain.fixed_bytes).expect("room for the input");
    let stages = chain.len();
    let (bytes, cells) = match rule {
        Rule::Weak => (weak::bytes::<u32>(&slotted, capacity), weak::cells(&slotted, capacity)),
        Rule::Persistent | Rule::SaveLast => {
            (table::bytes::<u32>(stages, capacity), stages * (stages + 1) / 2 * (capacity + 1))
        }
    };
    let fill = || {
        if rule == Rule::Weak {
            let ranges = WeakRanges::new(&slotted, Execution::default()).expect("no deadline");
            drop(WeakTable::<u32>::new(&slotted, &ranges, capacity, Execution::default()).expect("there is memory"));
        } else {
            let ranges = Ranges::new(&slotted, rule);
            drop(Table::<u32>::new(&slotted, &ranges, rule, capacity, Execution::default()).expect("there is memory"));
        }
    };
    let peak_bytes = peak_bytes(fill);
    let mut seconds = f64::INFINITY;
    let mut spent = 0.0;
    while spent < 0.5 {
        let started = cpu_seconds();
        fill();
        let took = cpu_seconds() - started;
        seconds = seconds.min(took);
        spent += took.max(0.01);
    }
    Row { program, stages, slots, bytes, peak_bytes, cells, seconds }
}

type Drawn<T> = Result<T, Box<dyn std::error::Error>>;
type Points = Vec<(f64, f64)>;

/// Two panels with logarithmic axes: seconds against stages, and against slots.
fn draw(rows: &[Row]) -> Drawn<String> {
    let font = include_bytes!("../../src/views/plot/DejaVuSans.ttf");
    plotters::style::register_font("sans-serif", FontStyle::Normal, font).map_err(|_| "the font is damaged")?;
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, (980, 430)).into_drawing_area();
        root.fill(&WHITE)?;
        let (left, right) = root.split_horizontally(500);
        let points = |program: &str, x: &dyn Fn(&Row) -> Option<f64>| -> Points {
            let of = rows.iter().filter(|row| row.program == program);
            let mut points: Points = of.filter_map(|row| Some((x(row)?, row.seconds))).collect();
            // What belongs to both panels is measured twice: the faster one counts.
            points.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
            points.dedup_by_key(|point| point.0);
            points
        };
        let by_stages = |row: &Row| (row.slots == 500).then_some(row.stages as f64);
        let by_slots = |row: &Row| (row.stages == 100).then_some(row.slots as f64);
        let original = C_PROGRAM.map(|(stages, seconds)| (stages as f64, seconds)).to_vec();
        let names = ["algorithm-1-weak", "algorithm-3-persistent"];
        let stages: Vec<_> = names.iter().map(|name| (*name, points(name, &by_stages))).collect();
        let with_original = [stages, vec![("original C, persistent", original)]].concat();
        panel(&left, "500 slots", "stages", 10.0..400.0, &with_original)?;
        let slots: Vec<_> = names.iter().map(|name| (*name, points(name, &by_slots))).collect();
        panel(&right, "100 stages", "slots", 100.0..10_000.0, &slots)?;
        root.present()?;
    }
    Ok(svg)
}

fn panel(
    area: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>,
    title: &str,
    axis: &str,
    range: std::ops::Range<f64>,
    series: &[(&str, Points)],
) -> Drawn<()> {
    let colours = [RGBColor(86, 180, 233), RGBColor(0, 114, 178), RGBColor(213, 94, 0)];
    let mut chart = ChartBuilder::on(area)
        .caption(format!("CPU seconds, {title}"), ("sans-serif", 17))
        .margin(10)
        .margin_right(24)
        .x_label_area_size(42)
        .y_label_area_size(58)
        .build_cartesian_2d(range.log_scale(), (0.0001..20.0).log_scale())?;
    let mut mesh = chart.configure_mesh();
    let mesh = mesh.x_desc(axis).y_desc("CPU seconds").label_style(("sans-serif", 13));
    mesh.x_labels(4).max_light_lines(1).x_label_formatter(&|x| format!("{x:.0}")).draw()?;
    for ((name, points), colour) in series.iter().zip(colours) {
        chart
            .draw_series(LineSeries::new(points.iter().copied(), colour.stroke_width(2)).point_size(3))?
            .label(*name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
    }
    let place = SeriesLabelPosition::UpperLeft;
    chart.configure_series_labels().position(place).label_font(("sans-serif", 13)).background_style(WHITE).draw()?;
    Ok(())
}
