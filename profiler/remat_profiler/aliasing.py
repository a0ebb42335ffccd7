"""Which storage each value of a joint graph lives in, and which values an operator really reads.

A *value* is one output of one node. View operators (by the alias annotations of their schema, those with
several outputs included: `split`, `unbind`) and tuple access make no values of their own: they resolve to the
value whose storage they share. This file knows ATen's schemas, and must not know of networks, phases or costs.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from .errors import ProfilerError

aten = torch.ops.aten

# Views whose schema does not say so, because the result must not be written to through both names.
UNANNOTATED_VIEWS = {
    "aten::_unsafe_view", "aten::lift_fresh", "aten::unsafe_chunk", "aten::unsafe_split", "aten::unsafe_split_with_sizes",
}
# What schemas write of an operand that several outputs view: `Tensor(a -> *) self`. Of their result, a list, they name no set.
_VIEWED_BY_SEVERAL = "*"

# Operands of which an operator reads the shape, dtype or device at most, so that the storage need
# not be there. Checked against the CPU and CUDA kernels.
METADATA_OPERANDS: dict[str, frozenset[str]] = {
    "aten::max_pool2d_with_indices_backward": frozenset({"self"}),
    "aten::max_pool3d_with_indices_backward": frozenset({"self"}),
    "aten::adaptive_max_pool2d_backward": frozenset({"self"}),
    "aten::avg_pool2d_backward": frozenset({"self"}),
    "aten::avg_pool3d_backward": frozenset({"self"}),
    "aten::_adaptive_avg_pool2d_backward": frozenset({"self"}),
    "aten::_adaptive_avg_pool3d_backward": frozenset({"self"}),
    "aten::nll_loss_backward": frozenset({"self"}),
    "aten::nll_loss2d_backward": frozenset({"self"}),
}
_FACTORY_SUFFIXES = ("_like",)
_FACTORY_PREFIXES = ("aten::new_",)


@dataclass(frozen=True)
class Value:
    """One output of a node that owns its storage; `index` is None where the node has just one."""

    node: fx.Node
    index: int | None = None

    @property
    def tensor(self) -> torch.Tensor:
        """The fake tensor: shape, strides, dtype."""
        value = self.node.meta["val"]
        return value if self.index is None else value[self.index]

    @property
    def nbytes(self) -> int:
        """Bytes of its storage: of an input as it is, of a result as shape and strides need it. (A result's fake storage may be larger
        than that, unless it came from the cache of fake tensors.)"""
        tensor = self.tensor
        if self.node.op == "placeholder":
            return int(tensor.untyped_storage().nbytes())
        last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))
        return tensor.element_size() * int(1 + last) if tensor.numel() else 0


class Storages:
    """Resolves every tensor-valued node of a graph to the value whose storage it shares."""

    def __init__(self, graph: fx.Graph) -> None:
        self._owner: dict[fx.Node, Value] = {}
        for node in graph.nodes:
            owner = self._resolve(node)
            if owner is not None:
                self._owner[node] = owner

    def of(self, node: fx.Node) -> Value:
        """The value that `node` aliases, itself perhaps."""
        return self._owner[node]

    def _resolve(self, node: fx.Node) -> Value | None:
        if node.op == "output":
            return None
        if node.op in ("placeholder", "get_attr"):
            return Value(node)
        if node.target is operator.getitem:
            source, index = node.args
            viewed = viewed_operand(source)
            return self._owner[viewed] if viewed is not None else Value(source, index)
        viewed = viewed_operand(node)
        return Value(node) if viewed is None else self._owner[viewed]


def schema_name(node: fx.Node) -> str:
    """`aten::convolution`, for messages and tables; refuses what is not an ATen operator."""
    if not isinstance(node.target, torch._ops.OpOverload):
        raise ProfilerError(f"the graph holds '{node.target}', which is not an ATen operator")
    return node.target._schema.name


def viewed_operand(node: fx.Node) -> fx.Node | None:
    """The operand whose storage all outputs of `node` share, or None where it makes new ones."""
    if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
        return None
    schema = node.target._schema
    if schema.name in UNANNOTATED_VIEWS or _is_plain_copy(node):
        return node.args[0]
    if not schema.returns or schema.returns[0].alias_info is None:
        return None
    if schema.returns[0].alias_info.is_write:
        raise ProfilerError(f"'{schema.name}' writes to its operand: the graph is not functional")
    aliases = schema.returns[0].alias_info.before_set or {_VIEWED_BY_SEVERAL}
    for argument, value in bound_arguments(node):
        if argument.alias_info is not None and (argument.alias_info.before_set | argument.alias_info.after_set) & aliases:
            return value if isinstance(value, fx.Node) else None  # that of a number makes a tensor
    return None


def is_view(node: fx.Node) -> bool:
    """Whether a node has no storage of its own: a view, or one of several views that an operator puts out."""
    maker = node.args[0] if node.op == "call_function" and node.target is operator.getitem else node
    return viewed_operand(maker) is not None


def _is_plain_copy(node: fx.Node) -> bool:
    """A clone of all that is in its source's storage, without change of layout: nothing writes in a functional graph, so it is its source.
    (One of a part, the first rows say, is a tensor of its own: it stays when the whole goes.)

    (In-place activations are traced as a clone of the input, which the backward pass reads, and a new
    output; where the activation really is in place these are the same two buffers.)"""
    if node.target._schema.name != "aten::clone":
        return False
    source, copy = node.args[0].meta["val"], node.meta["val"]
    return (source.shape == copy.shape and source.stride() == copy.stride()
            and source.untyped_storage().nbytes() == copy.untyped_storage().nbytes())


def bound_arguments(node: fx.Node) -> Iterator[tuple[torch._C.Argument, Any]]:
    """Schema arguments of a node with the values it was called with (defaults left out)."""
    for position, argument in enumerate(node.target._schema.arguments):
        if position < len(node.args) and not argument.kwarg_only:
            yield argument, node.args[position]
        elif argument.name in node.kwargs:
            yield argument, node.kwargs[argument.name]


def read_operands(node: fx.Node) -> list[tuple[str, fx.Node]]:
    """Operands whose contents the operator reads, with the names that the schema gives them."""
    name = schema_name(node)
    short = name.partition("::")[2]
    if short.endswith(_FACTORY_SUFFIXES) and not short.startswith(("rand", "bernoulli")) \
            or name.startswith(_FACTORY_PREFIXES):
        return []
    unread = METADATA_OPERANDS.get(name, frozenset()) | _unread_by_call(name, node)
    return [
        (argument.name, operand)
        for argument, value in bound_arguments(node)
        if argument.name not in unread
        for operand in _nodes_in(value)
    ]


def _unread_by_call(name: str, node: fx.Node) -> frozenset[str]:
    """Operands that this call leaves unread because of its other arguments."""
    arguments = {argument.name: value for argument, value in bound_arguments(node)}
    if name == "aten::convolution_backward":
        needs_input, needs_weight, _ = arguments["output_mask"]
        return frozenset(({"weight"} if not needs_input else set()) | ({"input"} if not needs_weight else set()))
    if name in ("aten::native_batch_norm_backward", "aten::cudnn_batch_norm_backward"):
        training = arguments.get("train", True)
        return frozenset({"running_mean", "running_var"}) if training else frozenset()
    return frozenset()


def _nodes_in(value: object) -> list[fx.Node]:
    if isinstance(value, fx.Node):
        return [value] if isinstance(value.meta.get("val"), torch.Tensor) or value.op == "get_attr" else []
    if isinstance(value, (list, tuple)):
        return [node for item in value for node in _nodes_in(item)]
    return []
