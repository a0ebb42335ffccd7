//! The logs of DTR's authors: one JSON object a line, with what PyTorch did in one iteration.
//!
//! | instruction | meaning |
//! |---|---|
//! | `CONSTANT`, then `MEMORY` | a tensor that is there from the start and stays |
//! | `CALL`, then `MEMORY` and `ALIAS` for each result | an operator; a result shares the storage of argument `ALIAS`, or of none at -1 |
//! | `MUTATE` | an operator that writes into arguments: new tensors in their place |
//! | `COPY`, `COPY_FROM` | another name for a tensor |
//! | `RELEASE` | a name is gone |
//! | `ANNOTATE` | `START`: what came before does not count; `BACKWARD`: the backward pass begins |

use std::collections::HashMap;
use std::fmt;

use remat_core::io::one_line;
use remat_core::object;
use serde::Deserialize;
use thiserror::Error;

use super::program::{Call, Event, Program};

/// A log that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}: {what}")]
pub struct LogError {
    /// From 1.
    pub line: usize,
    /// What is wrong, and what was expected.
    pub what: String,
}

/// A line; what its numbers are is said where they are read.
#[derive(Deserialize)]
#[serde(rename_all = "UPPERCASE", expecting = "an object such as {\"INSTRUCTION\": \"CALL\", ...}")]
struct Line {
    instruction: String,
    name: Option<String>,
    memory: Option<String>,
    alias: Option<String>,
    time: Option<String>,
    src: Option<String>,
    dst: Option<String>,
    annotation: Option<String>,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    result: Vec<String>,
    #[serde(default)]
    mutate: Vec<usize>,
}

/// A log, read.
#[derive(Clone, Debug, Default)]
pub struct Log {
    /// What happened.
    pub program: Program,
    /// The name of each operator, by call; none for a constant.
    pub operators: Vec<Option<String>>,
    /// The first call of the backward pass, where the log says so.
    pub backward_from: Option<usize>,
}

/// Reads a log.
///
/// # Errors
/// The first line that is no instruction, or names what is not there.
pub fn read(text: &str) -> Result<Log, LogError> {
    let mut reader = Reader { lines: text.lines().enumerate(), at: 0, log: Log::default(), names: Names::default() };
    loop {
        let no_start = "no {\"INSTRUCTION\": \"ANNOTATE\", \"ANNOTATION\": \"START\"} until here; expected a log as simrd reads it";
        let line = reader.next()?.ok_or_else(|| LogError { line: reader.at.max(1), what: no_start.into() })?;
        if line.annotation.as_deref() == Some("START") {
            break;
        }
    }
    while let Some(line) = reader.next()? {
        reader.instruction(line)?;
    }
    let Reader { mut log, names, .. } = reader;
    // What still has a name at the end is wanted.
    let mut wanted = names.order.into_iter().filter_map(|name| names.of.get(&name).copied());
    log.program.events.extend(wanted.by_ref().filter(|&tensor| names.references[tensor] > 0).map(Event::Pin));
    Ok(log)
}

/// Which tensor each name stands for.
#[derive(Default)]
struct Names {
    of: HashMap<String, usize>,
    /// Names as they first appeared.
    order: Vec<String>,
    /// How many names a tensor has, by tensor.
    references: Vec<i64>,
}

struct Reader<'a> {
    lines: std::iter::Enumerate<std::str::Lines<'a>>,
    at: usize,
    log: Log,
    names: Names,
}

impl Reader<'_> {
    fn next(&mut self) -> Result<Option<Line>, LogError> {
        let Some((at, line)) = self.lines.find(|(_, line)| !line.trim().is_empty()) else { return Ok(None) };
        self.at = at + 1;
        let mut parser = serde_json::Deserializer::from_str(line);
        let read = object::one(&mut parser).and_then(|line| parser.end().map(|()| Some(line)));
        read.map_err(|error| self.error(error))
    }

    fn error(&self, what: impl fmt::Display) -> LogError {
        LogError { line: self.at, what: one_line(&what.to_string()) }
    }

    /// A field that an instruction has to have.
    fn field(&self, field: Option<String>, name: &str) -> Result<String, LogError> {
        field.ok_or_else(|| self.error(format!("lacks {name}")))
    }

    fn number(&self, field: Option<String>, name: &str) -> Result<u64, LogError> {
        let text = self.field(field, name)?;
        text.parse().map_err(|_| self.error(format!("{name} is {text:?}; expected a whole number")))
    }

    fn tensor(&self, name: &str) -> Result<usize, LogError> {
        self.names.of.get(name).copied().ok_or_else(|| self.error(format!("names {name}, which is not there")))
    }

    fn bind(&mut self, name: String, tensor: usize) {
        if self.names.of.insert(name.clone(), tensor).is_none() {
            self.names.order.push(name);
        }
    }

    /// The next line, which has to be of a kind and about a name.
    fn expect(&mut self, instruction: &str, name: &str) -> Result<Line, LogError> {
        let line =
            self.next()?.ok_or_else(|| self.error(format!("the log ends where {instruction} {name} should be")))?;
        if line.instruction != instruction || line.name.as_deref() != Some(name) {
            return Err(self.error(format!("expected {instruction} of {name}, found {}", line.instruction)));
        }
        Ok(line)
    }

    fn instruction(&mut self, line: Line) -> Result<(), LogError> {
        match line.instruction.as_str() {
            "CONSTANT" => {
                let name = self.field(line.name, "NAME")?;
                let memory = self.expect("MEMORY", &name)?.memory;
                let bytes = self.number(memory, "MEMORY")?;
                let made = self.call(None, Vec::new(), 0, &[(bytes, None)])?;
                self.log.program.events.push(Event::Pin(made[0]));
                self.bind(name, made[0]);
            }
            "CALL" => {
                let reads = line.args.iter().map(|name| self.tensor(name)).collect::<Result<Vec<_>, _>>()?;
                let time = self.number(line.time, "TIME")?;
                let mut results = Vec::new();
                for name in &line.result {
                    let memory = self.expect("MEMORY", name)?.memory;
                    let alias = self.expect("ALIAS", name)?.alias;
                    let alias = self.field(alias, "ALIAS")?;
                    let of = if alias == "-1" { None } else { Some(self.number(Some(alias), "ALIAS")?) };
                    results.push((self.number(memory, "MEMORY")?, of));
                }
                let made = self.call(Some(line.name.unwrap_or_default()), reads, time, &results)?;
                line.result.into_iter().zip(made).for_each(|(name, tensor)| self.bind(name, tensor));
            }
            "MUTATE" => {
                let reads = line.args.iter().map(|name| self.tensor(name)).collect::<Result<Vec<_>, _>>()?;
                let time = self.number(line.time, "TIME")?;
                let mut olds = Vec::new();
                for &at in &line.mutate {
                    let old = reads.get(at).copied();
                    olds.push(old.ok_or_else(|| self.error(format!("mutates argument {at}, which it lacks")))?);
                }
                let bytes: Vec<_> = olds
                    .iter()
                    .map(|&old| (self.log.program.storages[self.log.program.tensors[old].0], None))
                    .collect();
                let made = self.call(Some(line.name.unwrap_or_default()), reads, time, &bytes)?;
                for ((&at, old), new) in line.mutate.iter().zip(olds).zip(made) {
                    self.bind(line.args[at].clone(), new);
                    self.release(old);
                }
            }
            "COPY" => {
                let tensor = self.tensor(&self.field(line.src, "SRC")?)?;
                self.get(tensor);
                let name = self.field(line.dst, "DST")?;
                self.bind(name, tensor);
            }
            "COPY_FROM" => {
                let (source, name) = (self.tensor(&self.field(line.src, "SRC")?)?, self.field(line.dst, "DST")?);
                let old = self.tensor(&name)?;
                self.bind(name, source);
                self.release(old);
                self.get(source);
            }
            // Names from before the start may be released after it.
            "RELEASE" => {
                let name = self.field(line.name, "NAME")?;
                if let Ok(tensor) = self.tensor(&name) {
                    self.release(tensor);
                }
            }
            "ANNOTATE" => {
                let calls = self.log.program.calls.len();
                if line.annotation.as_deref() == Some("BACKWARD") {
                    self.log.backward_from.get_or_insert(calls);
                }
            }
            other => return Err(self.error(format!("unknown instruction {other:?}"))),
        }
        Ok(())
    }

    /// An operator: its results are storages of so many bytes, or share that of an argument.
    fn call(
        &mut self,
        name: Option<String>,
        reads: Vec<usize>,
        time: u64,
        results: &[(u64, Option<u64>)],
    ) -> Result<Vec<usize>, LogError> {
        let call = self.log.program.calls.len();
        let (mut makes, mut bytes) = (Vec::new(), 0_u64);
        for &(size, of) in results {
            let made = if let Some(of) = of {
                let read = usize::try_from(of).ok().and_then(|of| reads.get(of));
                let &read = read.ok_or_else(|| self.error(format!("shares argument {of}, which it lacks")))?;
                self.log.program.tensors.push((self.log.program.tensors[read].0, call));
                self.log.program.tensors.len() - 1
            } else {
                bytes = bytes.saturating_add(size);
                self.log.program.storage(size, call)
            };
            makes.push(made);
            self.names.references.push(1);
        }
        if makes.is_empty() {
            return Err(self.error("makes nothing"));
        }
        self.log.operators.push(name);
        self.log.program.calls.push(Call { reads, makes: makes.clone(), bytes, workspace: 0, time, again: Some(time) });
        self.log.program.events.push(Event::Call(call));
        Ok(makes)
    }

    fn get(&mut self, tensor: usize) {
        self.names.references[tensor] += 1;
        self.log.program.events.push(Event::Get(tensor));
    }

    fn release(&mut self, tensor: usize) {
        self.names.references[tensor] -= 1;
        self.log.program.events.push(Event::Release(tensor));
    }
}
