#!/usr/bin/env python3
"""Measures `monet` on the cells of the authors' logs and appends rows to a CSV; cells that are there are left out.

Needs BENCH_REFERENCE_DATA (the folder with monet-p100/) and a built test binary:

    just bench-monet        # builds the binary, measures, writes the page
    scripts/measure-monet.py BINARY results/paper-monet.csv --seconds 60 [--strategy coarse] [--modes ...] [--gap-ppm N]
    scripts/measure-monet.py BINARY results/paper-monet.csv --no-recomputation    # all alternatives, nothing run twice

Wall seconds are those of this machine as it is, CPU seconds those of the process. A cell that is stopped at its
limit keeps the best schedule and bound that it had reported by then; no row is left out for being bad.
"""

import argparse
import csv
import os
import re
import resource
import subprocess
import time
from pathlib import Path

COLUMNS = (
    "network mode budget_gib strategy gap_ppm limit_s ended objective bound gap_pct "
    "wall_s_to_5_pct wall_s_to_2_pct wall_s cpu_s gurobi_objective gurobi_bound gurobi_s_to_5_pct gurobi_s_to_2_pct"
).split()
EVENT = re.compile(r"^\s*([0-9.]+) s  schedule (?:None|Some\((\d+)\))  bound (?:None|Some\(\d+\)) (?:None|Some\((\d+)\))")
ANSWER = re.compile(r"^\s*([0-9.]+) s  (\w+): objective (\w+), bound (\d+);")
ALL = "inplace_conv_multiway_newnode"
UNIT_NS = 10_000  # Objectives of the authors' program are in 0.01 ms.


def measure(binary, cell, seconds):
    """Runs one cell: (ended, objective, bound, seconds to 5 %, to 2 %, wall, CPU)."""
    environment = {**os.environ, "MONET_CELL": cell}
    command = ["timeout", str(seconds), binary, "measure_one_cell", "--ignored", "--nocapture"]
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.time()
    output = subprocess.run(command, env=environment, capture_output=True, text=True).stderr
    after, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.time() - began
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    ended, best, bound, within = "stopped", None, None, {5: None, 2: None}
    for line in output.splitlines():
        event, answer = EVENT.match(line), ANSWER.match(line)
        if event:
            at = float(event[1])
            best = min(filter(None, (best, int(event[2]) // UNIT_NS if event[2] else None)), default=None)
            bound = max(filter(None, (bound, int(event[3]) if event[3] else None)), default=None)
        if answer:
            at, ended = float(answer[1]), answer[2]
            best = None if answer[3] == "none" else int(answer[3])
            bound = max(bound or 0, int(answer[4]))
        if (event or answer) and best and bound:
            for percent in within:
                if within[percent] is None and (best - bound) <= percent / 100 * best:
                    within[percent] = at
    return ended, best, bound, within[5], within[2], wall, cpu


def without_recomputation(logged):
    """Cells that the authors did not log: the profile with all alternatives, budgets up to that of the GPU."""
    files = {row["model"]: row["instance_file"] for row in logged if row["mode"] == ALL}
    empty = dict.fromkeys(("best_objective", "best_bound", "t_gap5_s", "t_gap2_s"), "")
    return [{**empty, "model": model, "mode": "no-recomputation", "budget_gb": f"{gib:.1f}", "instance_file": name}
            for model, name in sorted(files.items()) for gib in range(5, 17)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("csv", type=Path)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--strategy", default="coarse")
    parser.add_argument("--gap-ppm", type=int, default=20_000)
    parser.add_argument("--modes", nargs="*", default=[])
    parser.add_argument("--networks", nargs="*", default=[])
    parser.add_argument("--budgets", nargs="*", default=[])
    parser.add_argument("--no-recomputation", action="store_true", help="mode `no-recomputation`: all alternatives, recompute=off")
    arguments = parser.parse_args()
    folder = Path(os.environ["BENCH_REFERENCE_DATA"]) / "monet-p100"
    with open(folder / "gurobi_reference.csv") as file:
        logged = [row for row in csv.DictReader(file) if row["system"] == "monet"]
    if arguments.no_recomputation:
        logged = without_recomputation(logged)
    done = set()
    if arguments.csv.exists():
        with open(arguments.csv) as file:
            done = {(r["network"], r["mode"], r["budget_gib"], r["strategy"]) for r in csv.DictReader(file)}
    else:
        arguments.csv.write_text(",".join(COLUMNS) + "\n")
    for row in logged:
        key = (row["model"], row["mode"], row["budget_gb"], arguments.strategy)
        wanted = [(arguments.modes, row["mode"]), (arguments.networks, row["model"]), (arguments.budgets, row["budget_gb"])]
        if key in done or any(given and value not in given for given, value in wanted):
            continue
        name = row["instance_file"].removesuffix(".json.gz")
        cell = f"{name} {row['budget_gb']} strategy={arguments.strategy} gap-ppm={arguments.gap_ppm}"
        cell += " recompute=off" if arguments.no_recomputation else ""
        ended, best, bound, to5, to2, wall, cpu = measure(arguments.binary, cell, arguments.seconds)
        gap = f"{100 * max(best - bound, 0) / best:.2f}" if best and bound else ""
        seconds = ["" if at is None else f"{at:.1f}" for at in (to5, to2)]
        values = [*key, arguments.gap_ppm, arguments.seconds, ended, best or "", bound or "", gap, *seconds,
                  f"{wall:.1f}", f"{cpu:.1f}", row["best_objective"], row["best_bound"], row["t_gap5_s"], row["t_gap2_s"]]
        with open(arguments.csv, "a", newline="") as file:
            csv.writer(file, lineterminator="\n").writerow(values)


if __name__ == "__main__":
    main()
