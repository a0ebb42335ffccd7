"""Runs a schedule in one arena: every tensor copy is a view of one preallocated buffer, where a plan of `bench allocate` puts it.

A kernel with an `out=` form of its own writes to its place at once. All others make their results beside the arena
first, and these are copied in: the step's results, and what a kernel needs for itself, are then there besides. The
allocator's peak during an iteration says how much that is; none of it is in the plan. Workspaces have places in the
plan, but no kernel of the CPU can be told to use them.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import fx, nn

from ..errors import ProfilerError
from ..trace import TracedIteration
from .machine import IllegalStep, Machine, Stamps
from .plan import Compute, Move, Plan, Step, makes, read_document
from .values import Values

FORMAT, VERSION = "remat-arena", 1
# PyTorch's own alignment of storages on the CPU, which vector kernels may count on for speed, and some for their sums.
ALIGNMENT = 64


@dataclass(frozen=True)
class Place:
    """Addresses of a buffer."""

    offset: int
    size: int


@dataclass(frozen=True)
class Stay:
    """A tensor in a buffer, at the steps from `lower` to `upper` - 1."""

    lower: int
    upper: int
    place: Place


@dataclass(frozen=True)
class Places:
    """A plan of addresses: the arena's height, and where each tensor stays when."""

    document: Mapping[str, Any]
    height: int
    stays: Mapping[int, list[Stay]]

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
        rectangles: list[tuple[int, int, Place]] = []
        for buffer in document["buffers"]:
            place = Place(int(buffer["offset"]), int(buffer["size"]))
            lower, upper = int(buffer["lower"]), int(buffer["upper"])
            rectangles.append((lower, upper, place))
            held = [(int(entry["tensor"]), int(entry["from"])) for entry in buffer.get("tensors", [])]
            for (tensor, since), until in zip(held, [*(since for _, since in held[1:]), upper]):
                stays.setdefault(tensor, []).append(Stay(max(since, lower), min(until, upper), place))
    except (KeyError, TypeError, ValueError) as error:
        raise ProfilerError(f"the plan lacks a field, or it is no whole number: {error}") from None
    if alignment % ALIGNMENT:
        raise ProfilerError(f"the plan is aligned to {alignment}; kernels need a multiple of {ALIGNMENT} (bench allocate --alignment 512)")
    _check_addresses(rectangles, alignment, height)
    return Places(document, height, stays)


def _check_addresses(rectangles: list[tuple[int, int, Place]], alignment: int, height: int) -> None:
    """Goes through the buffers in time, with those that are alive sorted by address."""
    alive: list[tuple[int, int]] = []  # first address, and first address after it
    events = sorted((moment, begins, index) for index, (lower, upper, _) in enumerate(rectangles)
                    for moment, begins in ((lower, 1), (upper, 0)))
    for moment, begins, index in events:
        place = rectangles[index][2]
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


class ArenaValues(Values):
    """Evaluates nodes; where `outs` is set, the next operator that can writes its outputs there."""

    def __init__(self, trace: TracedIteration, placeholders: dict[fx.Node, torch.Tensor], device: torch.device) -> None:
        super().__init__(trace, placeholders, device)
        self.outs: dict[str, torch.Tensor] | None = None
        self._operators = {operator.node for operator in trace.operators}

    def target_of(self, node: fx.Node) -> Callable[..., Any]:
        """The operator of a node; of one that has a kernel with `out=`, what uses it when asked to."""
        target: Callable[..., Any] = node.target
        overload = out_form(node) if node in self._operators else None
        if overload is None:
            return target

        def call(*positional: object, **keywords: object) -> object:
            outs, self.outs = self.outs, None
            if outs is None:
                return target(*positional, **keywords)
            return overload(*positional, **keywords, **outs)

        return call


def out_form(node: fx.Node) -> Any:
    """The overload of a node's operator that writes to given outputs, where the CPU has a kernel for it; else None.

    Overloads that PyTorch generates run the other form and copy: they would hide what is made beside the arena.
    """
    target = node.target
    packet, wanted = target.overloadpacket, len(target._schema.returns)
    ours = [(argument.name, str(argument.type)) for argument in target._schema.arguments]
    for name in packet.overloads():
        overload = getattr(packet, name)
        arguments = overload._schema.arguments
        outs = [argument for argument in arguments if argument.is_out]
        others = [(argument.name, str(argument.type)) for argument in arguments if not argument.is_out]
        if len(outs) == wanted and others == ours:
            full = overload._schema.name + (f".{overload._schema.overload_name}" if overload._schema.overload_name else "")
            return overload if torch._C._dispatch_has_kernel_for_dispatch_key(full, "CPU") else None
    return None


class ArenaMachine(Machine):
    """A machine whose tensors are views of one arena; `arena` is that, of the plan's height to the byte."""

    values_type = ArenaValues
    values: ArenaValues

    def __init__(self, plan: Plan, trace: TracedIteration, module: nn.Module, device: torch.device, found: Places) -> None:
        if device.type != "cpu":
            raise ProfilerError("--arena needs --device cpu: nobody has tried it on another")
        check_belongs(found, plan)
        self.places = found
        self.arena = torch.empty(found.height, dtype=torch.uint8, device=device)
        if self.arena.data_ptr() % ALIGNMENT:
            raise ProfilerError(f"the allocator gave an arena that is not aligned to {ALIGNMENT} bytes")
        # Steps whose kernels write to the arena, and those whose results are copied there.
        self.direct_steps = self.copied_steps = 0
        self._tensors = plan.tensors
        super().__init__(plan, trace, module, device)
        self._entrances = [(id, self._place(id, 0)) for id, _ in self._inputs if id is not None]

    # Where tensors go.

    def _place(self, id: int, step: int) -> Place | None:
        """The place of a tensor; None for one of no bytes."""
        if not self._tensors[id]["bytes"]:
            return None
        found = self.places.of(id, step)
        if found is None:
            raise ProfilerError(f"step {step}: the plan has no place for tensor {id} ({self._tensors[id]['name']}), or several; "
                                "bench verify --plan has all that is wrong")
        return found

    def _view(self, tensor: torch.Tensor, offset: int) -> torch.Tensor:
        """The arena from an address on, as a tensor like another."""
        size = tensor.element_size()
        whole = self.arena[offset: self.arena.numel() - (self.arena.numel() - offset) % size].view(tensor.dtype)
        return whole.as_strided(tensor.size(), tensor.stride(), whole.storage_offset())

    def _held_at(self, held: object, place: Place) -> object:
        """What an operator made, in its place: copied there unless it is there already."""
        parts = held if isinstance(held, tuple) else (held,)
        moved: dict[int, torch.Tensor] = {}
        offset = place.offset
        # The largest elements first, so that each part begins at a multiple of its own.
        for index in sorted(range(len(parts)), key=lambda index: -parts[index].element_size()):
            part = parts[index]
            length = extent(part)
            if offset + length > place.offset + place.size:
                raise ProfilerError(f"a result of {length} bytes does not fit into its buffer of {place.size} in the arena")
            if part.data_ptr() == self.arena.data_ptr() + offset and self._is_inside(part):
                moved[index] = part
            else:
                moved[index] = self._view(part, offset).copy_(part)
            offset += length
        return tuple(moved[index] for index in range(len(parts))) if isinstance(held, tuple) else moved[0]

    def is_in_place(self, tensor: torch.Tensor, id: int, step: int) -> bool:
        """Whether all of a tensor lies where the plan says that it does during a step."""
        place, at = self.places.of(id, step), tensor.data_ptr() - self.arena.data_ptr()
        return (place is not None and self._is_inside(tensor)
                and place.offset <= at <= at + extent(tensor) <= place.offset + place.size)

    def _is_inside(self, tensor: torch.Tensor) -> bool:
        return bool(tensor.untyped_storage().data_ptr() == self.arena.untyped_storage().data_ptr())

    # Steps.

    def _bound(self, index: int, step: Step) -> Callable[[], None]:
        inner = super()._bound(index, step)
        if step.verb in ("free", "offload"):
            return inner
        placed = [(id, self._place(id, index)) for id in self._made(step)]
        into = {id: place for id, place in placed if place is not None}
        outs = self._outs(step, into)
        if isinstance(step, Compute):
            self.direct_steps += outs is not None
            self.copied_steps += outs is None and step.implementation.get("in_place") is None
        values, held = self.values, self.held

        def run() -> None:
            values.outs = outs
            try:
                inner()
            finally:
                values.outs = None
            for id, place in into.items():
                held[id] = self._held_at(held[id], place)

        return run

    def _made(self, step: Step) -> list[int]:
        """What is there after a step that was not, or that is there anew."""
        if isinstance(step, Move):
            return [step.tensor]
        return makes(self.library.entries[step.operator], step.implementation)

    def _outs(self, step: Step, into: Mapping[int, Place]) -> dict[str, torch.Tensor] | None:
        """Views for all outputs of a step's kernel, by argument; None where it cannot be told to write there."""
        if isinstance(step, Move) or step.implementation["name"] not in ("default", "recompute"):
            return None
        operator = self.library.operators[step.operator]
        overload = out_form(operator.node)
        if overload is None or operator.node in self.library.state_of:
            return None
        names = [argument.name for argument in overload._schema.arguments if argument.is_out]
        traced = {storage.value.index: storage for storage in self.trace.storages if storage.value.node is operator.node}
        found: dict[str, torch.Tensor] = {}
        for position, name in enumerate(names):
            storage = traced.get(None if len(names) == 1 else position)
            if storage is None or storage.id not in into:
                return None
            fake, place = storage.value.tensor, into[storage.id]
            if extent(fake) > place.size or fake.storage_offset():
                return None
            found[name] = self._view(fake, place.offset)
        return found

    def _take(self, inputs: tuple[torch.Tensor, ...]) -> None:
        """The inputs are copied into the arena; the caller keeps its own."""
        super()._take(inputs)
        for id, place in self._entrances:
            if place is not None:
                self.held[id] = self._held_at(self.held[id], place)


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
