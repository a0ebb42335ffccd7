#!/bin/sh
# One slice on a GPU that is lent for minutes: measures networks and executes schedules of them (scripts/replay.sh), trains within
# budgets (rematplan.page), then harvests operators and cuDNN's algorithms with the time that is left.
#   profiler/gpu.sh OUT [SECONDS]
# OUT/bin holds the planner (`just gpu-pack` on a machine with cargo). All that was measured so far is in OUT/back.tar.gz at any
# moment, and in the folder that $OUT names; unpacked in the checkout it is enough to go on. Exit code 0: all is done; 75: run the
# same again; else: an error. REMAT_GPU_PAGE has other options of the page, REMAT_GPU_NETWORKS names another list to harvest.
set -eu
if [ $# -lt 1 ]; then
    echo "usage: $0 OUT [SECONDS]" >&2
    exit 2
fi
here=$(cd "$(dirname "$0")" && pwd)
back=${OUT:-}
mkdir -p "$1"
out=$(cd "$1" && pwd)
seconds=${2:-540}
started=$(date +%s)
python=${PYTHON:-python3}
export PYTHONPATH="$here${PYTHONPATH:+:$PYTHONPATH}" REMAT_PYTHON="$python" REMAT_BENCH="$out/bin/bench" REMATPLAN_CACHE="$out/plans"
cd "$here/.."
if [ -f "$out/back.tar.gz" ]; then tar xzf "$out/back.tar.gz" --skip-old-files; fi

left() { echo $((seconds - $(date +%s) + started)); }

pack() {
    # shellcheck disable=SC2046 # names without spaces
    set -- $(for path in instances/replay-gpu results/replay-gpu results/compiled-gpu "$out/harvest"; do
        if [ -e "$path" ]; then realpath --relative-to=. "$path"; fi
    done)
    if [ $# -gt 0 ] && tar czf "$out/back.partial" "$@" 2>/dev/null; then
        mv "$out/back.partial" "$out/back.tar.gz"
        if [ -n "$back" ]; then cp "$out/back.tar.gz" "$back/"; fi
    fi
}
(while sleep 30; do pack; done) &
packing=$!
trap 'kill $packing; pack' EXIT

# At most until the seconds given are left; what is not done then goes on in the next slice.
until_left() {
    less=$1
    shift
    timeout "$(($(left) - less))" "$@"
}

nvidia-smi --query-gpu=name,driver_version,clocks.sm,memory.total --format=csv,noheader || true
result=0
# part NAME COMMAND...: the others go on without it; an error counts more than what is not finished.
part() {
    name=$1 code=0
    shift
    "$@" || code=$?
    case $code in
        0) ;;
        75 | 124) if [ $result -eq 0 ]; then result=75; fi ;;
        *) echo "$name ended with $code" >&2; result=$code ;;
    esac
}
# One after the other: rows that compile would keep the device from replays for minutes.
part replays until_left 20 scripts/replay.sh cuda "$REMAT_BENCH"
if [ "$(left)" -lt 150 ]; then exit $((result ? result : 75)); fi
# shellcheck disable=SC2086 # options are words
part training until_left 10 env TORCHINDUCTOR_COMPILE_THREADS=3 "$python" -u -m rematplan.page results/compiled-gpu --device cuda \
    --slice-seconds $(($(left) - 140)) ${REMAT_GPU_PAGE:---jobs 11 --seconds 8 --samples 7 --networks resnet50 gpt2 llama}
if [ "$(left)" -lt 60 ]; then exit $((result ? result : 75)); fi
mkdir -p "$out/harvest"
part harvest "$here/harvest.sh" cuda "$out/harvest" "$(left)" --list "${REMAT_GPU_NETWORKS:-$here/resnet.jobs}" --no-split
exit $result
