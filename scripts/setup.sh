#!/usr/bin/env bash
# Installs what a fresh machine lacks; does nothing where everything is there.
#   scripts/setup.sh             rustfmt, clippy and just: all that bench and its tests need
#   scripts/setup.sh --profiler  also torch (5 GB) and the profiler's other needs, in a virtual
#                                environment outside of the checkout, so that all checkouts share it
set -euo pipefail
cd "$(dirname "$0")/.."

command -v cargo >/dev/null || {
    echo "error: cargo is not installed; get Rust 1.89 or later with rustup (https://rustup.rs)" >&2
    exit 1
}
cargo fmt --version >/dev/null 2>&1 || rustup component add rustfmt
cargo clippy --version >/dev/null 2>&1 || rustup component add clippy
command -v just >/dev/null || cargo install --quiet --locked just

if [ "${1:-}" = --profiler ]; then
    venv=$(scripts/profiler-venv.sh)
    [ -x "$venv/bin/python" ] || python3 -m venv "$venv"
    "$venv/bin/python" -c 'import torch, torchvision, zstandard, pytest' 2>/dev/null ||
        "$venv/bin/python" -m pip install --quiet torch torchvision numpy zstandard pytest
fi
