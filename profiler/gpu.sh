#!/bin/sh
# One slice on a GPU that is lent for minutes: replays what OUT/replay holds, measures other implementations, trains within
# budgets (rematplan) where OUT/bin/bench is, then harvests operators and cuDNN's algorithms with the time that is left.
#   profiler/gpu.sh cuda|cpu OUT [SECONDS]
# OUT/replay is a folder of `bench replay ... --pack`, made on a machine with cargo; OUT/harvest is the harvest's
# (HARVEST.md). Networks: the suite resnet (REMAT_GPU_NETWORKS names another list). Exit code 0: all is done; 75: run
# the same again; else: an error.
set -eu
if [ $# -lt 2 ]; then
    echo "usage: $0 cuda|cpu OUT [SECONDS]" >&2
    exit 2
fi
device=$1
out=$2
seconds=${3:-540}
here=$(cd "$(dirname "$0")" && pwd)
started=$(date +%s)
if [ -f "$out/replay/list.tsv" ]; then
    "$here/replay.sh" "$device" "$out/replay" "$seconds" --repeat "${REMAT_GPU_REPEAT:-5}"
else
    echo "$out/replay/list.tsv is not there: nothing to replay, only the harvest" >&2
fi
# What other implementations cost in reality, of the instances in OUT/alternatives; rows that are there are kept.
for instance in "$out"/alternatives/*.json.zst; do
    left=$((seconds - $(date +%s) + started))
    if [ ! -f "$instance" ] || [ "$left" -lt 120 ]; then break; fi
    PYTHONPATH=$here${PYTHONPATH:+:$PYTHONPATH} timeout "$((left - 60))" "${PYTHON:-python3}" -u -m remat_profiler alternatives \
        --instance "$instance" --device "$device" -o "$out/alternatives.csv" || echo "alternatives of $instance: not all measured" >&2
done
left=$((seconds - $(date +%s) + started))
# Training within budgets; one row (compilation, planning, measuring) may take two minutes on top of its slice.
unfinished=
if [ -x "$out/bin/bench" ]; then
    if [ "$left" -lt 240 ]; then
        unfinished=1
    else
        code=0
        PYTHONPATH=$here${PYTHONPATH:+:$PYTHONPATH} REMAT_BENCH=$out/bin/bench LD_LIBRARY_PATH=$out/bin${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} \
            REMATPLAN_CACHE=$out/plans timeout "$((left - 20))" "${PYTHON:-python3}" -u -m rematplan.page "$out/compiled" \
            --device "$device" --slice-seconds "$((left - 140))" ${REMAT_GPU_PAGE:-} || code=$?
        case $code in
            0) ;;
            75 | 124) unfinished=1 ;;
            *) exit "$code" ;;
        esac
    fi
    if [ -n "$unfinished" ]; then exit 75; fi
fi
left=$((seconds - $(date +%s) + started))
# The harvest needs some seconds to start and to pack.
if [ "$left" -lt 60 ]; then
    exit 75
fi
mkdir -p "$out/harvest"
exec "$here/harvest.sh" "$device" "$out/harvest" "$left" --list "${REMAT_GPU_NETWORKS:-$here/resnet.jobs}" --no-split
