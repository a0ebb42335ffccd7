#!/usr/bin/env bash
# Runs the suite paper-moccasin, each budget by itself so that times to the first and the best schedule count from
# its own beginning, and prints results/paper-moccasin.md and .csv.
#   scripts/paper-moccasin.sh BENCH SECONDS JOBS [FLAGS of bench run, such as --methods fastsa]
# Adds the public graphs where BENCH_REFERENCE_DATA names their folder (they are converted into a scratch folder and
# not kept), and CP-SAT where scripts/setup.sh --ortools has installed it. Goes on where an earlier run stopped.
set -euo pipefail
cd "$(dirname "$0")/.."
bench=$(realpath "$1") seconds=$2 jobs=$3
shift 3
flags=("$@")
results=$PWD/results/paper-moccasin
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

mkdir -p "$scratch/instances/suites" "$scratch/instances/public"
for folder in moccasin checkmate resnet; do ln -s "$PWD/instances/$folder" "$scratch/instances/$folder"; done
suite=$scratch/instances/suites/paper-moccasin.toml
cp instances/suites/paper-moccasin.toml "$suite"
if [ -n "${BENCH_REFERENCE_DATA:-}" ]; then
    for graph in moccasin/rl1-n100 moccasin/rl3-n500 checkmate/fcn8-train checkmate/unet-train; do
        name=$(basename "${graph%-train}")
        "$bench" instances import "$BENCH_REFERENCE_DATA/$graph.json" --name "$name" -o "$scratch/instances/public/$name.json.zst"
    done
    sed -i 's|^instances = \[|instances = [\n    "public/*",|' "$suite"
else
    echo "without the public graphs: BENCH_REFERENCE_DATA is not set" >&2
fi
if find "$(scripts/ortools-venv.sh)" -name 'libortools.*' -print -quit 2>/dev/null | grep -q .; then
    sed -i 's|^id = "moccasin"$|id = "moccasin"\nparameters = { solver = ["embedded", "cp-sat"] }|' "$suite"
else
    echo "without CP-SAT: scripts/setup.sh --ortools installs it" >&2
fi

run() {
    (cd "$scratch" && "$bench" run --suite paper-moccasin --time-limit "$seconds" --jobs "$jobs" --threads 1 \
        --no-plots --resume --out "$results" "${flags[@]}" "$@" >/dev/null)
}
for budget in 0.9x 0.8x; do run --budgets "$budget" || echo "rows at $budget ended in errors: see records.csv" >&2; done
if [ -n "${BENCH_REFERENCE_DATA:-}" ]; then run --instances 'public/unet' --budgets 0.5x; fi
"$bench" plot results/paper-moccasin --out "$scratch/plots"
for figure in rl1-n100@0.8x rl3-n500@0.8x layered-n250@0.8x layered-n1000@0.9x; do
    if [ -e "$scratch/plots/progress/$figure.svg" ]; then
        cp "$scratch/plots/progress/$figure.svg" "results/paper-moccasin-${figure/@/-}.svg"
    fi
done
python3 scripts/paper_moccasin.py "$results" "$seconds" "$jobs" results/paper-moccasin
