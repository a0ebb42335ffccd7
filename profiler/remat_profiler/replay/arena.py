"""Runs a schedule in one arena: every tensor copy lies in one preallocated buffer, where a plan of `bench allocate` puts it.

PyTorch's allocator is told where each allocation goes (`allocator.py`). A first iteration in ordinary memory shows which
allocation is which tensor of the plan; what a kernel allocates for itself goes where nothing lies meanwhile: the plan has a
workspace for it, but a kernel may take it in pieces, and before its results are there. The allocator's peak during an
iteration says how much lies beside the arena.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from ..allocator import ALIGNMENT, ELSEWHERE, Numbers, Session
from ..errors import ProfilerError
from ..trace import TracedIteration
from .machine import Account, IllegalStep, Machine, Result, Stamps
from .plan import Move, Plan, Step, makes, read_document

FORMAT, VERSION = "remat-arena", 1


@dataclass(frozen=True)
class Place:
    """Addresses of a buffer."""

    offset: int
    size: int


@dataclass(frozen=True)
class Stay:
    """A buffer, or a tensor in it, at the steps from `lower` to `upper` - 1."""

    lower: int
    upper: int
    place: Place


@dataclass(frozen=True)
class Places:
    """A plan of addresses: the arena's height, where each tensor stays when, and all buffers of tensors."""

    document: Mapping[str, Any]
    height: int
    stays: Mapping[int, list[Stay]]
    buffers: list[Stay]

    def of(self, tensor: int, step: int) -> Place | None:
        """Where a tensor is during a step; None where the plan has no place for it, or several."""
        found = [stay.place for stay in self.stays.get(tensor, []) if stay.lower <= step < stay.upper]
        return found[0] if len(found) == 1 else None


def read_places(path: Path) -> Places:
    """The plan in a file."""
    document = read_document(path, "plan")
    try:
        return places(document)
    except ProfilerError as error:
        raise ProfilerError(f"'{path}': {error}") from None


def places(document: Mapping[str, Any]) -> Places:
    """A plan's places; refuses one that is none, or that has two buffers at one address at one moment."""
    if document.get("format") != FORMAT or document.get("version") != VERSION:
        raise ProfilerError(f"expected a plan of addresses (format {FORMAT}, version {VERSION}); make it with bench allocate")
    try:
        alignment, height = int(document["alignment"]), int(document["height"])
        stays: dict[int, list[Stay]] = {}
        buffers: list[Stay] = []
        workspaces: list[Stay] = []
        for buffer in document["buffers"]:
            place = Place(int(buffer["offset"]), int(buffer["size"]))
            lower, upper = int(buffer["lower"]), int(buffer["upper"])
            (buffers if buffer.get("workspace_of") is None else workspaces).append(Stay(lower, upper, place))
            held = [(int(entry["tensor"]), int(entry["from"])) for entry in buffer.get("tensors", [])]
            for (tensor, since), until in zip(held, [*(since for _, since in held[1:]), upper]):
                stays.setdefault(tensor, []).append(Stay(max(since, lower), min(until, upper), place))
    except (KeyError, TypeError, ValueError) as error:
        raise ProfilerError(f"the plan lacks a field, or it is no whole number: {error}") from None
    _check_alignment(alignment, "cpu")
    _check_addresses(buffers + workspaces, alignment, height)
    return Places(document, height, stays, buffers)


def _check_alignment(alignment: int, device: str) -> None:
    if alignment % ALIGNMENT[device]:
        raise ProfilerError(f"the plan is aligned to {alignment}; kernels need a multiple of {ALIGNMENT[device]} "
                            "(bench allocate --alignment 512)")


def _check_addresses(buffers: list[Stay], alignment: int, height: int) -> None:
    """Goes through the buffers in time, with those that are alive sorted by address."""
    alive: list[tuple[int, int]] = []  # first address, and first address after it
    events = sorted((moment, begins, index) for index, buffer in enumerate(buffers)
                    for moment, begins in ((buffer.lower, 1), (buffer.upper, 0)))
    for moment, begins, index in events:
        place = buffers[index].place
        here = (place.offset, place.offset + place.size)
        if place.offset < 0 or place.offset % alignment or here[1] > height:
            raise ProfilerError(f"buffer {index} of the plan lies at {place.offset}, outside of the arena of {height} or not aligned")
        at = bisect.bisect_left(alive, here)
        if not begins:
            if at >= len(alive) or alive[at] != here:
                raise ProfilerError(f"buffer {index} of the plan ends before it begins")
            del alive[at]
            continue
        if (at > 0 and alive[at - 1][1] > here[0]) or (at < len(alive) and alive[at][0] < here[1]):
            raise ProfilerError(f"buffer {index} of the plan shares an address with another at step {moment}; bench verify --plan has all")
        alive.insert(at, here)


def check_belongs(found: Places, chosen: Plan) -> None:
    """Refuses a plan of another instance, or of a schedule that has other steps."""
    document = found.document
    if document.get("instance") != chosen.instance["name"]:
        raise ProfilerError(f"the plan is of instance '{document.get('instance')}', not of '{chosen.instance['name']}'")
    expected = chosen.schedule.get("instance_hash", document.get("instance_hash"))
    if document.get("instance_hash") != expected:
        raise ProfilerError(f"the plan is of the instance with the hash {document.get('instance_hash')}, "
                            f"the schedule of that with {expected}")
    if document.get("fixed_bytes") != chosen.fixed_bytes:
        raise ProfilerError(f"the plan has {document.get('fixed_bytes')} fixed bytes, the instance {chosen.fixed_bytes}; "
                            "make the plan anew with bench allocate")
    end = max((stay.upper for stays in found.stays.values() for stay in stays), default=0)
    if end > max(1, len(chosen.steps)):
        raise ProfilerError(f"the plan goes to step {end - 1}, the schedule to {len(chosen.steps) - 1}: they do not belong together")


class ArenaMachine(Machine):
    """A machine for whose tensors PyTorch's allocator takes the plan's addresses. `learn` comes before the first `run`."""

    def __init__(self, plan: Plan, trace: TracedIteration, module: nn.Module, device: torch.device, found: Places) -> None:
        check_belongs(found, plan)
        _check_alignment(int(found.document["alignment"]), device.type)
        self.places, self.address = found, 0
        # Allocations of an iteration, and how many of them lie in the arena.
        self.allocations = self.placed = 0
        self._session, self._alignment = Session(device.type), ALIGNMENT[device.type]
        self._offsets: dict[int, int] = {}  # of allocations that are tensors of the plan
        self._spans: list[tuple[int, int, int]] = []  # step, its first allocation, and the first one after it
        self._tensors = plan.tensors
        super().__init__(plan, trace, module, device)
        self._entrances = [(id, self._place(id, 0)) for id, _ in self._inputs if id is not None]

    def _place(self, id: int, step: int) -> Place | None:
        """The place of a tensor; None for one of no bytes."""
        if not self._tensors[id]["bytes"]:
            return None
        found = self.places.of(id, step)
        if found is None:
            raise ProfilerError(f"step {step}: the plan has no place for tensor {id} ({self._tensors[id]['name']}), or several; "
                                "bench verify --plan has all that is wrong")
        return found

    # Which allocation is what.

    def learn(self, inputs: tuple[torch.Tensor, ...]) -> None:
        """Runs one iteration in ordinary memory, to see what it allocates for which tensor of which step; then makes the arena."""
        self._offsets.clear()
        self._spans.clear()
        self.run(inputs)
        sizes, uppers = self._session.log()
        offsets = np.full(len(sizes), ELSEWHERE, np.int64)
        for allocation, offset in self._offsets.items():
            offsets[allocation] = offset
        for step, first, end in self._spans:
            scratch = [index for index in range(first, end) if offsets[index] == ELSEWHERE and uppers[index] <= end]
            if scratch:
                _lay(scratch, self._taken(step, range(first, end)), self.places.height, self._alignment, sizes, uppers, offsets)
        self.allocations, self.placed = len(sizes), int((offsets != ELSEWHERE).sum())
        self.address = self._session.plan(sizes, offsets, self.places.height)
        if not self.address:
            raise ProfilerError(f"there are no {self.places.height} bytes in one piece for the arena")

    def _taken(self, step: int, allocations: range) -> list[tuple[int, int, int]]:
        """Addresses of tensors during a step: the first, the first after them, and with which allocation they are taken."""
        made = {self._offsets[index]: index for index in reversed(allocations) if index in self._offsets}
        there = (stay for stay in self.places.buffers if stay.lower <= step < stay.upper)
        return [(place.offset, place.offset + place.size, made.get(place.offset, -1) if stay.lower == step else -1)
                for stay in there for place in (stay.place,)]

    def _learn_held(self, held: object, place: Place) -> None:
        """What an operator made: its parts lie one after the other, those with the largest elements first, so that each is aligned."""
        offset = place.offset
        parts = held if isinstance(held, tuple) else (held,)
        for part in sorted(parts, key=lambda part: -part.element_size()):
            size = part.untyped_storage().nbytes()
            if offset + size > place.offset + place.size:
                raise ProfilerError(f"a result of {size} bytes does not fit into its buffer of {place.size} in the arena")
            allocation = self._session.find(part)
            if allocation >= 0 and size:
                # What is made in place stays where it was; `Watch` sees whether that is the plan's place.
                self._offsets.setdefault(allocation, offset)
            offset += size

    def _bound(self, index: int, step: Step) -> Callable[[], None]:
        inner = super()._bound(index, step)
        if step.verb == "free":
            return inner
        into = [(id, place) for id in self._made(step) if (place := self._place(id, index)) is not None]
        session, held = self._session, self.held

        def run() -> None:
            if self.address:
                return inner()
            first = session.length()
            inner()
            for id, place in into:
                self._learn_held(held[id], place)
            self._spans.append((index, first, session.length()))

        return run

    def _made(self, step: Step) -> list[int]:
        """What is there after a step that was not, or that is there anew."""
        if isinstance(step, Move):
            return [step.tensor] if step.verb == "fetch" else []
        return makes(self.library.entries[step.operator], step.implementation)

    def _take(self, inputs: tuple[torch.Tensor, ...]) -> None:
        """The inputs are copied into the arena; the caller keeps its own."""
        super()._take(tuple(tensor.detach().clone() for tensor in inputs))
        for id, place in self._entrances:
            if place is not None and not self.address:
                self._learn_held(self.held[id], place)

    # Running.

    def run(self, inputs: tuple[torch.Tensor, ...], account: Account | None = None, stamps: Stamps | None = None) -> Result:
        """One iteration, in the arena where there is one; it must allocate as the first one did."""
        self._session.begin_iteration()
        outer = self._session.begin_window((0, self.allocations) if self.address else None)
        stopped = -1
        try:
            result = super().run(inputs, account, stamps)
        finally:
            stopped = self._session.end_window(outer)
        if self.address and stopped >= 0:
            raise ProfilerError(f"allocation {stopped} of {self.allocations} is of another size than in the first iteration, or missing")
        return result

    def is_in_place(self, tensor: torch.Tensor, id: int, step: int) -> bool:
        """Whether all of a tensor lies where the plan says that it does during a step."""
        place, at = self.places.of(id, step), tensor.data_ptr() - self.address
        return place is not None and place.offset <= at <= at + extent(tensor) <= place.offset + place.size


def _lay(
    scratch: list[int], taken: list[tuple[int, int, int]], height: int, alignment: int, sizes: Numbers, uppers: Numbers, offsets: Numbers
) -> None:
    """Lays what a kernel allocates for itself at the lowest address where nothing lies meanwhile; what does not fit stays elsewhere."""
    lying: list[tuple[int, int, int]] = []  # first address, first address after it, allocation before which it goes
    for index in scratch:
        size, upper = -(-int(sizes[index]) // alignment) * alignment, int(uppers[index])
        at = 0
        for first, end in sorted([(first, end) for first, end, since in taken if since < upper]
                                 + [(first, end) for first, end, until in lying if until > index]):
            if first - at >= size:
                break
            at = max(at, end)
        if at + size <= height:
            lying.append((at, at + size, upper))
            offsets[index] = at


def extent(tensor: torch.Tensor) -> int:
    """Bytes from a tensor's first element to its last."""
    if not tensor.numel():
        return 0
    last = sum((size - 1) * stride for size, stride in zip(tensor.size(), tensor.stride()))
    return int((last + 1) * tensor.element_size())


class Watch(Stamps):
    """Looks after every step whether each tensor lies where the plan says, and nowhere else."""

    def __init__(self, machine: ArenaMachine) -> None:
        super().__init__(machine.device)
        self.machine, self.step = machine, 0

    def after(self, step: Step) -> None:
        """A step has run; what it freed is gone, so the plan is asked about what is held."""
        for id, held in self.machine.held.items():
            for part in held if isinstance(held, tuple) else (held,):
                if part.numel() and not self.machine.is_in_place(part, id, self.step):
                    raise IllegalStep(f"step {self.step} ({self.machine.plan.named(step)}) leaves tensor {id} "
                                      "outside of its place in the arena")
        self.step += 1
