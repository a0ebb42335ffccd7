"""The framework's own iteration on the same inputs, and whether a replay came to the same.

Gradients, updated buffers and the loss are compared bit for bit first; what differs is measured against the
largest magnitude in the framework's tensor, and must stay within a stated tolerance: the framework may fuse
what the graph has apart, and some alternatives compute the same in another way. A gradient's magnitude counts as
at least a hundredth of the network's largest: that of a bias before a batch norm is zero but for rounding.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from ..capture import training_loss
from ..trace import TracedIteration
from .machine import Result

# Relative to the largest magnitude of the tensor; float32 has 6e-8.
TOLERANCE = 1e-4
# Smallest magnitude of a gradient that counts, as a part of the largest of all gradients.
GRADIENT_FLOOR = 1e-2
# Activations kept as 16-bit floats.
LOSSY_TOLERANCE = 5e-2


@dataclass(frozen=True)
class Difference:
    """How far one tensor is off: the largest absolute difference over the largest magnitude."""

    name: str
    relative: float


@dataclass(frozen=True)
class Comparison:
    """Of all tensors compared: those equal to the bit, within tolerance, beyond it, and not there at all."""

    bitwise: int
    within: list[Difference]
    beyond: list[Difference]
    missing: list[str]
    tolerance: float

    @property
    def equal(self) -> bool:
        """Whether nothing is beyond the tolerance or missing."""
        return not self.beyond and not self.missing

    @property
    def worst(self) -> Difference | None:
        """The largest difference."""
        return max([*self.within, *self.beyond], key=lambda found: found.relative, default=None)


def inputs_for(trace: TracedIteration, device: torch.device, seed: int) -> tuple[torch.Tensor, ...]:
    """Random images or tokens, and labels, the same for the same seed on every device."""
    generator = torch.Generator().manual_seed(seed)
    made = []
    for node in trace.capture.inputs:
        fake = node.meta["val"]
        if fake.dtype.is_floating_point:
            tensor = torch.randn(tuple(fake.shape), generator=generator, dtype=fake.dtype)
        else:
            tensor = torch.randint(0, _bound(trace, node), tuple(fake.shape), generator=generator, dtype=fake.dtype)
        made.append(tensor.to(device))
    return tuple(made)


def _bound(trace: TracedIteration, node: torch.fx.Node) -> int:
    """What the integers of an input must stay below: the classes of the loss, or the words of an embedding."""
    bounds = []
    for user in trace.capture.graph_module.graph.nodes:
        kind = str(user.target)
        if kind.startswith("aten.nll_loss") and "forward" in kind and user.args[1] is node:
            bounds.append(user.args[0].meta["val"].shape[1])
        if kind.startswith("aten.embedding.") and user.args[1] is node:
            bounds.append(user.args[0].meta["val"].shape[0])
    return min(bounds, default=2)


def framework_iteration(module: nn.Module, inputs: tuple[torch.Tensor, ...]) -> Result:
    """Forward, loss, backward as anybody would write it; gradients are left in `.grad` and given back."""
    module.zero_grad(set_to_none=True)
    loss = training_loss(module, *inputs)
    loss.backward()
    gradients = {name: p.grad for name, p in module.named_parameters() if p.grad is not None}
    return Result(loss.detach(), gradients)


@dataclass(frozen=True)
class Outcome:
    """A result and the buffers after it, copied to the CPU."""

    tensors: dict[str, torch.Tensor]

    @classmethod
    def of(cls, result: Result, module: nn.Module) -> Outcome:
        """Names tell gradients (`x.grad`), buffers and the loss apart."""
        found = {f"{name}.grad": tensor for name, tensor in result.gradients.items()}
        found |= {f"buffer {name}": tensor for name, tensor in module.named_buffers()}
        if result.loss is not None:
            found["loss"] = result.loss
        return cls({name: tensor.detach().to("cpu", copy=True) for name, tensor in found.items()})


def saved_buffers(module: nn.Module) -> dict[str, torch.Tensor]:
    """Copies, to start another iteration from the same state."""
    return {name: tensor.detach().clone() for name, tensor in module.named_buffers()}


@torch.no_grad()
def restore_buffers(module: nn.Module, saved: dict[str, torch.Tensor]) -> None:
    """Writes them back in place."""
    for name, tensor in module.named_buffers():
        tensor.copy_(saved[name])


def compare(expected: Outcome, found: Outcome, tolerance: float) -> Comparison:
    """Every tensor of the framework's outcome is looked for in the other one."""
    bitwise = 0
    within: list[Difference] = []
    beyond: list[Difference] = []
    missing: list[str] = []
    floor = GRADIENT_FLOOR * max((_magnitude(t) for n, t in expected.tensors.items() if n.endswith(".grad")), default=0.0)
    for name, wanted in expected.tensors.items():
        got = found.tensors.get(name)
        if got is None or got.shape != wanted.shape:
            missing.append(name)
        elif torch.equal(got, wanted):
            bitwise += 1
        else:
            difference = Difference(name, _relative(got, wanted, floor if name.endswith(".grad") else 0.0))
            (within if difference.relative <= tolerance else beyond).append(difference)
    return Comparison(bitwise, within, beyond, missing, tolerance)


def _relative(got: torch.Tensor, wanted: torch.Tensor, floor: float) -> float:
    """Not a number counts as infinitely far."""
    off = _magnitude(got.double() - wanted.double())
    scale = max(_magnitude(wanted), floor)
    relative = off / scale if scale else off
    return relative if relative == relative else float("inf")


def _magnitude(tensor: torch.Tensor) -> float:
    return tensor.double().abs().max().item() if tensor.numel() else 0.0
