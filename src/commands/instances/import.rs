//! `bench instances import`: a published chain or graph as an instance.

use std::path::{Path, PathBuf};

use clap::Args;
use remat_core::Instance;
use remat_core::chain_file::{ImportFile, Scale, instance_of, units_of};
use remat_core::format::{InstanceDocument, Origin};
use remat_core::io::{parse_json, read_bytes, write_json};
use remat_core::node_link::{self, NodeLinkFile};

use crate::ground::failure::Failure;
use crate::ground::output;

/// Arguments of `bench instances import`.
#[derive(Debug, Args)]
#[command(
    after_help = "The arrays stand at the top of the file, under \"chain\", or in a list under \"instances\".\nWithout a scale the numbers must be whole, and the instance keeps the file's own units.\n\nExamples:\n  bench instances import chain.json -o instances/small/chain.json\n  bench instances import all.json -o toy.json --time-scale 1000000 --memory-scale 1048576 --index 2"
)]
pub struct Arguments {
    /// Chain file, or graph in node-link form (.json, .json.zst or .json.gz)
    file: PathBuf,
    #[command(flatten)]
    target: Target,
    /// Nanoseconds per unit of time, e.g. 1000000 for milliseconds
    #[arg(long, value_name = "NS", allow_negative_numbers = true)]
    time_scale: Option<f64>,
    /// Bytes per unit of size, e.g. 1048576 for MiB
    #[arg(long, value_name = "BYTES", allow_negative_numbers = true)]
    memory_scale: Option<f64>,
    /// Which chain of a list under "instances", from 0
    #[arg(long, value_name = "I")]
    index: Option<usize>,
    /// Publication that the numbers are from
    #[arg(long, value_name = "TEXT", default_value = "imported chain file")]
    paper: String,
}

/// Where an imported instance goes, and what is said of it.
#[derive(Debug, Args)]
pub struct Target {
    /// Write the instance to this file (.json, .json.zst or .json.gz)
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
    /// Name of the instance [default: the output file's]
    #[arg(long)]
    name: Option<String>,
    /// Add this to the instance's notes, say the repository and its licence (repeatable)
    #[arg(long, value_name = "TEXT")]
    note: Vec<String>,
}

/// Imports a chain or a graph.
///
/// # Errors
/// The file holds neither, or the instance cannot be written.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let Arguments { file, target, time_scale, memory_scale, index, paper } = arguments;
    let scale = Scale { time: scale("--time-scale", *time_scale)?, memory: scale("--memory-scale", *memory_scale)? };
    target.import(file, |name, file_name| {
        let bytes = read_bytes(file)?;
        let import: ImportFile = parse_json(file, &bytes)?;
        let origin = |location| Origin::Published { paper: paper.clone(), location };
        if import.is_graph().map_err(Failure::at(file))? {
            if time_scale.is_some() || memory_scale.is_some() || index.is_some() {
                return Err(Failure::at(file)("is a graph; scales and --index belong to chains"));
            }
            let graph: NodeLinkFile = parse_json(file, &bytes)?;
            return node_link::instance_of(name, &graph, &origin(file_name)).map_err(Failure::at(file));
        }
        let (location, arrays) = import.arrays(*index).map_err(Failure::at(file))?;
        let chain = arrays.chain(scale).map_err(|error| Failure::at(file)(format!("at {location}: {error}")))?;
        Ok(instance_of(name, &chain, units_of(scale), &origin(format!("{file_name}, {location}"))))
    })
}

impl Target {
    /// Writes what an importer makes of a file, given the names of the instance and of the file, and says how large it is.
    ///
    /// # Errors
    /// What the importer says, or the instance cannot be written.
    pub fn import(
        &self,
        file: &Path,
        make: impl FnOnce(&str, String) -> Result<InstanceDocument, Failure>,
    ) -> Result<(), Failure> {
        let Self { output, name, note } = self;
        let mut document = make(&name.clone().unwrap_or_else(|| stem(output)), file_name(file))?;
        output::keep_apart(&[file], &[Some(output)])?;
        document.provenance.notes.extend(note.iter().cloned());
        let instance = Instance::new(&document)
            .map_err(|error| Failure::at(file)(format!("can be read, but makes no instance: {error}")))?;
        write_json(output, &document).map_err(Failure::writing)?;
        let (operators, tensors) = (instance.operators().len(), instance.tensors().len());
        let (path, hash) = (output.display(), instance.hash());
        output::info(&format!("{path}: {operators} operators, {tensors} tensors, hash {hash}"));
        Ok(())
    }
}

fn scale(option: &str, value: Option<f64>) -> Result<Option<f64>, Failure> {
    match value {
        Some(scale) if !(scale.is_finite() && scale > 0.0) => {
            Err(Failure::input(format!("{option} is {scale}; expected a number above 0")))
        }
        other => Ok(other),
    }
}

/// The name of a file: what provenance says of where the numbers stand.
fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The name of a file without its ending.
pub fn stem(path: &Path) -> String {
    let name = file_name(path);
    name.split(".json").next().unwrap_or_default().to_owned()
}
