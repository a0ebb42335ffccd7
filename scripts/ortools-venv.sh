#!/usr/bin/env bash
# Prints where the virtual environment with OR-Tools is (or will be); bench looks there too.
echo "${XDG_CACHE_HOME:-$HOME/.cache}/remat-ortools/venv"
