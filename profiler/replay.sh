#!/bin/sh
# One slice of replays from a plain copy of the repository: needs Python with torch and torchvision, nothing else.
#   profiler/replay.sh DEVICE PACK [SECONDS] [further options of `replay-batch`]
# DEVICE is cuda (or cpu for a rehearsal), PACK the folder that `bench replay ... --pack PACK` made, SECONDS the
# length of the slice (default 540). Exit code 0: all records are there; 75: run the same again; else: an error.
set -eu
if [ $# -lt 2 ]; then
    echo "usage: $0 cuda|cpu PACK [SECONDS] [options]" >&2
    exit 2
fi
device=$1
pack=$2
seconds=${3:-540}
if [ $# -gt 2 ]; then shift 3; else shift 2; fi
here=$(cd "$(dirname "$0")" && pwd)
# Segments that grow leave fewer fragments under a cap; set the variable to measure without them.
export PYTORCH_CUDA_ALLOC_CONF="${PYTORCH_CUDA_ALLOC_CONF:-expandable_segments:True}"
PYTHONPATH=$here${PYTHONPATH:+:$PYTHONPATH} exec "${PYTHON:-python3}" -u -m remat_profiler replay-batch "$pack/list.tsv" \
    --device "$device" --slice-seconds "$seconds" --pack "$@"
