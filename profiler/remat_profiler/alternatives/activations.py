"""ReLU, hardtanh and dropout: in place, and backward from output, input or a 1-bit mask.

The gradient of ReLU is that of the framework: 0 where the input is 0 or less. ReLU's output is positive
exactly where its input is, hardtanh's is strictly inside its bounds exactly where its input is.
"""

from __future__ import annotations

import torch

from . import bits

aten = torch.ops.aten


def relu_in_place(x: torch.Tensor) -> torch.Tensor:
    """Overwrites its input."""
    return x.relu_()


def relu_saving_mask(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The output and one bit for each element: whether the input is positive."""
    return torch.relu(x), bits.pack(x > 0, 1)


def relu_saving_mask_in_place(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The same, overwriting the input."""
    mask = bits.pack(x > 0, 1)
    return x.relu_(), mask


def relu_from_input(grad: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """The framework's kernel on the input, where it has the output."""
    return aten.threshold_backward(grad, x, 0)


def from_mask(grad: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Passes the gradient where the bit is set; for ReLU and hardtanh."""
    return torch.where(bits.unpack(mask, 1, grad.shape).bool(), grad, 0)


def hardtanh_in_place(x: torch.Tensor, low: float, high: float) -> torch.Tensor:
    """Overwrites its input."""
    return torch.nn.functional.hardtanh_(x, low, high)


def hardtanh_saving_mask(x: torch.Tensor, low: float, high: float) -> tuple[torch.Tensor, torch.Tensor]:
    """The output and one bit for each element: whether the input is strictly inside."""
    return torch.nn.functional.hardtanh(x, low, high), bits.pack((x > low) & (x < high), 1)


def hardtanh_from_output(grad: torch.Tensor, y: torch.Tensor, low: float, high: float) -> torch.Tensor:
    """The framework's kernel on the output."""
    return aten.hardtanh_backward(grad, y, low, high)


def dropout_in_place(x: torch.Tensor, p: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Overwrites its input; its backward reads the mask only. On the CPU it draws what the framework's own
    operator draws, so that the two may replace each other between runs."""
    mask = torch.empty_like(x, dtype=torch.bool).bernoulli_(1 - p)
    return x.mul_(mask).mul_(1 / (1 - p) if p < 1 else 0.0), mask
