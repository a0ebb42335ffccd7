# Recipes of the project; `just --list` shows them. scripts/setup.sh installs what they need.

export RUSTDOCFLAGS := "-D warnings"

# Show the recipes
default:
    @just --list --unsorted

# Run the main job: the ResNet suite, its table and its plots
resnet *flags:
    cargo run --release -- run --suite resnet {{ flags }}

# Run all checks and tests; with --profiler also those of the Python profiler (needs torch)
test *flags: fmt-check clippy test-rust doc
    {{ if flags =~ "--profiler" { "just test-profiler" } else { "true" } }}

# Format the code
fmt:
    cargo fmt --all

# Check the format
fmt-check:
    cargo fmt --all --check

# Lint; warnings are errors
clippy:
    cargo clippy --workspace --all-targets --quiet -- -D warnings

# Test the Rust side
test-rust:
    cargo test --workspace --quiet

# Test every solver, CBC included (needs coinor-libcbc-dev, which scripts/setup.sh installs where apt is)
test-solvers:
    cargo test -p remat-solvers --features cbc --quiet

# Build the documentation; warnings are errors
doc:
    cargo doc --workspace --no-deps --quiet

# Test the Python profiler
test-profiler:
    cd profiler && "$(../scripts/profiler-venv.sh)/bin/python" -m pytest -q

# Trace committed instances anew: one folder, or all of them (needs torch, timm, transformers; half an hour)
instances *suites="resnet checkmate kusumoto rotor monet fastsa":
    cd profiler && for suite in {{ suites }}; do \
        "$(../scripts/profiler-venv.sh)/bin/python" -m remat_profiler suite "$suite" -o "../instances/$suite" || exit 1; \
    done

# Compare the committed instances and algorithms with what the papers print (needs the profiler's venv)
published:
    PYTHONPATH=profiler "$(scripts/profiler-venv.sh)/bin/python" -m remat_profiler compare > results/published/comparison.md
    PYTHONPATH=profiler "$(scripts/profiler-venv.sh)/bin/python" -m remat_profiler harvest figure7 \
        instances/devices/model-p100/figure7.csv -o results/published/figure7.svg
    PYTHONPATH=profiler "$(scripts/profiler-venv.sh)/bin/python" -m remat_profiler harvest figure7 \
        instances/devices/monet-p100/figure7-b184.csv instances/devices/model-p100/figure7-b184.csv \
        -o results/published/figure7-b184.svg

# Measure: Rotor's dynamic program beside the original's times, and the simulator
bench:
    cargo bench -p remat-formulations --bench rotor
    cargo bench -p remat-formulations --bench kusumoto -- resnet18 resnet50 resnet152
    cargo bench -p remat-formulations --bench checkmate
    cargo bench -p remat-formulations --bench fastsa
    cargo bench -p remat-core --bench simulator

# Everything that CI runs
ci: (test "--profiler")

import 'profiler/justfile'
