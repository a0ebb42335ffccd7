"""A self-check of a written instance, quadratic nowhere and trusting nothing that made it.

Works on the JSON object alone, as the Rust validator does, and simulates store-all by liveness as
docs/reference/model.md defines it: fixed bytes and inputs always, a tensor from its production to its
last use, parameter gradients and outputs to the end; the workspace on top while an operator runs.
"""

from __future__ import annotations

from dataclasses import dataclass

from .documents import Implementation, Instance, Operator, Tensor, fixed_bytes

_RESIDENT_AT_END = ("param_gradient", "output", "input")


@dataclass(frozen=True)
class Summary:
    """Store-all of an instance."""

    operators: int
    tensors: int
    time_ns: int
    peak_bytes: int
    peak_operator: str
    fixed_bytes: int


def problems(instance: Instance) -> list[str]:
    """What is wrong with an instance, one line each; empty where nothing is."""
    found: list[str] = []
    tensors = {tensor["id"]: tensor for tensor in instance["tensors"]}
    operators = {operator["id"]: operator for operator in instance["operators"]}
    if len(tensors) != len(instance["tensors"]):
        found.append("a tensor id repeats")
    if len(operators) != len(instance["operators"]):
        found.append("an operator id repeats")
    if sorted(instance["order"]) != sorted(operators):
        found.append("the order is not a permutation of the operators")
        return found
    present = {id for id, tensor in tensors.items() if tensor["kind"] == "input"}
    for id in instance["order"]:
        found += _operator_problems(operators[id], operators, tensors, present)
        present |= set(operators[id]["outputs"]) | _saved(operators[id])
    missing = set(tensors) - present
    if missing:
        found.append(f"tensors that nobody makes: {sorted(missing)[:5]}")
    return found


def _operator_problems(
    operator: Operator, operators: dict[int, Operator], tensors: dict[int, Tensor], present: set[int]
) -> list[str]:
    found = []
    where = f"operator {operator['id']} ({operator['name']})"
    for tensor in operator["inputs"]:
        if tensor not in present:
            found.append(f"{where} reads tensor {tensor} before it is there")
    for tensor in operator["outputs"]:
        if tensor not in tensors:
            found.append(f"{where} makes tensor {tensor}, which does not exist")
        elif tensor in present:
            found.append(f"{where} makes tensor {tensor} a second time")
    target = operator.get("differentiates")
    if target is not None and (target not in operators or operators[target]["phase"] == "backward"):
        found.append(f"{where} differentiates {target}, which is no forward operator")
    for tensor in _saved(operator):
        if tensor not in tensors or tensors[tensor]["kind"] != "saved" or tensor in present:
            found.append(f"{where} saves tensor {tensor}, which is not a new one of kind saved")
    if not operator["implementations"]:
        found.append(f"{where} has no implementation")
    names = [implementation["name"] for implementation in operator["implementations"]]
    if len(set(names)) < len(names):
        found.append(f"{where} has two implementations of one name")
    for implementation in operator["implementations"]:
        numbers = implementation["time"], implementation.get("workspace_bytes", 0)
        if any(not isinstance(number, int) or number < 0 for number in numbers):
            found.append(f"{where}: time and workspace must be integers that are not negative")
        for tensor in implementation.get("inputs", []):
            if tensor not in present:
                found.append(f"{where}, {implementation['name']}, reads tensor {tensor} before it is there")
        found += _in_place_problems(where, operator, implementation, tensors)
        if implementation.get("recompute") and not operator.get("updates_state"):
            found.append(f"{where} has a recompute form but updates no state")
    return found


def _saved(operator: Operator) -> set[int]:
    return {tensor for implementation in operator["implementations"] for tensor in implementation.get("saves", [])}


def _in_place_problems(
    where: str, operator: Operator, implementation: Implementation, tensors: dict[int, Tensor]
) -> list[str]:
    pair = implementation.get("in_place")
    if pair is None:
        return []
    legal = (
        pair["output"] in operator["outputs"]
        and pair["input"] in implementation.get("inputs", operator["inputs"])
        and tensors[pair["input"]]["kind"] != "input"
        and tensors[pair["input"]]["bytes"] == tensors[pair["output"]]["bytes"]
    )
    return [] if legal else [f"{where}, {implementation['name']}, cannot work in place"]


def store_all(instance: Instance) -> Summary:
    """Runs every operator once, in order, with its default implementation."""
    operators = {operator["id"]: operator for operator in instance["operators"]}
    size = {tensor["id"]: tensor["bytes"] for tensor in instance["tensors"]}
    kept = {t["id"] for t in instance["tensors"] if t["kind"] in _RESIDENT_AT_END}
    last_use = {}
    for step, id in enumerate(instance["order"]):
        for tensor in operators[id]["inputs"] + _makes(operators[id]):
            last_use[tensor] = step
    fixed = fixed_bytes(instance)
    resident = fixed + sum(t["bytes"] for t in instance["tensors"] if t["kind"] == "input")
    time, peak, peak_operator = 0, resident, "before the first step"
    for step, id in enumerate(instance["order"]):
        operator = operators[id]
        implementation = operator["implementations"][0]
        resident += sum(size[tensor] for tensor in _makes(operator))
        during = resident + implementation.get("workspace_bytes", 0)
        if during > peak:
            peak, peak_operator = during, operator["name"]
        time += implementation["time"]
        touched = set(operator["inputs"]) | set(_makes(operator))
        resident -= sum(size[t] for t in touched if last_use[t] == step and t not in kept)
    return Summary(len(operators), len(size), time, peak, peak_operator, fixed)


def _makes(operator: Operator) -> list[int]:
    """What the default implementation makes."""
    return operator["outputs"] + operator["implementations"][0].get("saves", [])
