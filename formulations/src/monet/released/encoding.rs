//! MONeT's program for other solvers: the exact model with every memory row that can bind, what its columns are
//! called, and the schedule that a solution says.

use std::collections::BTreeMap;
use std::sync::Arc;

use remat_core::Instance;
use remat_solvers::{Column, Names};

use crate::method::MethodError;
use crate::method::formulation::{DecodeError, Encoding, LinearEncoding};
use crate::method::parameters::Parameters;
use crate::monet::encoding::{hopeless, without_paths};
use crate::monet::released::decisions::Decisions;
use crate::monet::released::layout::{Held, Layout};
use crate::monet::released::problem::{BYTE_UNIT, Problem, TIME_UNIT};
use crate::monet::released::relaxation::Linear;
use crate::monet::released::task::Task;
use crate::monet::settings::modes;
use crate::search::term::Term;

/// The model of a budget, whole or relaxed. Every strategy answers for this one.
///
/// # Errors
/// The instance has no such view, or nothing at all is within the budget.
pub fn encode<'a>(
    instance: &'a Instance,
    parameters: &Parameters,
    budget: Option<u64>,
    relaxed: bool,
) -> Result<Box<dyn Encoding + 'a>, MethodError> {
    let problem = Arc::new(Problem::new(instance, modes(parameters))?);
    let task = Task::new(instance, &problem, budget);
    let capacity = task.capacity;
    let mut formulation = Linear::new(&problem, capacity);
    formulation.add_all();
    if formulation.has_hopeless_row() {
        return Err(hopeless(budget));
    }
    let names = Named::new(&formulation.layout);
    let (mut facts, model) = (facts(&formulation), std::mem::take(&mut formulation.layout.model));
    facts.extend(relaxed.then(without_paths));
    let read = move |vector: &[f64]| {
        // Columns lie where they lay.
        let kept = Linear::new(&problem, capacity).kept(vector, 0.5);
        let found = Decisions::complete(&problem, kept, capacity).ok_or_else(|| {
            DecodeError::Response("what the solution keeps makes an operator run again that must not".into())
        })?;
        Ok((found.schedule(instance, &problem), task.claim(&found)))
    };
    Ok(LinearEncoding::boxed(model, names, facts, relaxed, read))
}

fn facts(formulation: &Linear<'_>) -> Vec<(&'static str, String)> {
    let unit = |scale: f64, unit: u64| (scale * unit as f64).to_string();
    vec![
        ("formulation", "as released, all memory rows that can bind".to_owned()),
        (
            "columns",
            "r_k_i: node i runs in stage k; s_k_i: it is there when stage k begins; q_k_i: in place; p_k_i: made in the \
             stage and not overwritten; w_k_i_a: by way a; d_k_v: variant v of the backward operator; e_k_v_a: by way a; \
             h_k_i: read by the backward operator and not kept"
                .to_owned(),
        ),
        ("time of one unit of the objective", unit(formulation.layout.scale.time, TIME_UNIT)),
        ("memory of one unit of a memory row", unit(formulation.layout.scale.memory, BYTE_UNIT)),
    ]
}

/// What the columns are called.
struct Named(BTreeMap<Column, String>);

impl Named {
    fn new(layout: &Layout) -> Self {
        let mut named = Self(BTreeMap::new());
        for (stage, terms) in layout.stages.iter().enumerate() {
            let families = [
                ("r", &terms.run),
                ("s", &terms.kept),
                ("q", &terms.over),
                ("p", &terms.present),
                ("d", &terms.variant),
            ];
            for (letter, family) in families {
                named.family(&format!("{letter}_{stage}"), family);
            }
            for (letter, choices) in [("w", &terms.ways), ("e", &terms.backward)] {
                for (at, ways) in choices.iter().enumerate() {
                    named.family(&format!("{letter}_{stage}_{at}"), ways);
                }
            }
            for &(node, held) in &terms.held {
                if let Held::Term(term) = held {
                    named.name(term, || format!("h_{stage}_{node}"));
                }
            }
        }
        named.family(&format!("s_{}", layout.stages.len()), &layout.end);
        named
    }

    fn family(&mut self, prefix: &str, terms: &[Term]) {
        for (at, &term) in terms.iter().enumerate() {
            self.name(term, || format!("{prefix}_{at}"));
        }
    }

    /// A column that stands for several things is called after the first of them.
    fn name(&mut self, term: Term, name: impl Fn() -> String) {
        if let Some(column) = term.column() {
            self.0.entry(column).or_insert_with(name);
        }
    }
}

impl Names for Named {
    fn column(&self, column: Column) -> String {
        self.0.get(&column).cloned().unwrap_or_else(|| format!("x_{}", column.index()))
    }
}
