//! Protocol buffer messages as trees of named and numbered fields, and the one of a constraint program
//! in OR-Tools' public schema (cp_model.proto): bytes for the library, text for people and other tools.
//!
//! Only the fields that are used. `scripts/check-cp-proto.py` compares names, numbers and types with the
//! descriptors of an installed wheel; so does a test, where one is found.

use std::fmt::Write as _;

use quick_protobuf::Writer;

use crate::cp::model::{Constraint, CpModel, Event, IntervalParts, Literal, Rule, Variable};

/// A message.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Message(pub Vec<Field>);

/// A field of a message.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// Name in the schema.
    pub name: &'static str,
    /// Number in the schema.
    pub number: u32,
    /// Its value.
    pub value: Value,
}

/// What a field holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A whole number or an enumeration.
    Integer(i64),
    /// Whole numbers, packed.
    Integers(Vec<i64>),
    /// A double.
    Double(f64),
    /// A truth value.
    Bool(bool),
    /// A message.
    Message(Message),
}

impl Message {
    /// Adds a field.
    #[must_use]
    pub fn with(mut self, name: &'static str, number: u32, value: Value) -> Self {
        self.0.push(Field { name, number, value });
        self
    }

    /// The bytes.
    ///
    /// # Panics
    /// Never: writing to memory does not fail.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut writer = Writer::new(&mut bytes);
        for field in &self.0 {
            field.write(&mut writer).expect("memory takes what is written");
        }
        bytes
    }

    /// The text form.
    pub fn text(&self) -> String {
        let mut text = String::new();
        self.write_text(&mut text, 0);
        text
    }

    fn write_text(&self, text: &mut String, depth: usize) {
        for Field { name, value, .. } in &self.0 {
            let indent = "  ".repeat(depth);
            let _ = match value {
                Value::Message(message) => {
                    let _ = writeln!(text, "{indent}{name} {{");
                    message.write_text(text, depth + 1);
                    writeln!(text, "{indent}}}")
                }
                Value::Integer(number) => writeln!(text, "{indent}{name}: {number}"),
                Value::Integers(numbers) => writeln!(text, "{indent}{name}: {numbers:?}"),
                Value::Double(number) => writeln!(text, "{indent}{name}: {number}"),
                Value::Bool(truth) => writeln!(text, "{indent}{name}: {truth}"),
            };
        }
    }
}

impl Field {
    fn write(&self, writer: &mut Writer<&mut Vec<u8>>) -> quick_protobuf::Result<()> {
        // Wire types: 0 varint, 1 eight bytes, 2 with a length.
        let tag = |wire: u32| self.number << 3 | wire;
        match &self.value {
            Value::Integer(number) => writer.write_with_tag(tag(0), |w| w.write_int64(*number)),
            Value::Bool(truth) => writer.write_with_tag(tag(0), |w| w.write_bool(*truth)),
            Value::Double(number) => writer.write_with_tag(tag(1), |w| w.write_double(*number)),
            Value::Integers(numbers) => {
                let mut packed = Vec::with_capacity(2 * numbers.len());
                let mut inner = Writer::new(&mut packed);
                numbers.iter().try_for_each(|&number| inner.write_int64(number))?;
                writer.write_with_tag(tag(2), |w| w.write_bytes(&packed))
            }
            Value::Message(message) => writer.write_with_tag(tag(2), |w| w.write_bytes(&message.bytes())),
        }
    }
}

/// `CpModelProto` of a model, with a hint.
pub fn model_message(model: &CpModel, hint: &[(Variable, i64)]) -> Message {
    Message(fields(model, hint).collect())
}

/// The fields of the same, made one by one.
pub fn fields<'a>(model: &'a CpModel, hint: &'a [(Variable, i64)]) -> impl Iterator<Item = Field> + 'a {
    let field = |name, number, message| Field { name, number, value: Value::Message(message) };
    let reservoirs = model.constraints.iter().any(|constraint| matches!(constraint.rule, Rule::Reservoir { .. }));
    let variable = move |&(lower, upper): &(i64, i64)| {
        field("variables", 2, Message::default().with("domain", 2, Value::Integers(vec![lower, upper])))
    };
    let variables = model.domains.iter().chain(reservoirs.then_some(&(1, 1))).map(variable);
    // Intervals are constraints there, named by their position; they come first.
    let interval = move |parts: &IntervalParts| {
        let present: Vec<i64> = parts.present.into_iter().map(reference).collect();
        let interval = Message::default()
            .with("start", 4, expression(Some(parts.start), 0))
            .with("end", 5, expression(Some(parts.end), 0))
            .with("size", 6, expression(Some(parts.size), 0));
        field("constraints", 3, enforced(&present).with("interval", 19, Value::Message(interval)))
    };
    let intervals = model.intervals.iter().map(interval);
    let constraint = move |constraint| field("constraints", 3, constraint_message(model, constraint));
    let objective = (!model.objective.is_empty()).then(|| {
        let (variables, factors) = split(&model.objective);
        let objective = Message::default().with("vars", 1, Value::Integers(variables));
        field("objective", 4, objective.with("coeffs", 4, Value::Integers(factors)))
    });
    let hint = (!hint.is_empty()).then(|| {
        let (variables, values) = split(hint);
        let hint = Message::default().with("vars", 1, Value::Integers(variables));
        field("solution_hint", 6, hint.with("values", 2, Value::Integers(values)))
    });
    variables.chain(intervals).chain(model.constraints.iter().map(constraint)).chain(objective).chain(hint)
}

fn constraint_message(model: &CpModel, constraint: &Constraint) -> Message {
    let conditions: Vec<i64> = constraint.enforced.iter().copied().map(reference).collect();
    let literals = |literals: &[Literal]| {
        let references = literals.iter().copied().map(reference).collect();
        Value::Message(Message::default().with("literals", 1, Value::Integers(references)))
    };
    let message = enforced(&conditions);
    match &constraint.rule {
        Rule::Clause(clause) => message.with("bool_or", 3, literals(clause)),
        Rule::AtMostOne(group) => message.with("at_most_one", 26, literals(group)),
        Rule::Among { variable, values } => {
            // Neighbouring values must be one range: the schema's check refuses others.
            let runs = values.chunk_by(|left, right| left + 1 == *right);
            let ranges = runs.flat_map(|run| [run[0], run[run.len() - 1]]).collect();
            let linear = Message::default()
                .with("vars", 1, Value::Integers(vec![number(variable.index())]))
                .with("coeffs", 2, Value::Integers(vec![1]))
                .with("domain", 3, Value::Integers(ranges));
            message.with("linear", 12, Value::Message(linear))
        }
        Rule::Linear { terms, lower, upper } => {
            let (variables, factors) = split(terms);
            let linear = Message::default()
                .with("vars", 1, Value::Integers(variables))
                .with("coeffs", 2, Value::Integers(factors))
                .with("domain", 3, Value::Integers(vec![*lower, *upper]));
            message.with("linear", 12, Value::Message(linear))
        }
        Rule::Cumulative { demands, capacity } => {
            let intervals = demands.iter().map(|(interval, _)| number(interval.index())).collect();
            let mut cumulative = Message::default().with("capacity", 1, expression(Some(*capacity), 0)).with(
                "intervals",
                2,
                Value::Integers(intervals),
            );
            for &(_, demand) in demands {
                cumulative = cumulative.with("demands", 3, expression(None, demand));
            }
            message.with("cumulative", 22, Value::Message(cumulative))
        }
        Rule::Reservoir { events, from, lower, upper } => {
            message.with("reservoir", 24, Value::Message(reservoir(model, events, *from, (*lower, *upper))))
        }
    }
}

/// The level before all events is an event before all others, and levels count from the least one.
fn reservoir(model: &CpModel, events: &[Event], from: Option<Variable>, (lower, upper): (i64, i64)) -> Message {
    let earliest = events.iter().map(|event| model.domains[event.time.index()].0).min().unwrap_or(0);
    let mut times = vec![expression(None, earliest - 1)];
    let mut changes = vec![expression(from, -lower)];
    let mut active = vec![always(model)];
    for event in events {
        times.push(expression(Some(event.time), 0));
        changes.push(expression(None, event.change));
        active.push(event.active.map_or(always(model), reference));
    }
    let mut message =
        Message::default().with("min_level", 1, Value::Integer(0)).with("max_level", 2, Value::Integer(upper - lower));
    for time in times {
        message = message.with("time_exprs", 3, time);
    }
    message = message.with("active_literals", 5, Value::Integers(active));
    for change in changes {
        message = message.with("level_changes", 6, change);
    }
    message
}

/// The literal that is always true: a further variable behind those of the model.
fn always(model: &CpModel) -> i64 {
    number(model.domains.len())
}

/// A constraint with its conditions and nothing else.
fn enforced(conditions: &[i64]) -> Message {
    if conditions.is_empty() {
        return Message::default();
    }
    Message::default().with("enforcement_literal", 2, Value::Integers(conditions.to_vec()))
}

/// `LinearExpressionProto` of one variable or a constant.
fn expression(variable: Option<Variable>, constant: i64) -> Value {
    let mut message = Message::default();
    if let Some(variable) = variable {
        let one = Message::default().with("vars", 1, Value::Integers(vec![number(variable.index())]));
        message = one.with("coeffs", 2, Value::Integers(vec![1]));
    }
    if constant != 0 {
        message = message.with("offset", 3, Value::Integer(constant));
    }
    Value::Message(message)
}

fn reference(literal: Literal) -> i64 {
    let variable = number(literal.variable.index());
    if literal.negated { -variable - 1 } else { variable }
}

fn number(index: usize) -> i64 {
    i64::try_from(index).expect("positions have 31 bits")
}

fn split(terms: &[(Variable, i64)]) -> (Vec<i64>, Vec<i64>) {
    terms.iter().map(|&(variable, value)| (number(variable.index()), value)).unzip()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cp::model::IntervalParts;

    #[test]
    fn bytes_and_text_are_those_of_the_schema() {
        let mut model = CpModel::default();
        let (start, size, end) = (model.variable(0, 300), model.variable(1, 2), model.variable(0, 300));
        let present = Literal::from(model.boolean());
        model.interval(IntervalParts { start, size, end, present: Some(!present) });
        model.objective = vec![(end, -1)];
        let message = model_message(&model, &[(start, 5)]);
        let text = "variables {\n  domain: [0, 300]\n}\nvariables {\n  domain: [1, 2]\n}\n";
        assert!(message.text().starts_with(text), "{}", message.text());
        assert!(message.text().contains("enforcement_literal: [-4]\n  interval {\n    start {\n      vars: [0]\n"));
        // Field 2, four bytes long: field 2, packed, two numbers, the second of two bytes less three.
        assert_eq!(&message.bytes()[..8], &[0x12, 5, 0x12, 3, 0, 0xac, 2, 0x12]);
    }
}
