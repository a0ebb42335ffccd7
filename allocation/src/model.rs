//! The problem as a model, for solvers that are not built in: linear and as a constraint program.

use std::io::{self, Write};

use remat_solvers::cp::Literal;
use remat_solvers::cp::model::{CpModel, IntervalParts, Rule};
use remat_solvers::export::{Format, Metadata, write_cp_model, write_lp, write_mps};
use remat_solvers::{Column, Kind, Model, Names, Row};

use crate::problem::Problem;

/// Offsets, heights and orders of pairs as a mixed-integer program.
///
/// # Variables
/// The height H, minimised; the offset of each buffer; for each pair that overlaps in time, one that is 1 where the first lies
/// below the second.
///
/// # Constraints
/// An offset and its size are at most H. Of a pair, the lower one's end is at most the other's offset, by as much as `top`, the
/// largest height considered, where it is not the lower one.
pub struct LinearModel<'a> {
    problem: &'a Problem,
    pairs: Vec<(usize, usize)>,
    /// The model.
    pub model: Model,
}

/// Pairs of buffers that overlap in time.
fn pairs(problem: &Problem) -> Vec<(usize, usize)> {
    let buffers = problem.buffers();
    let of = |first: usize| {
        let later = buffers.iter().enumerate().skip(first + 1);
        later.filter(move |(_, other)| other.overlaps(&buffers[first])).map(move |(second, _)| (first, second))
    };
    (0..buffers.len()).flat_map(of).collect()
}

impl<'a> LinearModel<'a> {
    /// The model of packings of at most the height `top`, in the problem's own unit.
    pub fn new(problem: &'a Problem, top: u64) -> Self {
        let buffers = problem.buffers();
        let pairs = pairs(problem);
        let mut model = Model::with_capacity(1 + buffers.len() + pairs.len(), buffers.len() + 2 * pairs.len(), 0);
        let most = top as f64;
        let height = model.column(problem.bound() as f64, most, 1.0, Kind::Continuous);
        let offset = |size: u64| model.column(0.0, top.saturating_sub(size) as f64, 0.0, Kind::Continuous);
        let offsets: Vec<Column> = buffers.iter().map(|buffer| buffer.size).map(offset).collect();
        for (buffer, &offset) in buffers.iter().zip(&offsets) {
            model.at_most(-(buffer.size as f64), [(offset, 1.0), (height, -1.0)]);
        }
        for &(first, second) in &pairs {
            let below = model.binary(0.0);
            let sizes = [buffers[first].size as f64, buffers[second].size as f64];
            model.at_most(most - sizes[0], [(offsets[first], 1.0), (offsets[second], -1.0), (below, most)]);
            model.at_most(-sizes[1], [(offsets[second], 1.0), (offsets[first], -1.0), (below, -most)]);
        }
        Self { problem, pairs, model }
    }

    /// The offsets that a vector says, rounded.
    pub fn offsets(&self, values: &[f64]) -> Vec<u64> {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "offsets are between 0 and 2^62")]
        let whole = |value: &f64| value.round().max(0.0) as u64;
        values.iter().skip(1).take(self.problem.buffers().len()).map(whole).collect()
    }
}

impl Names for LinearModel<'_> {
    fn column(&self, column: Column) -> String {
        let buffers = self.problem.buffers().len();
        match column.index() {
            0 => "height".into(),
            at if at <= buffers => format!("offset_{}", at - 1),
            at => {
                let (first, second) = self.pairs[at - 1 - buffers];
                format!("below_{first}_{second}")
            }
        }
    }

    fn row(&self, row: Row) -> String {
        let buffers = self.problem.buffers().len();
        match row.index() {
            at if at < buffers => format!("within_{at}"),
            at => {
                let (first, second) = self.pairs[(at - buffers) / 2];
                let (low, high) = if (at - buffers).is_multiple_of(2) { (first, second) } else { (second, first) };
                format!("order_{low}_{high}")
            }
        }
    }
}

/// Offsets, heights and orders of pairs as a constraint program: variable 0 is the height, variable 1 + n the offset of
/// buffer n. What is alive at a moment must fit the height: that is implied, and helps solvers.
pub fn constraint_model(problem: &Problem, top: u64) -> CpModel {
    let whole = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    let buffers = problem.buffers();
    let mut model = CpModel::default();
    let height = model.variable(whole(problem.bound()), whole(top));
    model.objective = vec![(height, 1)];
    let offsets: Vec<_> =
        buffers.iter().map(|buffer| model.variable(0, whole(top.saturating_sub(buffer.size)))).collect();
    for (buffer, &offset) in buffers.iter().zip(&offsets) {
        model.at_most(vec![(offset, 1), (height, -1)], -whole(buffer.size));
    }
    for (first, second) in pairs(problem) {
        let below = model.boolean();
        for (low, high, literal) in [(first, second, below.into()), (second, first, !Literal::from(below))] {
            let terms = vec![(offsets[low], 1), (offsets[high], -1)];
            let rule = Rule::Linear { terms, lower: i64::MIN / 4, upper: -whole(buffers[low].size) };
            model.enforced(vec![literal], rule);
        }
    }
    // By rank: CP-SAT takes no numbers as large as moments may be.
    let mut moments: Vec<u64> = buffers.iter().flat_map(|buffer| [buffer.lower, buffer.upper]).collect();
    moments.sort_unstable();
    moments.dedup();
    let rank = |moment: u64| whole(moments.partition_point(|&other| other < moment) as u64);
    let mut demands = vec![];
    for buffer in buffers {
        let (lower, upper) = (rank(buffer.lower), rank(buffer.upper));
        let (start, end) = (model.variable(lower, lower), model.variable(upper, upper));
        let size = model.variable(upper - lower, upper - lower);
        demands.push((model.interval(IntervalParts { start, size, end, present: None }), whole(buffer.size)));
    }
    if !demands.is_empty() {
        model.rule(Rule::Cumulative { demands, capacity: height });
    }
    model
}

/// Writes the model of packings of at most the height `top`, behind a head of comments.
///
/// # Errors
/// Those of `out`.
pub fn write(problem: &Problem, top: u64, form: Format, out: &mut dyn Write, head: &Metadata<'_>) -> io::Result<()> {
    if form == Format::CpModel {
        return write_cp_model(out, &constraint_model(problem, top), head);
    }
    let linear = LinearModel::new(problem, top);
    let write = if form == Format::Mps { write_mps } else { write_lp };
    write(out, &linear.model, &linear, head)
}
