//! Models for other solvers: the program behind a method's answer as text, under a head of comments that leads from a
//! solution back to the instance. Files whose names end in `.gz` are compressed.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use remat_core::Instance;
use remat_core::io::replace;
use remat_formulations::{Encoding, Format, METHODS, MethodError, Spec};

use crate::ground::failure::Failure;
use crate::ground::host::VERSION;
use crate::harness::run::plan::{method, parameters};

/// The ending of a compressed model.
pub const COMPRESSED: &str = "gz";

/// A method's program for one budget of an instance.
pub struct Model<'a> {
    /// The program.
    pub encoding: Box<dyn Encoding + 'a>,
    /// The method with every parameter.
    pub setting: String,
    instance: &'a Instance,
    bytes: Option<u64>,
}

impl<'a> Model<'a> {
    /// The model of an instance, a setting and a budget in bytes.
    ///
    /// # Errors
    /// The parameters do not fit, or there is no model.
    pub fn new(instance: &'a Instance, spec: &Spec, bytes: Option<u64>) -> Result<Self, Failure> {
        let method = method(&spec.id)?;
        let encode = method.formulation().ok_or_else(|| {
            let with = METHODS.iter().filter(|method| method.formulation().is_some()).map(|method| method.id());
            let with = with.collect::<Vec<_>>().join(", ");
            Failure::input(format!("{} is not one model that a solver could be given; these are: {with}", spec.id))
        })?;
        let parameters = parameters(method, &spec.parameters)?;
        let impossible =
            |error: &dyn std::fmt::Display| Failure::failed(format!("{} on {}: {error}", spec.id, instance.name()));
        method.supports(instance).map_err(|reason| impossible(&reason))?;
        let encoding = encode(instance, &parameters, bytes).map_err(|error| match error {
            // The method takes the instance: what it lacks is a model within the budget, and why.
            MethodError::Unsupported(reason) => impossible(&reason),
            error => impossible(&error),
        })?;
        Ok(Self { encoding, setting: format!("{}[{parameters}]", spec.id), instance, bytes })
    }

    /// Writes the text; the instance and the budget are called as the reader calls them.
    ///
    /// # Errors
    /// What `out` says.
    pub fn write(&self, format: Format, called: &str, budget: &str, out: &mut dyn Write) -> std::io::Result<()> {
        let mut head = vec![
            ("bench", VERSION.to_owned()),
            ("instance", called.to_owned()),
            ("instance-name", self.instance.name().to_owned()),
            ("instance-hash", self.instance.hash().to_string()),
            ("method", self.setting.clone()),
            ("budget", budget.to_owned()),
            ("budget-bytes", self.bytes.map_or("unlimited".into(), |bytes| bytes.to_string())),
        ];
        head.extend(self.encoding.facts());
        self.encoding.write(format, out, &head)
    }

    /// The same, to a file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn save(&self, format: Format, called: &str, budget: &str, path: &Path) -> std::io::Result<()> {
        replace(path, |mut out| {
            if !is_compressed(path) {
                return self.write(format, called, budget, out);
            }
            let mut encoder = GzEncoder::new(&mut out, Compression::best());
            self.write(format, called, budget, &mut encoder)?;
            encoder.finish().map(drop)
        })
    }
}

/// Whether a file's name says that it is compressed.
pub fn is_compressed(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == COMPRESSED)
}

/// The text of a model's file.
///
/// # Errors
/// The file cannot be opened.
pub fn open(path: &Path) -> std::io::Result<Box<dyn Read>> {
    let file = File::open(path)?;
    Ok(if is_compressed(path) { Box::new(MultiGzDecoder::new(file)) } else { Box::new(file) })
}

/// What the head of an exported model says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// The instance, as the one who exported named it.
    pub instance: String,
    /// Its hash.
    pub hash: String,
    /// Method and parameters.
    pub method: String,
    /// Budget in bytes.
    pub budget: Option<u64>,
}

impl Head {
    /// Reads the comments at the head of a model.
    ///
    /// # Errors
    /// What is missing or wrong.
    pub fn read(text: &str) -> Result<Self, String> {
        let comment = |line: &str| {
            let line = Format::ALL.iter().find_map(|format| line.strip_prefix(format.comment()));
            line.and_then(|line| line.trim().split_once(": ")).map(|(key, value)| (key.to_owned(), value.to_owned()))
        };
        let pairs: Vec<(String, String)> = text.lines().map_while(comment).collect();
        let value = |key: &str| {
            let found = pairs.iter().find(|(name, _)| name == key).map(|(_, value)| value.clone());
            found.ok_or_else(|| {
                let mut message = String::from("is no model that `bench export` wrote: its head has no line ");
                let _ = write!(message, "\"{key}: ...\"");
                message
            })
        };
        let budget = value("budget-bytes")?;
        let bytes = budget.parse().ok();
        if bytes.is_none() && budget != "unlimited" {
            return Err(format!("its head says \"budget-bytes: {budget}\"; expected a whole number or unlimited"));
        }
        Ok(Self {
            instance: value("instance")?,
            hash: value("instance-hash")?,
            method: value("method")?,
            budget: bytes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_read_from_both_formats_and_refused_where_they_say_too_little() {
        let text = |mark: &str| {
            format!(
                "{mark} bench: 0.1.0\n{mark} instance: a/b.json\n{mark} instance-hash: h\n{mark} method: m[a=1,b=2]\n{mark} budget-bytes: 7\nNAME x\n"
            )
        };
        let expected =
            Head { instance: "a/b.json".into(), hash: "h".into(), method: "m[a=1,b=2]".into(), budget: Some(7) };
        assert_eq!(Head::read(&text("*")), Ok(expected.clone()));
        assert_eq!(Head::read(&text("\\")), Ok(expected));
        assert!(Head::read("NAME x\n").is_err_and(|error| error.contains("no line \"budget-bytes: ...\"")));
        assert!(Head::read("* budget-bytes: 7.5\n").is_err_and(|error| error.contains("7.5")));
    }
}
