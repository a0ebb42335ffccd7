"""Rows of a table of algorithms as implementations of an instance's convolutions.

A forward convolution gets one implementation per algorithm that ran. A backward one that makes both
gradients runs two algorithms: it gets the pairs that no other pair beats in both time and workspace
(the workspaces are used one after the other). The framework's default stays first.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from ..errors import ProfilerError
from . import model, problem, table
from .problem import Convolution
from .table import OK, Row

MODEL = "model"
# What the framework runs in float32 unless TF32 is asked for.
MATH = {"float32": "fp32", "float64": "fp64", "float16": "fp16", "bfloat16": "bf16"}
NOTES = (
    "cudnn implementations of a backward convolution leave out the bias gradient",
    "cudnn implementations that make two gradients are pairs on the Pareto front of time and workspace",
)


def join(instance: dict, source: str, device: str, math: str | None = None) -> int:
    """Adds implementations from a file of rows, or from the model; returns how many."""
    wanted = {c for operator in instance["operators"] for c in problem.of_operator(operator)}
    if source == MODEL:
        rows = model.rows(sorted(wanted), device)
    else:
        rows = table.read(Path(source))
        _same_device(rows, instance, source)
    found: dict[Convolution, list[Row]] = defaultdict(list)
    for row in rows:
        default = row.algorithm.endswith(":default")
        if row.status == OK and row.math == (math or MATH[row.convolution.dtype]) and not default:
            found[row.convolution].append(row)
    added = sum(_extend(operator, found) for operator in instance["operators"])
    if added:
        instance["provenance"].setdefault("notes", []).extend(NOTES)
    return added


def _same_device(rows: list[Row], instance: dict, source: str) -> None:
    there = sorted({row.device for row in rows})
    here = instance["provenance"].get("device", {}).get("name", "no device")
    if there != [here]:
        raise ProfilerError(f"'{source}' is of {', '.join(there) or 'no device'}, the instance of {here}: times would not mix")


def _extend(operator: dict, found: dict[Convolution, list[Row]]) -> int:
    convolutions = problem.of_operator(operator)
    if not convolutions or any(convolution not in found for convolution in convolutions):
        return 0
    if len(convolutions) == 1:
        made = [_implementation(_name(row), [row]) for row in found[convolutions[0]]]
    else:
        made = _pairs(*(found[convolution] for convolution in convolutions))
    operator["implementations"].extend(made)
    return len(made)


def _pairs(first: list[Row], second: list[Row]) -> list[dict]:
    """The Pareto front over all pairs, the fastest first."""
    pairs = sorted(((a.time_ns + b.time_ns, max(a.workspace_bytes, b.workspace_bytes), a.algorithm, b.algorithm, a, b)
                    for a in first for b in second), key=lambda pair: pair[:4])
    kept, smallest = [], None
    for _, workspace, _, _, a, b in pairs:
        if smallest is None or workspace < smallest:
            smallest = workspace
            kept.append(_implementation(f"{_name(a)}+{b.algorithm}", [a, b]))
    return kept


def _name(row: Row) -> str:
    return row.algorithm if ":" in row.algorithm else f"cudnn:{row.algorithm}"


def _implementation(name: str, rows: list[Row]) -> dict:
    made: dict[str, object] = {"name": name, "time": sum(row.time_ns for row in rows)}
    workspace = max(row.workspace_bytes for row in rows)
    if workspace:
        made["workspace_bytes"] = workspace
    if all(row.spread_ns is not None for row in rows):
        made["spread"] = sum(row.spread_ns for row in rows)
    if all(row.origin == "measured" for row in rows):
        made["origin"] = {"kind": "measured", "samples": min(row.samples for row in rows), "statistic": "median"}
    else:
        made["origin"] = {"kind": "modelled", "model": model.NAME}
    return made
