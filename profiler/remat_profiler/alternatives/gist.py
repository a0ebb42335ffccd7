"""Gist's encodings of stashed activations (Jain et al., ISCA 2018), as MONeT's Appendix E lists them.

* Binarize (ReLU before max-pool): a bit for the ReLU, 4 bits for the position in the window. Exact.
* Sparse storage, dense compute (ReLU before a convolution): compressed rows of 256 elements with 8-bit
  column indices. Exact; its size depends on the data.
* Delayed precision reduction (everything else): 16-bit floats. LOSSY.
* In place: ReLU overwrites its input. Exact.
"""

from __future__ import annotations

import torch

from . import bits

ROW = 256
# Share of ReLU outputs that are not 0 which sizes assume; Gist reports sparsities of 50% and more.
ASSUMED_DENSITY = 0.5


def ssdc_encode(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Values, 8-bit columns, and where each row begins."""
    flat = x.flatten()
    missing = -flat.numel() % ROW
    if missing:
        flat = torch.cat([flat, flat.new_zeros(missing)])
    dense = flat.view(-1, ROW)
    there = dense != 0
    starts = torch.zeros(dense.shape[0] + 1, dtype=torch.int32, device=x.device)
    starts[1:] = there.sum(1).cumsum(0)
    return dense[there], there.nonzero()[:, 1].to(torch.uint8), starts


def ssdc_decode(values: torch.Tensor, columns: torch.Tensor, starts: torch.Tensor, shape: torch.Size) -> torch.Tensor:
    """The dense tensor again."""
    rows = starts.numel() - 1
    dense = values.new_zeros(rows, ROW)
    row = torch.repeat_interleave(torch.arange(rows, device=values.device), starts.diff())
    dense[row, columns.long()] = values
    return dense.flatten()[: shape.numel()].view(shape)


def ssdc_bytes(count: int, element: int, density: float = ASSUMED_DENSITY) -> int:
    """Bytes of an encoded tensor of `count` elements."""
    filled = round(count * density)
    return filled * (element + 1) + 4 * (-(-count // ROW) + 1)


def dpr_encode(x: torch.Tensor) -> torch.Tensor:
    """Rounded to 16 bits."""
    return x.to(torch.float16)


def dpr_decode(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """As wide as before, rounded."""
    return x.to(dtype)


def pool_map_encode(kernel_index: torch.Tensor) -> torch.Tensor:
    """Two positions to a byte, for windows of at most 16 elements."""
    return bits.pack(kernel_index, 4)


def pool_map_decode(packed: torch.Tensor, shape: torch.Size) -> torch.Tensor:
    """8-bit positions again."""
    return bits.unpack(packed, 4, shape)
