#!/usr/bin/env bash
# Measures small networks on this machine's CPU, solves them, executes the schedules, and writes results/replay-cpu/.
#   scripts/replay-cpu.sh BENCH
# Needs the profiler (scripts/setup.sh --profiler) and a quiet machine; twenty minutes. Instances go to instances/replay/
# (delete them to measure anew), rows to results/replay-cpu/; goes on where an earlier run stopped.
set -euo pipefail
cd "$(dirname "$0")/.."
bench=$(realpath "$1")
instances=instances/replay results=results/replay-cpu
export OMP_NUM_THREADS=1 PYTHONPATH=$PWD/profiler
python=$(scripts/profiler-venv.sh)/bin/python
profiler() { "$python" -m remat_profiler "$@"; }

mkdir -p $instances
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
while read -r name model batch shape flags; do
    # shellcheck disable=SC2086 # flags are words
    [ ! -e "$instances/$name.json.zst" ] || continue
    profiler trace --model "$model" --batch "$batch" --shape "$shape" --device cpu --repeats 15 $flags -o "$scratch/$name.json.zst" </dev/null
    # Times anew, inside of whole iterations; repetitions where a schedule has them.
    "$bench" solve "$scratch/$name.json.zst" --method sequential --budget 2x -o "$scratch/$name-plan.json" > /dev/null
    profiler remeasure --instance "$scratch/$name.json.zst" --schedule "$scratch/$name-plan.json" --repeat 15 \
        -o "$instances/$name.json.zst" </dev/null
done <<'NETWORKS'
chain-b8 toy:chain 8 3x32x32 --alternatives
residual-b8 toy:residual 8 3x32x32 --alternatives
unet-skip-b4 toy:unet-skip 4 3x32x32 --alternatives
transformer-b16 toy:transformer 16 8
resnet18-224-b4 torchvision:resnet18 4 3x224x224 --alternatives
mobilenet-v2-224-b4 torchvision:mobilenet_v2 4 3x224x224 --alternatives
gpt2-64-b1 transformers:gpt2 1 64
NETWORKS

"$bench" run --suite replay-cpu --out $results --resume --jobs 1 --no-plots > /dev/null
"$bench" replay $results --device cpu --repeat 5 > /dev/null
"$bench" table --show replay --format csv $results > $results/errors.csv
for network in $instances/*; do
    case $(basename "$network") in transformer-*|gpt2-*) ;; *)
        profiler alternatives --instance "$network" --repeat 9 -o $results/alternatives.csv;;
    esac
done
mkdir -p $results/compiled
for name in resnet18-224-b4 gpt2-64-b1; do
    for budget in 1 0.5 0; do
        record=$results/compiled/$name-$budget.json
        [ -e "$record" ] || profiler baseline --instance $instances/$name.json.zst --method "compile[budget=$budget]" \
            --repeat 5 -o "$record"
    done
done
"$bench" table --show replay-networks $results
