//! `bench instances generate`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use remat_core::generate::layered::{Layered, layered};
use remat_core::generate::{self, RandomKind};
use remat_core::io::write_json;

use super::import::stem;
use crate::ground::failure::Failure;
use crate::ground::output;

/// Arguments of `bench instances generate`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  bench instances generate figure4 --n 10 -o instances/small/figure4-n10.json\n  bench instances generate random-chain --stages 50 --seed 1 --kind big -o chain.json\n  bench instances generate layered --nodes 250 --width 0.43 --seed 1 -o layered.json"
)]
pub struct Arguments {
    /// What to generate
    #[command(subcommand)]
    kind: Kind,
    /// Write the instance to this file (.json, .json.zst or .json.gz)
    #[arg(long, short, value_name = "FILE", global = true)]
    output: Option<PathBuf>,
    /// Name of the instance [default: the output file's]
    #[arg(long, global = true)]
    name: Option<String>,
}

/// The generators.
#[derive(Debug, Subcommand)]
enum Kind {
    /// Figure 4 of rotor-toms-2024: no memory-persistent sequence is optimal at a memory of 15
    Figure4 {
        /// The figure's n; the chain has n + 2 stages and the loss
        #[arg(long, value_parser = clap::value_parser!(u64).range(3..=80_000))]
        n: u64,
        /// Time of the first forward [default: n - 2]
        #[arg(long, value_parser = clap::value_parser!(u64).range(..=1_000_000_000))]
        k: Option<u64>,
    },
    /// Figure 2 of rotor-rr9302-2019: the same at a memory of 8
    #[command(name = "rr9302-figure2")]
    Rr9302Figure2 {
        /// The figure's n; the chain has n + 2 stages and the loss
        #[arg(long, value_parser = clap::value_parser!(u64).range(3..=80_000))]
        n: u64,
        /// Time of the first forward [default: n - 1]
        #[arg(long, value_parser = clap::value_parser!(u64).range(..=1_000_000_000))]
        k: Option<u64>,
    },
    /// A chain of forward operators, loss and backward operators that all cost 1 and make 1 (Checkmate's)
    UnitChain {
        /// Forward operators
        #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100_000))]
        layers: u32,
    },
    /// A random chain of a documented 64-bit linear congruential generator
    RandomChain {
        /// Stages, the loss not counted
        #[arg(long, value_parser = clap::value_parser!(u64).range(1..=80_000))]
        stages: u64,
        /// Seed
        #[arg(long)]
        seed: u64,
        /// Sizes and overheads
        #[arg(long, value_enum)]
        kind: ChainKind,
    },
    /// A random layered graph in the manner of Moccasin's Table 1
    Layered {
        /// Operators, source and target included
        #[arg(long, value_parser = clap::value_parser!(u32).range(3..=1_000_000))]
        nodes: u32,
        /// Half the mean width of a layer over the root of the number of operators; Moccasin: 0.27, 0.43,
        /// 0.36, 0.31 for 100, 250, 500, 1000
        #[arg(long, value_parser = above_zero)]
        width: f64,
        /// How far widths vary, as a share of the mean
        #[arg(long, default_value = "0.75", value_parser = share)]
        variation: f64,
        /// Share of the pairs between neighbouring layers that are edges
        #[arg(long, default_value = "0.2", value_parser = share)]
        density: f64,
        /// Share of the edges that skip at least one layer
        #[arg(long, default_value = "0.14", value_parser = part)]
        skips: f64,
        /// Seed
        #[arg(long)]
        seed: u64,
    },
}

fn number(text: &str, expected: &str, holds: impl Fn(f64) -> bool) -> Result<f64, String> {
    text.parse().ok().filter(|&value| holds(value)).ok_or_else(|| format!("expected a number {expected}"))
}

fn above_zero(text: &str) -> Result<f64, String> {
    number(text, "from 0.001 to 1000", |value| (0.001..=1000.0).contains(&value))
}

fn share(text: &str) -> Result<f64, String> {
    number(text, "from 0 to 1", |value| (0.0..=1.0).contains(&value))
}

fn part(text: &str) -> Result<f64, String> {
    number(text, "from 0 to 0.9", |value| (0.0..=0.9).contains(&value))
}

/// Kinds of random chains.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum ChainKind {
    /// Sizes like bytes: 1,000 to 64,000
    Big,
    /// The same without forward overheads
    Big0,
    /// Tiny sizes: 1 to 20
    Small,
    /// The same without overheads
    Small0,
}

/// Generates an instance.
///
/// # Errors
/// The instance cannot be written.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let Some(path) = &arguments.output else {
        return Err(Failure::input("no file to write to; name one with -o FILE.json"));
    };
    let name = arguments.name.clone().unwrap_or_else(|| stem(path));
    let document = match arguments.kind {
        Kind::Figure4 { n, k } => generate::figure4(&name, n, k.unwrap_or(n - 2)),
        Kind::Rr9302Figure2 { n, k } => generate::rr9302_figure2(&name, n, k.unwrap_or(n - 1)),
        Kind::UnitChain { layers } => generate::unit::unit_chain(&name, layers),
        Kind::RandomChain { stages, seed, kind } => {
            let kind = match kind {
                ChainKind::Big => RandomKind::Big,
                ChainKind::Big0 => RandomKind::Big0,
                ChainKind::Small => RandomKind::Small,
                ChainKind::Small0 => RandomKind::Small0,
            };
            generate::random_chain(&name, stages, seed, kind)
        }
        Kind::Layered { nodes, width, variation, density, skips, seed } => {
            layered(&name, &Layered { nodes, width, variation, density, skips }, seed)
        }
    };
    let checked = remat_core::Instance::new(&document).map_err(|error| Failure::input(format!("{name:?}: {error}")))?;
    write_json(path, &document).map_err(Failure::writing)?;
    output::info(&format!("{}: {} operators, hash {}", path.display(), checked.operators().len(), checked.hash()));
    Ok(())
}
