//! `bench allocate --plot`: the picture of addresses against time.

use std::path::Path;

use remat_allocation::{Answer, Content, Lifetimes, Problem};
use remat_core::Instance;
use remat_core::format::MemoryUnit;

use super::Report;
use crate::ground::failure::Failure;
use crate::ground::format;
use crate::ground::output;
use crate::ground::text::count;
use crate::views::plot::addresses::{Colour, Interval, Picture};

/// Where to draw, and in which colours.
pub struct Drawing<'a> {
    pub path: &'a Path,
    pub colour: Option<Colour>,
}

impl Drawing<'_> {
    /// Draws; the instance and the lifetimes say of a schedule's buffers what is in them.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn draw(
        &self,
        problem: &Problem,
        answer: &Answer,
        report: &Report,
        of: Option<(&Instance, &Lifetimes)>,
    ) -> Result<(), Failure> {
        let unit = report.memory_unit;
        let moments = if of.is_some() { "step" } else { "moment" };
        let intervals = problem.buffers().iter().zip(&answer.offsets).enumerate().map(|(at, (buffer, &offset))| {
            let (kind, what) = of.map_or_else(
                || ("buffer".to_owned(), buffer.id.clone()),
                |(instance, lifetimes)| words(instance, &lifetimes.contents[at]),
            );
            let (lower, upper, size) = (buffer.lower, buffer.upper, buffer.size);
            let shown = format::bytes(size, unit);
            let title = format!("{what}: {shown} at {offset}, {} {lower} to {}", moments, upper - 1);
            Interval { lower, upper, offset, size, kind, title }
        });
        let colour = self.colour.unwrap_or(if of.is_some() { Colour::Operator } else { Colour::Size });
        let picture = Picture {
            title: report.instance.clone().unwrap_or_else(|| "Buffers".into()) + ": addresses over time",
            subtitle: subtitle(report),
            unit,
            moments,
            intervals: intervals.collect(),
            height: answer.height,
            bound: answer.bound,
            capacity: report.capacity.map(|capacity| capacity.saturating_sub(report.fixed)),
            colour,
        };
        output::replace_file(self.path, picture.svg())
    }
}

fn subtitle(report: &Report) -> String {
    let shown = |value: u64| format::bytes(value, report.memory_unit);
    let mut parts = vec![format!("{}, packed by {}", count(report.buffers, "buffer"), report.method)];
    if report.fixed > 0 {
        parts.push(format!("{} fixed bytes outside of the arena", shown(report.fixed)));
    }
    if let Some(peak) = report.peak {
        parts.push(format!("simulated peak {}", shown(peak)));
    }
    if let Some(capacity) = report.capacity {
        let of_it = if report.fixed > 0 { ", fixed bytes included" } else { "" };
        parts.push(format!("capacity {}{of_it}", shown(capacity)));
    }
    if report.memory_unit == MemoryUnit::Bytes {
        parts.push(format!("aligned to {}", report.alignment));
    }
    parts.join("; ")
}

/// The kind of a buffer, and what is in it.
fn words(instance: &Instance, content: &Content) -> (String, String) {
    match content {
        Content::Workspace(operator) => {
            ("workspace".into(), format!("workspace of {}", instance.operator(*operator).name))
        }
        Content::Tensors(tensors) => {
            let names: Vec<_> = tensors.iter().map(|(_, tensor)| instance.tensor(*tensor).name.as_str()).collect();
            let maker = tensors.first().and_then(|(_, tensor)| instance.tensor(*tensor).producer);
            let kind = maker.map_or("input", |operator| &instance.operator(operator).op_type);
            (kind.to_owned(), names.join(", then "))
        }
    }
}
