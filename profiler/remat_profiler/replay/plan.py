"""A schedule file against its instance: the steps, and what the instance's own numbers say of them.

Expectations are counted as the simulator of `bench` counts (docs/reference/model.md, "What a schedule means"), which a
test compares step by step. Legality is found out by running: this file only refuses what names nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, cast, overload

from .. import instance as files
from ..check import problems
from ..documents import (
    INSTANCE_FORMAT,
    SCHEDULE_FORMAT,
    VERSION,
    Implementation,
    Instance,
    Operator,
    Schedule,
    Tensor,
    fault,
    fixed_bytes,
    without_nulls,
)
from ..documents import Step as StepEntry
from ..errors import ProfilerError

FORMAT = SCHEDULE_FORMAT
Verb = Literal["free", "offload", "fetch"]
TRANSFERS: tuple[Literal["offload", "fetch"], ...] = ("offload", "fetch")
MOVES: tuple[Verb, ...] = ("free", *TRANSFERS)


# The type of a document, its format, and what to do about one that is wrong.
_KINDS: dict[str, tuple[Any, str, str]] = {
    "instance": (Instance, INSTANCE_FORMAT, "trace it again (bench instances validate FILE says all that is wrong)"),
    "schedule": (Schedule, SCHEDULE_FORMAT, "make it again with bench solve"),
}


@dataclass(frozen=True)
class Compute:
    """Run an operator with an implementation."""

    operator: int
    implementation: Implementation
    verb: ClassVar[str] = "compute"


@dataclass(frozen=True)
class Move:
    """Do with a tensor what `verb` says: drop it, copy it to the host, or copy it back."""

    tensor: int
    verb: Verb


Step = Compute | Move


@dataclass(frozen=True)
class Plan:
    """An instance, a schedule of it, and the header of the schedule."""

    instance: Instance
    schedule: Schedule
    steps: list[Step]

    @property
    def fixed_bytes(self) -> int:
        """Parameters, buffers and what else is always there."""
        return fixed_bytes(self.instance)

    def named(self, step: Step) -> str:
        """The step for messages: `compute layer1.conv1 (default)`."""
        if isinstance(step, Move):
            return f"{step.verb} {self.tensors[step.tensor]['name']}"
        return f"compute {self.operators[step.operator]['name']} ({step.implementation['name']})"

    @property
    def operators(self) -> dict[int, Operator]:
        """By id."""
        return {operator["id"]: operator for operator in self.instance["operators"]}

    @property
    def tensors(self) -> dict[int, Tensor]:
        """By id."""
        return {tensor["id"]: tensor for tensor in self.instance["tensors"]}


@dataclass(frozen=True)
class Expectation:
    """What the instance's numbers say: time, peak, peak without workspaces, memory during each step without
    its workspace, runs of each operator."""

    time: int
    peak_bytes: int
    peak_storage_bytes: int
    timeline: list[int]
    runs: dict[int, int]


@overload
def read_document(path: Path, what: Literal["instance"]) -> Instance: ...


@overload
def read_document(path: Path, what: Literal["schedule"]) -> Schedule: ...


@overload
def read_document(path: Path, what: Literal["plan"]) -> Mapping[str, Any]: ...


def read_document(path: Path, what: str) -> Instance | Schedule | Mapping[str, Any]:
    """One of our JSON files; an instance or a schedule has the fields of its format. Errors name the file."""
    try:
        read = without_nulls(cast(Schedule, files.parsed(path)))
        if what in _KINDS:
            check_fields(read, what)
        return read
    except ProfilerError as error:
        raise ProfilerError(f"{what} '{path}': {error}") from None
    except OSError as error:
        raise ProfilerError(f"cannot read {what} '{path}': {error.strerror}") from error
    except ValueError as error:
        raise ProfilerError(f"{what} '{path}' is no JSON file of ours: {error}") from error


def check_fields(document: object, what: str) -> None:
    """Refuses what is no instance or no schedule, or lacks a field of it."""
    kind, expected, remedy = _KINDS[what]
    read = document if isinstance(document, Mapping) else {}
    if read.get("format") != expected or read.get("version") != VERSION:
        raise ProfilerError(f"expected {'an' if what == 'instance' else 'a'} {what} file (format {expected}, version {VERSION})")
    found = fault(document, kind)
    if found:
        raise ProfilerError(f"{found}: {remedy}")


def plan(instance: Instance, schedule: Schedule) -> Plan:
    """Resolves the steps; refuses what the instance lacks, and a schedule that takes more memory on it than it may."""
    instance, schedule = without_nulls(instance), without_nulls(schedule)
    check_fields(instance, "instance")
    check_fields(schedule, "schedule")
    if schedule["instance"] != instance["name"]:
        raise ProfilerError(f"the schedule is of instance '{schedule['instance']}', not of '{instance['name']}'")
    found = problems(instance)
    if found:
        raise ProfilerError(f"instance '{instance['name']}' is not sound: {found[0]}; trace it again")
    operators = {operator["id"]: operator for operator in instance["operators"]}
    tensors = {tensor["id"] for tensor in instance["tensors"]}
    steps = [_step(number, step, operators, tensors) for number, step in enumerate(schedule["steps"])]
    if any(step.verb in TRANSFERS for step in steps) and "transfer_rates" not in schedule:
        raise ProfilerError("the schedule has transfers, but no transfer_rates")
    made = Plan(instance, schedule, steps)
    _check_budget(made)
    return made


def _check_budget(made: Plan) -> None:
    """A schedule of another batch size fits operators and tensors as well; what it takes gives it away."""
    limit = made.schedule.get("budget_bytes", made.schedule.get("claimed_peak_bytes"))
    peak = expectation(made).peak_bytes
    if limit is not None and peak > limit:
        raise ProfilerError(f"the schedule was made to take at most {limit} bytes, and takes {peak} on instance '{made.instance['name']}': "
                            "the instance has changed since; solve it again (bench solve)")


def _step(number: int, step: StepEntry, operators: dict[int, Operator], tensors: set[int]) -> Step:
    moves = [verb for verb in MOVES if verb in step]
    if len(moves) + ("compute" in step) != 1:
        raise ProfilerError(f"step {number} is not one of compute, free, offload and fetch")
    for verb in moves:
        if step[verb] not in tensors:
            raise ProfilerError(f"step {number} ({verb}) names tensor {step[verb]}, which the instance does not have")
        return Move(step[verb], verb)
    operator = operators.get(step["compute"])
    if operator is None:
        raise ProfilerError(f"step {number} computes operator {step['compute']}, which the instance does not have")
    offered = operator["implementations"]
    wanted = step.get("implementation", offered[0]["name"])
    chosen = next((entry for entry in offered if entry["name"] == wanted), None)
    if chosen is None:
        raise ProfilerError(f"step {number}: operator {operator['id']} ({operator['name']}) has no implementation '{wanted}'")
    return Compute(operator["id"], chosen)


def makes(operator: Operator, implementation: Implementation) -> list[int]:
    """Tensors that are there after a run."""
    return [*operator["outputs"], *implementation.get("saves", [])]


def expectation(plan: Plan) -> Expectation:
    """Counts a legal schedule; what an illegal one would come to is of no meaning."""
    operators, tensors = plan.operators, plan.tensors
    resident = {id for id, tensor in tensors.items() if tensor["kind"] == "input"}
    memory = plan.fixed_bytes + sum(tensors[id]["bytes"] for id in resident)
    time, peak, storage_peak, timeline = 0, memory, memory, []
    runs = dict.fromkeys(operators, 0)
    for step in plan.steps:
        workspace = 0
        if isinstance(step, Compute):
            for id in _replaced(step.implementation) & resident:
                resident.discard(id)
                memory -= tensors[id]["bytes"]
            made = set(makes(operators[step.operator], step.implementation)) - resident
            resident |= made
            memory += sum(tensors[id]["bytes"] for id in made)
            time += step.implementation["time"]
            workspace = step.implementation.get("workspace_bytes", 0)
            runs[step.operator] += 1
        elif step.verb != "free":
            size, rate = tensors[step.tensor]["bytes"], plan.schedule["transfer_rates"][step.verb]
            time += -(-size * 1000 // rate)
            if step.verb == "fetch" and step.tensor not in resident:
                resident.add(step.tensor)
                memory += size
        timeline.append(memory)
        peak, storage_peak = max(peak, memory + workspace), max(storage_peak, memory)
        if isinstance(step, Move) and step.verb == "free" and step.tensor in resident:
            resident.discard(step.tensor)
            memory -= tensors[step.tensor]["bytes"]
    return Expectation(time, peak, storage_peak, timeline, runs)


def _replaced(implementation: Implementation) -> set[int]:
    pair = implementation.get("in_place")
    return set() if pair is None else {pair["input"]}
