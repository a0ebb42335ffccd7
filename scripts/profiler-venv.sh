#!/usr/bin/env bash
# Prints where the profiler's virtual environment is (or will be).
echo "${REMAT_PROFILER_VENV:-${XDG_CACHE_HOME:-$HOME/.cache}/remat-profiler/venv}"
