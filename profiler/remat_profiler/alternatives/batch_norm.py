"""Batch norm in training: backward from the output, and statistics apart from normalisation.

From the output: the normalised input is (y - bias) / weight, so neither the input nor its mean is
needed (Bulo et al., In-Place Activated BatchNorm, CVPR 2018). Needs weights that are not 0.

Statistics apart: a recomputation that finds mean and rstd kept only normalises. `rewrite` puts the two
operators, registered here with torch, in the place of the framework's one.
"""

# No `from __future__ import annotations`: torch reads the schema of an operator from real annotations.
# ruff: noqa: UP045
from typing import Optional

import torch


def _over_channels(tensor: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    return tensor.view(1, -1, *[1] * (like.dim() - 2))


def from_output(
    grad: torch.Tensor, y: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, rstd: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Gradients of input, weight and bias."""
    dimensions = [0, *range(2, y.dim())]
    count = y.numel() // y.shape[1]
    normalised = (y - _over_channels(bias, y)) / _over_channels(weight, y)
    grad_bias = grad.sum(dimensions)
    grad_weight = (grad * normalised).sum(dimensions)
    correction = _over_channels(grad_bias, y) + normalised * _over_channels(grad_weight, y)
    return _over_channels(weight * rstd, y) * (grad - correction / count), grad_weight, grad_bias


@torch.library.custom_op("remat_profiler::batch_norm_statistics", mutates_args=())
def statistics(
    x: torch.Tensor, running_mean: torch.Tensor, running_var: torch.Tensor, momentum: float, eps: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Mean, 1 / standard deviation, and the new running statistics."""
    dimensions = [0, *range(2, x.dim())]
    variance, mean = torch.var_mean(x, dimensions, correction=0)
    count = x.numel() // x.shape[1]
    unbiased = variance * (count / max(count - 1, 1))
    return (mean, torch.rsqrt(variance + eps), running_mean + momentum * (mean - running_mean),
            running_var + momentum * (unbiased - running_var))


@torch.library.custom_op("remat_profiler::batch_norm_normalise", mutates_args=())
def normalise(
    x: torch.Tensor, weight: Optional[torch.Tensor], bias: Optional[torch.Tensor], mean: torch.Tensor, rstd: torch.Tensor
) -> torch.Tensor:
    """The output, from statistics."""
    scale = rstd if weight is None else rstd * weight
    shift = -mean * scale if bias is None else bias - mean * scale
    return torch.addcmul(_over_channels(shift, x), x, _over_channels(scale, x))
