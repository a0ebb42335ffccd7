"""One replay in one arena, from files to record: beside the plain replay of the same schedule, to which it is equal to the bit,
or as equal as that is to itself."""

from __future__ import annotations

from collections.abc import Callable

import torch

from ..documents import Record, Schedule
from . import measure, record, reference
from .arena import ArenaMachine, Places, Watch
from .job import Bench, tolerance_of
from .machine import Machine
from .plan import expectation, plan
from .reference import Outcome

_SHOWN = 10


def differing(one: Outcome, other: Outcome) -> list[str]:
    """Names of tensors that are not the same to the bit, or that only one of them has."""
    names = sorted({*one.tensors, *other.tensors})
    return [name for name in names if not _same(one.tensors.get(name), other.tensors.get(name))]


def _same(one: torch.Tensor | None, other: torch.Tensor | None) -> bool:
    """The bits decide: not a number is equal to itself, and zero not to minus zero."""
    if one is None or other is None or one.shape != other.shape or one.dtype != other.dtype:
        return False
    first, second = one.contiguous().view(-1).view(torch.uint8), other.contiguous().view(-1).view(torch.uint8)
    return bool(torch.equal(first, second))


def unlike(expected: Outcome, outcome: Outcome, again: Callable[[], Outcome], tolerance: float) -> tuple[list[str], list[str]]:
    """Names of tensors that are not what they are without an arena, and notes. What a GPU sums in any order (the gradient of a
    convolution's weights) may be another to the bit the next time: where the plain replay is, run `again`, the tolerance decides."""
    different = differing(expected, outcome)
    if not different or not (itself := differing(expected, again())):
        return different, []
    compared = reference.compare(expected, outcome, tolerance)
    beyond = {*(found.name for found in compared.beyond), *compared.missing, *(outcome.tensors.keys() - expected.tensors.keys())}
    note = f"{len(different)} tensors are within {tolerance:g} of the plain replay, which differs from itself in {len(itself)}"
    return [name for name in different if name in beyond], [] if beyond else [note]


def replay_in_arena(with_bench: Bench, schedule: Schedule, found: Places) -> Record:
    """The record of one schedule in the arena of a plan."""
    settings, device = with_bench.settings, with_bench.device
    chosen = plan(with_bench.instance, schedule)
    machine = ArenaMachine(chosen, with_bench.trace, with_bench.module, device, found)
    plain = Machine(chosen, with_bench.trace, with_bench.module, device)
    tolerance = tolerance_of(chosen)

    def without() -> Outcome:
        return with_bench.outcome(lambda: plain.run(with_bench.inputs))

    expected = without()
    with_bench.fresh()
    machine.learn(with_bench.inputs)
    outcome = with_bench.outcome(lambda: machine.run(with_bench.inputs, stamps=Watch(machine)))
    different, notes = unlike(expected, outcome, without, tolerance)

    def iteration() -> None:
        machine.run(with_bench.inputs)

    with_bench.fresh()
    arena = machine.places.height
    resident = with_bench.fixed_bytes + arena
    peaks = measure.peaks(iteration, device, resident, in_arena=True)
    simulated = expectation(chosen)
    compared, beside = with_bench.judged(outcome, tolerance)
    made: Record = record.header(with_bench.instance, str(schedule.get("method", "")), settings.device, settings.seed)
    made |= {
        "schedule": record.of_schedule(schedule), "expected": record.of_expectation(simulated),
        "equality": record.of_comparison(compared),
        **with_bench.timed(iteration, simulated),
        # Every tensor was seen in its place: the storages are the arena.
        "memory": record.of_peaks(peaks, None) | {"storage_peak_bytes": resident},
        "arena": {
            "height_bytes": arena, "beside_bytes": peaks.allocated - resident,
            "method": found.document.get("method", ""), "alignment": found.document["alignment"],
            "allocations": machine.allocations, "placed": machine.placed,
            "equal_to_plain": not different, "different_from_plain": different[:_SHOWN],
        },
    }
    made["notes"] = [*machine.notes, *beside, *notes, "in one arena; the inputs are there twice, for the caller keeps its own"]
    if different:
        made["notes"].append(f"{len(different)} tensors differ from the plain replay, first {different[0]}")
    return made


def words(made: Record) -> str:
    """The arena of a record in a line, for people; empty where it has none."""
    arena = made.get("arena")
    if arena is None:
        return ""
    same = "equal to the plain replay" if arena["equal_to_plain"] else "DIFFERENT from the plain replay"
    return (f"  arena of {arena['height_bytes']} bytes, up to {arena['beside_bytes']} beside it; {arena['placed']} of "
            f"{arena['allocations']} allocations lie there; {same}")
