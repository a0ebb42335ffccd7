"""How much an operator does: floating-point operations, bytes moved, and the class it belongs to.

Counts are those of the textbook algorithm (a direct convolution, an unblocked matrix product); what
a library gains or loses against them is in the efficiencies of `roofline`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import torch
from torch import fx

from ..aliasing import bound_arguments, read_operands, schema_name

GEMMS = {"mm", "addmm", "bmm", "baddbmm", "addbmm", "linear", "matmul"}
NORMS = ("batch_norm", "layer_norm", "group_norm")
POOLS = ("pool",)
REDUCTIONS = {"sum", "mean", "amax", "amin", "var_mean", "_softmax", "_log_softmax",
              "_softmax_backward_data", "_log_softmax_backward_data", "nll_loss_forward", "nll_loss_backward"}


@dataclass(frozen=True)
class Work:
    """What one operator does.

    `kind` is conv1x1, conv, depthwise, gemm, attention, norm, pool, reduction or elementwise, with
    `_backward` where backward efficiencies differ, and `_strided` after that for the backward of a
    convolution with a stride. `depth` is the length of the inner products.
    """

    kind: str
    flops: float
    bytes: float
    launches: int = 1
    depth: int = 0


def work_of(node: fx.Node) -> Work:
    """Classifies and counts an operator."""
    name = schema_name(node).partition("::")[2]
    moved = _bytes(node)
    if name in ("convolution", "convolution_backward"):
        return _convolution(node, name, moved)
    if name in GEMMS:
        return Work("gemm", _gemm_flops(node), moved)
    if "scaled_dot_product" in name:
        return _attention(node, name, moved)
    if name == "batch_norm_normalise":  # one pass; the statistics are an operator of their own
        return Work("norm", 0.0, moved)
    backward = "_backward" if name.endswith("backward") else ""
    if any(part in name for part in NORMS):
        return Work("norm" + backward, 0.0, _norm_bytes(node, bool(backward), moved))
    if any(part in name for part in POOLS):
        return Work("pool" + backward, 0.0, moved)
    if name in REDUCTIONS:
        return Work("reduction", 0.0, moved)
    return Work("elementwise", 0.0, moved)


def touched_bytes(tensor: torch.Tensor) -> int:
    """Bytes of a tensor that are really read or written: an expanded one is as small as its storage."""
    dense = tensor.numel() * tensor.element_size()
    return min(dense, tensor.untyped_storage().nbytes())


def outputs_of(node: fx.Node) -> list[torch.Tensor]:
    """The tensors that a node makes."""
    value = node.meta["val"]
    values = value if isinstance(value, (list, tuple)) else [value]
    return [item for item in values if isinstance(item, torch.Tensor)]


def _operands(node: fx.Node) -> dict[str, torch.Tensor]:
    return {name: operand.meta["val"] for name, operand in read_operands(node)
            if isinstance(operand.meta.get("val"), torch.Tensor)}


def _bytes(node: fx.Node) -> float:
    read = sum(touched_bytes(operand.meta["val"]) for operand in
               dict.fromkeys(operand for _, operand in read_operands(node)) if "val" in operand.meta)
    return float(read + sum(touched_bytes(tensor) for tensor in outputs_of(node)))


def _convolution(node: fx.Node, name: str, moved: float) -> Work:
    arguments = {argument.name: value for argument, value in bound_arguments(node)}
    weight = arguments["weight"].meta["val"]
    transposed, groups = arguments["transposed"], arguments["groups"]
    source = arguments["input"].meta["val"]
    result = arguments["grad_output"].meta["val"] if name.endswith("backward") else node.meta["val"]
    spatial = source if transposed else result
    macs = spatial.shape[0] * prod(spatial.shape[2:]) * prod(weight.shape)
    passes = sum(arguments["output_mask"][:2]) if name.endswith("backward") else 1
    depthwise = groups > 1 and groups == source.shape[1]
    kind = "depthwise" if depthwise else "conv1x1" if prod(weight.shape[2:]) == 1 else "conv"
    if name.endswith("backward"):
        kind += "_backward" + ("_strided" if max(arguments["stride"]) > 1 and kind != "depthwise" else "")
        moved += (passes - 1) * touched_bytes(result)
    return Work(kind, 2.0 * macs * passes, moved, max(passes, 1), prod(weight.shape[1:]))


def _gemm_flops(node: fx.Node) -> float:
    matrices = [operand.meta["val"] for name, operand in read_operands(node)
                if name in ("self", "mat1", "mat2", "batch1", "batch2")]
    left, right = matrices[-2:]
    return 2.0 * left.numel() * right.shape[-1]


def _attention(node: fx.Node, name: str, moved: float) -> Work:
    operands = _operands(node)
    query, key = operands["query"], operands["key"]
    products = 5 if name.endswith("backward") else 2
    return Work("attention", 2.0 * products * query.numel() * key.shape[-2], moved)


def _norm_bytes(node: fx.Node, backward: bool, moved: float) -> float:
    """Statistics and normalisation are two passes over the inputs of full size."""
    full = max(touched_bytes(tensor) for tensor in outputs_of(node))
    return moved + full * (2 if backward else 1)
