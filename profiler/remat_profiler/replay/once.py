"""Store-all, with implementations of one's choice."""

from __future__ import annotations

from collections.abc import Collection

from ..documents import SCHEDULE_FORMAT, VERSION, Implementation, Instance, Operator, Schedule, Step, lasting
from ..errors import ProfilerError
from .plan import makes


def store_all(instance: Instance, preferred: Collection[str] = ()) -> Schedule:
    """The schedule that runs everything once, in order, with the preferred implementations where they fit together,
    and frees each tensor after its last reader."""
    chosen = {op["id"]: next((i for i in op["implementations"] if i["name"] in preferred), op["implementations"][0])
              for op in instance["operators"]}
    while (bad := _misfit(instance, chosen)) is not None:
        chosen[bad["id"]] = bad["implementations"][0]
    operators = {op["id"]: op for op in instance["operators"]}
    kept = lasting(instance)
    last: dict[int, int] = {}
    gone: set[int] = set()
    for id in instance["order"]:
        for tensor in [*_reads(operators[id], chosen[id]), *makes(operators[id], chosen[id])]:
            last[tensor] = id
        gone |= {chosen[id]["in_place"]["input"]} if "in_place" in chosen[id] else set()
    steps: list[Step] = []
    for id in instance["order"]:
        steps.append({"compute": id, "implementation": chosen[id]["name"]})
        steps += [{"free": t} for t, reader in last.items() if reader == id and t not in kept | gone]
    return {"format": SCHEDULE_FORMAT, "version": VERSION, "instance": instance["name"], "method": "store-all", "steps": steps}


def _reads(operator: Operator, implementation: Implementation) -> list[int]:
    return implementation.get("inputs", operator["inputs"])


def _misfit(instance: Instance, chosen: dict[int, Implementation]) -> Operator | None:
    """The first operator that reads what nobody made, or overwrites what somebody reads later."""
    operators = {op["id"]: op for op in instance["operators"]}
    there = {t["id"] for t in instance["tensors"] if t["kind"] == "input"}
    last = {tensor: at for at, id in enumerate(instance["order"]) for tensor in _reads(operators[id], chosen[id])}
    for at, id in enumerate(instance["order"]):
        operator = operators[id]
        if not set(_reads(operator, chosen[id])) <= there:
            if chosen[id] is operator["implementations"][0]:  # its producer does not save what the default reads
                if "differentiates" not in operator:
                    raise ProfilerError(f"operator {id} ({operator['name']}) reads what nobody makes before it")
                return operators[operator["differentiates"]]
            return operator
        if "in_place" in chosen[id]:
            taken = chosen[id]["in_place"]["input"]
            if last[taken] > at:
                return operator
            there.discard(taken)
        there |= set(makes(operator, chosen[id]))
    return None
