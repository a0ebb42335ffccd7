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
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ..capture import Example
from ..documents import Instance, Schedule
from ..errors import ProfilerError
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
        traced: list[nn.Module] = []
        self._settings = _settings(module)

        def build() -> nn.Module:
            traced.append(traceable_copy(module))
            return traced[-1]

        self._trace = agreement.retrace(read, build, example)
        self._moving = set(_changed(self._settings, _settings(traced[-1])))  # by forward itself, as counters are
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
    """What a trace takes for constant: whether each module trains, its numbers, switches and words, and what torch's own have in tuples
    (strides)."""
    return {
        f"{path}.{name}".lstrip("."): value for path, part in module.named_modules() for name, value in vars(part).items()
        if name not in _OF_HOOKS and isinstance(value, (*_PLAIN, tuple) if type(part).__module__.startswith("torch.nn.") else _PLAIN)
    }


_PLAIN = (bool, int, float, str)
_OF_HOOKS = {"_is_full_backward_hook"}


def _changed(before: dict[str, object], now: dict[str, object]) -> list[str]:
    """The names whose values are not the same; one that is no number is the same as itself."""
    return [name for name in before.keys() | now.keys() if (a := before.get(name)) is not (b := now.get(name)) and a != b]


def traceable_copy(module: nn.Module) -> nn.Module:
    """A copy of the structure that shares parameters and buffers; the tracer puts fake ones in their place."""
    shared = {id(tensor): tensor for tensor in [*module.parameters(), *module.buffers()]}
    return copy.deepcopy(module, shared)
