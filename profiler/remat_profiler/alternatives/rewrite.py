"""Splits operators of a captured graph in two, before it is traced.

Convolution backward becomes the parameter gradient, which alone reads the forward input, and the input
gradient (MONeT, Appendix D). Batch norm becomes statistics, which alone update state, and
normalisation: a recomputation that finds the statistics kept repeats the latter only.
"""

from __future__ import annotations

import operator

import torch
from torch import fx

from ..capture import MARK, Capture
from . import batch_norm  # noqa: F401  (registers the operators)

aten = torch.ops.aten


def split_convolution_backward(capture: Capture) -> int:
    """Splits every backward convolution that makes both gradients; returns how many."""
    graph, count = capture.graph_module.graph, 0
    for node in list(graph.nodes):
        if node.target is aten.convolution_backward.default and all(node.args[-1][:2]):
            _split_convolution(graph, node)
            count += 1
    graph.lint()
    return count


def _split_convolution(graph: fx.Graph, node: fx.Node) -> None:
    _, _, bias = node.args[-1]
    made = node.meta["val"]
    with graph.inserting_before(node):
        parameters = graph.call_function(node.target, (*node.args[:-1], [False, True, bias]))
        source = graph.call_function(node.target, (*node.args[:-1], [True, False, False]))
    _inherit(parameters, node, "parameter_gradient", (None, *made[1:]))
    _inherit(source, node, "input_gradient", (made[0], None, None))
    for user in list(node.users):
        user.args = (source if user.args[1] == 0 else parameters, user.args[1])
    graph.erase_node(node)


def split_batch_norm(capture: Capture) -> int:
    """Splits every batch norm in training; returns how many."""
    graph, count = capture.graph_module.graph, 0
    for node in list(graph.nodes):
        if node.target is aten._native_batch_norm_legit_functional.default and node.args[5] is True:
            _split_norm(graph, node)
            count += 1
    graph.lint()
    return count


def _split_norm(graph: fx.Graph, node: fx.Node) -> None:
    x, weight, bias, running_mean, running_var, _, momentum, eps = node.args
    made = node.meta["val"]
    with graph.inserting_before(node):
        statistics = graph.call_function(
            torch.ops.remat_profiler.batch_norm_statistics.default, (x, running_mean, running_var, momentum, eps)
        )
        mean, rstd = (graph.call_function(operator.getitem, (statistics, index)) for index in (0, 1))
        normalise = graph.call_function(
            torch.ops.remat_profiler.batch_norm_normalise.default, (x, weight, bias, mean, rstd)
        )
    _inherit(statistics, node, "statistics", tuple(made[1:]))
    statistics.meta.pop("seq_nr", None)  # the backward operator differentiates the normalisation
    _inherit(normalise, node, None, made[0])
    for part, index in ((mean, 1), (rstd, 2)):
        part.meta = dict(node.meta) | {"val": made[index]}
        part.meta.pop("seq_nr", None)
    for user in list(node.users):
        if user.args[1] == 0:
            user.replace_all_uses_with(normalise)
            graph.erase_node(user)
        else:
            user.args = (statistics, user.args[1] - 1)
    graph.erase_node(node)


def _inherit(new: fx.Node, old: fx.Node, role: str | None, value: object) -> None:
    """Marks, sequence number and module of the old node, and what the new one makes."""
    new.meta = dict(old.meta) | {"val": value}
    custom = dict(old.meta.get("custom") or {})
    if role is not None:
        custom[MARK] = dict(custom.get(MARK, {})) | {"role": role}
    new.meta["custom"] = custom


