#!/usr/bin/env python3
"""Writes results/replay-cpu/README.md from what scripts/replay-cpu.sh measured there."""

import csv
import json
import statistics
from collections import defaultdict
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "results" / "replay-cpu"
HEAD = """# Schedules executed on a CPU

Written by `scripts/replay-cpu-page.py`; `just replay-cpu` measures everything. Networks of the suite `replay-cpu`, traced on
one thread of {device} with {framework} (times and workspaces of every operator measured), solved, and executed on the same
thread; other measurements ran on the machine's other core. `executed.csv` has every execution, `errors.csv` what `bench table --show replay` prints per method,
`alternatives.csv` and `compiled/` the rest. Errors: simulated against executed, mean of the magnitudes.

## By network

The toys' operators take microseconds, less than the interpreter's Python between them, which the simulator does not
count: their times say nothing. Peaks are those of PyTorch's allocator, scratch memory included.

"""


def rows(name):
    with open(FOLDER / name, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def key(row):
    return tuple(row[name] for name in ("instance_hash", "method", "parameters", "budget", "seed"))


def table(header, lines):
    ruler = ["---"] + ["---:"] * (len(header) - 1)
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in [header, ruler, *lines]) + "\n"


def mean(values, form="{:.2f} %"):
    return form.format(statistics.mean(values)) if values else "-"


def off(simulated, executed):
    return 100 * (float(simulated) / float(executed) - 1)


def networks(executed, records):
    """Errors of each network, over all its schedules."""
    of = defaultdict(list)
    for row in executed:
        record = records.get(key(row))
        if record and not row["executed_error"]:
            of[row["instance"]].append((row, record))
    lines = []
    for name, pairs in sorted(of.items()):
        base = next((float(r["executed_time_ns"]), float(s["simulated_time"])) for r, s in pairs
                    if r["method"] == "store-all" and "default" in r["parameters"])
        peak = [abs(off(s["simulated_peak"], r["executed_peak_bytes"])) for r, s in pairs]
        time = [abs(off(s["simulated_time"], r["executed_time_ns"])) for r, s in pairs]
        ratio = [abs(off(float(s["simulated_time"]) / base[1], float(r["executed_time_ns"]) / base[0])) for r, s in pairs]
        lines.append([name, len(pairs), sum(r["executed_equal"] == "true" for r, _ in pairs),
                      mean(peak), f"{max(peak):.2f} %", mean(time), mean(ratio),
                      f"{base[0] / 1e6:.1f} / {base[1] / 1e6:.1f}"])
    return table(["network", "schedules", "equal", "peak", "largest", "time", "time over store-all's",
                  "store-all ms, executed / simulated"], lines)


def methods():
    keep = ["method", "executions", "equal", "peak MAPE", "time MAPE", "relative time MAPE"]
    return table(keep, [[row[name] for name in keep] for row in rows("errors.csv")])


def alternatives():
    lines = []
    for row in rows("alternatives.csv"):
        whole = float(row["executed_default_ns"])
        change = [100 * float(row[f"{word}_time_ns"]) / whole for word in ("simulated", "executed", )]
        lines.append([row["instance"], row["family"].replace("+", " + "), row["operators"],
                      *(f"{percent:+.1f} %" for percent in change), f"{100 * float(row['executed_spread_ns']) / whole:.1f} %",
                      f"{int(row['simulated_peak_bytes']) / 2**20:+.2f}", f"{int(row['executed_peak_bytes']) / 2**20:+.2f}"])
    return table(["network", "implementations", "operators", "time, simulated", "time, executed", "its spread",
                  "peak MiB, simulated", "peak MiB, executed"], lines)


def compiled(executed):
    plain = {row["instance"]: row for row in executed if row["method"] == "pytorch:plain"}
    lines = []
    for path in sorted((FOLDER / "compiled").glob("*.json")):
        record = json.loads(path.read_text(encoding="utf-8"))
        base = plain[record["instance"]]
        budget = record["method"].partition("budget=")[2].rstrip("]")
        lines.append([record["instance"], budget, "yes" if record["equality"]["equal"] else "no",
                      f"{record['time_ns']['median'] / float(base['executed_time_ns']):.2f}",
                      f"{record['memory']['allocated_peak_bytes'] / float(base['executed_peak_bytes']):.2f}"])
    lines.sort(key=lambda line: (line[0], -float(line[1])))
    return table(["network", "budget", "equal within 2 %", "time / plain", "peak / plain"], lines)


def main():
    executed = [row for row in rows("executed.csv") if row["device"] == "cpu"]
    records = {key(row): row for row in rows("records.csv")}
    device = next(row for row in executed if row["device_name"])
    page = HEAD.format(device=device["device_name"], framework=device["framework"])
    page += networks(executed, records) + "\n## By method\n\n" + methods()
    page += """
## What the other implementations cost in reality

Everything run once, with the implementations wherever they fit, against the defaults, in turn: change of the
iteration's time as a part of it, and of its peak.

""" + alternatives()
    page += """
## torch.compile with its activation memory budget

Inductor, the budget as a part of what the compiler would save; against plain PyTorch on the same thread. Its kernels are
fused, so a network may be faster than plain at any budget; random numbers are the framework's (`fallback_random`).

""" + compiled(executed)
    (FOLDER / "README.md").write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
