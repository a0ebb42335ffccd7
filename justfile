# Recipes of the project; `just --list` shows them. scripts/setup.sh installs what they need.

export RUSTDOCFLAGS := "-D warnings"

# Show the recipes
default:
    @just --list --unsorted

# Run the main job: the ResNet suite, its digest, tables and plots
resnet *flags:
    cargo run --release -- run --suite resnet {{ flags }}

# Run the main job anew and take its overall figure over for the README (an idle machine)
resnet-figure: (resnet "--fresh --force")
    cp results/resnet/plots/overhead-against-budget.svg results/resnet-overhead.svg

# Check format, lints, documentation and the book; warnings are errors
check: fmt-check clippy doc book check-profiler

# Run all tests; with --profiler also those of the Python profiler (needs torch)
test *flags: test-rust
    {{ if flags =~ "--profiler" { "just test-profiler" } else { "true" } }}

# Format the code
fmt:
    cargo fmt --all

# Check the format
fmt-check:
    cargo fmt --all --check

# Lint; warnings are errors
clippy:
    cargo clippy --workspace --all-targets --features faults --quiet -- -D warnings

# Test the Rust side: what `cargo build --release` builds, with workers that can misbehave; then the plain program, which cannot, is back
test-rust:
    cargo test --workspace --release --features faults --quiet --bins --test '*'
    cargo test --workspace --release --quiet --lib --config scripts/unit-tests.toml
    cargo build --release --quiet
    ! grep -q BENCH_TEST_FAULT "${CARGO_TARGET_DIR:-target}/release/bench"

# Build the program
release:
    cargo build --release --quiet

# Hold all methods against each other on random instances for so many seconds
fuzz seconds="60":
    cargo run --release --quiet -- fuzz --seconds {{ seconds }}

# Test CBC's library too, linked (apt install coinor-libcbc-dev); it once in a while never comes back, so not part of `just test`
test-cbc-linked:
    timeout 600 cargo test --workspace --release --features cbc --test backends

# Build the documentation; warnings are errors
doc:
    cargo doc --workspace --no-deps --quiet

# Build the book of docs/ into target/book and check its links
book:
    scripts/book.py target/book

# Test the Python profiler; its replays take schedules from the binary
test-profiler: release
    cd profiler && "$(../scripts/profiler-venv.sh)/bin/python" -m pytest -q -n auto --maxprocesses 4 --dist worksteal

# Trace committed instances anew: one folder, or all of them (needs torch, timm, transformers; half an hour)
instances *suites="resnet resnet-alternatives checkmate kusumoto kusumoto-batches rotor monet fastsa large":
    cd profiler && for suite in {{ suites }}; do \
        "$(../scripts/profiler-venv.sh)/bin/python" -m remat_profiler suite "$suite" -o "../instances/$suite" || exit 1; \
    done
    cargo run --release --quiet -- instances index

# Compare the committed instances and algorithms with what the papers print (needs the profiler's venv)
published:
    PYTHONPATH=profiler "$(scripts/profiler-venv.sh)/bin/python" -m remat_profiler compare > results/published/comparison.md.new
    mv results/published/comparison.md.new results/published/comparison.md

# Execute the notebooks without a screen, in a virtual environment outside of the checkout
notebooks *files: release
    "$(scripts/notebooks-venv.sh --install)/bin/python" notebooks/execute.py {{ files }}

# Write the pages of the methods from their doc comments, and that of the command line from its help
pages:
    cargo run --release --quiet -- methods --pages docs/methods
    cargo run --release --quiet -- man --page docs/reference/command-line.md

# Compare the papers' tables and figures with ours (minutes; --full as long as it takes), and fill the texts that say so
reproduce *flags="--quick":
    cargo run --release -- reproduce --all {{ flags }}
    cargo run --release -- reproduce --splice README.md docs/results/overview.md results/reproduce/README.md

# Measure Rotor's and Kusumoto's programs: docs/findings' tables, and results/complexity.csv
bench-programs profile="bench":
    cargo bench --profile {{ profile }} -p remat-formulations --bench rotor
    cargo bench --profile {{ profile }} -p remat-formulations --bench complexity
    cargo bench --profile {{ profile }} -p remat-formulations --bench kusumoto -- kusumoto/ unit

# Measure makespan and time against slots into results/slots.csv (three minutes; rotor-weak on ResNet-1001, by hand, many more)
bench-slots profile="bench":
    #!/usr/bin/env bash
    set -euo pipefail
    run() { cargo bench -q --profile {{ profile }} -p remat-formulations --bench slots -- "$@"; }
    { run persistent L100 resnet101 resnet1001; run weak L100 resnet101 | tail -n +2; } > results/slots.csv.new
    mv results/slots.csv.new results/slots.csv

# Draw the figures of results/figures.toml from the tables that it names
figures:
    cargo run --release --quiet -- plot --figures results/figures.toml

# Write the library of best-known values as pages for a browser, into a folder
site folder="target/site":
    cargo run --release --quiet -- site results -o {{ folder }} --programs 150

# Measure all that takes minutes at most: the programs, Checkmate's, FastSA's and the simulator
bench: bench-programs
    cargo bench -p remat-formulations --bench checkmate
    cargo bench -p remat-formulations --bench fastsa
    cargo bench -p remat-formulations --bench convergence
    cargo bench -p remat-core --bench simulator

# Measure Checkmate's models and strategies into results/checkmate/ (hours with the ten-minute limits that it sets)
bench-checkmate seconds="600":
    #!/usr/bin/env bash
    set -euo pipefail
    mkdir -p results/checkmate
    # NAME ARGUMENT...: a table, which replaces the old one once it is whole.
    run() { cargo bench -q -p remat-formulations --bench checkmate -- "${@:2}" > "results/checkmate/$1.new"; mv "results/checkmate/$1.new" "results/checkmate/$1"; }
    graphs=$(ls "${BENCH_REFERENCE_DATA:?names the folder with checkmate/*-train.json}"/checkmate/*-train.json)
    networks=$(ls "$PWD"/instances/checkmate/*.json.zst "$PWD"/instances/resnet/resnet{18,50}-224-b32.json.zst | grep -v flops)
    run sizes.csv sizes $graphs "$PWD"/instances/resnet/resnet{18,50}-224-b32.json.zst
    every=95,90,85,80,75,70,65,60,55,50,45,40,35
    run public-coarse.csv solve $every coarse highs {{ seconds }} $graphs
    run public-strategies.csv solve 90,80,70,60,50 plain highs,cbc {{ seconds }} $graphs
    run networks.csv solve 90,80,70,60,50,40,30 coarse highs {{ seconds }} $networks

# Measure small networks on this CPU, execute schedules of them, and write results/replay-cpu/*.csv (a quiet machine, 20 minutes)
replay-cpu:
    cargo build --release
    scripts/replay.sh cpu target/release/bench

# Everything that CI runs
ci:
    .ci/run

import 'profiler/profiler.just'
