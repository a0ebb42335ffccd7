//! A network at any batch size, from its instances at two.
//!
//! Sizes, times and shapes of a network are affine in the batch size: what belongs to a sample, times
//! the number of samples, plus what belongs to the iteration. Two instances give both parts of every
//! number, and a third confirms them. Works on documents, knows no method.

use serde_json::{Map, Number, Value};
use thiserror::Error;

use crate::format::InstanceDocument;

/// Fields whose numbers may depend on the batch size.
const SCALES: [&str; 7] = ["bytes", "time", "workspace_bytes", "spread", "shape", "attributes", "fixed_bytes"];

/// One network at every batch size.
#[derive(Clone, Debug)]
pub struct Family {
    /// The instance at the smaller batch, from which everything else is taken.
    small: InstanceDocument,
    batches: (u64, u64),
    /// Both documents without name and provenance.
    values: (Value, Value),
}

/// Why instances are no family.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FamilyError {
    /// An instance does not say its batch size.
    #[error("{0}: provenance.batch_size is missing; a family needs it")]
    NoBatch(String),
    /// There is only one point.
    #[error("{small} and {large} both have batch size {batch}; a family needs two")]
    SameBatch {
        /// Name of one.
        small: String,
        /// Name of the other.
        large: String,
        /// Their batch size.
        batch: u64,
    },
    /// They are not one network.
    #[error(
        "not one network at two batch sizes: {path} is {small} at the smaller one and {large} at the larger one; only sizes, times and shapes may differ"
    )]
    Differs {
        /// The element.
        path: String,
        /// Its value at the smaller batch.
        small: String,
        /// Its value at the larger batch.
        large: String,
    },
    /// A number is not a whole part per sample and a whole rest.
    #[error(
        "{path} is {small} at batch {small_batch} and {large} at batch {large_batch}: not a whole number per sample; take instances whose times are FLOPs or whose batches differ by 1"
    )]
    NotAffine {
        /// The element.
        path: String,
        /// Its value at the smaller batch.
        small: i128,
        /// Its value at the larger batch.
        large: i128,
        /// The smaller batch.
        small_batch: u64,
        /// The larger batch.
        large_batch: u64,
    },
    /// A number leaves the range of the format.
    #[error("{path} would be {value} at batch {batch}; expected a number from 0 to 2^63 - 1")]
    Range {
        /// The element.
        path: String,
        /// What it would be.
        value: i128,
        /// At which batch.
        batch: u64,
    },
    /// A third instance does not lie on the line through the two.
    #[error("{name}: {path} is {found} at batch {batch}, where the two others lead to {expected}")]
    Refuted {
        /// Name of the third.
        name: String,
        /// The element.
        path: String,
        /// What it has.
        found: String,
        /// What it should have.
        expected: String,
        /// Its batch.
        batch: u64,
    },
}

impl Family {
    /// The family of two instances of one network, in either order.
    ///
    /// # Errors
    /// They differ in something that does not scale, or a number is not affine.
    pub fn new(one: &InstanceDocument, other: &InstanceDocument) -> Result<Self, FamilyError> {
        let (first, second) = (batch_of(one)?, batch_of(other)?);
        if first == second {
            return Err(FamilyError::SameBatch { small: one.name.clone(), large: other.name.clone(), batch: first });
        }
        let (small, large) = if first < second { (one, other) } else { (other, one) };
        let family = Self {
            small: small.clone(),
            batches: (first.min(second), first.max(second)),
            values: (bare(small), bare(large)),
        };
        family.value(family.batches.0)?;
        Ok(family)
    }

    /// The two batch sizes, the smaller one first.
    pub fn batches(&self) -> (u64, u64) {
        self.batches
    }

    /// The instance at a batch size.
    ///
    /// # Errors
    /// A number becomes negative or too large.
    pub fn at(&self, batch: u64) -> Result<InstanceDocument, FamilyError> {
        let mut value = self.value(batch)?;
        let provenance = serde_json::to_value(&self.small.provenance).expect("a document always serialises");
        let fields = value.as_object_mut().expect("a document is an object");
        fields.insert("name".into(), format!("{}@b{batch}", self.small.name).into());
        fields.insert("provenance".into(), provenance);
        let mut document: InstanceDocument =
            serde_json::from_value(value).expect("the fields and their types are those of a document");
        let (small, large) = self.batches;
        let provenance = &mut document.provenance;
        provenance.batch_size = Some(batch);
        provenance.input_shapes.clear();
        provenance.command = None;
        provenance
            .notes
            .push(format!("batch {batch}: every number affine through those of batches {small} and {large}"));
        Ok(document)
    }

    /// Whether a third instance lies on the line through the two.
    ///
    /// # Errors
    /// The first number that does not, or the first other difference.
    pub fn confirm(&self, third: &InstanceDocument) -> Result<(), FamilyError> {
        let batch = batch_of(third)?;
        let (expected, found) = (self.value(batch)?, bare(third));
        let Some((path, expected, found)) = difference("", &expected, &found) else { return Ok(()) };
        Err(FamilyError::Refuted { name: third.name.clone(), path, found, expected, batch })
    }

    fn value(&self, batch: u64) -> Result<Value, FamilyError> {
        let line = Line { batches: self.batches, batch };
        line.value("", false, &self.values.0, &self.values.1)
    }
}

fn batch_of(document: &InstanceDocument) -> Result<u64, FamilyError> {
    document.provenance.batch_size.ok_or_else(|| FamilyError::NoBatch(document.name.clone()))
}

/// A document without what says where it comes from.
fn bare(document: &InstanceDocument) -> Value {
    let mut value = serde_json::to_value(document).expect("a document always serialises");
    if let Some(fields) = value.as_object_mut() {
        fields.remove("name");
        fields.remove("provenance");
    }
    value
}

/// A point on the line through two batch sizes.
struct Line {
    batches: (u64, u64),
    batch: u64,
}

impl Line {
    /// `scales`: inside a field whose numbers may differ.
    fn value(&self, path: &str, scales: bool, small: &Value, large: &Value) -> Result<Value, FamilyError> {
        match (small, large) {
            (Value::Object(small), Value::Object(large)) => self.object(path, scales, small, large),
            (Value::Array(s), Value::Array(l)) if s.len() == l.len() => {
                let item = |(at, (s, l))| self.value(&format!("{path}[{at}]"), scales, s, l);
                s.iter().zip(l).enumerate().map(item).collect::<Result<_, _>>().map(Value::Array)
            }
            (Value::Number(s), Value::Number(l)) if scales => self.number(path, s, l),
            _ if small == large => Ok(small.clone()),
            _ => Err(FamilyError::Differs { path: path.into(), small: words(small), large: words(large) }),
        }
    }

    fn object(
        &self,
        path: &str,
        scales: bool,
        small: &Map<String, Value>,
        large: &Map<String, Value>,
    ) -> Result<Value, FamilyError> {
        let mut object = Map::new();
        let only_in_large = large.keys().filter(|key| !small.contains_key(*key));
        for key in small.keys().chain(only_in_large) {
            let scales = scales || SCALES.contains(&key.as_str());
            // A number that is zero may be left out.
            let absent = if scales { Value::from(0) } else { Value::Null };
            let (s, l) = (small.get(key).unwrap_or(&absent), large.get(key).unwrap_or(&absent));
            let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            object.insert(key.clone(), self.value(&path, scales, s, l)?);
        }
        Ok(Value::Object(object))
    }

    fn number(&self, path: &str, small: &Number, large: &Number) -> Result<Value, FamilyError> {
        if small == large {
            return Ok(Value::Number(small.clone()));
        }
        let (Some(s), Some(l)) = (small.as_i128(), large.as_i128()) else {
            return Err(FamilyError::Differs { path: path.into(), small: small.to_string(), large: large.to_string() });
        };
        let (low, high) = self.batches;
        let samples = i128::from(high) - i128::from(low);
        if (l - s) % samples != 0 {
            return Err(FamilyError::NotAffine {
                path: path.into(),
                small: s,
                large: l,
                small_batch: low,
                large_batch: high,
            });
        }
        let more = ((l - s) / samples).saturating_mul(i128::from(self.batch) - i128::from(low));
        let value = s.saturating_add(more);
        match u64::try_from(value).ok().filter(|&value| value < 1 << 63) {
            Some(value) => Ok(Value::from(value)),
            None => Err(FamilyError::Range { path: path.into(), value, batch: self.batch }),
        }
    }
}

/// The first difference: where, and both sides.
fn difference(path: &str, expected: &Value, found: &Value) -> Option<(String, String, String)> {
    match (expected, found) {
        (Value::Object(e), Value::Object(f)) => {
            let only_found = f.keys().filter(|key| !e.contains_key(*key));
            e.keys().chain(only_found).find_map(|key| {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                // What is left out is zero, or not there on either side.
                let absent = Value::from(0);
                difference(&path, e.get(key).unwrap_or(&absent), f.get(key).unwrap_or(&absent))
            })
        }
        (Value::Array(e), Value::Array(f)) if e.len() == f.len() => {
            e.iter().zip(f).enumerate().find_map(|(at, (e, f))| difference(&format!("{path}[{at}]"), e, f))
        }
        _ => (expected != found).then(|| (path.to_owned(), words(expected), words(found))),
    }
}

/// A value in a message.
fn words(value: &Value) -> String {
    match value {
        Value::Array(items) => format!("a list of {}", items.len()),
        Value::Object(_) => "an object".into(),
        Value::Null => "absent".into(),
        other => other.to_string(),
    }
}
