"""Trains a module with a given schedule: the counterpart of `rotor.Checkpointable`.

    step = Scheduled(module, instance, schedule)
    loss = step(images, labels)      # runs forward and backward as the schedule says
    loss.backward()                  # hands the gradients that it found to the parameters
    optimizer.step()

The instance contains the loss, so a call takes inputs and labels and gives the loss: the cross-entropy of the module's
logits, or with the `example` that the instance was traced with, a loss and inputs of the user's. Parameters and buffers
stay the module's own: optimizers, checkpoints and evaluation use `module`.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from ..capture import Example
from ..documents import Instance, Schedule
from ..errors import ProfilerError
from ..trace import TracedIteration
from . import agreement
from .machine import Machine
from .plan import plan, read_document


class Scheduled(nn.Module):
    """A module whose training iteration follows a schedule. `instance` and `schedule` are files or read ones."""

    def __init__(self, module: nn.Module, instance: Instance | str | Path, schedule: Schedule | str | Path, *,
                 example: Example | None = None) -> None:
        super().__init__()
        self.module = module
        read = read_document(Path(instance), "instance") if isinstance(instance, (str, Path)) else instance
        steps = read_document(Path(schedule), "schedule") if isinstance(schedule, (str, Path)) else schedule
        self._plan = plan(read, steps)
        self._settings = _settings(module)
        traced: list[nn.Module] = []
        before: dict[str, object] = {}

        def build() -> nn.Module:
            traced.append(traceable_copy(module))
            before.update(_settings(traced[-1]))
            return traced[-1]

        self._trace = agreement.retrace(read, build, example)
        # By forward itself, as counters are; hooks the tracer adds.
        self._moving = {name for name in _changed(before, _settings(traced[-1])) if not name.endswith("_hooks")}
        self._refuse_counters(read, traced[-1], example)
        trained = {name for name, p in module.named_parameters() if p.requires_grad}
        # Parameters that are read and have no gradient in the schedule.
        self._frozen = {name for node, name in self._trace.capture.parameters.items() if node.users} - trained
        self._machine: Machine | None = None
        self._tensors: list[int] = []
        self._constant = set(self._trace.capture.buffers.values()) - {
            self._trace.capture.buffers[buffer] for _, buffer in self._trace.capture.new_state}

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        """The loss; its backward hands out the gradients. Without gradients (`no_grad`) an iteration makes no sense."""
        if not self.training:
            raise ProfilerError("Scheduled runs training iterations only: call .train(), or use .module to evaluate")
        if not torch.is_grad_enabled():
            raise ProfilerError("Scheduled finds gradients, and they are off here (no_grad): use .module to evaluate")
        parameters = dict(self.module.named_parameters())
        self._check(inputs)
        self._check_module(parameters)
        return _Iteration.apply(self._ready(), inputs, list(parameters), *parameters.values())

    def _refuse_counters(self, instance: Instance, traced: nn.Module, example: Example | None) -> None:
        """What forward changes may not be a constant of the trace, which would go on with the first of its values."""
        later, set_on = traceable_copy(self.module), ""
        for name in sorted(self._moving):
            path, _, attribute = name.rpartition(".")
            value = vars(traced.get_submodule(path)).get(attribute)
            if isinstance(value, (*_PLAIN, *_NESTED)) and not _has_tensors(_told(value, set())):
                setattr(later.get_submodule(path), attribute, copy.copy(value))
                set_on = set_on or name
        if not set_on:
            return
        try:
            same = _constants(agreement.retrace(instance, lambda: later, example)) == _constants(self._trace)
        except ProfilerError:
            same = False
        if not same:
            raise ProfilerError(f"forward changes '{set_on}' of the module and computes with it, and a trace has it as a constant: "
                                "make it a buffer, and write to that")

    def _check(self, inputs: tuple[torch.Tensor, ...]) -> None:
        device = next(self.module.parameters()).device.type
        if torch.is_autocast_enabled(device):
            raise ProfilerError("Scheduled runs the operators that were traced, and autocast would change them: call it outside of it, "
                                "or use autocast in the module's forward and trace it again")
        if len(inputs) != len(self._trace.capture.inputs):
            raise ProfilerError(f"the schedule is for {len(self._trace.capture.inputs)} inputs, not {len(inputs)}")
        for node, tensor in zip(self._trace.capture.inputs, inputs, strict=True):
            fake = node.meta["val"]
            if tensor.shape != fake.shape or tensor.dtype != fake.dtype:
                name = self._trace.capture.inputs[node]
                raise ProfilerError(f"{name}: the schedule is for {fake.dtype} of shape {list(fake.shape)}, "
                                    f"not {tensor.dtype} of {list(tensor.shape)}")
            if not _laid_out_alike(tensor, fake):
                raise ProfilerError(f"{self._trace.capture.inputs[node]}: the schedule is for strides {list(fake.stride())}, not "
                                    f"{list(tensor.stride())}: call contiguous() on it (with the memory format that was traced), or "
                                    "trace again with an Example of it")
            if tensor.requires_grad:
                raise ProfilerError(f"{self._trace.capture.inputs[node]} requires a gradient, and a schedule has those of parameters only: "
                                    "detach() it")

    def _check_module(self, parameters: dict[str, nn.Parameter]) -> None:
        now = _settings(self.module)
        changed = [name for name in _changed(self._settings, now) if name not in self._moving]
        if changed:
            name = min(changed)
            raise ProfilerError(f"'{name}' of the module is {now.get(name)}, and was {self._settings.get(name)} when it was traced: "
                                "set it back, or trace it again")
        thawed = [name for name in parameters if name in self._frozen and parameters[name].requires_grad]
        if thawed:
            raise ProfilerError(f"'{thawed[0]}' was frozen when the module was traced, and has no gradient in the schedule: trace it again")

    def _ready(self) -> Machine:
        """The machine, bound anew when `.to(...)` or a loaded state has replaced tensors of the module, or somebody wrote to a buffer:
        it keeps what is computed from buffers alone."""
        tensors = [*self.module.parameters(), *self.module.buffers()]
        there = [tensor.untyped_storage().data_ptr() for tensor in tensors]
        there += [buffer._version for name, buffer in self.module.named_buffers() if name in self._constant]
        if self._machine is None or there != self._tensors:
            device = next(iter(tensors)).device
            self._machine, self._tensors = Machine(self._plan, self._trace, self.module, device), there
        return self._machine


class _Iteration(torch.autograd.Function):
    """The whole iteration as one node of autograd: the backward pass has already run when forward returns."""

    @staticmethod
    def forward(
        context: Any, machine: Machine, inputs: tuple[torch.Tensor, ...], names: list[str], *parameters: torch.Tensor
    ) -> torch.Tensor:
        result = machine.run(inputs)
        if result.loss is None:
            raise ProfilerError("the schedule does not keep the loss")
        missing = [name for name, p in zip(names, parameters) if p.requires_grad and name not in result.gradients
                   and name in machine.trace.capture.gradients]
        if missing:
            raise ProfilerError(f"the schedule does not keep the gradient of {missing[0]}")
        context.gradients = [result.gradients.get(name) for name in names]
        return result.loss

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(context: Any, scale: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        gradients, context.gradients = context.gradients, None
        if gradients is None:
            raise ProfilerError("the gradients of this iteration were handed out already: call the module again")
        for index, gradient in enumerate(gradients):  # one after the other: never all of them twice
            if gradient is not None:
                gradients[index] = gradient * scale
        return None, None, None, *gradients


def _laid_out_alike(tensor: torch.Tensor, fake: torch.Tensor) -> bool:
    """Whether two tensors of one shape have the same strides; that of a single element does not count."""
    return tensor.numel() == 0 or all(size == 1 or a == b for size, a, b in zip(tensor.shape, tensor.stride(), fake.stride()))


def _settings(module: nn.Module) -> dict[str, object]:
    """What a trace takes for constant: whether each module trains, its numbers, switches and words, also those in lists and tables, its
    forward hooks, and its tensors that are neither parameters nor buffers."""
    own = {id(tensor) for tensor in [*module.parameters(), *module.buffers()]}
    found = ((f"{path}.{name}".lstrip("."), _told(value, own)) for path, part in module.named_modules()
             for name, value in vars(part).items() if name not in _OF_EVERY_MODULE or name in _OF_A_TRACE)
    return {name: told for name, told in found if told is not ...}


_PLAIN = (bool, int, float, str)
_NESTED = (list, tuple, dict)
_OF_EVERY_MODULE = set(vars(nn.Module()))
_OF_A_TRACE = {"training", "_forward_hooks", "_forward_pre_hooks"}


@dataclass(frozen=True, eq=False)
class _Held:
    """A tensor as it is at a time."""

    tensor: torch.Tensor
    version: int

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Held) and self.tensor is other.tensor and self.version == other.version

    def __str__(self) -> str:
        return f"a tensor (at {id(self.tensor):#x}, written to {self.version} times)"


def _told(value: object, own: set[int], depth: int = 4) -> object:
    """What can be compared with the same at another time; `...` of what is not looked at."""
    if value is None or isinstance(value, (*_PLAIN, FunctionType)):
        return value
    if isinstance(value, torch.Tensor):
        return ... if id(value) in own else _Held(value, value._version)
    if isinstance(value, _NESTED) and depth:
        items = value.items() if isinstance(value, dict) else value
        return tuple(_told(item, own, depth - 1) for item in items)
    return ...


def _has_tensors(told: object) -> bool:
    return isinstance(told, _Held) or isinstance(told, tuple) and any(map(_has_tensors, told))


def _constants(trace: TracedIteration) -> list[str]:
    """The traced code, and what it reads that is no input."""
    module = trace.capture.graph_module
    return [module.code, *(str(getattr(module, str(node.target))) for node in module.graph.nodes if node.op == "get_attr")]


def _changed(before: dict[str, object], now: dict[str, object]) -> list[str]:
    """The names whose values are not the same; one that is no number is the same as itself. Lists and tensors that have come since are
    what an evaluation keeps."""
    plain = {name for name, value in now.items() if isinstance(value, _PLAIN)}
    return [name for name in before.keys() | plain if (a := before.get(name)) is not (b := now.get(name)) and a != b]


def traceable_copy(module: nn.Module) -> nn.Module:
    """A copy of the structure that shares parameters and buffers; the tracer puts fake ones in their place. What an earlier forward pass
    has left in an attribute (an activation, the weight of an old `weight_norm`) is there without its past."""
    shared = {id(tensor): tensor for tensor in [*module.parameters(), *module.buffers()]}
    kept = [leaf for part in module.modules() for leaf in tree_leaves(dict(vars(part)))]
    shared |= {id(leaf): leaf.detach() for leaf in kept if isinstance(leaf, torch.Tensor) and not leaf.is_leaf}
    return copy.deepcopy(module, shared)
