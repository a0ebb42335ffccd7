"""Executes the steps of a plan on real tensors, and accounts for every storage.

The machine holds tensors by id. A compute step runs its implementation and keeps what it makes; a free step
drops the tensor, and with the last reference the storage goes. Random operators replay the state that the
generator had in their first run; a first run of an operator that updates state writes the module's buffers.
A step that reads or frees what is not there ends the run with its number and name. What a schedule does wrong
otherwise (updating state twice, say) shows in the comparison with the framework's own iteration.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx, nn

from ..drawing import target_of
from ..errors import ProfilerError
from ..trace import TracedIteration
from .implementations import Library, Run
from .plan import Compute, Move, Plan, Step, makes
from .values import Getter, Held, Missing, Values


class IllegalStep(ProfilerError):
    """A schedule asks for what cannot be done; the text names the step."""


@dataclass
class Result:
    """What an iteration leaves: the loss, gradients by parameter name (those whose storages are there)."""

    loss: torch.Tensor | None
    gradients: dict[str, torch.Tensor]


@dataclass
class Account:
    """Exact accounting of one iteration: bytes of all storages during each step, fixed bytes included."""

    timeline: list[int] = field(default_factory=list)
    # Tensors whose storage is not as large as the instance says: name, bytes here.
    odd_sizes: dict[str, int] = field(default_factory=dict)

    @property
    def peak_bytes(self) -> int:
        """Largest of all steps."""
        return max(self.timeline)


class Stamps:
    """When each step of one iteration began, and when the last one ended: on CUDA by events on the stream."""

    def __init__(self, device: torch.device) -> None:
        self._cuda = device.type == "cuda"
        self._marks: list[Any] = []

    def before(self, _step: Step) -> None:
        """A step begins."""
        self.mark()

    def after(self, _step: Step) -> None:
        """Nothing: a step lasts until the next one begins, so that all together are the iteration."""

    def mark(self) -> None:
        """Now."""
        if self._cuda:
            self._marks.append(torch.cuda.Event(enable_timing=True))
            self._marks[-1].record()
        else:
            self._marks.append(time.perf_counter_ns())

    def durations(self) -> list[int]:
        """Nanoseconds of each step."""
        if self._cuda:
            torch.cuda.synchronize()
            return [round(a.elapsed_time(b) * 1e6) for a, b in itertools.pairwise(self._marks)]
        return [b - a for a, b in itertools.pairwise(self._marks)]


class Machine:
    """A module, made ready to run by a plan; `run` executes one iteration."""

    def __init__(self, plan: Plan, trace: TracedIteration, module: nn.Module, device: torch.device) -> None:
        self.plan, self.trace, self.module, self.device = plan, trace, module, device
        self.random_states: dict[int, torch.Tensor] = {}
        # What random operators must leave of the generator where their order is another one than the framework's.
        self._random_ends: dict[int, torch.Tensor] = {}
        self._copied: set[int] = set()
        with torch.no_grad():
            placeholders = self._placeholders()
            self.values = Values(trace, placeholders, device)
            self.held = self.values.held
            self.host: Held = {}
            by_node, late = self._state(placeholders)
            self.library = Library(self.values, plan.instance, by_node)
            self._inputs = [(self.values.tensor_id(node), name) for node, name in trace.capture.inputs.items()]
            self._runs: dict[tuple[int, str], Callable[[], None]] = {}
            self._steps = [self._bound(index, step) for index, step in enumerate(plan.steps)]
            self._loss = self.values.getter(trace.capture.loss)
            self._gradients = {name: self.values.getter(node) for name, node in trace.capture.gradients.items()}
            self._late = [(buffer, self.values.fresh(node)) for node, buffer in late]

    @property
    def notes(self) -> list[str]:
        """What a reader of the figures must know."""
        copied = [f"{len(self._copied)} operators gave back another layout than traced, or their operand: copied"]
        return sorted(self.library.notes) + copied * bool(self._copied)

    # Making ready.

    def _placeholders(self) -> dict[fx.Node, torch.Tensor]:
        capture = self.trace.capture
        parameters, buffers = dict(self.module.named_parameters()), dict(self.module.named_buffers())
        found: dict[fx.Node, torch.Tensor] = {}
        for nodes, tensors in ((capture.parameters, parameters), (capture.buffers, buffers)):
            for node, name in nodes.items():
                tensor, fake = tensors.get(name), node.meta["val"]
                if tensor is None or tensor.shape != fake.shape or tensor.dtype != fake.dtype:
                    raise ProfilerError(f"the module has no '{name}' of shape {list(fake.shape)}, which its trace has")
                found[node] = tensor.detach()
        for node in capture.tangents:
            found[node] = torch.ones(tuple(node.meta["val"].shape), dtype=node.meta["val"].dtype, device=self.device)
        return found

    def _state(
        self, placeholders: dict[fx.Node, torch.Tensor]
    ) -> tuple[dict[fx.Node, list[tuple[int, torch.Tensor]]], list[tuple[fx.Node, torch.Tensor]]]:
        """New values of buffers: with the node that makes them, or after the iteration."""
        by_node: dict[fx.Node, list[tuple[int, torch.Tensor]]] = {}
        late: list[tuple[fx.Node, torch.Tensor]] = []
        made_by = {operator.node for operator in self.trace.operators}
        for node, buffer in self.trace.capture.new_state:
            owner = self.values.of(node)
            if owner.node in made_by and owner.index is not None:
                by_node.setdefault(owner.node, []).append((owner.index, placeholders[buffer]))
            else:
                late.append((node, placeholders[buffer]))
        return by_node, late

    def _bound(self, index: int, step: Step) -> Callable[[], None]:
        if isinstance(step, Move):
            return {"free": self._free, "offload": self._offload, "fetch": self._fetch}[step.verb](step.tensor)
        key = step.operator, step.implementation["name"]
        if key not in self._runs:
            self._runs[key] = self._run_of(step)
        return self._runs[key]

    def _free(self, id: int) -> Callable[[], None]:
        held = self.held

        def free() -> None:
            try:
                del held[id]
            except KeyError:
                raise Missing(id) from None

        return free

    def _offload(self, id: int) -> Callable[[], None]:
        """Copies to the host, and waits until the copy is there: transfers run alone."""
        held, host = self.held, self.host

        def offload() -> None:
            if id not in held:
                raise Missing(id)
            host[id] = _copied(held[id], torch.device("cpu"))

        return offload

    def _fetch(self, id: int) -> Callable[[], None]:
        held, host, device = self.held, self.host, self.device

        def fetch() -> None:
            if id not in host:
                raise Missing(id)
            if id not in held:
                held[id] = _copied(host[id], device)

        return fetch

    def _run_of(self, step: Compute) -> Callable[[], None]:
        id, held = step.operator, self.held
        make = self.library.run_of(id, step.implementation)
        pair = step.implementation.get("in_place")
        replaced = None if pair is None else pair["input"]
        layouts, outputs = self._layouts(step), makes(self.library.entries[id], step.implementation)
        again = sum(isinstance(other, Compute) and other.operator == id for other in self.plan.steps) > 1
        run = self._replaying(id, make, again) if self.library.operators[id].random else make

        def compute() -> None:
            for tensor in outputs:  # a copy that is there already gives way to the new one
                held.pop(tensor, None)
            made = run()
            if replaced is not None:
                del held[replaced]
            for tensor, layout in layouts:
                if made[tensor].stride() != layout:
                    made[tensor] = self._relaid(id, made[tensor], layout)
            held.update(made)

        return compute

    def _layouts(self, step: Compute) -> list[tuple[int, tuple[int, ...]]]:
        """Strides that later views count on, of what an implementation makes."""
        entry, traced = self.library.entries[step.operator], self.library.traced
        made = [*entry["outputs"], *step.implementation.get("saves", [])]
        return [(id, self.trace.storages[id].value.tensor.stride()) for id in made if id in traced]

    def _relaid(self, id: int, tensor: torch.Tensor, stride: tuple[int, ...]) -> torch.Tensor:
        if all(size == 1 or a == b for size, a, b in zip(tensor.shape, tensor.stride(), stride)):
            return tensor  # strides of single elements mean nothing
        self._copied.add(id)
        return torch.empty_strided(tensor.shape, stride, dtype=tensor.dtype, device=tensor.device).copy_(tensor)

    # Random numbers.

    def _replaying(self, id: int, run: Run, again: bool) -> Run:
        """With the state of the first run, which is kept where there is another one."""
        def replay() -> dict[int, Any]:
            state = self.random_states.get(id)
            if state is None:
                if again:
                    self.random_states[id] = self._generator_state()
                return run()
            before = self._generator_state()
            self._set_generator_state(state)
            made = run()
            end = self._random_ends.pop(id, None)
            if end is not None and not torch.equal(end, self._generator_state()):
                raise IllegalStep(f"operator {id} ({self.library.entries[id]['name']}) draws as many random numbers as its operands say, "
                                  "so that random operators cannot run in another order than the framework's: use a schedule that keeps it")
            self._set_generator_state(before)
            return made

        return replay

    def _generator_state(self) -> torch.Tensor:
        return torch.cuda.get_rng_state(self.device) if self.device.type == "cuda" else torch.get_rng_state()

    def _set_generator_state(self, state: torch.Tensor) -> None:
        if self.device.type == "cuda":
            torch.cuda.set_rng_state(state, self.device)
        else:
            torch.set_rng_state(state)

    def _prepare_random(self) -> None:
        """First runs in the framework's order find the generator as the framework does. Otherwise each random
        operator runs once beforehand, on made-up operands, in that order, to see what state it will find."""
        random = {id for id, operator in self.library.operators.items() if operator.random}
        runs = (step.operator for step in self.plan.steps if isinstance(step, Compute))
        first = list(dict.fromkeys(operator for operator in runs if operator in random))
        if first == sorted(first):
            return
        for operator in sorted(random):
            self.random_states[operator] = self._generator_state()
            self._draw(self.library.operators[operator].node)
            self._random_ends[operator] = self._generator_state()

    def _draw(self, node: fx.Node) -> None:
        """Runs an operator for the numbers that it draws; its operands' memory is taken again at once."""
        def made_up(value: object) -> object:
            if not isinstance(value, fx.Node):
                return self.device if isinstance(value, torch.device) else value
            fake = value.meta["val"]
            return torch.empty_strided(fake.shape, fake.stride(), dtype=fake.dtype, device=self.device).fill_(1)

        target_of(node)(*map(made_up, node.args), **{name: made_up(value) for name, value in node.kwargs.items()})

    # Running.

    @torch.no_grad()
    def run(self, inputs: tuple[torch.Tensor, ...], account: Account | None = None, stamps: Stamps | None = None) -> Result:
        """One iteration on `inputs` (images or tokens, labels); `account` or `stamps` is filled where given."""
        self.held.clear()
        try:
            self._take(inputs)
            late = [(buffer, new()) for buffer, new in self._late]  # of buffers as they are now
            self._prepare_random()
            self._execute(stamps if account is None else _Bookkeeper(self, account))
            if stamps is not None:
                stamps.mark()
            for buffer, new in late:
                buffer.copy_(new)
            return Result(self._present(self._loss), self._present_all())
        finally:
            self.held.clear()
            self.host.clear()
            self.random_states.clear()
            self._random_ends.clear()

    def _take(self, inputs: tuple[torch.Tensor, ...]) -> None:
        for (id, _), tensor in zip(self._inputs, inputs, strict=True):
            if id is not None:
                self.held[id] = tensor.detach()

    def _execute(self, keeper: Stamps | _Bookkeeper | None) -> None:
        for index, step in enumerate(self._steps):
            try:
                if keeper is None:
                    step()
                else:
                    keeper.before(self.plan.steps[index])
                    step()
                    keeper.after(self.plan.steps[index])
            except Missing as missing:
                raise IllegalStep(self._words(index, missing.args[0])) from None
            except RuntimeError as error:
                if isinstance(error, torch.OutOfMemoryError):
                    raise
                raise IllegalStep(f"step {index} ({self.plan.named(self.plan.steps[index])}) fails: "
                                  f"{str(error).splitlines()[0]}") from error

    def _words(self, index: int, missing: int) -> str:
        step = self.plan.steps[index]
        verb = {"compute": "reads", "free": "frees", "offload": "offloads", "fetch": "fetches"}[step.verb]
        name = self.plan.tensors[missing]["name"]
        return f"step {index} ({self.plan.named(step)}) {verb} tensor {missing} ({name}), which is not in memory"

    def _present_all(self) -> dict[str, torch.Tensor]:
        found = {name: self._present(getter) for name, getter in self._gradients.items()}
        return {name: tensor for name, tensor in found.items() if tensor is not None}

    @staticmethod
    def _present(getter: Getter) -> torch.Tensor | None:
        try:
            return getter()
        except Missing:
            return None


def _copied(held: Any, device: torch.device) -> Any:
    if isinstance(held, tuple):
        return tuple(part.to(device, copy=True) for part in held)
    return held.to(device, copy=True)


class _Bookkeeper:
    """Adds up the storages that the machine holds, each once, however many tensors share it."""

    def __init__(self, machine: Machine, account: Account) -> None:
        self.machine, self.account = machine, account
        self.tensors = machine.plan.tensors
        self.total = machine.plan.fixed_bytes
        self.parts: dict[int, dict[int, int]] = {}
        self.sharers: dict[int, int] = {}
        for id in machine.held:
            self._add(id)

    def before(self, step: Step) -> None:
        """A free step: memory is what it is until the tensor goes."""
        if isinstance(step, Move) and step.verb == "free" and step.tensor in self.parts:
            self.account.timeline.append(self.total)
            self._drop(step.tensor)

    def after(self, step: Step) -> None:
        """A compute step or a transfer: everything that it made is there."""
        if step.verb == "free":
            return
        if isinstance(step, Move):
            if step.tensor not in self.parts:
                self._add(step.tensor)
            self.account.timeline.append(self.total)
            return
        pair = step.implementation.get("in_place")
        gone = [] if pair is None else [pair["input"]]
        made = makes(self.machine.library.entries[step.operator], step.implementation)
        for id in [*gone, *made]:
            self._drop(id)
        for id in made:
            self._add(id)
        self.account.timeline.append(self.total)

    def _add(self, id: int) -> None:
        held = self.machine.held[id]
        storages = [part.untyped_storage() for part in (held if isinstance(held, tuple) else (held,))]
        self.parts[id] = {storage._cdata: storage.nbytes() for storage in storages}
        if sum(self.parts[id].values()) != self.tensors[id]["bytes"]:
            self.account.odd_sizes[self.tensors[id]["name"]] = sum(self.parts[id].values())
        for storage, size in self.parts[id].items():
            self.sharers[storage] = self.sharers.get(storage, 0) + 1
            self.total += size if self.sharers[storage] == 1 else 0

    def _drop(self, id: int) -> None:
        for storage, size in self.parts.pop(id, {}).items():
            self.sharers[storage] -= 1
            if not self.sharers[storage]:
                del self.sharers[storage]
                self.total -= size
