#!/bin/sh
# One slice of the harvest from a plain copy of the repository: needs Python with torch and torchvision.
#   profiler/harvest.sh DEVICE OUT [SECONDS] [further options of `harvest all`]
# DEVICE is cuda (or cpu for a rehearsal), OUT the folder that holds the state, SECONDS the length of the
# slice (default 540). Exit code 0: finished; 75: run the same again; anything else: an error.
set -eu
if [ $# -lt 2 ]; then
    echo "usage: $0 cuda|cpu OUT [SECONDS] [options]" >&2
    exit 2
fi
device=$1
out=$2
seconds=${3:-540}
if [ $# -gt 2 ]; then shift 3; else shift 2; fi
here=$(cd "$(dirname "$0")" && pwd)
list=${REMAT_PROFILER_CONVOLUTIONS:-$here/../instances/devices/convolutions.csv}
PYTHONPATH=$here${PYTHONPATH:+:$PYTHONPATH} exec "${PYTHON:-python3}" -u -m remat_profiler harvest all \
    --device "$device" --out "$out" --slice-seconds "$seconds" --from "$list" "$@"
