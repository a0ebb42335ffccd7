"""What the papers print about their networks beside what the committed instances say.

`results/published/store-all.csv` has printed peaks of a run without recomputation, `graphs.csv` printed sizes of
graphs; both say where. This reads the instance files alone (no torch) and writes one Markdown page.
Peaks are those of store-all with default implementations, parameters included; `prefer` names an
implementation that is used wherever an operator has it.
"""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from pathlib import Path

from . import check, instance
from .documents import Instance
from .errors import ProfilerError
from .job import GRAPH_SIZE

UNITS = {"GiB": 2**30, "GB": 10**9}
STATISTICS = "remat_profiler.batch_norm_statistics"
_SIZE = re.compile(re.escape(GRAPH_SIZE).replace(r"\{nodes\}", r"(?P<nodes>\d+)").replace(r"\{values\}", r"(?P<values>\d+)"))


def page(published: Path, instances: Path, command: str) -> str:
    """The whole page."""
    found = _Instances(instances)
    lines = ["# Published figures and the committed instances", "", f"Made by `{command}`; do not edit.", ""]
    lines += ["## Peak of store-all", "", *_store_all(_rows(published / "store-all.csv"), found), ""]
    lines += ["## Graphs", "", *_graphs(_rows(published / "graphs.csv"), found), ""]
    return "\n".join(lines)


class _Instances:
    """Reads each file once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.known: dict[str, Instance] = {}

    def __getitem__(self, key: str) -> Instance:
        if key not in self.known:
            path = self.folder / f"{key}.json.zst"
            self.known[key] = instance.load(path)
        return self.known[key]


def _rows(path: Path) -> list[dict[str, str]]:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))
    except OSError as error:
        raise ProfilerError(f"cannot read '{path}': {error.strerror}") from error


def _store_all(rows: list[dict[str, str]], found: _Instances) -> list[str]:
    lines = ["| paper | network | printed | ours | deviation | why |", "|---|---|---|---|---|---|"]
    for row in rows:
        made = _preferring(found[row["instance"]], row["prefer"])
        ours, printed = check.store_all(made).peak_bytes / UNITS[row["unit"]], float(row["printed"])
        lines.append(
            f"| {row['paper']}, {row['where']} | {row['network']} | {row['printed']} {row['unit']} "
            f"| {ours:.2f} {row['unit']} | {100 * (ours / printed - 1):+.1f} % | {row['remark']} |"
        )
    return lines


def _preferring(made: Instance, name: str) -> Instance:
    """The instance with the implementation of that name as the default wherever there is one."""
    if not name:
        return made
    operators = []
    for operator in made["operators"]:
        wanted = [v for v in operator["implementations"] if v["name"] == name]
        if wanted:
            others = [v for v in operator["implementations"] if v["name"] != name]
            inputs = wanted[0].get("inputs", operator["inputs"])
            operator = {**operator, "implementations": wanted + others, "inputs": inputs}
        operators.append(operator)
    return {**made, "operators": operators}


def _graphs(rows: list[dict[str, str]], found: _Instances) -> list[str]:
    """One line for each instance: what is printed, the same count of ours, and what is left after folding."""
    lines = ["| paper | instance | quantity: printed / counted so | operators | tensors |", "|---|---|---|---|---|"]
    printed: dict[tuple[str, str], list[dict[str, str]]] = defaultdict(list)
    for row in rows:
        printed[f"{row['paper']}, {row['where']}", row["instance"]].append(row)
    for (source, key), quantities in printed.items():
        made = found[key]
        pairs = "; ".join(f"{q['quantity']} {q['printed']} / {_count(made, q['quantity'])}" for q in quantities)
        lines.append(f"| {source} | {key} | {pairs} | {len(made['operators'])} | {len(made['tensors'])} |")
    return lines


def _count(made: Instance, quantity: str) -> int:
    """Our count of what a paper counts."""
    if quantity == "forward operators":  # statistics are a part of the batch norm there
        return sum(o["phase"] == "forward" and o["op_type"] != STATISTICS for o in made["operators"])
    for note in made["provenance"].get("notes", []):
        match = _SIZE.fullmatch(note)
        if match:
            return int(match[quantity])
    raise ProfilerError(f"'{made['name']}' does not say how many {quantity} its graph had: trace it with --graph-size")
