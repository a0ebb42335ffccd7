"""Max-pooling with the position inside the window (8 bits) instead of inside the image (64 bits)."""

from __future__ import annotations

import torch

aten = torch.ops.aten


def _starts(size: int, stride: int, padding: int, device: torch.device) -> torch.Tensor:
    return torch.arange(size, device=device) * stride - padding


def max_pool_kernel_index(
    x: torch.Tensor, kernel: list[int], stride: list[int], padding: list[int], dilation: list[int], ceil: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """The output, and for each of its elements which element of the window (row by row) it is."""
    y, indices = aten.max_pool2d_with_indices(x, kernel, stride, padding, dilation, ceil)
    width = x.shape[-1]
    rows = _starts(y.shape[-2], stride[0], padding[0], x.device).view(-1, 1)
    columns = _starts(y.shape[-1], stride[1], padding[1], x.device)
    inner_rows = (indices // width - rows) // dilation[0]
    inner_columns = (indices % width - columns) // dilation[1]
    return y, (inner_rows * kernel[1] + inner_columns).to(torch.uint8)


def max_pool_from_kernel_index(
    grad: torch.Tensor, index: torch.Tensor, size: list[int], kernel: list[int], stride: list[int],
    padding: list[int], dilation: list[int], ceil: bool,
) -> torch.Tensor:
    """Gradient of the input; `size` is its height and width."""
    inner = index.long()
    rows = _starts(grad.shape[-2], stride[0], padding[0], grad.device).view(-1, 1) + inner // kernel[1] * dilation[0]
    columns = _starts(grad.shape[-1], stride[1], padding[1], grad.device) + inner % kernel[1] * dilation[1]
    shape_only = grad.new_empty(1).expand(*grad.shape[:-2], *size)
    return aten.max_pool2d_with_indices_backward(
        grad, shape_only, kernel, stride, padding, dilation, ceil, rows * size[1] + columns
    )
