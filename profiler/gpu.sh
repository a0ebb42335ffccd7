#!/bin/sh
# One slice on a GPU that is lent for minutes: replays what OUT/replay holds, measures other implementations, trains within
# budgets (rematplan) where OUT/bin/bench is, then harvests operators and cuDNN's algorithms with the time that is left.
#   profiler/gpu.sh cuda|cpu OUT [SECONDS]
# OUT is made by `just gpu-pack` on a machine with cargo. All that was measured is in OUT/back.tar.gz when a slice ends; where
# files do not stay between slices, that file put back into OUT is enough to go on. Networks: the suite resnet
# (REMAT_GPU_NETWORKS names another list). Exit code 0: all is done; 75: run the same again; else: an error.
set -eu
if [ $# -lt 2 ]; then
    echo "usage: $0 cuda|cpu OUT [SECONDS]" >&2
    exit 2
fi
device=$1
mkdir -p "$2"
out=$(cd "$2" && pwd)
seconds=${3:-540}
here=$(cd "$(dirname "$0")" && pwd)
started=$(date +%s)
python=${PYTHON:-python3}
export PYTHONPATH="$here${PYTHONPATH:+:$PYTHONPATH}"

left() { echo $((seconds - $(date +%s) + started)); }

pack() {
    cd "$out"
    # shellcheck disable=SC2046 # names without spaces
    set -- $(ls -d replay/records.tar.gz alternatives.csv compiled plans harvest/harvest.tar.gz 2>/dev/null || true)
    if [ $# -gt 0 ]; then tar czf back.partial "$@" && mv back.partial back.tar.gz; fi
}
if [ -f "$out/back.tar.gz" ]; then tar xzf "$out/back.tar.gz" -C "$out" --skip-old-files; fi
trap pack EXIT

if [ -f "$out/replay/list.tsv" ]; then
    code=0
    "$here/replay.sh" "$device" "$out/replay" "$seconds" --repeat "${REMAT_GPU_REPEAT:-5}" || code=$?
    if [ "$code" -ne 0 ]; then exit "$code"; fi
else
    echo "$out/replay/list.tsv is not there: no schedules are replayed" >&2
fi

# What other implementations cost in reality, of the instances in OUT/alternatives; rows that are there are kept.
for instance in "$out"/alternatives/*.json.gz; do
    if [ ! -f "$instance" ]; then break; fi
    if [ "$(left)" -lt 120 ]; then exit 75; fi
    timeout "$(($(left) - 60))" "$python" -u -m remat_profiler alternatives --instance "$instance" --device "$device" \
        -o "$out/alternatives.csv" || echo "alternatives of $instance: not all measured" >&2
done

# Training within budgets. A row (compilation, planning, measuring) that outlasts the slice is measured in the next one.
if [ -x "$out/bin/bench" ]; then
    if [ "$(left)" -lt 200 ]; then exit 75; fi
    code=0
    # shellcheck disable=SC2086 # options are words
    REMAT_BENCH=$out/bin/bench REMATPLAN_CACHE=$out/plans timeout "$(($(left) - 20))" "$python" -u -m rematplan.page \
        "$out/compiled" --device "$device" --slice-seconds "$(($(left) - 140))" ${REMAT_GPU_PAGE:-} || code=$?
    case $code in
        0) ;;
        75 | 124) exit 75 ;;
        *) exit "$code" ;;
    esac
fi

# The harvest needs some seconds to start and to pack.
if [ "$(left)" -lt 60 ]; then exit 75; fi
mkdir -p "$out/harvest"
code=0
"$here/harvest.sh" "$device" "$out/harvest" "$(left)" --list "${REMAT_GPU_NETWORKS:-$here/resnet.jobs}" --no-split || code=$?
exit "$code"
