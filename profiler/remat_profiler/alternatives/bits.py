"""Packing of small numbers into bytes."""

from __future__ import annotations

import torch


def pack(values: torch.Tensor, width: int) -> torch.Tensor:
    """Numbers below 2**width (width 1, 2 or 4), `8 // width` of them to a byte, the last byte padded."""
    per_byte = 8 // width
    flat = values.flatten().to(torch.uint8)
    missing = -flat.numel() % per_byte
    if missing:
        flat = torch.cat([flat, flat.new_zeros(missing)])
    shifts = torch.arange(0, 8, width, dtype=torch.uint8, device=flat.device)
    return (flat.view(-1, per_byte) << shifts).sum(1, dtype=torch.uint8)


def unpack(packed: torch.Tensor, width: int, shape: torch.Size) -> torch.Tensor:
    """The numbers again."""
    shifts = torch.arange(0, 8, width, dtype=torch.uint8, device=packed.device)
    values = (packed.unsqueeze(1) >> shifts) & (2**width - 1)
    return values.flatten()[: shape.numel()].view(shape)


def packed_bytes(count: int, width: int) -> int:
    """Bytes of `count` packed numbers."""
    return -(-count * width // 8)
