#!/usr/bin/env bash
# Prints where the notebooks' virtual environment is; with --install makes it, where it is not there yet.
# It lies outside of the checkout, so that all checkouts share it.
set -euo pipefail
venv="${BENCH_NOTEBOOKS_VENV:-${XDG_CACHE_HOME:-$HOME/.cache}/bench/notebooks-venv}"
if [ "${1:-}" = --install ]; then
    "$(dirname "$0")/make-venv.sh" "$venv"
    # Looked for by file, not by import, which takes seconds; pip leaves alone what is there already.
    "$venv/bin/python" -c 'import importlib.util as u, sys
sys.exit(not all(map(u.find_spec, sys.argv[1:])))' nbclient nbformat ipykernel pandas matplotlib zstandard ||
        "$venv/bin/python" -m pip install --quiet nbclient nbformat ipykernel pandas matplotlib zstandard >&2
fi
echo "$venv"
