#!/usr/bin/env bash
# Makes a virtual environment in a folder where there is none; says what is wrong with one that has no pip.
set -euo pipefail
venv=$1
remedy="on Debian and Ubuntu: apt install python3-venv"
if [ ! -x "$venv/bin/python" ]; then
    python3 -m venv "$venv" >&2 || { echo "error: $venv: python3 cannot make a virtual environment ($remedy)" >&2; exit 1; }
elif ! "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
    echo "error: $venv: is a virtual environment without pip; remove it, and run this again ($remedy)" >&2
    exit 1
fi
