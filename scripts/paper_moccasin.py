"""Prints Moccasin's table from the records and traces of scripts/paper-moccasin.sh.

    python3 scripts/paper_moccasin.py RESULTS SECONDS JOBS OUT

writes OUT.csv and OUT.md. Only reads; needs nothing beyond Python's own library.
"""

import csv
import re
import sys
from pathlib import Path

# The original: OR-Tools 9.15 with the authors' program, 2 workers, 300 s per phase, on two cores of its own:
# cost increase in %, wall seconds until in budget and until its best, processor seconds. Measured for this project.
ORIGINAL = {
    ("fcn8", "0.9x"): (0.0294, 11.8, 23.3, 15.7),
    ("fcn8", "0.8x"): (0.1361, 14.1, 25.4, 16.9),
    ("rl1-n100", "0.9x"): (0.7892, 38, 72, 47.5),
    ("rl1-n100", "0.8x"): (2.2965, 49, 84, 57.4),
    ("unet", "0.5x"): (6.9666, None, 27, 25.6),
}
# Cost increase in % and seconds as published (ICML 2023, Table 1), 16 workers; same or like graphs.
PUBLISHED = {
    ("rl1-n100", "0.9x"): (0.8, 9.3), ("rl1-n100", "0.8x"): (2.3, 9.5),
    ("layered-n250", "0.9x"): (0.9, 55), ("layered-n250", "0.8x"): (4.9, 640),
    ("rl3-n500", "0.9x"): (0.7, 1803), ("rl3-n500", "0.8x"): (3.4, 1805),
    ("layered-n500", "0.9x"): (0.7, 1803), ("layered-n500", "0.8x"): (3.4, 1805),
    ("layered-n1000", "0.9x"): (0.7, 3613), ("layered-n1000", "0.8x"): (3.4, 3612),
    ("fcn8", "0.9x"): (0.0, 3.1), ("fcn8", "0.8x"): (0.1, 3.1),
    ("resnet50-224-b256-flops", "0.9x"): (0.2, 65), ("resnet50-224-b256-flops", "0.8x"): (0.3, 69),
}
HEADER = [
    "instance", "budget", "method", "ended", "cost increase %", "peak %", "bound %", "gap %", "first s", "best s",
    "first cpu s", "best cpu s", "wall s", "cpu s", "variables", "note",
]


def main(results: Path, seconds: str, jobs: str, out: Path) -> None:
    """Reads the records, writes both files."""
    with (results / "records.csv").open(newline="") as file:
        records = list(csv.DictReader(file))
    latest = {(r["instance"], r["budget"], label(r)): r for r in records}
    rows = [line(results, record) for record in latest.values()]
    names = list(dict.fromkeys(row[0] for row in rows))
    rows.sort(key=lambda row: (names.index(row[0]), -float(row[1].rstrip("x"))))
    with out.with_suffix(".csv").open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([HEADER, *rows])
    host = next((record["host"] for record in latest.values()), "")
    page = document(rows, seconds, jobs, host)
    for figure in sorted(out.parent.glob(f"{out.name}-*.svg")):
        page += f"\n![Incumbents and bounds over planning time: {figure.stem.removeprefix(out.name + '-')}]({figure.name})\n"
    out.with_suffix(".md").write_text(page)


def line(results: Path, record: dict[str, str]) -> list[str]:
    """One row: what a run of one budget came to."""
    fixed = int(record["store_all_time"])
    percent = lambda time: 100 * (time / fixed - 1)
    time = int(record["simulated_time"] or 0)
    bound = int(record["lower_bound"] or 0)
    first, best = moments(results, record) if time else (None, None)
    # The run's share of a core, taken to be even.
    share = float(record["cpu_seconds"]) / max(float(record["wall_seconds"]), 1e-9)
    variables = re.search(r"up to (\d+) variables|: (\d+) variables", record["note"])
    return [
        record["instance"],
        record["budget"],
        label(record),
        record["termination"],
        f"{percent(time):.4f}" if time else "",
        f"{100 * int(record['simulated_peak']) / int(record['store_all_peak']):.1f}" if time else "",
        f"{percent(bound):.4f}" if bound else "",
        f"{100 * (time - bound) / time:.2f}" if time and bound else "",
        f"{first:.1f}" if first is not None else "",
        f"{best:.1f}" if best is not None else "",
        f"{first * share:.1f}" if first is not None else "",
        f"{best * share:.1f}" if best is not None else "",
        f"{float(record['wall_seconds']):.1f}",
        f"{float(record['cpu_seconds']):.1f}",
        next((group for group in variables.groups() if group), "") if variables else "",
        " ".join(filter(None, [record["note"], record["error"]])),
    ]


def label(record: dict[str, str]) -> str:
    """The method, with the solver where there is a choice."""
    solver = dict(pair.split("=") for pair in record["parameters"].split(",") if "=" in pair).get("solver", "")
    return f"{record['method']}, CP-SAT" if solver == "cp-sat" else record["method"]


def moments(results: Path, record: dict[str, str]) -> tuple[float, float]:
    """Wall seconds until the first schedule and until the best one, by the run's trace."""
    name = f"{record['method']}[{record['parameters']}]@{record['budget']}"
    name += "" if record["seed"] == "0" else f"+seed{record['seed']}"
    safe = lambda text: re.sub(r"[^A-Za-z0-9\-_.,=\[\]@+]", "_", text)
    path = results / "traces" / safe(record["instance"]) / f"{safe(name)}.csv"
    if len(path.name) > 204 or not path.exists():
        # Long names end in a hash: then what the trace ends with says whose it is.
        for other in path.parent.glob(f"{safe(name)[:100].replace('[', '[[]')}*~*.csv"):
            if other.read_text().rstrip().splitlines()[-1].split(",")[1] == record["simulated_time"]:
                path = other
    end = float(record["wall_seconds"])
    if len(path.name) > 255 or not path.exists():
        return end, end
    with path.open(newline="") as file:
        points = [(float(p["seconds"]), int(p["claimed_time"])) for p in csv.DictReader(file) if p["claimed_time"]]
    # What only the answer brought came with it.
    points.append((end, int(record["simulated_time"])))
    least = min(time for _, time in points)
    return points[0][0], next(second for second, time in points if time == least)


def document(rows: list[list[str]], seconds: str, jobs: str, host: str) -> str:
    """The Markdown page."""
    text = [
        "# Moccasin's Table 1",
        "",
        f"Printed by `just paper-moccasin {seconds} {jobs}` (scripts/paper_moccasin.py). One thread per run, {jobs} runs at a time, at most",
        f"{seconds} s of wall time per budget, on {host}, shared with much other work: what a run got is in the",
        "column cpu. first and best: processor seconds until the first and the best schedule (wall seconds times the run's even share,",
        "so estimates; the wall seconds are in the CSV). CI: cost increase. bound, gap: proved, for the order given;",
        "fastsa and moccasin-reordered choose their own order, prove nothing, and stand apart.",
        "",
        "The original: OR-Tools 9.15 with the authors' program, 2 workers, 300 s per phase, on two cores of its own: CI, seconds",
        "until its best, processor seconds. Published: CI and seconds of Table 1, 16 workers; layered-n* and ResNet-50",
        "are not those graphs but graphs in kind.",
        "",
    ]
    header = ["instance", "budget", "method", "ended", "CI %", "peak %", "bound %", "gap %", "first cpu s", "best cpu s",
              "wall s", "cpu s", "variables", "original: CI %, best s, cpu s", "published: CI %, s"]
    text += ["| " + " | ".join(header) + " |", "|" + " --- |" * len(header)]
    for row in rows:
        key = (row[0], row[1])
        original, published = ORIGINAL.get(key), PUBLISHED.get(key)
        ours = row[2].startswith("moccasin") and "reordered" not in row[2]
        known = [
            f"{original[0]:.4f}, {original[2]:g}, {original[3]:g}" if original and ours else "",
            f"{published[0]:g}, {published[1]:g}" if published and ours else "",
        ]
        text.append("| " + " | ".join(row[:8] + row[10:15] + known) + " |")
    return "\n".join(text) + "\n"


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3], Path(sys.argv[4]))
