#!/usr/bin/env python3
"""Traces MONeT's networks with Gist's encodings (modelled P100) and writes the point of `gist` on each to a CSV.

    scripts/measure-gist.py target/debug/bench results/paper-monet-gist.csv

Needs the profiler's virtual environment. The instances are as those of the suite `monet`, with `--gist`; they are not kept.
"""

import csv
import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NETWORKS = {
    "resnet50": ("torchvision:resnet50", 184, "3x224x224"),
    "googlenet": ("torchvision:googlenet_aux", 320, "3x224x224"),
    "mobilenet": ("torchvision:mobilenet_v2", 272, "3x224x224"),
    "un": ("unet:monet", 11, "3x416x608"),
    "vgg16": ("torchvision:vgg16", 176, "3x224x224"),
}
COLUMNS = "network baseline_time_ns baseline_peak_bytes gist_time_ns gist_peak_bytes".split()


def trace(python, model, batch, shape, path):
    """One training iteration with everything that the suite offers, and the encodings."""
    switches = "--convolutions model --alternatives --gist --split-convolution-backward --split-batch-norm".split()
    command = [python, "-m", "remat_profiler", "trace", "--model", model, "--batch", str(batch), "--shape", shape,
               "--device", "model:p100", "--trace-device", "cpu", *switches, "-o", str(path)]
    subprocess.run(command, cwd=ROOT / "profiler", check=True, capture_output=True)


def point(bench, path, method):
    """Simulated time and peak."""
    done = subprocess.run([bench, "solve", str(path), "--method", method, "--format", "json"], check=True, capture_output=True, text=True)
    answer = json.loads(done.stdout)
    return answer["simulated_time"], answer["simulated_peak"]


def main():
    bench, output = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
    venv = subprocess.run([ROOT / "scripts" / "profiler-venv.sh"], check=True, capture_output=True, text=True).stdout.strip()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for network, job in NETWORKS.items():
            path = Path(folder) / f"{network}.json.gz"
            trace(f"{venv}/bin/python", *job, path)
            rows.append([network, *point(bench, path, "store-all[implementations=default]"), *point(bench, path, "gist")])
    with open(output, "w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([COLUMNS, *rows])


if __name__ == "__main__":
    main()
