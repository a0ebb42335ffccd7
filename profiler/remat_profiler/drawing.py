"""Random numbers that were drawn in place.

Functionalised, `empty_like(x).bernoulli_(p)` becomes `aten.bernoulli.p` of an operand to which nobody has written, as in
`F.dropout(x, inplace=True)`. In place, numbers come in the order of memory; out of place, in that of the indices.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

aten = torch.ops.aten


def target_of(node: fx.Node) -> Any:
    """What runs for an operator so that it draws as plain training does: mostly its own target."""
    operand = node.args[0] if node.target is aten.bernoulli.p else None
    in_place = isinstance(operand, fx.Node) and operand.target is aten.empty_like.default
    return drawn_in_place if in_place else node.target


def drawn_in_place(like: torch.Tensor, p: float = 0.5, *, generator: torch.Generator | None = None) -> torch.Tensor:
    """Zeros and ones in the layout of a tensor, drawn as `bernoulli_` draws."""
    return torch.empty_like(like).bernoulli_(p, generator=generator)
