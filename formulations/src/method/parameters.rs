//! Method specs as people write them: `rotor-persistent[slots=500]`.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// A parameter that a method understands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParameterSpec {
    /// Kebab-case name.
    pub name: &'static str,
    /// Value where none is given.
    pub default: &'static str,
    /// What values it takes.
    pub kind: ParameterKind,
    /// One line of help.
    pub help: &'static str,
}

/// What values a parameter takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParameterKind {
    /// A whole number in an inclusive range.
    Integer {
        /// Least value.
        min: u64,
        /// Greatest value.
        max: u64,
    },
    /// A whole number in an inclusive range, or `auto`.
    IntegerOrAuto {
        /// Least value.
        min: u64,
        /// Greatest value.
        max: u64,
    },
    /// One of some words.
    Choice(&'static [&'static str]),
}

/// The value of every parameter of a method.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parameters {
    values: BTreeMap<&'static str, String>,
}

/// A parameter that the method does not have, or a value that it does not take.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ParameterError {
    /// The method has no such parameter.
    #[error("has no parameter {name:?}; it has {known}")]
    Unknown {
        /// Name given.
        name: String,
        /// Names that it has.
        known: String,
    },
    /// The value is of another kind.
    #[error("parameter {name} cannot be {value:?}; expected {expected}")]
    Value {
        /// The parameter.
        name: &'static str,
        /// Value given.
        value: String,
        /// What it takes.
        expected: String,
    },
}

impl ParameterKind {
    /// The one way to write a value, if it is one: `+05` is `5`.
    fn canonical(self, value: &str) -> Option<String> {
        let number = |min, max| value.parse::<u64>().ok().filter(|number| (min..=max).contains(number));
        match self {
            Self::IntegerOrAuto { .. } if value == "auto" => Some(value.to_owned()),
            Self::Integer { min, max } | Self::IntegerOrAuto { min, max } => {
                number(min, max).map(|number| number.to_string())
            }
            Self::Choice(words) => words.contains(&value).then(|| value.to_owned()),
        }
    }
}

impl fmt::Display for ParameterKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer { min, max } => write!(f, "a whole number from {min} to {max}"),
            Self::IntegerOrAuto { min, max } => write!(f, "auto or a whole number from {min} to {max}"),
            Self::Choice(words) => write!(f, "one of {}", words.join(", ")),
        }
    }
}

impl Parameters {
    /// All at their defaults.
    pub fn defaults(specs: &[ParameterSpec]) -> Self {
        Self { values: specs.iter().map(|spec| (spec.name, spec.default.to_owned())).collect() }
    }

    /// Fills in the defaults and checks what is given.
    ///
    /// # Errors
    /// The first name or value that the method does not know.
    pub fn new(specs: &[ParameterSpec], given: &BTreeMap<String, String>) -> Result<Self, ParameterError> {
        let Self { mut values } = Self::defaults(specs);
        for (name, value) in given {
            let Some(spec) = specs.iter().find(|spec| spec.name == name) else {
                let names: Vec<_> = specs.iter().map(|spec| spec.name).collect();
                let known = if names.is_empty() { "none".into() } else { names.join(", ") };
                return Err(ParameterError::Unknown { name: name.clone(), known });
            };
            let Some(canonical) = spec.kind.canonical(value) else {
                let expected = spec.kind.to_string();
                return Err(ParameterError::Value { name: spec.name, value: value.clone(), expected });
            };
            values.insert(spec.name, canonical);
        }
        Ok(Self { values })
    }

    /// The value as written.
    ///
    /// # Panics
    /// When the method has no such parameter: a slip in its code.
    pub fn word(&self, name: &str) -> &str {
        let known = || self.values.keys().copied().collect::<Vec<_>>().join(", ");
        let missing =
            || panic!("no setting {name:?} among {}: list it in About::parameters, or do not ask for it", known());
        self.values.get(name).unwrap_or_else(missing)
    }
}

impl fmt::Display for Parameters {
    /// `slots=500,threads=2`: every parameter, in alphabetical order.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (name, value)) in self.values.iter().enumerate() {
            write!(f, "{}{name}={value}", if index > 0 { "," } else { "" })?;
        }
        Ok(())
    }
}

/// A method and parameters, as written: `id` or `id[name=value,name=value]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// Id of the method.
    pub id: String,
    /// Parameters given.
    pub parameters: BTreeMap<String, String>,
}

/// Text that is not of the form `id[name=value,...]`, or gives a name twice.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0:?} is not of the form METHOD or METHOD[name=value,...], each name once")]
pub struct SpecError(pub String);

impl FromStr for Spec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let error = || SpecError(text.to_owned());
        let Some((id, rest)) = text.split_once('[') else {
            let word = !text.is_empty() && !text.contains([']', '=', ',']);
            return word.then(|| Self { id: text.into(), parameters: BTreeMap::new() }).ok_or_else(error);
        };
        let inside = rest.strip_suffix(']').ok_or_else(error)?;
        let mut parameters = BTreeMap::new();
        for pair in inside.split(',').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').ok_or_else(error)?;
            if name.is_empty()
                || value.is_empty()
                || parameters.insert(name.trim().into(), value.trim().into()).is_some()
            {
                return Err(error());
            }
        }
        if id.is_empty() { Err(error()) } else { Ok(Self { id: id.into(), parameters }) }
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pairs: Vec<_> = self.parameters.iter().map(|(name, value)| format!("{name}={value}")).collect();
        if pairs.is_empty() { write!(f, "{}", self.id) } else { write!(f, "{}[{}]", self.id, pairs.join(",")) }
    }
}
