#!/usr/bin/env bash
# Installs what a fresh machine lacks, a line for each step; says nothing where everything is there.
#   scripts/setup.sh             what the main job needs: HiGHS, prebuilt
#   scripts/setup.sh --tests     also what `just test` and `just check` need, and what some tests can use
#   scripts/setup.sh --profiler  also torch (5 GB) and the profiler's other needs, in a virtual
#                                environment outside of the checkout, so that all checkouts share it
#   scripts/setup.sh --ortools   also OR-Tools (30 MB), whose CP-SAT the method moccasin can use, likewise
set -euo pipefail
cd "$(dirname "$0")/.."

tests= profiler= ortools=
for flag in "$@"; do
    case $flag in
        --tests) tests=1 ;;
        --profiler) profiler=1 ;;
        --ortools) ortools=1 ;;
        *)
            echo "error: $flag is no flag of setup.sh; there are --tests, --profiler and --ortools" >&2
            exit 2
            ;;
    esac
done
sudo=
if [ "$(id -u)" -ne 0 ]; then sudo=sudo; fi
lost=()

step() { echo "setup: $*"; }

# apt PACKAGE...: installs the first that apt knows; fails where there is no apt, without its messages.
updated=
apt() {
    command -v apt-get >/dev/null || return 1
    [ -n "$updated" ] || { $sudo apt-get update -q >/dev/null 2>&1 && updated=1; }
    local package
    for package in "$@"; do
        DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -q --no-install-recommends "$package" >/dev/null 2>&1 && return 0
    done
    return 1
}

# optional WHAT IS-THERE LOST PACKAGE...: tries to install what some tests can use; IS-THERE is a command.
optional() {
    local what=$1 there=$2 without=$3
    shift 3
    if ! eval "$there" >/dev/null 2>&1; then
        step "$what with apt; without it: $without"
        apt "$@" || eval "$there" >/dev/null 2>&1 || lost+=("$what is not there: $without")
    fi
}

command -v cargo >/dev/null || {
    echo "error: cargo is not installed; get Rust 1.89 or later with rustup (https://rustup.rs)" >&2
    exit 1
}

# HiGHS, the solver, comes prebuilt; cargo compiles it from source where no wheel fits this machine.
prebuilt=${XDG_CACHE_HOME:-$HOME/.cache}/bench/highs-1.15.0
[ -e "$prebuilt/complete" ] || step "HiGHS, prebuilt, with libclang for its bindings, from the Python package index (30 MB)"
if ! reason=$(scripts/prebuilt.py "$prebuilt" 2>&1); then
    step "no prebuilt HiGHS ($reason); cargo will compile it, which takes eight CPU minutes"
    # One of somebody else's stays, and so does what they took over from ours.
    if head -n 1 .cargo/config.toml 2>/dev/null | grep -q '^# Written by scripts/setup.sh'; then rm .cargo/config.toml; fi
    command -v c++ >/dev/null || { echo "error: a C++ compiler is not installed (c++); HiGHS cannot be built" >&2; exit 1; }
    if ! command -v cmake >/dev/null; then
        step "cmake, which configures HiGHS' sources"
        apt cmake || { echo "error: cmake is not installed, and apt cannot get it; HiGHS cannot be built" >&2; exit 1; }
    fi
    if [ -z "${LIBCLANG_PATH:-}$(find /usr/lib -maxdepth 3 \( -name 'libclang.so*' -o -name 'libclang-[0-9]*.so*' \) 2>/dev/null)" ]; then
        step "libclang, which reads HiGHS' headers"
        apt libclang1-14 libclang1 || { echo "error: libclang is not installed, and apt cannot get it; name its folder in LIBCLANG_PATH" >&2; exit 1; }
    fi
fi

if [ -n "$tests" ]; then
    for component in fmt:rustfmt clippy:clippy; do
        cargo "${component%:*}" --version >/dev/null 2>&1 || {
            step "${component#*:}, for just check"
            rustup component add "${component#*:}"
        }
    done
    if ! command -v just >/dev/null; then
        step "just, the task runner, from the Python package index"
        scripts/prebuilt.py --just "${CARGO_HOME:-$HOME/.cargo}/bin" 2>/dev/null || cargo install --quiet --locked just
    fi
    if ! command -v mdbook >/dev/null; then
        step "mdBook, for just book, from the Python package index"
        scripts/prebuilt.py --mdbook "${CARGO_HOME:-$HOME/.cargo}/bin" 2>/dev/null || cargo install --quiet --locked mdbook
    fi
    # The newest CBC, or else the system's, which bench finds on the path.
    cbc=${XDG_CACHE_HOME:-$HOME/.cache}/bench/cbc-2.935
    [ -e "$cbc/complete" ] || step "CBC, a second solver, from the Python package index (190 MB to fetch, 35 MB to keep)"
    if ! reason=$(scripts/prebuilt.py --cbc "$cbc" 2>&1); then
        step "no prebuilt CBC ($reason)"
        optional "CBC" "command -v cbc" "nothing is solved with CBC" coinor-cbc
    fi
    optional "a browser" "command -v chromium || command -v google-chrome" "the HTML report is not opened in a test" chromium
    # For the test of --launcher slurm, which starts a cluster of one node for itself.
    optional "Slurm" "command -v sbatch && test -x /usr/sbin/slurmctld -a -x /usr/sbin/slurmd" "--launcher slurm is not tested" slurm-wlm
    optional "MUNGE" "test -x /usr/sbin/munged" "--launcher slurm is not tested" munge
fi

if [ -n "$profiler" ]; then
    venv=$(scripts/profiler-venv.sh)
    scripts/make-venv.sh "$venv"
    # torch in the range that the profiler's package names; the others as they come.
    torch=$(sed -n 's/^dependencies = \["\(torch[^"]*\)".*/\1/p' profiler/pyproject.toml)
    [ -n "$torch" ] || { echo "error: profiler/pyproject.toml names no range of torch as its first dependency" >&2; exit 1; }
    # Looked for by name, not by import, which takes seconds; pip leaves alone what is there already.
    needs=(torchvision numpy zstandard pytest pytest-xdist timm transformers scipy ruff mypy)
    if ! "$venv/bin/python" -c 'import importlib.metadata as m, sys
from pip._vendor.packaging.requirements import Requirement
needs = map(Requirement, sys.argv[1:])
sys.exit(not all(any(there.version in need.specifier for there in m.distributions(name=need.name)) for need in needs))' \
        "$torch" "${needs[@]}"; then
        step "$torch (5 GB) and the profiler's other needs, into $venv"
        "$venv/bin/python" -m pip install --quiet "$torch" "${needs[@]}"
    fi
fi

if [ -n "$ortools" ]; then
    venv=$(scripts/ortools-venv.sh)
    scripts/make-venv.sh "$venv"
    # Only the shared library is used, so none of the package's own needs.
    if [ -z "$(find "$venv" -name 'libortools.*' -print -quit)" ]; then
        step "OR-Tools (30 MB), for CP-SAT, into $venv"
        "$venv/bin/python" -m pip install --quiet --no-deps 'ortools>=9.12'
    fi
fi

for loss in ${lost[@]+"${lost[@]}"}; do step "$loss"; done
