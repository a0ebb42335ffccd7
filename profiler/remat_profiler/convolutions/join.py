"""Rows of a table of algorithms as implementations of an instance's convolutions.

A forward convolution gets one implementation per algorithm that ran. A backward one that makes both
gradients runs two algorithms: it gets the pairs that no other pair beats in both time and workspace
(the workspaces are used one after the other). The framework's default stays first.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from ..documents import Implementation, Instance, Operator, Origin
from ..errors import ProfilerError
from . import model, problem, table
from .problem import Convolution
from .table import MODELLED, OK, PUBLISHED, Row

MODEL = "model"
# What the framework runs in float32 unless TF32 is asked for.
MATH = {"float32": "fp32", "float64": "fp64", "float16": "fp16", "bfloat16": "bf16"}
NOTES = (
    "cudnn implementations of a backward convolution leave out the bias gradient",
    "cudnn implementations that make two gradients are pairs on the Pareto front of time and workspace",
)


def join(instance: Instance, source: str, device: str, math: str | None = None) -> int:
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


def _same_device(rows: list[Row], instance: Instance, source: str) -> None:
    there = sorted({row.device for row in rows})
    device = instance["provenance"].get("device")
    here = "no device" if device is None else device["name"]
    if there != [here]:
        raise ProfilerError(f"'{source}' is of {', '.join(there) or 'no device'}, the instance of {here}: times would not mix")


def _extend(operator: Operator, found: dict[Convolution, list[Row]]) -> int:
    convolutions = problem.of_operator(operator)
    if not convolutions or any(convolution not in found for convolution in convolutions):
        return 0
    if len(convolutions) == 1:
        made = [_implementation(_name(row), [row]) for row in found[convolutions[0]]]
    else:
        made = _pairs(*(found[convolution] for convolution in convolutions))
    operator["implementations"].extend(made)
    return len(made)


def _pairs(first: list[Row], second: list[Row]) -> list[Implementation]:
    """The Pareto front over all pairs, the fastest first."""
    pairs = sorted(((a.ran.time_ns + b.ran.time_ns, max(a.ran.workspace_bytes, b.ran.workspace_bytes), a.algorithm, b.algorithm, a, b)
                    for a in first for b in second), key=lambda pair: pair[:4])
    kept: list[Implementation] = []
    smallest: int | None = None
    for _, workspace, _, _, a, b in pairs:
        if smallest is None or workspace < smallest:
            smallest = workspace
            kept.append(_implementation(f"{_name(a)}+{b.algorithm}", [a, b]))
    return kept


def _name(row: Row) -> str:
    return row.algorithm if ":" in row.algorithm else f"cudnn:{row.algorithm}"


def _implementation(name: str, rows: list[Row]) -> Implementation:
    made: Implementation = {"name": name, "time": sum(row.ran.time_ns for row in rows)}
    workspace = max(row.ran.workspace_bytes for row in rows)
    if workspace:
        made["workspace_bytes"] = workspace
    spreads = [row.spread_ns for row in rows if row.spread_ns is not None]
    if len(spreads) == len(rows):
        made["spread"] = sum(spreads)
    made["origin"] = _origin(rows)
    return made


def _origin(rows: list[Row]) -> Origin:
    """Of the weakest row: a model's, else a publication's, else measured here."""
    kinds = {row.origin for row in rows}
    if MODELLED in kinds:
        return {"kind": "modelled", "model": model.NAME}
    if PUBLISHED in kinds:
        paper, _, where = next(row.software for row in rows if row.origin == PUBLISHED).partition(", ")
        return {"kind": "published", "paper": paper, "where": where}
    return {"kind": "measured", "samples": min(row.ran.samples for row in rows), "statistic": "median"}
