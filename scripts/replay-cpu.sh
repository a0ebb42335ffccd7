#!/usr/bin/env bash
# Measures small networks on this machine's CPU, solves them, executes the schedules, and writes results/replay-cpu/.
#   scripts/replay-cpu.sh BENCH
# Needs the profiler (scripts/setup.sh --profiler) and a quiet machine; ten minutes. Instances go to instances/replay/
# (delete them to measure anew), rows to results/replay-cpu/; goes on where an earlier run stopped.
set -euo pipefail
cd "$(dirname "$0")/.."
bench=$(realpath "$1")
instances=instances/replay results=results/replay-cpu
export OMP_NUM_THREADS=1 PYTHONPATH=$PWD/profiler
python=$(scripts/profiler-venv.sh)/bin/python
profiler() { "$python" -m remat_profiler "$@"; }

mkdir -p $instances
while read -r name model batch shape flags; do
    # shellcheck disable=SC2086 # flags are words
    [ -e "$instances/$name.json.zst" ] || profiler trace --model "$model" --batch "$batch" --shape "$shape" \
        --device cpu --repeats 15 $flags -o "$instances/$name.json.zst" </dev/null
done <<'NETWORKS'
chain-b8 toy:chain 8 3x32x32 --alternatives
residual-b8 toy:residual 8 3x32x32 --alternatives
unet-skip-b4 toy:unet-skip 4 3x32x32 --alternatives
transformer-b16 toy:transformer 16 8
resnet18-224-b8 torchvision:resnet18 8 3x224x224 --alternatives
mobilenet-v2-224-b8 torchvision:mobilenet_v2 8 3x224x224 --alternatives
gpt2-128-b2 transformers:gpt2 2 128
NETWORKS

"$bench" run --suite replay-cpu --out $results --resume --jobs 1 --no-plots > /dev/null
"$bench" replay $results --device cpu > /dev/null
"$bench" table --show replay --format csv $results > $results/errors.csv
for network in $instances/*; do
    name=$(basename "$network" .json.zst)
    for budget in 1 0.75 0.5 0.25 0; do
        record=$results/compiled/$name-$budget.json
        mkdir -p "$(dirname "$record")"
        [ -e "$record" ] || profiler baseline --instance "$network" --method "compile[budget=$budget]" --repeat 7 -o "$record" || true
    done
    case $name in transformer-*|gpt2-*) ;; *)
        profiler alternatives --instance "$network" --repeat 15 -o $results/alternatives.csv;;
    esac
done
"$python" scripts/replay-cpu-page.py
