#!/usr/bin/env bash
# Installs what a fresh machine lacks; does nothing where everything is there.
#   scripts/setup.sh             rustfmt, clippy and just: all that bench and its tests need
#   scripts/setup.sh --profiler  also torch (5 GB) and the profiler's other needs, in a virtual
#                                environment outside of the checkout, so that all checkouts share it
#   scripts/setup.sh --ortools   also OR-Tools (30 MB), whose CP-SAT the method moccasin can use, likewise
set -euo pipefail
cd "$(dirname "$0")/.."

command -v cargo >/dev/null || {
    echo "error: cargo is not installed; get Rust 1.89 or later with rustup (https://rustup.rs)" >&2
    exit 1
}
cargo fmt --version >/dev/null 2>&1 || rustup component add rustfmt
cargo clippy --version >/dev/null 2>&1 || rustup component add clippy
command -v just >/dev/null || cargo install --quiet --locked just

# cmake and libclang build the embedded HiGHS; CBC is an optional system library (cargo feature cbc); a
# browser opens the HTML report in its test.
sudo=
if [ "$(id -u)" -ne 0 ]; then sudo=sudo; fi
missing=()
command -v cmake >/dev/null || missing+=(cmake)
[ -n "$(find /usr/lib -maxdepth 3 \( -name 'libclang.so*' -o -name 'libclang-[0-9]*.so*' \) 2>/dev/null)" ] ||
    [ -n "${LIBCLANG_PATH:-}" ] || missing+=(libclang1-14)
[ -e /usr/include/coin/Cbc_C_Interface.h ] || missing+=(coinor-libcbc-dev)
command -v chromium >/dev/null || command -v google-chrome >/dev/null || missing+=(chromium)
# Slurm is for the test of --launcher slurm, which starts a cluster of one node for itself.
command -v sbatch >/dev/null && [ -x /usr/sbin/slurmctld ] && [ -x /usr/sbin/slurmd ] || missing+=(slurm-wlm)
[ -x /usr/sbin/munged ] || missing+=(munge)
if [ ${#missing[@]} -gt 0 ]; then
    if command -v apt-get >/dev/null; then
        $sudo apt-get update -q >/dev/null
        for package in "${missing[@]}"; do
            # Other releases number libclang otherwise; CBC, the browser and Slurm may stay away.
            $sudo apt-get install -y -q --no-install-recommends "$package" >/dev/null ||
                { [ "$package" = libclang1-14 ] && $sudo apt-get install -y -q --no-install-recommends libclang1 >/dev/null; } ||
                [[ " coinor-libcbc-dev chromium slurm-wlm munge " = *" $package "* ]]
        done
    else
        echo "install these by hand (CBC, chromium and Slurm are optional): ${missing[*]}" >&2
    fi
fi

if [ "${1:-}" = --profiler ]; then
    venv=$(scripts/profiler-venv.sh)
    [ -x "$venv/bin/python" ] || python3 -m venv "$venv"
    # Looked for by file, not by import, which takes seconds; pip leaves alone what is there already.
    "$venv/bin/python" -c 'import importlib.util as u, sys
sys.exit(not all(map(u.find_spec, sys.argv[1:])))' torch torchvision numpy zstandard pytest timm transformers ||
        "$venv/bin/python" -m pip install --quiet torch torchvision numpy zstandard pytest timm transformers
fi

if [ "${1:-}" = --ortools ]; then
    venv=$(scripts/ortools-venv.sh)
    [ -x "$venv/bin/python" ] || python3 -m venv "$venv"
    # Only the shared library is used, so none of the package's own needs.
    [ -n "$(find "$venv" -name 'libortools.*' -print -quit)" ] ||
        "$venv/bin/python" -m pip install --quiet --no-deps 'ortools>=9.12'
fi
