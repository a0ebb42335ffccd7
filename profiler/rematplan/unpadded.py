"""Products as they were before inductor padded them, which it does on a GPU where that is faster.

A logits' row of 50,257 becomes one of 50,260, and then no pointwise result fits over its operand (`inplace`). So a graph with padded
products is planned as it is and once more without the pads, the products slower by what this device says (`costs`).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import fx

from .graph import aten, hint, is_call

_PRODUCTS = {aten.mm.default, aten.bmm.default, aten.addmm.default}


@dataclass(frozen=True)
class Unpadded:
    """A graph without pads, and the padded product (of the graph as it was) that each of these products stands for."""

    module: fx.GraphModule
    instead: dict[fx.Node, fx.Node]

    @staticmethod
    def of(module: fx.GraphModule) -> Unpadded | None:
        """A copy; nothing if no product is padded."""
        if not any(_operands(node) for node in module.graph.nodes):
            return None
        graph, copies = fx.Graph(module), dict[fx.Node, fx.Node]()
        returned = graph.graph_copy(module.graph, copies)
        graph.output(returned).meta.update(module.graph.output_node().meta)
        undone = {made: node for node, copy in copies.items() if (made := _undo(graph, copy)) is not None}
        graph.lint()
        return Unpadded(fx.GraphModule(module, graph), undone) if undone else None


def _operands(product: fx.Node) -> tuple[fx.Node, fx.Node] | None:
    """A product's two factors without their pads, if it has any that may be left out."""
    if not is_call(product) or product.target not in _PRODUCTS:
        return None
    padded = product.args[-2:]
    left, right = map(_source, padded)
    return (left, right) if (left, right) != padded and _shape(left)[-1] == _shape(right)[-2] else None


def _source(factor: object) -> fx.Node:
    """What was padded with zeros."""
    assert isinstance(factor, fx.Node)
    pads = factor.target is aten.constant_pad_nd.default and factor.args[2:] in ((), (0,), (0.0,))
    source = factor.args[0] if pads else factor
    assert isinstance(source, fx.Node)
    return source


def _undo(graph: fx.Graph, product: fx.Node) -> fx.Node | None:
    """The product without pads, in the place of a padded one; nothing where something else than its cut is read."""
    operands = _operands(product)
    if operands is None:
        return None
    shape = (*_shape(operands[0])[:-1], _shape(operands[1])[-1])
    cuts = _cuts(product, shape)
    added = product.args[:-2]
    if not cuts or not all(isinstance(a, fx.Node) and _shape(a)[-1] in (1, shape[-1]) for a in added):
        return None
    with graph.inserting_before(product):
        made = graph.call_function(product.target, (*added, *operands), product.kwargs)  # type: ignore[arg-type]
    made.meta = {**product.meta, "val": cuts[0].meta["val"].new_empty(cuts[0].meta["val"].shape)}
    for cut in cuts:
        cut.replace_all_uses_with(made)
        _erase(graph, cut)
    return made


def _cuts(node: fx.Node, shape: tuple[int, ...]) -> list[fx.Node]:
    """The node, or slices of it from the start, that have the shape; none where anything else of it is read."""
    if _shape(node) == shape:
        return [node]
    of_users = [_cuts(user, shape) if _is_slice_from_start(user) else [] for user in node.users]
    return [cut for cuts in of_users for cut in cuts] if all(of_users) else []


def _is_slice_from_start(node: fx.Node) -> bool:
    return node.target is aten.slice.Tensor and node.args[2:3] in ((), (0,))


def _erase(graph: fx.Graph, node: fx.Node) -> None:
    """With what nobody reads then."""
    if not node.users and is_call(node):
        sources = node.all_input_nodes
        graph.erase_node(node)
        for source in sources:
            _erase(graph, source)


def _shape(node: fx.Node) -> tuple[int, ...]:
    value = node.meta.get("val")
    return tuple(map(hint, value.shape)) if isinstance(value, torch.Tensor) else ()
