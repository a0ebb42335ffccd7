"""What would do where a budget is too small: what is there at the end, a peak that no schedule undercuts, and one that a plan is known for.

This file knows instances and the planner, not graphs.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from remat_profiler.check import store_all
from remat_profiler.documents import FixedBytes, Instance, fixed_bytes

from .budget import mb
from .errors import PlanError

# The known peak is looked for at this part of the way from the bound to the peak of keeping everything, then by so many halvings.
_FIRST, _HALVINGS = 0.01, 4
_RESULTS = ("output", "param_gradient")


def at_the_end(instance: Instance) -> int:
    """Bytes that are there at the end of every iteration: parameters, buffers, inputs, outputs and gradients."""
    copies = instance.get("fixed_bytes", FixedBytes()).get("workspace", 0)
    lasting = (entry["bytes"] for entry in instance["tensors"] if entry["kind"] in ("input", *_RESULTS))
    return fixed_bytes(instance) - copies + sum(lasting)


def bound(instance: Instance) -> int:
    """A peak that no schedule undercuts, in whatever order: the end of the iteration, and every operator with what it reads and makes,
    beside results of operators before it that cannot be made again."""
    size = {entry["id"]: entry["bytes"] for entry in instance["tensors"]}
    kinds = {entry["id"]: entry["kind"] for entry in instance["tensors"]}
    operators = {entry["id"]: entry for entry in instance["operators"]}
    always = fixed_bytes(instance) + sum(size[tensor] for tensor, kind in kinds.items() if kind == "input")
    most = sum(size[tensor] for tensor, kind in kinds.items() if kind in _RESULTS)
    # Of each tensor the results that are there once it is made.
    beside: dict[int, frozenset[int]] = {}
    for operator in map(operators.__getitem__, instance["order"]):
        held = frozenset[int]().union(*(beside[tensor] for tensor in operator["inputs"] if tensor in beside))
        touched = {tensor for tensor in (*operator["inputs"], *operator["outputs"]) if kinds[tensor] != "input"}
        workspace = operator["implementations"][0].get("workspace_bytes", 0)
        most = max(most, workspace + sum(size[tensor] for tensor in held | touched))
        if not operator["recomputable"]:
            held |= {tensor for tensor in operator["outputs"] if kinds[tensor] in _RESULTS}
        beside |= dict.fromkeys(operator["outputs"], held)
    return always + most


def known(instance: Instance, peak_within: Callable[[int], int]) -> int:
    """The least peak that was found. `peak_within` gives that of a schedule within a budget, and raises `PlanError` where it finds none."""
    low, high = bound(instance), store_all(instance).peak_bytes
    low += int((high - low) * _FIRST)
    try:
        return peak_within(low)
    except PlanError:
        pass
    for _ in range(_HALVINGS):
        asked = (low + high) // 2
        try:
            high = peak_within(asked)
        except PlanError:
            low = asked
    return high


def words(instance: Instance, plain_peak: int, least_budget: int | None) -> str:
    """For a warning. `least_budget` is one that is known to do, if any is."""
    said = (f"what is there at the end (parameters, buffers, inputs, outputs, gradients) takes {mb(at_the_end(instance))}, "
            f"no schedule needs less than {_share(bound(instance), plain_peak, math.floor)}")
    if least_budget is None:
        return said
    if least_budget >= plain_peak:
        return f"{said}, and no budget below that of keeping everything is known to do"
    return f"{said}, and the least budget that is known to do is {_share(least_budget, plain_peak, math.ceil)}"


def _share(size: int, whole: int, rounded: Callable[[float], int]) -> str:
    """With the percentage, which can be typed as a budget."""
    return f"{mb(size)} ({rounded(size * 1000 / whole) / 10:g}%)"
