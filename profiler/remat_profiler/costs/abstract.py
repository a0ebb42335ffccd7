"""Costs in abstract units, for comparison with papers that did not measure: `flops` and `unit`.

# `flops`
Twice the multiplications and additions of the textbook algorithm for convolutions, matrix products and
attention (`work`), both directions of a backward convolution together. Everything else (batch norm,
rectifiers, pooling, sums, copies) counts one operation for each element that it makes. Checkmate's
FLOP costs, which these stand in for, count a multiplication with its addition once, fuse rectifiers
into convolutions and give pooling no cost; what costs most is the same up to the factor of 2.

# `unit`
Every operator costs 1, as in the evaluation of FastSA.

Workspaces are 0 in both: a count knows no algorithm. Batch norms cost the same when they run again.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import fx

from ..errors import ProfilerError
from . import Call, Cost, Description
from .work import outputs_of, work_of


def _flops(node: fx.Node) -> int:
    """Operations of one operator, at least 1."""
    work = work_of(node)
    made = sum(tensor.numel() for tensor in outputs_of(node))
    return max(1, round(work.flops) if work.flops else made)


def _one(_node: fx.Node) -> int:
    return 1


MODELS: dict[str, tuple[Callable[[fx.Node], int], str]] = {
    "flops": (_flops, "2 x multiply-adds of convolutions and products; elements made by everything else"),
    "unit": (_one, "every operator costs 1"),
}


class Abstract:
    """A cost source that counts."""

    def __init__(self, name: str) -> None:
        self.count, self.about = MODELS[name]
        self.name = name

    def describe(self) -> Description:
        """Labels times `modelled`, in abstract units and of no device."""
        return Description(
            runs_on="cuda",
            device=None,
            times={"kind": "modelled", "model": self.name},
            workspaces={"kind": "modelled", "model": "none: a count of operations knows no workspace"},
            notes=[f"times are abstract units: {self.about}"],
            time_unit="abstract",
        )

    def cost(self, node: fx.Node) -> Cost:
        """The count."""
        return Cost(self.count(node))

    def cost_of_call(self, call: Call) -> Cost:
        """Refuses: alternatives differ in passes over memory, which a count of operations does not see."""
        raise ProfilerError(f"--device {self.name} has no costs for '{call.name}': leave out --alternatives and --gist")
