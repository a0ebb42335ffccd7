#!/usr/bin/env bash
# Measures networks on this machine's CPU or GPU, solves them, executes the schedules, and writes results/replay-cpu/ or -gpu/.
#   scripts/replay.sh cpu|cuda BENCH
# Needs the profiler (scripts/setup.sh --profiler, or REMAT_PYTHON names a Python with torch) and a quiet machine; on a CPU 20
# minutes. Instances go to instances/replay/ or replay-gpu/ (delete them to measure anew); goes on where an earlier run stopped. On
# a GPU networks are traced side by side and measured one after the other, and so are the replays.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ $# -ne 2 ]; then
    echo "usage: $0 cpu|cuda BENCH" >&2
    exit 2
fi
device=$1 bench=$(realpath "$2")
export PYTHONPATH=$PWD/profiler
python=${REMAT_PYTHON:-$(scripts/profiler-venv.sh)/bin/python}
profiler() { "$python" -m remat_profiler "$@" </dev/null; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# NAME MODEL BATCH SHAPE FLAGS; a GPU's iterations take a tenth of a second.
case $device in
    cpu) instances=instances/replay results=results/replay-cpu suffix=json.zst alone=15 within=15 jobs=1
        export OMP_NUM_THREADS=1
        networks='chain-b8 toy:chain 8 3x32x32 --alternatives
residual-b8 toy:residual 8 3x32x32 --alternatives
unet-skip-b4 toy:unet-skip 4 3x32x32 --alternatives
transformer-b16 toy:transformer 16 8
resnet18-224-b4 torchvision:resnet18 4 3x224x224 --alternatives
mobilenet-v2-224-b4 torchvision:mobilenet_v2 4 3x224x224 --alternatives
gpt2-64-b1 transformers:gpt2 1 64' ;;
    # Python on such a machine may lack zstandard.
    cuda) instances=instances/replay-gpu results=results/replay-gpu suffix=json.gz alone=3 within=7 jobs=12
        export REMAT_DEVICE_LOCK=${REMAT_DEVICE_LOCK:-$scratch/lock}
        gpu=$(nvidia-smi --query-gpu=name --format=csv,noheader | awk 'NR == 1 { print tolower($2) }')
        networks="resnet50-224-b128-$gpu torchvision:resnet50 128 3x224x224 --alternatives
mobilenet-v2-224-b192-$gpu torchvision:mobilenet_v2 192 3x224x224
vgg16-224-b96-$gpu torchvision:vgg16 96 3x224x224
gpt2-1024-b8-$gpu transformers:gpt2 8 1024" ;;
    *) echo "usage: $0 cpu|cuda BENCH" >&2; exit 2 ;;
esac
networks=${REMAT_REPLAY_NETWORKS:-$networks}
mkdir -p $instances

# Traced with the times of operators that run alone; then times anew, inside of whole iterations, with repetitions where a
# schedule has them.
measure() {
    local name=$1 model=$2 batch=$3 shape=$4
    shift 4
    [ ! -e "$instances/$name.$suffix" ] && [ ! -e "$instances/$name.json.zst" ] || return 0
    profiler trace --model "$model" --batch "$batch" --shape "$shape" --device "$device" --repeats $alone "$@" -o "$scratch/$name.$suffix"
    "$bench" solve "$scratch/$name.$suffix" --method sequential --budget 2x -o "$scratch/$name-plan.json" > /dev/null
    profiler remeasure --device "$device" --instance "$scratch/$name.$suffix" --schedule "$scratch/$name-plan.json" --repeat $within \
        -o "$instances/$name.$suffix"
}
# Replays the lines of a pack's list that have the word, networks side by side.
by_network() {
    (cd "$1" && rm -f list-*.tsv && awk -F'\t' -v word="$2" \
        '$0 ~ word { name = $1; gsub(/[^A-Za-z0-9]/, "-", name); print > ("list-" name ".tsv") }' list.tsv)
    local list replaying=()
    for list in $(find "$1" -name 'list-*.tsv'); do profiler replay-batch "$list" --device cuda --repeat 5 & replaying+=($!); done
    waited "${replaying[@]}"
}
# What fails is said; the others go on without it, and the exit code says that something failed.
failed=0
waited() { for child in "$@"; do wait "$child" || failed=1; done; }
measuring=()
while read -r line; do
    # shellcheck disable=SC2086 # words
    if [ "$device" = cuda ]; then measure $line & measuring+=($!); else measure $line; fi
done <<< "$networks"
waited "${measuring[@]}"
mkdir -p $results

"$bench" run --suite "$(basename $results)" --out $results --resume --jobs $jobs --no-plots > /dev/null
if [ "$device" = cuda ]; then
    pack=$results/pack
    "$bench" replay $results --device cuda --pack $pack > /dev/null
    by_network $pack . > /dev/null
    "$bench" replay $results --device cuda --from $pack > /dev/null || failed=1
    # Some of them once more, in one arena each.
    # Plans of the same rows stay: a record is of one plan, and other ones would be executed anew.
    [ $results/plans.csv -nt $results/records.csv ] || "$bench" allocate --results $results --time-limit 1 > /dev/null
    "$bench" replay $results --device cuda --arena --pack $pack-arena > /dev/null
    by_network $pack-arena '/auto' > /dev/null
    if [ -d $pack-arena/records ]; then "$bench" replay $results --device cuda --arena --from $pack-arena > /dev/null || failed=1; fi
else
    "$bench" replay $results --device cpu --repeat 5 > /dev/null || failed=1
fi
"$bench" table --show replay --format csv $results > $results/errors.csv
for network in $instances/*; do
    case $device-$(basename "$network") in
        cuda-resnet50* | cpu-resnet* | cpu-mobilenet* | cpu-chain* | cpu-residual* | cpu-unet*)
            profiler alternatives --instance "$network" --device "$device" --repeat 9 -o $results/alternatives.csv ;;
    esac
done
if [ "$device" = cpu ]; then
    mkdir -p $results/compiled
    for name in resnet18-224-b4 gpt2-64-b1; do
        for budget in 1 0.5 0; do
            record=$results/compiled/$name-$budget.json
            [ -e "$record" ] || profiler baseline --instance $instances/$name.json.zst --method "compile[budget=$budget]" \
                --repeat 5 -o "$record"
        done
    done
fi
"$bench" table --show replay-networks $results
exit $failed
