"""Operators of planned graphs: `rematplan::made`, the tensor that it is given, made where it stands, and `rematplan::joined`.

Inductor computes a pointwise value where it is read, and keeps what it is computed from until then. A plan counts the value
as a tensor, and what it is computed from as gone. In a planned graph each such tensor goes through this operator, which
inductor lowers to nothing but a buffer for it.

Inductor writes what is concatenated into the result at once, so that all of the result is there from its first part on, and
its parts never are. In a planned graph `joined` stands for a concatenation: a call, which reads parts that are there.
"""

from __future__ import annotations

import torch
from torch import fx
from torch.utils.flop_counter import flop_registry

_LIBRARY = torch.library.Library("rematplan", "DEF")
_LIBRARY.define("made(Tensor x) -> Tensor", tags=torch.Tag.pt2_compliant_tag)
_LIBRARY.impl("made", lambda x: x.clone(), "CompositeExplicitAutograd")
_LIBRARY.define("joined(Tensor[] tensors, int dim=0) -> Tensor", tags=(torch.Tag.pt2_compliant_tag, torch.Tag.flexible_layout))
_LIBRARY.impl("joined", torch.cat, "CompositeExplicitAutograd")


def may_be_inlined(node: fx.Node) -> bool:
    """Products, convolutions and attention are calls of libraries, whose results are always there."""
    return getattr(node.target, "overloadpacket", None) not in flop_registry


def emit(graph: fx.Graph, value: fx.Node) -> fx.Node:
    """The value as a tensor."""
    made = graph.call_function(torch.ops.rematplan.made.default, (value,))
    made.meta = dict(value.meta)
    return made


def register() -> None:
    """Tells inductor."""
    from torch._inductor.ir import ExternKernel
    from torch._inductor.lowering import fallback_handler, lowerings, register_lowering
    from torch._inductor.virtualized import V

    if torch.ops.rematplan.made.default in lowerings:
        return

    @register_lowering(torch.ops.rematplan.made, type_promotion_kind=None)
    def lowered(x):  # type: ignore[no-untyped-def]
        x.realize()
        return x

    called = fallback_handler(torch.ops.rematplan.joined.default, add_to_fallback_set=False)

    @register_lowering(torch.ops.rematplan.joined, type_promotion_kind=None)
    def joined(tensors, dim=0):  # type: ignore[no-untyped-def]
        # Parts of several layouts would come out contiguous, and be turned for the convolution that reads them.
        if V.graph.layout_opt and all(len(part.get_size()) == 4 for part in tensors):
            tensors = [ExternKernel.require_channels_last(part) for part in tensors]
        return called(tensors, dim)
